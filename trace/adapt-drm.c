/* SPDX-License-Identifier: Apache-2.0
 *
 * The common parts of all DRM drivers: the GPU scheduler (`amd_sched_job` up to kernel 4.15,
 * `drm_sched_job`, `drm_run_job` and `drm_sched_process_job` up to 6.16, `drm_sched_job_queue`,
 * `_run` and `_done` since), fences, and the memory of processes. A job is identified by its number
 * on its ring and the address of its fence, or by context and seqno of that fence.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "trace/adapt-gpu.h"

/* Above any number that a scheduler gives its jobs. */
#define XE_QUEUE_SHIFT 44

/* Returns the number of a queue of xe's GuC, or -1 for another ring. Each queue has its own
 * scheduler, named after the class of its engine and that number: "rcs5". */
static long
xe_queue(const char *ring, size_t *ret_class_len)
{
    static const char *const classes[] = {"rcs", "bcs", "vcs", "vecs", "ccs", "gsccs"};

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        size_t len = strlen(classes[i]);
        const char *digits = ring + len;
        if (strncmp(ring, classes[i], len) != 0 || !*digits || strlen(digits) > 6 ||
            digits[strspn(digits, "0123456789")])
            continue;
        *ret_class_len = len;
        return strtol(digits, NULL, 10);
    }
    return -1;
}

/* Handles the classes of xe's engines. Except for rcs, they have several engines (enum
 * xe_hw_engine_id of xe_hw_engine_types.h). On rcs, the GuC runs one queue at a time. Jobs of a
 * queue complete in order. */
static void
adapt_drm_read_xe_order(const struct vg_binding *binding, const void *record,
                        struct vg_event *event, long queue, bool is_render)
{
    event->gpu.depth = 0; /* of this queue only */
    if (event->gpu.op == VG_GPU_RUNNING)
        event->gpu.flags |= is_render ? VG_GPU_ANY_ORDER : VG_GPU_SIDE_BY_SIDE;
    if (event->gpu.context != 0)
        return;
    event->gpu.context = vg_gpu_read_address(binding, VG_SLOT_ENTITY, record);
    event->gpu.context ^= (uint64_t)(queue + 1) << XE_QUEUE_SHIFT;
    event->gpu.seqno = event->gpu.id;
}

/* Reads xe's jobs, whose engine is the class. Returns false if xe itself reports them. */
static bool
read_xe_queue(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
              struct vg_event *event)
{
    char class[VG_NAME_SIZE] = {0};
    size_t len;
    const char *ring = vg_names_text(env->names, event->gpu.engine);
    long queue = xe_queue(ring, &len);

    if (queue < 0)
        return true;
    if (env->xe_tells)
        return false;
    memcpy(class, ring, len);
    event->gpu.engine = vg_names_id(env->names, class);
    adapt_drm_read_xe_order(binding, record, event, queue, strcmp(class, "rcs") == 0);
    if (event->gpu.id_space == VG_GPU_ID_JOB)
        event->gpu.id ^= (uint64_t)(queue + 1) << XE_QUEUE_SHIFT;
    return true;
}

/* amdgpu's last record of this thread may be about the same job, with the name of the ring. */
static void
learn_ring(struct vg_adapt_env *env, uint64_t address, struct vg_event *event)
{
    struct vg_ring_names *rings = &env->rings;

    for (size_t i = 0; address && event->gpu.id && i < VG_RINGS_ASKED_MAX; i++) {
        if (rings->asked[i].tid != event->tid || rings->asked[i].job == 0)
            continue;
        if (rings->asked[i].job == event->gpu.id) {
            vg_gpu_learn_ring(env, address, rings->asked[i].name);
            event->gpu.engine = rings->asked[i].name;
        }
        rings->asked[i].job = 0;
    }
}

/* With patches of 2024 for the scheduler, a job is queued with the fence that others see, but runs
 * with the driver's fence. Its GPU is only reported when it runs. */
static void
adapt_drm_read_patched(const struct vg_binding *binding, const void *record, struct vg_event *event)
{
    char fence[8];

    if (event->gpu.op != VG_GPU_QUEUED || event->gpu.id == 0 ||
        !vg_binding_str(binding, VG_SLOT_FENCE, record, fence, sizeof(fence)) ||
        strncmp(fence, "(contex", sizeof(fence) - 1) != 0)
        return;
    event->gpu.context = event->gpu.seqno = 0;
    event->gpu.flags |= VG_GPU_ENGINE_WEAK;
}

static const char *
adapt_drm_read_job(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                   struct vg_event *event)
{
    vg_gpu_event_init(binding, env, record, event);
    vg_gpu_read_device(binding, env, record, event);
    uint64_t address = 0;
    vg_gpu_read_engine_name(binding, env, VG_SLOT_RING, record, event, &address);
    vg_gpu_read_seqno(binding, record, event);
    if (event->gpu.context == 0)
        vg_gpu_read_fence(binding, record, event);
    event->gpu.id = vg_gpu_read_address(binding, VG_SLOT_JOB, record);
    if (event->gpu.id != 0)
        event->gpu.id_space = VG_GPU_ID_JOB;
    adapt_drm_read_patched(binding, record, event);
    if (event->gpu.op == VG_GPU_QUEUED)
        learn_ring(env, address, event);
    int64_t depth;
    if (event->gpu.op == VG_GPU_RUNNING && vg_binding_int(binding, VG_SLOT_DEPTH, record, &depth) &&
        depth >= 0)
        event->gpu.depth = (uint16_t)MIN(depth + 1, UINT16_MAX);
    /* The end of a job is unknown in the oldest form (4.2 to 4.4). */
    if (!read_xe_queue(binding, env, record, event) ||
        (event->gpu.id == 0 && event->gpu.context == 0 && event->gpu.fence == 0))
        event->type = VG_EVENT_OTHER;
    return NULL;
}

/* The scheduler's fences have its name. Others belong to the driver, and their timeline may be an
 * engine. */
static const char *
read_fence(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
           struct vg_event *event)
{
    char driver[VG_NAME_SIZE];

    vg_gpu_event_init(binding, env, record, event);
    vg_gpu_read_seqno(binding, record, event);
    if (!vg_binding_str(binding, VG_SLOT_DEVICE, record, driver, sizeof(driver)))
        return NULL;
    if (strcmp(driver, "drm_sched") == 0 || strcmp(driver, "amd_sched") == 0) {
        event->gpu.flags |= VG_GPU_OF_SCHEDULER;
        return NULL;
    }
    event->gpu.device = vg_names_spare_id(env->names, driver);
    char timeline[VG_NAME_SIZE];
    if (vg_binding_str(binding, VG_SLOT_TIMELINE, record, timeline, sizeof(timeline)))
        event->gpu.engine = vg_names_spare_id(env->names, timeline);
    return NULL;
}

static const char *
read_total(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
           struct vg_event *event)
{
    int64_t size;

    vg_gpu_event_init(binding, env, record, event);
    /* The process may differ from the recording process, and 0 is the total of all. gpu_id is the
     * driver's own count, not a DRM node. */
    int32_t process;
    if (!vg_binding_tid(binding, VG_SLOT_TID, record, &process) || process == 0) {
        event->type = VG_EVENT_OTHER;
        return NULL;
    }
    event->gpu.id = (uint64_t)process;
    event->gpu.id_space = VG_GPU_ID_PROCESS;
    if (vg_binding_int(binding, VG_SLOT_SIZE, record, &size) && size > 0)
        event->gpu.fence = (uint64_t)size;
    return NULL;
}

static const struct vg_adapter_field adapt_drm_job_fields[] = {
    {VG_SLOT_RING, true, {"name", "ring"}},
    {VG_SLOT_DEVICE, false, {"dev"}},
    {VG_SLOT_JOB, false, {"id", "sched_job", "sched job"}},
    {VG_SLOT_FENCE, false, {"fence"}},
    {VG_SLOT_FENCE_CONTEXT, false, {"fence_context"}},
    {VG_SLOT_SEQNO, false, {"fence_seqno"}},
    {VG_SLOT_DEPTH, false, {"hw_job_count", "hw job count:"}},
    {VG_SLOT_ENTITY, false, {"entity"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field done_fields[] = {
    {VG_SLOT_FENCE, false, {"fence"}},
    {VG_SLOT_FENCE_CONTEXT, false, {"fence_context"}},
    {VG_SLOT_SEQNO, false, {"fence_seqno"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field fence_fields[] = {
    {VG_SLOT_DEVICE, false, {"driver"}},
    {VG_SLOT_TIMELINE, false, {"timeline"}},
    {VG_SLOT_FENCE_CONTEXT, true, {"context"}},
    {VG_SLOT_SEQNO, true, {"seqno"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field total_fields[] = {
    {VG_SLOT_TID, true, {"pid"}},
    {VG_SLOT_SIZE, true, {"size"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_drm[] = {
    {{"drm_sched_job_queue", "drm_sched_job", "amd_sched_job"},
     VG_EVENT_GPU,
     adapt_drm_job_fields,
     adapt_drm_read_job,
     VG_GPU_QUEUED,
     0},
    {{"drm_sched_job_run", "drm_run_job"},
     VG_EVENT_GPU,
     adapt_drm_job_fields,
     adapt_drm_read_job,
     VG_GPU_RUNNING,
     0},
    {{"drm_sched_job_done", "drm_sched_process_job", "amd_sched_process_job"},
     VG_EVENT_GPU,
     done_fields,
     adapt_drm_read_job,
     VG_GPU_DONE,
     0},
    {{"dma_fence_signaled", "fence_signaled"},
     VG_EVENT_GPU,
     fence_fields,
     read_fence,
     VG_GPU_DONE,
     VG_GPU_OF_FENCE},
    {{"gpu_mem_total"}, VG_EVENT_GPU, total_fields, read_total, VG_GPU_MEMORY_TOTAL, 0},
    {.names = {NULL}},
};
