/* SPDX-License-Identifier: Apache-2.0
 *
 * i915 requests: `i915_gem_request_*` with ring and global seqno up to kernel 4.16,
 * `i915_request_*` with class and instance since. submit, execute, in and out exist only with
 * CONFIG_DRM_I915_LOW_LEVEL_TRACEPOINTS. Without them, there are queue, add and retire, and
 * dma_fence_signaled, which has the same context and seqno. Kernels before 4.10 record no context,
 * and the seqno is that of the engine.
 */
#include "config.h"

#include "trace/adapt-gpu.h"

/* GVT-g's own requests name their vGPU in the kernels of ACRN and Celadon. */
static void
read_domain(const struct vg_binding *binding, const void *record, struct vg_event *event)
{
    int64_t vgpu;

    if (vg_binding_int(binding, VG_SLOT_VGPU, record, &vgpu) && vgpu > 0 && vgpu <= INT32_MAX)
        event->gpu.vgpu = (int32_t)vgpu;
}

static const char *
read_request(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
             struct vg_event *event)
{
    int64_t global, seqno;

    vg_gpu_event_init(binding, env, record, event);
    vg_gpu_read_device(binding, env, record, event);
    vg_gpu_read_i915_engine(binding, env, record, event);
    vg_gpu_read_seqno(binding, record, event);
    /* In 4.10 and 4.11, this is the hardware context's id. Later kernels without classes have no
     * requests that may run on several engines. */
    if (binding->handle[VG_SLOT_RING] >= 0)
        event->gpu.flags |= VG_GPU_CONTEXT_OF_ENGINE;
    read_domain(binding, record, event);
    if (binding->handle[VG_SLOT_FENCE_CONTEXT] >= 0) {
        /* This is 0 until the request is given to the hardware. */
        if (!vg_binding_int(binding, VG_SLOT_GLOBAL_SEQNO, record, &global) || global == 0)
            return NULL;
    } else if (vg_binding_int(binding, VG_SLOT_SEQNO, record, &seqno)) {
        global = seqno;
    } else {
        return NULL;
    }
    event->gpu.id = (uint64_t)global;
    event->gpu.id_space = VG_GPU_ID_GLOBAL;
    return NULL;
}

static const char *
read_out(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
         struct vg_event *event)
{
    int64_t completed;

    read_request(binding, env, record, event);
    if (vg_binding_int(binding, VG_SLOT_STATUS, record, &completed) && completed == 0)
        event->gpu.op = VG_GPU_OFF;
    return NULL;
}

/* The seqno of a notification is that of the engine. */
static const char *
read_notify(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    read_request(binding, env, record, event);
    event->gpu.context = 0;
    return NULL;
}

static const char *
read_object(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    int64_t size;

    vg_gpu_event_init(binding, env, record, event);
    event->gpu.id = vg_gpu_read_address(binding, VG_SLOT_OBJECT, record);
    event->gpu.id_space = VG_GPU_ID_OBJECT;
    if (vg_binding_int(binding, VG_SLOT_SIZE, record, &size) && size > 0)
        event->gpu.fence = (uint64_t)size;
    return NULL;
}

static const struct vg_adapter_field adapt_i915_request_fields[] = {
    {VG_SLOT_DEVICE, false, {"dev"}},
    {VG_SLOT_ENGINE_CLASS, false, {"class"}},
    {VG_SLOT_ENGINE_INSTANCE, false, {"instance"}},
    {VG_SLOT_ENGINE, false, {"engine"}},
    {VG_SLOT_RING, false, {"ring"}},
    {VG_SLOT_FENCE_CONTEXT, false, {"ctx"}},
    {VG_SLOT_SEQNO, true, {"seqno"}},
    {VG_SLOT_GLOBAL_SEQNO, false, {"global_seqno", "global"}},
    {VG_SLOT_STATUS, false, {"completed", "completed?"}},
    {VG_SLOT_VGPU, false, {"vgt_id"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field object_fields[] = {
    {VG_SLOT_OBJECT, true, {"obj"}},
    {VG_SLOT_SIZE, false, {"size"}},
    {.names = {NULL}},
};

#define REQUEST(event)                                                                             \
 {                                                                                                 \
  "i915_request_" event, "i915_gem_request_" event                                                 \
 }

const struct vg_adapter vg_adapt_i915[] = {
    {REQUEST("queue"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_QUEUED,
     VG_GPU_COALESCES},
    {REQUEST("add"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_SUBMITTED,
     VG_GPU_COALESCES},
    {REQUEST("add_domain"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_SUBMITTED,
     VG_GPU_COALESCES},
    {REQUEST("submit"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_READY,
     VG_GPU_COALESCES},
    {REQUEST("execute"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_READY,
     VG_GPU_COALESCES},
    {REQUEST("guc_submit"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_READY,
     VG_GPU_COALESCES},
    {REQUEST("in"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_RUNNING,
     VG_GPU_COALESCES | VG_GPU_ANY_ORDER},
    {REQUEST("out"), VG_EVENT_GPU, adapt_i915_request_fields, read_out, VG_GPU_DONE,
     VG_GPU_COALESCES},
    {REQUEST("retire"), VG_EVENT_GPU, adapt_i915_request_fields, read_request, VG_GPU_RETIRED,
     VG_GPU_COALESCES},
    {{"intel_engine_notify", "i915_gem_request_notify"},
     VG_EVENT_GPU,
     adapt_i915_request_fields,
     read_notify,
     VG_GPU_DONE,
     0},
    {{"i915_gem_object_create"}, VG_EVENT_GPU, object_fields, read_object, VG_GPU_MEMORY_MADE, 0},
    {{"i915_gem_object_destroy"}, VG_EVENT_GPU, object_fields, read_object, VG_GPU_MEMORY_FREED, 0},
    {.names = {NULL}},
};
