/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the request of a record by the ids that the record has, and determines whether these may
 * mean another request. This file changes nothing.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

uint32_t
gpu_find_context_engine(const struct vg_event *event, uint32_t engine)
{
    return event->gpu.flags & VG_GPU_CONTEXT_OF_ENGINE && !(event->gpu.flags & VG_GPU_ENGINE_WEAK)
               ? engine
               : GPU_NO_INDEX;
}

uint16_t
gpu_find_device(const struct vg_event *event)
{
    return event->gpu.flags & (VG_GPU_OF_FENCE | VG_GPU_DEVICE_WEAK) ? VG_NAME_NONE
                                                                     : event->gpu.device;
}

uint32_t
gpu_find_context(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    return event->gpu.context == 0
               ? GPU_NO_INDEX
               : gpu_context_find(&ledger->requests, event->gpu.context, gpu_find_device(event),
                                  gpu_find_context_engine(event, engine));
}

bool
gpu_find_is_past(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    uint32_t index = gpu_find_context(ledger, event, engine);

    if (index == GPU_NO_INDEX)
        return false;
    const struct gpu_context *context = gpu_context_at(&ledger->requests, index);
    return context->any_done && !gpu_seqno_is_before(context->last_done, event->gpu.seqno);
}

static bool
gpu_find_has_other_context(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                           const struct vg_event *event)
{
    return request->context != GPU_NO_INDEX && event->gpu.context != 0 &&
           gpu_context_at(&ledger->requests, request->context)->number != event->gpu.context;
}

/* Returns whether the record is about another GPU: rings with the same name number jobs alike. */
static bool
gpu_find_is_of_other_gpu(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                         const struct vg_event *event)
{
    return (request->fence != 0 && event->gpu.fence != 0 && request->fence != event->gpu.fence) ||
           gpu_find_has_other_context(ledger, request, event);
}

/* Finds the job that waits on the engine with this name of another GPU, which was a guess. Returns
 * GPU_NO_INDEX if there is none, or more than one. */
static uint32_t
gpu_find_guessed(const struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    uint32_t found = GPU_NO_INDEX;

    for (guint i = 0; i < ledger->engines->len; i++) {
        if (i == engine || gpu_engine_at(ledger, i)->name != event->gpu.engine)
            continue;
        uint32_t index = gpu_requests_by_job(&ledger->requests, i, event->gpu.id);
        if (index == GPU_NO_INDEX)
            continue;
        const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        if (!request->engine_weak || request->state != GPU_STATE_QUEUED ||
            gpu_find_is_of_other_gpu(ledger, request, event))
            continue;
        if (found != GPU_NO_INDEX)
            return GPU_NO_INDEX;
        found = index;
    }
    return found;
}

static uint32_t
gpu_find_by_id(const struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    const struct gpu_requests *all = &ledger->requests;

    if (event->gpu.id_space == VG_GPU_ID_WORKLOAD)
        return gpu_requests_by_workload(all, event->gpu.device, event->gpu.vgpu, event->gpu.id);
    if (engine == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    if (event->gpu.id_space == VG_GPU_ID_GLOBAL && event->gpu.context == 0)
        return gpu_requests_by_global(all, engine, event->gpu.id);
    if (event->gpu.id_space != VG_GPU_ID_JOB)
        return GPU_NO_INDEX;
    uint32_t index = gpu_requests_by_job(all, engine, event->gpu.id);
    if (index == GPU_NO_INDEX && ledger->guesses_engines && event->gpu.op == VG_GPU_RUNNING &&
        gpu_find_device(event) != VG_NAME_NONE)
        return gpu_find_guessed(ledger, event, engine);
    return index != GPU_NO_INDEX &&
                   gpu_find_is_of_other_gpu(ledger, gpu_request_at(all, index), event)
               ? GPU_NO_INDEX
               : index;
}

struct gpu_found
gpu_find(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    struct gpu_found found = {gpu_find_by_id(ledger, event, engine), GPU_NO_INDEX, GPU_NO_INDEX};

    if (event->gpu.context != 0)
        found.by_seqno =
            gpu_requests_by_number(&ledger->requests, event->gpu.context, gpu_find_device(event),
                                   gpu_find_context_engine(event, engine), event->gpu.seqno);
    if (event->gpu.fence != 0)
        found.by_fence = gpu_requests_by_fence(&ledger->requests, event->gpu.fence);
    return found;
}

bool
gpu_find_is_other(const struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
                  uint32_t engine)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->id_space == event->gpu.id_space && request->id_space != VG_GPU_ID_NONE &&
        (request->id != event->gpu.id ||
         (request->id_space == VG_GPU_ID_JOB && request->engine != engine)))
        return true;
    if (request->context == GPU_NO_INDEX || event->gpu.context == 0)
        return event->gpu.op == VG_GPU_QUEUED && request->state >= GPU_STATE_RUNNING;
    return request->seqno != event->gpu.seqno || gpu_find_has_other_context(ledger, request, event);
}
