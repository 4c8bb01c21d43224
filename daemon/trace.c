/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/trace.h"

#include <string.h>

#include <dlfcn.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define VG_LOG_TAG "trace"

const struct vg_tracer *vg_tracer;

/* Written before other threads exist. */
static bool wanted;
static char *trouble; /* the reason if there is no tracer */

static int
trace_load(const char *path, GError **err)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!object)
        return vg_error(err, VG_E_EXTERNAL, "cannot load it: %s", dlerror());
    /* Never close the object, even if it is refused: its constructors have run and may have started
     * threads. */
    const struct vg_tracer *tracer = dlsym(object, VG_TRACER_SYMBOL);
    if (!tracer)
        return vg_error(err, VG_E_EXTERNAL, "it is not a tracer for vgpud: it has no %s",
                        VG_TRACER_SYMBOL);
    if (strcmp(tracer->version, PACKAGE_VERSION) != 0)
        return vg_error(err, VG_E_CONFLICT,
                        "it belongs to vgpud %s, but this is vgpud " PACKAGE_VERSION,
                        tracer->version);
    vg_tracer = tracer;
    return 0;
}

void
vg_trace_start(const char *path)
{
    const char *chosen = path[0] ? path : VG_PKGLIBDIR "/vgpud-lttng-ust.so";
    g_autoptr(GError) error = NULL;

    wanted = true;
    if (trace_load(chosen, &error) == 0) {
        vg_log_notice("LTTng tracepoints are available provider=\"%s\"", chosen);
        return;
    }
    vg_log_warn(
        "LTTng tracepoints are unavailable, continuing without them provider=\"%s\" reason=\"%s\"",
        chosen, error->message);
    trouble = g_strdup_printf("provider '%s': %s", chosen, error->message);
}

struct vg_part_status *
vg_trace_status(void)
{
    if (!wanted)
        return NULL;
    /* Always reports "ready", since vgpud works without a tracer. */
    return vg_part_status_new("trace:lttng", trouble ? "failed" : "ok", true, g_strdup(trouble));
}

void
vg_trace_window(const struct vg_gathered *gathered, bool replay)
{
    const struct vg_window *window = &gathered->window;

    if (!vg_trace_is_on())
        return;
    vg_tracer->window_closed(&(struct vg_traced_window){
        .source = gathered->provenance.source,
        .begin_ns = window->begin_ns + gathered->clock_offset_ns,
        .end_ns = window->end_ns + gathered->clock_offset_ns,
        .vms = window->vms->len,
        .lost_events = window->lost_events,
        .cost_ns = gathered->provenance.cost_ns,
        .late_ns = replay ? VG_TRACED_NOT_LATE : vg_clock_monotonic_ns() - window->end_ns,
    });
}

void
vg_trace_lost_events(const char *source, const struct vg_window *window, int64_t clock_offset_ns)
{
    if (!vg_trace_is_on() || window->lost_events == 0)
        return;
    vg_tracer->events_lost(&(struct vg_traced_loss){
        .source = source,
        .end_ns = window->end_ns + clock_offset_ns,
        .count = window->lost_events,
    });
}

static void
trace_score(const vg_view *before, const vg_view *now, const struct vg_snap_vm *vm)
{
    const struct vg_snap_vm *was = before ? vg_view_find_vm(before, vg_view_vm_id(vm)) : NULL;

    /* A VM that only libvirt knows has no class. */
    if (was && !vg_view_sample(&before->totals, was))
        was = NULL;
    if (!vg_view_sample(&now->totals, vm) || (was && was->vm_class == vm->vm_class))
        return;
    vg_tracer->score_changed(&(struct vg_traced_score){
        .vm = vm->name,
        .uuid = vm->uuid ? vm->uuid : "",
        .end_ns = now->newest.end_ns + now->clock_offset_ns,
        .cpu_intensity = vm->cpu_intensity,
        .gpu_intensity = vm->gpu_intensity,
        .from = was ? vg_vm_class_names[was->vm_class] : "none",
        .to = vg_vm_class_names[vm->vm_class],
    });
}

void
vg_trace_scores(const vg_view *before, const vg_view *now)
{
    if (!vg_trace_is_on())
        return;
    for (guint h = 0; h < now->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = now->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++)
            trace_score(before, now, host->vms->pdata[i]);
    }
}

void
vg_trace_plan(const vg_plan *plan)
{
    if (!vg_trace_is_on())
        return;
    struct vg_traced_plan traced = {
        .id = plan->id,
        .rule = plan->rule,
        .verdict = vg_plan_verdict_names[plan->verdict],
        .actions = plan->actions->len,
        .reason = plan->why->len > 0 ? plan->why->pdata[0] : "",
    };
    for (guint i = plan->actions->len; i > 0; i--) {
        const struct vg_plan_action *action = plan->actions->pdata[i - 1];
        traced.lost_cpu_ns_per_s += action->gain.lost_cpu_ns_per_s;
        traced.gpu_wait_ns_per_s += action->gain.gpu_wait_ns_per_s;
        traced.reason = action->reason.text;
    }
    vg_tracer->plan_made(&traced);
}

void
vg_trace_queue(const char *name, uint64_t length, uint64_t limit)
{
    if (vg_trace_is_on())
        vg_tracer->queue_high_water(
            &(struct vg_traced_queue){.name = name, .length = length, .limit = limit});
}
