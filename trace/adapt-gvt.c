/* SPDX-License-Identifier: Apache-2.0
 *
 * GVT-g: the four events of the 2024 paper, in our own form because theirs is not published, and
 * one mainline event that names vGPUs (drivers/gpu/drm/i915/gvt/trace.h). vGPU 0 is the host, or
 * the idle vGPU.
 */
#include "config.h"

#include "trace/adapt-gpu.h"

static void
read_vgpu(const struct vg_binding *binding, const void *record, struct vg_event *event)
{
    int64_t vgpu;

    if (vg_binding_int(binding, VG_SLOT_VGPU, record, &vgpu) && vgpu > 0 && vgpu <= INT32_MAX)
        event->gpu.vgpu = (int32_t)vgpu;
}

static const char *
read_workload(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
              struct vg_event *event)
{
    int64_t ring, status;

    vg_gpu_event_init(binding, env, record, event);
    vg_gpu_read_device(binding, env, record, event);
    read_vgpu(binding, record, event);
    if (vg_binding_int(binding, VG_SLOT_RING, record, &ring))
        vg_gpu_name_ring(env, ring, event);
    event->gpu.id = vg_gpu_read_address(binding, VG_SLOT_WORKLOAD, record);
    event->gpu.id_space = VG_GPU_ID_WORKLOAD;
    vg_gpu_read_seqno(binding, record, event);
    if (vg_binding_int(binding, VG_SLOT_STATUS, record, &status) && status != 0)
        event->gpu.flags |= VG_GPU_FAILED;
    return NULL;
}

static const char *
read_switch(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    vg_gpu_event_init(binding, env, record, event);
    vg_gpu_read_device(binding, env, record, event);
    read_vgpu(binding, record, event);
    return NULL;
}

static const struct vg_adapter_field workload_fields[] = {
    {VG_SLOT_DEVICE, false, {"dev"}},
    {VG_SLOT_VGPU, true, {"vgpu_id", "vgpu"}},
    {VG_SLOT_RING, true, {"ring_id", "ring"}},
    {VG_SLOT_WORKLOAD, true, {"workload", "workload_id"}},
    {VG_SLOT_FENCE_CONTEXT, false, {"ctx", "context"}},
    {VG_SLOT_SEQNO, false, {"seqno"}},
    {VG_SLOT_STATUS, false, {"status"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field adapt_gvt_switch_fields[] = {
    {VG_SLOT_DEVICE, false, {"dev"}},
    {VG_SLOT_VGPU, true, {"next_vgpu", "next_vgpu_id", "new_id"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_gvt[] = {
    {{"gvt_workload_queue"},
     VG_EVENT_GPU,
     workload_fields,
     read_workload,
     VG_GPU_QUEUED,
     VG_GPU_ENGINE_WEAK},
    {{"gvt_workload_submit"},
     VG_EVENT_GPU,
     workload_fields,
     read_workload,
     VG_GPU_SUBMITTED,
     VG_GPU_ENGINE_WEAK},
    {{"gvt_workload_complete"},
     VG_EVENT_GPU,
     workload_fields,
     read_workload,
     VG_GPU_DONE,
     VG_GPU_ENGINE_WEAK},
    {{"gvt_sched_switch"}, VG_EVENT_GPU, adapt_gvt_switch_fields, read_switch, VG_GPU_SWITCH, 0},
    {{"render_mmio"}, VG_EVENT_GPU, adapt_gvt_switch_fields, read_switch, VG_GPU_SWITCH, 0},
    {.names = {NULL}},
};
