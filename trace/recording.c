/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/recording.h"

#include <stdarg.h>
#include <string.h>

#include "trace/adapter.h"
#include "trace/late-cpus.h"

#define HOST_NAME_MAX_BYTES 255

/* The maximum number of processes that are reported before the first event with a time. There
 * cannot be more. */
#define HELD_MAX ((unsigned int)VG_TID_LIMIT)

struct vg_trace_problem *
vg_trace_problem_new(const char *file, int64_t offset, const char *what)
{
    struct vg_trace_problem *problem = g_new0(struct vg_trace_problem, 1);

    problem->file = g_strdup(file);
    problem->offset = offset;
    problem->what = g_strdup(what);
    return problem;
}

void
vg_trace_problem_free(void *data)
{
    struct vg_trace_problem *problem = data;

    g_free(problem->file);
    g_free(problem->what);
    g_free(problem);
}

void
vg_recording_init(vg_recording *recording, const struct vg_recording_ops *ops, const char *name,
                  vg_names *names, vg_aliases *aliases)
{
    recording->ops = ops;
    recording->name = g_strdup(name);
    recording->passed_ns = INT64_MIN;
    recording->problems.list = g_ptr_array_new_with_free_func(vg_trace_problem_free);
    recording->vms = g_array_new(FALSE, TRUE, sizeof(struct vg_recorded_vm));
    recording->late = g_array_new(FALSE, FALSE, sizeof(struct vg_late_cpu));
    recording->held = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    recording->names = names ? vg_names_ref(names) : vg_names_new();
    recording->aliases = vg_aliases_ref(aliases);
}

void
vg_recording_clear(vg_recording *recording)
{
    g_clear_pointer(&recording->name, g_free);
    g_clear_pointer(&recording->hostname, g_free);
    g_clear_pointer(&recording->names, vg_names_unref);
    g_clear_pointer(&recording->aliases, vg_aliases_unref);
    g_clear_pointer(&recording->problems.list, g_ptr_array_unref);
    g_clear_pointer(&recording->vms, g_array_unref);
    g_clear_pointer(&recording->late, g_array_unref);
    g_clear_pointer(&recording->held, g_array_unref);
}

void
vg_recording_problem(vg_recording *recording, const char *file, int64_t offset, const char *fmt,
                     ...)
{
    if (recording->problems.list->len >= VG_TRACE_PROBLEMS_MAX) {
        recording->problems.dropped++;
        return;
    }
    va_list args;
    va_start(args, fmt);
    g_autofree char *what = g_strdup_vprintf(fmt, args);
    va_end(args);
    struct vg_trace_problem *problem = vg_trace_problem_new(file, offset, what);
    g_ptr_array_add(recording->problems.list, problem);
}

void
vg_recording_learn_event(vg_recording *recording, const char *event_name)
{
    const struct vg_adapter *adapter = vg_adapter_find(event_name);

    if (!adapter || adapter->type != VG_EVENT_GPU)
        return;
    /* Queued workloads do not mean that the driver's requests are recorded. */
    if (adapter->gpu_op != VG_GPU_QUEUED || !strstr(event_name, "gvt_workload"))
        recording->gpu_ops |= 1U << adapter->gpu_op;
}

static const struct vg_recorded_vm *
recording_find_vm(const vg_recording *recording, int32_t pid)
{
    for (unsigned int i = 0; i < recording->vms->len; i++) {
        const struct vg_recorded_vm *vm = &g_array_index(recording->vms, struct vg_recorded_vm, i);
        if (vm->pid == pid)
            return vm;
    }
    return NULL;
}

void
vg_recording_add_vm(vg_recording *recording, const char *file, int32_t pid, const char *name,
                    const char *uuid)
{
    g_autoptr(vg_topology) unused = vg_topology_new();
    g_autoptr(GError) error = NULL;
    const struct vg_recorded_vm *known = recording_find_vm(recording, pid);
    struct vg_recorded_vm vm = {.pid = pid};

    if (!g_utf8_validate(name, -1, NULL)) {
        vg_recording_problem(recording, file, VG_NONE, "the name of VM %d is not UTF-8", pid);
        return;
    }
    if (vg_topology_name_vm(unused, pid, name, uuid, &error) < 0) {
        vg_recording_problem(recording, file, VG_NONE, "a VM has no name: %s", error->message);
        return;
    }
    if (known) {
        if (strcmp(known->name, name) != 0 ||
            g_ascii_strcasecmp(known->uuid, uuid ? uuid : "") != 0)
            vg_recording_problem(recording, file, VG_NONE,
                                 "process %d is VM '%s' here, but was '%s' before; it keeps the "
                                 "first name",
                                 pid, name, known->name);
        return;
    }
    if (recording->vms->len == VG_RECORDING_VMS_MAX) {
        vg_recording_problem(recording, file, VG_NONE,
                             "more than %d VMs have names; '%s' is ignored", VG_RECORDING_VMS_MAX,
                             name);
        return;
    }
    g_strlcpy(vm.name, name, sizeof(vm.name));
    g_strlcpy(vm.uuid, uuid ? uuid : "", sizeof(vm.uuid));
    g_array_append_val(recording->vms, vm);
}

void
vg_recording_name_vms(const vg_recording *recording, vg_topology *topology)
{
    for (unsigned int i = 0; i < recording->vms->len; i++) {
        const struct vg_recorded_vm *vm = &g_array_index(recording->vms, struct vg_recorded_vm, i);
        /* The arguments were checked. This can only fail because the name exists. */
        (void)!vg_topology_name_vm(topology, vm->pid, vm->name, vm->uuid[0] ? vm->uuid : NULL,
                                   NULL);
    }
}

/* Reads up to the first event with a time, which also applies to earlier events. */
static int
find_time(vg_recording *recording, GError **err)
{
    struct vg_event event;
    int status;

    while ((status = recording->ops->next(recording, &event, err)) == 1) {
        if (event.ts_ns != VG_TIME_UNKNOWN || recording->held->len < HELD_MAX)
            g_array_append_val(recording->held, event);
        if (event.ts_ns == VG_TIME_UNKNOWN)
            continue;
        recording->has_time = true;
        recording->last_ns = event.ts_ns;
        return 1;
    }
    if (status == VG_RECORDING_AGAIN)
        return status;
    /* There is no such event: those without a time are everything, at time 0. */
    recording->has_time = recording->held->len > 0;
    return status == 0 && recording->has_time ? 1 : status;
}

int
vg_recording_next(vg_recording *recording, struct vg_event *ret_event, GError **err)
{
    int status = recording->has_time ? 1 : find_time(recording, err);

    if (status != 1)
        return status;
    if (recording->n_given < recording->held->len) {
        *ret_event = g_array_index(recording->held, struct vg_event, recording->n_given++);
    } else {
        g_array_set_size(recording->held, 0);
        recording->n_given = 0;
        status = recording->ops->next(recording, ret_event, err);
        if (status != 1)
            return status;
    }
    if (ret_event->ts_ns == VG_TIME_UNKNOWN)
        ret_event->ts_ns = recording->last_ns;
    recording->last_ns = ret_event->ts_ns;
    recording->has_gpu |= ret_event->type == VG_EVENT_GPU;
    return 1;
}

const char *
vg_recording_host(const vg_recording *recording)
{
    const char *name = recording->hostname;

    /* The kernel uses "(none)" if there is no name. */
    if (!name || !name[0] || strcmp(name, "(none)") == 0 || strlen(name) > HOST_NAME_MAX_BYTES ||
        !g_utf8_validate(name, -1, NULL))
        return NULL;
    return name;
}

double
vg_recording_progress(const vg_recording *recording)
{
    return recording->ops->progress(recording);
}

void
vg_recording_free(vg_recording *recording)
{
    if (recording)
        recording->ops->free(recording);
}
