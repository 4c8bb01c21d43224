/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/drain.h"

#include "model/gpu-target.h"
#include "model/snapshot.h"

#define TEXT_MAX  1024
#define TIME_MAX  ((double)VG_JSON_INT_MAX)
#define COUNT_MAX 1e6

const char *const vg_drain_state_names[] = {"planned", "running", "blocked", "done", NULL};
const char *const vg_drain_step_names[] = {"waits", "moves", "moved", "stays", NULL};

#define THIS vg_drain_vm
static const struct vg_field drain_vm_fields[] = {
    VG_ROW_STRING(vm, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(uuid, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_ENUM("step", step, VG_FIELD_REQUIRED, vg_drain_step_names),
    VG_ROW_STRING(to, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_LIST(gpus, VG_FIELD_OMIT, VG_SNAPSHOT_GPU_USES_MAX, &vg_gpu_target_record),
    VG_ROW_STRING(reason, 0, 0, 65536),
    VG_ROW_STRING(migration, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_INT(tries, 0, 0, COUNT_MAX),
    VG_ROW_DOUBLE(seconds, 0, 0, TIME_MAX),
};
static const struct vg_record_type vg_drain_vm_record = VG_ROW_TYPE(drain_vm_fields);
#undef THIS

#define THIS vg_drain
static const struct vg_field drain_fields[] = {
    VG_ROW_STRING(host, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(asked_by, 0, 0, TEXT_MAX),
    VG_ROW_INT(since_ns, 0, 0, TIME_MAX),
    VG_ROW_ENUM("state", state, VG_FIELD_REQUIRED, vg_drain_state_names),
    VG_ROW_INT(moved, 0, 0, COUNT_MAX),
    VG_ROW_INT(left, 0, 0, COUNT_MAX),
    VG_ROW_DOUBLE(eta_s, 0, 0, TIME_MAX),
    VG_ROW_LIST(vms, 0, COUNT_MAX, &vg_drain_vm_record),
};
const struct vg_record_type vg_drain_record = VG_ROW_TYPE(drain_fields);
#undef THIS

#define THIS vg_drain_request
static const struct vg_field drain_request_fields[] = {
    VG_ROW_BOOL(dry_run, 0),
    VG_ROW_STRING(on_behalf_of, VG_FIELD_OMIT, 1, VG_SNAPSHOT_NAME_MAX),
};
const struct vg_record_type vg_drain_request_record = VG_ROW_TYPE(drain_request_fields);
#undef THIS

void
vg_drain_request_free(void *request)
{
    if (request)
        vg_record_free(&vg_drain_request_record, request);
}

vg_drain *
vg_drain_new(void)
{
    return vg_record_new(&vg_drain_record);
}

void
vg_drain_free(vg_drain *drain)
{
    if (drain)
        vg_record_free(&vg_drain_record, drain);
}

struct vg_drain_vm *
vg_drain_add(vg_drain *drain, const char *vm, const char *uuid)
{
    struct vg_drain_vm *one = vg_record_new(&vg_drain_vm_record);

    one->vm = g_strdup(vm);
    one->uuid = g_strdup(uuid);
    g_ptr_array_add(drain->vms, one);
    return one;
}

void
vg_drain_wait_for_moved(vg_drain *drain)
{
    bool moved = false;

    for (guint i = 0; i < drain->vms->len; i++)
        moved |= ((const struct vg_drain_vm *)drain->vms->pdata[i])->step == VG_DRAIN_MOVED;
    for (guint i = 0; moved && i < drain->vms->len; i++) {
        struct vg_drain_vm *vm = drain->vms->pdata[i];
        if (vm->step == VG_DRAIN_STAYS && !vm->to)
            vm->step = VG_DRAIN_WAITS;
    }
}

void
vg_drain_settle(vg_drain *drain)
{
    int64_t steps[VG_DRAIN_STEP_MAX] = {0};

    drain->eta_s = 0;
    for (guint i = 0; i < drain->vms->len; i++) {
        const struct vg_drain_vm *vm = drain->vms->pdata[i];
        steps[vm->step]++;
        if (vm->step == VG_DRAIN_WAITS || vm->step == VG_DRAIN_MOVES)
            drain->eta_s += vm->seconds;
    }
    drain->moved = steps[VG_DRAIN_MOVED];
    drain->left = drain->vms->len - steps[VG_DRAIN_MOVED];
    if (steps[VG_DRAIN_WAITS] + steps[VG_DRAIN_MOVES] > 0)
        drain->state = VG_DRAIN_RUNNING;
    else
        drain->state = steps[VG_DRAIN_STAYS] > 0 ? VG_DRAIN_BLOCKED : VG_DRAIN_DONE;
}
