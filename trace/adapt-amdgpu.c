/* SPDX-License-Identifier: Apache-2.0
 *
 * amdgpu: what processes submit, and when the hardware gets it. Context and seqno are those of the
 * job's finished fence, which dma_fence_signaled also has. The job's number is that of the DRM
 * scheduler's events. Kernels up to 4.11 record addresses instead. The timeline names the ring,
 * because `ring_name` is an address in older kernels. No record names the device, so it has the
 * driver's name until the scheduler reports it.
 */
#include "config.h"

#include "trace/adapt-gpu.h"

/* The scheduler reports the same job next. */
static void
expect_scheduler(struct vg_adapt_env *env, const struct vg_event *event)
{
    struct vg_ring_names *rings = &env->rings;
    uint32_t at = 0;

    /* Only the last one of a thread counts. Otherwise, the oldest one is replaced. */
    while (at < VG_RINGS_ASKED_MAX && rings->asked[at].tid != event->tid)
        at++;
    if (at == VG_RINGS_ASKED_MAX)
        at = rings->n_asked++ % VG_RINGS_ASKED_MAX;
    rings->asked[at].tid = event->tid;
    rings->asked[at].job = event->gpu.id;
    rings->asked[at].name = event->gpu.engine;
}

static const char *
adapt_amdgpu_read_job(const struct vg_binding *binding, struct vg_adapt_env *env,
                      const void *record, struct vg_event *event)
{
    vg_gpu_event_init(binding, env, record, event);
    uint64_t address = 0;
    event->gpu.device = vg_names_id(env->names, "amdgpu");
    bool named =
        vg_gpu_read_engine_name(binding, env, VG_SLOT_RING, record, event, &address) && !address;
    if (vg_gpu_read_engine_name(binding, env, VG_SLOT_TIMELINE, record, event, NULL)) {
        vg_gpu_learn_ring(env, address, event->gpu.engine);
        named = true;
    }
    vg_gpu_read_seqno(binding, record, event);
    /* If a kernel records a context, the member `fence` is never set. */
    if (event->gpu.context == 0)
        vg_gpu_read_fence(binding, record, event);
    event->gpu.id = vg_gpu_read_address(binding, VG_SLOT_JOB, record);
    if (event->gpu.id != 0)
        event->gpu.id_space = VG_GPU_ID_JOB;
    if (named && event->gpu.op == VG_GPU_QUEUED && event->gpu.id != 0)
        expect_scheduler(env, event);
    return NULL;
}

static const struct vg_adapter_field adapt_amdgpu_job_fields[] = {
    {VG_SLOT_TIMELINE, false, {"timeline"}},
    {VG_SLOT_RING, false, {"ring", "ring_name", "ring name:"}},
    {VG_SLOT_JOB, false, {"sched_job_id", "sched_job"}},
    {VG_SLOT_FENCE_CONTEXT, false, {"context"}},
    {VG_SLOT_SEQNO, false, {"seqno"}},
    {VG_SLOT_FENCE, false, {"fence"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_amdgpu[] = {
    {{"amdgpu_cs_ioctl"},
     VG_EVENT_GPU,
     adapt_amdgpu_job_fields,
     adapt_amdgpu_read_job,
     VG_GPU_QUEUED,
     VG_GPU_DEVICE_WEAK},
    {{"amdgpu_sched_run_job"},
     VG_EVENT_GPU,
     adapt_amdgpu_job_fields,
     adapt_amdgpu_read_job,
     VG_GPU_RUNNING,
     VG_GPU_DEVICE_WEAK},
    {.names = {NULL}},
};
