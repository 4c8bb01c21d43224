/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/top-look.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "cli/output.h"
#include "cli/sparkline.h"

/* The maximum number of alerts named. */
#define ALERTS_NAMED_MAX 3u

/* Limits a count to a range where differences cannot overflow. */
static int64_t
read_count(json_object *object, const char *path)
{
    return CLAMP(json_object_get_int64(vg_output_member(object, path)), 0, VG_JSON_INT_MAX);
}

static double
read_ratio(json_object *object, const char *path)
{
    double value = json_object_get_double(vg_output_member(object, path));

    return value >= 0 && value <= 1 ? value : 0;
}

static bool
read_bool(json_object *object, const char *path)
{
    return json_object_get_boolean(vg_output_member(object, path));
}

/* Returns NULL if the member is missing or null. The caller frees the text. */
static char *
read_text(json_object *object, const char *path)
{
    return g_strdup(json_object_get_string(vg_output_member(object, path)));
}

static char *
read_name(json_object *object, const char *path)
{
    char *text = read_text(object, path);

    return text ? text : g_strdup("?");
}

static void
read_sums(json_object *object, struct vg_top_sums *ret)
{
    json_object *gpus = vg_output_member(object, "gpu");

    *ret = (struct vg_top_sums){
        .run_ns = read_count(object, "run_ns"),
        .guest_ns = read_count(object, "guest_ns"),
        .preempt_ns = read_count(object, "preempt_ns"),
        .wake_wait_ns = read_count(object, "wake_wait_ns"),
        .preemptions = read_count(object, "preemptions"),
        .gpu_active_ns = read_count(object, "gpu_active_ns"),
    };
    for (size_t i = 0; i < vg_output_length(gpus); i++) {
        json_object *gpu = json_object_array_get_idx(gpus, i);
        int64_t busy_ns = read_count(gpu, "busy_ns"), open = read_count(gpu, "open");
        ret->gpu_open_known |= vg_output_member(gpu, "open") != NULL;
        ret->gpu_open += MIN(open, VG_JSON_INT_MAX - ret->gpu_open);
        ret->gpu_oldest_ns = MAX(ret->gpu_oldest_ns, read_count(gpu, "open_oldest_ns"));
        ret->gpu_busy_ns += MIN(busy_ns, VG_JSON_INT_MAX - ret->gpu_busy_ns);
    }
}

static void
loss_free(void *data)
{
    struct vg_top_loss *loss = data;

    g_free(loss->who);
    g_free(loss->label);
    g_free(loss);
}

static GPtrArray *
top_look_read_losses(json_object *array)
{
    GPtrArray *losses = g_ptr_array_new_with_free_func(loss_free);

    for (size_t i = 0; i < vg_output_length(array); i++) {
        json_object *item = json_object_array_get_idx(array, i);
        struct vg_top_loss *loss = g_new0(struct vg_top_loss, 1);
        loss->who = read_name(item, "aggressor");
        loss->label = read_text(item, "aggressor_label");
        loss->ns = read_count(item, "ns");
        loss->count = read_count(item, "count");
        g_ptr_array_add(losses, loss);
    }
    return losses;
}

static void
vm_free(void *data)
{
    struct vg_top_vm *vm = data;

    g_free(vm->id);
    g_free(vm->name);
    g_free(vm->names);
    g_free(vm->state);
    g_free(vm->vm_class);
    g_ptr_array_unref(vm->lost_to);
    g_free(vm);
}

/* Returns all names of a VM in lower case, one per line. The caller frees it. */
static char *
top_look_names(json_object *object)
{
    g_autofree char *name = read_name(object, "name");
    g_autofree char *label = read_text(object, "label");
    g_autofree char *both = g_strjoin("\n", name, label, NULL);

    return g_utf8_strdown(both, -1);
}

static struct vg_top_vm *
top_look_read_vm(json_object *object)
{
    struct vg_top_vm *vm = g_new0(struct vg_top_vm, 1);

    vm->id = read_name(object, "id");
    vm->name = read_text(object, "label");
    if (!vm->name)
        vm->name = read_name(object, "name");
    vm->names = top_look_names(object);
    vm->state = read_name(object, "state");
    if (read_count(object, "observed_ns") > 0)
        vm->vm_class = read_text(object, "class");
    vm->pid = read_count(object, "pid");
    read_sums(object, &vm->sums);
    vm->guest_known = read_bool(object, "guest_known");
    vm->gpu_known = read_bool(object, "gpu_known");
    vm->lost_to = top_look_read_losses(vg_output_member(object, "lost_to"));
    return vm;
}

static void
part_free(void *data)
{
    struct vg_top_part *part = data;

    g_free(part->name);
    g_free(part->state);
    g_free(part->reason);
    g_free(part);
}

static GPtrArray *
read_troubles(json_object *parts)
{
    GPtrArray *troubles = g_ptr_array_new_with_free_func(part_free);

    for (size_t i = 0; i < vg_output_length(parts); i++) {
        json_object *item = json_object_array_get_idx(parts, i);
        if (read_bool(item, "ready"))
            continue;
        struct vg_top_part *part = g_new0(struct vg_top_part, 1);
        part->name = read_name(item, "name");
        part->state = read_name(item, "state");
        part->reason = read_text(item, "reason");
        g_ptr_array_add(troubles, part);
    }
    return troubles;
}

/* Returns the names of the first current alerts, or NULL if there are none. The caller frees it. */
static char *
top_look_name_alerts(json_object *alerts)
{
    GString *names = g_string_new(NULL);
    const size_t n = vg_output_length(alerts);

    for (size_t i = 0; i < MIN(n, ALERTS_NAMED_MAX); i++) {
        json_object *alert = json_object_array_get_idx(alerts, i);
        g_autofree char *name = read_name(alert, "alert");
        g_autofree char *label = read_text(alert, "label");
        g_string_append_printf(names, "%s%s (%s)", i > 0 ? ", " : "", name,
                               label ? label : "all VMs");
    }
    if (n > ALERTS_NAMED_MAX)
        g_string_append(names, ", ...");
    return g_string_free(names, n == 0);
}

/* Returns a time as a fraction of the newest window. */
static double
read_share(json_object *told, const char *path, int64_t length_ns)
{
    if (length_ns <= 0 || !vg_output_member(told, path))
        return (double)NAN;
    return (double)read_count(told, path) / (double)length_ns;
}

static void
read_use(json_object *host, struct vg_top_host *ret)
{
    static const char *const pressures[] = {"pressure.cpu.some_ns", "pressure.memory.some_ns",
                                            "pressure.io.some_ns"};
    json_object *told = vg_output_member(host, "measurement.host");
    json_object *load = vg_output_member(told, "load.1min");
    int64_t length_ns =
        read_count(host, "measurement.end_ns") - read_count(host, "measurement.newest_begin_ns");

    ret->vms = read_share(told, "vms_ns", length_ns);
    ret->own = read_share(told, "own_ns", length_ns);
    ret->idle = read_share(told, "idle_ns", length_ns);
    ret->steal = read_share(told, "steal_ns", length_ns);
    ret->load = load ? json_object_get_double(load) : (double)NAN;
    for (size_t i = 0; i < G_N_ELEMENTS(pressures); i++)
        ret->pressure[i] = read_share(told, pressures[i], length_ns);
    ret->known = !isnan(ret->own) && !isnan(ret->idle);
}

vg_top_look *
vg_top_look_new(json_object *host, json_object *vms)
{
    vg_top_look *look = g_new0(vg_top_look, 1);

    look->boot_id = read_name(host, "daemon.boot_id");
    look->host = read_name(host, "name");
    look->source = read_text(host, "measurement.source");
    look->cpus = read_count(host, "cpus");
    look->replay = read_bool(host, "daemon.replay");
    look->replay_ended = read_bool(host, "daemon.replay_ended");
    look->begin_ns = read_count(host, "measurement.begin_ns");
    look->end_ns = MAX(read_count(host, "measurement.end_ns"), look->begin_ns);
    look->window_ns = read_count(host, "measurement.window_ns");
    look->confidence = read_ratio(host, "measurement.confidence");
    look->waits_split = read_bool(host, "measurement.waits_split");
    look->aggressors_known = read_bool(host, "measurement.aggressors_known");
    look->lost_events = read_count(host, "measurement.lost_events");
    read_use(host, &look->use);
    look->troubles = read_troubles(vg_output_member(host, "parts"));
    look->alerts = (int64_t)vg_output_length(vg_output_member(host, "alerts"));
    look->alert_names = top_look_name_alerts(vg_output_member(host, "alerts"));
    look->vms = g_ptr_array_new_with_free_func(vm_free);
    for (size_t i = 0; i < vg_output_length(vms); i++)
        g_ptr_array_add(look->vms, top_look_read_vm(json_object_array_get_idx(vms, i)));
    return look;
}

void
vg_top_look_free(vg_top_look *look)
{
    if (!look)
        return;
    g_free(look->boot_id);
    g_free(look->host);
    g_free(look->source);
    g_free(look->alert_names);
    g_ptr_array_unref(look->troubles);
    g_ptr_array_unref(look->vms);
    vg_top_detail_free(look->detail);
    g_free(look);
}

/* ---- one VM ---- */

static void
top_look_process_free(void *data)
{
    struct vg_top_process *process = data;

    g_free(process->name);
    g_free(process);
}

static void
add_process(GPtrArray *processes, json_object *item, char *take_name, int64_t length_ns)
{
    struct vg_top_process *process = g_new0(struct vg_top_process, 1);

    process->name = take_name;
    process->pid = read_count(item, "pid");
    process->lost = (double)read_count(item, "ns") / (double)length_ns;
    process->per_s = (double)read_count(item, "count") / (double)length_ns * 1e9;
    g_ptr_array_add(processes, process);
}

/* Returns the processes behind host:user in lost_to, as fractions of length_ns. */
static GPtrArray *
read_processes(json_object *lost_to, int64_t length_ns)
{
    GPtrArray *processes = g_ptr_array_new_with_free_func(top_look_process_free);

    for (size_t i = 0; length_ns > 0 && i < vg_output_length(lost_to); i++) {
        json_object *loss = json_object_array_get_idx(lost_to, i);
        json_object *items = vg_output_member(loss, "processes");
        for (size_t k = 0; k < vg_output_length(items); k++) {
            json_object *item = json_object_array_get_idx(items, k);
            add_process(processes, item, read_name(item, "comm"), length_ns);
        }
        if (vg_output_length(items) > 0)
            add_process(processes, vg_output_member(loss, "others"), NULL, length_ns);
    }
    return processes;
}

struct vg_top_detail *
vg_top_detail_new(const vg_top_look *look, const char *id, json_object *vm)
{
    struct vg_top_detail *detail = g_new0(struct vg_top_detail, 1);
    json_object *vcpus = vg_output_member(vm, "vcpus");

    detail->id = g_strdup(id);
    detail->begin_ns = look->begin_ns;
    detail->end_ns = look->end_ns;
    detail->gone = vm == NULL;
    detail->processes =
        read_processes(vg_output_member(vm, "newest.lost_to"),
                       read_count(vm, "newest.end_ns") - read_count(vm, "newest.begin_ns"));
    detail->start_processes =
        read_processes(vg_output_member(vm, "lost_to"), look->end_ns - look->begin_ns);
    detail->vcpus = g_array_new(FALSE, FALSE, sizeof(struct vg_top_vcpu));
    detail->used = g_array_new(FALSE, FALSE, sizeof(struct vg_spark_point));
    detail->lost = g_array_new(FALSE, FALSE, sizeof(struct vg_spark_point));
    for (size_t i = 0; i < vg_output_length(vcpus); i++) {
        json_object *item = json_object_array_get_idx(vcpus, i);
        struct vg_top_vcpu vcpu = {.tid = read_count(item, "tid")};
        vcpu.vcpu = vg_output_member(item, "vcpu") ? read_count(item, "vcpu") : -1;
        read_sums(item, &vcpu.sums);
        g_array_append_val(detail->vcpus, vcpu);
    }
    return detail;
}

void
vg_top_detail_free(struct vg_top_detail *detail)
{
    if (!detail)
        return;
    g_free(detail->id);
    g_free(detail->no_history);
    g_ptr_array_unref(detail->processes);
    g_ptr_array_unref(detail->start_processes);
    g_array_unref(detail->vcpus);
    g_array_unref(detail->used);
    g_array_unref(detail->lost);
    g_free(detail);
}

void
vg_top_detail_set_history(struct vg_top_detail *detail, json_object *samples)
{
    json_object *items = vg_output_member(samples, "items");

    detail->since_ns = read_count(samples, "since_ns");
    detail->until_ns = read_count(samples, "until_ns");
    for (size_t i = 0; i < vg_output_length(items); i++) {
        json_object *item = json_object_array_get_idx(items, i);
        struct vg_spark_point point = {.begin_ns = read_count(item, "begin_ns"),
                                       .end_ns = read_count(item, "end_ns")};
        double length_ns = (double)(point.end_ns - point.begin_ns);
        struct vg_top_sums sums;
        if (length_ns <= 0)
            continue;
        read_sums(item, &sums);
        point.value = (double)sums.run_ns / length_ns;
        g_array_append_val(detail->used, point);
        point.value = ((double)sums.preempt_ns + (double)sums.wake_wait_ns) / length_ns;
        g_array_append_val(detail->lost, point);
    }
}
