/* SPDX-License-Identifier: Apache-2.0
 *
 * xe: the driver's own view of its jobs. In these records, a job has no context. It is identified
 * by its GuC queue, its seqno there, and the address of its fence, which xe_hw_fence_signal also
 * has. xe_sched_job_exec comes directly before the DRM scheduler's record of the same job, which is
 * therefore ignored if xe's records exist (vg_adapt_env.xe_tells). xe_sched_job_create comes before
 * a job has a seqno. Up to 6.11, no record names the device.
 */
#include "config.h"

#include <stdio.h>

#include "trace/adapt-gpu.h"

/* Our own contexts, which never equal the kernel's. */
#define QUEUE_CONTEXT (UINT64_C(1) << 63)

static void
adapt_xe_read_device(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                     struct vg_event *event)
{
    vg_gpu_read_device(binding, env, record, event);
    if (event->gpu.device == VG_NAME_NONE)
        event->gpu.device = vg_names_id(env->names, "xe");
}

static const char *
adapt_xe_read_job(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                  struct vg_event *event)
{
    int64_t gt = 0, queue = 0, seqno = 0;
    char name[VG_NAME_SIZE];

    vg_gpu_event_init(binding, env, record, event);
    adapt_xe_read_device(binding, env, record, event);
    env->xe_tells = true;
    vg_binding_int(binding, VG_SLOT_RING, record, &gt);
    snprintf(name, sizeof(name), "gt%d", (int)gt);
    event->gpu.engine = vg_names_id(env->names, name);
    vg_binding_int(binding, VG_SLOT_JOB, record, &queue);
    vg_binding_int(binding, VG_SLOT_SEQNO, record, &seqno);
    event->gpu.context = QUEUE_CONTEXT | (uint64_t)(gt & 0xff) << 32 | (uint32_t)queue;
    event->gpu.seqno = (uint64_t)seqno;
    event->gpu.fence = vg_gpu_read_address(binding, VG_SLOT_FENCE, record);
    return NULL;
}

static const char *
read_signal(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    vg_gpu_event_init(binding, env, record, event);
    adapt_xe_read_device(binding, env, record, event);
    event->gpu.fence = vg_gpu_read_address(binding, VG_SLOT_FENCE, record);
    return NULL;
}

static const struct vg_adapter_field adapt_xe_job_fields[] = {
    {VG_SLOT_DEVICE, false, {"dev"}},  {VG_SLOT_RING, false, {"gt_id", "gt"}},
    {VG_SLOT_JOB, true, {"guc_id"}},   {VG_SLOT_SEQNO, true, {"seqno"}},
    {VG_SLOT_FENCE, false, {"fence"}}, {.names = {NULL}},
};

static const struct vg_adapter_field signal_fields[] = {
    {VG_SLOT_DEVICE, false, {"dev"}},
    {VG_SLOT_FENCE, true, {"fence"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_xe[] = {
    {{"xe_sched_job_exec"}, VG_EVENT_GPU, adapt_xe_job_fields, adapt_xe_read_job, VG_GPU_QUEUED, 0},
    {{"xe_sched_job_run"},
     VG_EVENT_GPU,
     adapt_xe_job_fields,
     adapt_xe_read_job,
     VG_GPU_RUNNING,
     VG_GPU_SIDE_BY_SIDE},
    {{"xe_sched_job_free"},
     VG_EVENT_GPU,
     adapt_xe_job_fields,
     adapt_xe_read_job,
     VG_GPU_RETIRED,
     0},
    {{"xe_hw_fence_signal"}, VG_EVENT_GPU, signal_fields, read_signal, VG_GPU_DONE, 0},
    {.names = {NULL}},
};
