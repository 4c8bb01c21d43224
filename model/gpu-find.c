/* SPDX-License-Identifier: Apache-2.0
 *
 * Which request a record is of, by whatever ids the record has, and what it means when these say
 * different things: an address or a number that is used again, an end that was missed, two records
 * of one request that were taken for two.
 */
#include "config.h"

#include "model/gpu-ledger-private.h"

static uint32_t
find_by_id(const struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    switch ((enum vg_gpu_id_space)event->gpu.id_space) {
    case VG_GPU_ID_WORKLOAD:
        return gpu_requests_by_workload(&ledger->requests, event->gpu.device, event->gpu.vgpu,
                                        event->gpu.id);
    case VG_GPU_ID_JOB:
        return engine == GPU_NO_INDEX
                   ? GPU_NO_INDEX
                   : gpu_requests_by_job(&ledger->requests, engine, event->gpu.id);
    case VG_GPU_ID_GLOBAL:
        return engine == GPU_NO_INDEX || event->gpu.context != 0
                   ? GPU_NO_INDEX
                   : gpu_requests_by_global(&ledger->requests, engine, event->gpu.id);
    case VG_GPU_ID_NONE:
    case VG_GPU_ID_OBJECT:
    case VG_GPU_ID_PROCESS:
    case VG_GPU_ID_MAX:
        break;
    }
    return GPU_NO_INDEX;
}

uint32_t
gpu_context_engine(const struct vg_event *event, uint32_t engine)
{
    return event->gpu.flags & VG_GPU_CONTEXT_OF_ENGINE && !(event->gpu.flags & VG_GPU_ENGINE_WEAK)
               ? engine
               : GPU_NO_INDEX;
}

uint16_t
gpu_sure_device(const struct vg_event *event)
{
    return event->gpu.flags & (VG_GPU_OF_FENCE | VG_GPU_DEVICE_WEAK) ? VG_NAME_NONE
                                                                     : event->gpu.device;
}

static uint32_t
find_by_seqno(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (event->gpu.context == 0)
        return GPU_NO_INDEX;
    return gpu_requests_by_number(&ledger->requests, event->gpu.context, gpu_sure_device(event),
                                  gpu_context_engine(event, engine), event->gpu.seqno);
}

/* An address is used again: what says that it is another job is no match. */
static bool
contradicts(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
            const struct vg_event *event, uint32_t engine)
{
    if (request->id_space == event->gpu.id_space && request->id_space != VG_GPU_ID_NONE &&
        (request->id != event->gpu.id ||
         (request->id_space == VG_GPU_ID_JOB && request->engine != engine)))
        return true;
    if (request->context == GPU_NO_INDEX || event->gpu.context == 0)
        return event->gpu.op == VG_GPU_QUEUED && request->state >= GPU_STATE_RUNNING;
    return request->seqno != event->gpu.seqno ||
           gpu_context_at(&ledger->requests, request->context)->number != event->gpu.context;
}

void
gpu_ledger_end_missed(struct vg_gpu_ledger *ledger, uint32_t index)
{
    ledger->stats.discontinuities +=
        gpu_request_at(&ledger->requests, index)->state != GPU_STATE_PASSED;
    gpu_life_retire(ledger, index);
}

/* index: what other ids have found, or GPU_NO_INDEX. */
static uint32_t
find_by_fence(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine,
              uint32_t index)
{
    uint32_t by_fence = event->gpu.fence == 0
                            ? GPU_NO_INDEX
                            : gpu_requests_by_fence(&ledger->requests, event->gpu.fence);

    if (by_fence == GPU_NO_INDEX || by_fence == index)
        return index;
    if (index == GPU_NO_INDEX &&
        !contradicts(ledger, gpu_request_at(&ledger->requests, by_fence), event, engine))
        return by_fence;
    if (event->gpu.op > VG_GPU_RUNNING)
        return index;
    /* The end of that one may be the end of this one, too. */
    gpu_ledger_end_missed(ledger, by_fence);
    return index != GPU_NO_INDEX && gpu_request_at(&ledger->requests, index)->in_use ? index
                                                                                     : GPU_NO_INDEX;
}

uint8_t
gpu_queued_by(const struct vg_event *event)
{
    if (event->gpu.op != VG_GPU_QUEUED || event->gpu.id_space != VG_GPU_ID_JOB)
        return 0;
    return event->gpu.flags & VG_GPU_DEVICE_WEAK ? GPU_QUEUED_BY_DRIVER : GPU_QUEUED_BY_SCHEDULER;
}

/* Two records of one request were taken for two: the workload takes what the other has. */
static void
unite(struct vg_gpu_ledger *ledger, uint32_t workload, uint32_t other)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request from = *gpu_request_at(all, other);

    gpu_life_undo(ledger, other);
    struct gpu_request *request = gpu_request_at(all, workload);
    if (request->context == GPU_NO_INDEX && from.context != GPU_NO_INDEX)
        gpu_request_set_seqno(all, workload, from.context, from.seqno);
    if (request->global == 0 && from.global != 0)
        gpu_request_set_global(all, workload, from.global);
    if (request->fence == 0 && from.fence != 0)
        gpu_request_set_fence(all, workload, from.fence);
    if (request->state < GPU_STATE_SUBMITTED)
        gpu_life_set_state(ledger, request, GPU_STATE_SUBMITTED);
    if (request->state < from.state && from.state <= GPU_STATE_RUNNING)
        gpu_life_set_state(ledger, request, from.state);
}

/* When it was first known to be out of the queue of its vGPU. */
static int64_t
left_queue_ns(const struct gpu_request *request)
{
    if (request->state == GPU_STATE_QUEUED)
        return VG_TIME_MAX;
    if (request->submitted_ns != VG_TIME_UNKNOWN)
        return request->submitted_ns;
    return request->ready_ns != VG_TIME_UNKNOWN ? request->ready_ns : request->run_ns;
}

static bool
are_of_one_queue(const struct gpu_request *a, const struct gpu_request *b)
{
    return a->id_space == VG_GPU_ID_WORKLOAD && b->id_space == VG_GPU_ID_WORKLOAD &&
           a->device == b->device && a->vgpu == b->vgpu && a->engine == b->engine &&
           a->user == b->user && a->user_ns == b->user_ns;
}

static bool
is_known_workload(const struct gpu_request *request)
{
    return request->queued_ns != VG_TIME_UNKNOWN && request->state <= GPU_STATE_RUNNING;
}

static void
take_name(struct vg_gpu_ledger *ledger, uint32_t index, const struct gpu_request *from)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_submission *last = &gpu_user_at(ledger, request->user)->last;

    if (request->state != GPU_STATE_QUEUED && last->queued_ns == request->queued_ns) {
        last->wait_ns += last->queued_ns - from->queued_ns;
        last->queued_ns = from->queued_ns;
    }
    request->queued_ns = from->queued_ns;
    if (request->state == GPU_STATE_QUEUED)
        request->state_ns = request->queued_ns;
    gpu_request_set_id(&ledger->requests, index, from->id_space, from->id);
}

bool
gpu_ledger_exchange(struct vg_gpu_ledger *ledger, uint32_t adopted, uint32_t other)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request a = *gpu_request_at(all, adopted), b = *gpu_request_at(all, other);

    if (!a.adopted || a.user == GPU_NO_INDEX || !are_of_one_queue(&a, &b) ||
        !is_known_workload(&a) || !is_known_workload(&b) || left_queue_ns(&a) < b.queued_ns ||
        left_queue_ns(&b) < a.queued_ns)
        return false;
    gpu_request_drop_key(all, adopted, GPU_KEY_ID);
    gpu_request_drop_key(all, other, GPU_KEY_ID);
    take_name(ledger, adopted, &b);
    take_name(ledger, other, &a);
    gpu_request_at(all, adopted)->adopted = false;
    return true;
}

/* A job that is queued again under the id of one that is open: that one is over. */
static uint32_t
is_new_life(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t by_id)
{
    if (event->gpu.op != VG_GPU_QUEUED || by_id == GPU_NO_INDEX)
        return by_id;
    const struct gpu_request *request = gpu_request_at(&ledger->requests, by_id);
    if (event->gpu.id_space == VG_GPU_ID_WORKLOAD && gpu_is_waiting(request))
        gpu_life_cancel(ledger, by_id);
    else if (event->gpu.id_space == VG_GPU_ID_WORKLOAD || request->state == GPU_STATE_RUNNING ||
             request->queued_by & gpu_queued_by(event))
        gpu_ledger_end_missed(ledger, by_id);
    else
        return by_id;
    return GPU_NO_INDEX;
}

/* Two GPUs whose rings have the same name give their jobs the same numbers. */
static bool
is_of_other_gpu(const struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t by_id)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, by_id);

    if (event->gpu.id_space != VG_GPU_ID_JOB)
        return false;
    if (request->fence != 0 && event->gpu.fence != 0 && request->fence != event->gpu.fence)
        return true;
    return request->context != GPU_NO_INDEX && event->gpu.context != 0 &&
           gpu_context_at(&ledger->requests, request->context)->number != event->gpu.context;
}

uint32_t
gpu_ledger_find(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    uint32_t by_id = find_by_id(ledger, event, engine);
    if (by_id != GPU_NO_INDEX && is_of_other_gpu(ledger, event, by_id))
        by_id = GPU_NO_INDEX;
    by_id = is_new_life(ledger, event, by_id);
    uint32_t by_seqno = find_by_seqno(ledger, event, engine);

    if (by_id != GPU_NO_INDEX && by_seqno != GPU_NO_INDEX && by_id != by_seqno) {
        const struct gpu_request *other = gpu_request_at(&ledger->requests, by_seqno);
        if (other->state == GPU_STATE_PASSED) {
            if (gpu_life_name_held(ledger, by_id, by_seqno))
                return GPU_NO_INDEX;
        } else if (other->id_space == VG_GPU_ID_NONE) {
            unite(ledger, by_id, by_seqno);
        } else if (gpu_ledger_exchange(ledger, by_seqno, by_id)) {
            by_id = by_seqno;
        }
    }
    return find_by_fence(ledger, event, engine, by_id != GPU_NO_INDEX ? by_id : by_seqno);
}
