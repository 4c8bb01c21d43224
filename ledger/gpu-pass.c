/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a ring that later ones have passed. A ring processes its requests in order. If a
 * later one is done, an earlier one is done, too, and the records of its end are missing. However,
 * the scheduler has a queue for each of its users, and a request that waits there for others
 * reaches the ring late. Its next record proves that it was not passed at all.
 *
 * Passing therefore does not change the request. It only makes readers treat the request as partial
 * instead of open, until it has another record. Requests that the ring was given are passed in
 * ledger/gpu-hardware.c, and those of a context, by its seqnos, in ledger/gpu-life.c.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

/* The maximum number of earlier requests that one checks when it is done but does not pass. */
#define NOT_PASSED_MAX 256

void
gpu_pass_enter(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (!request->is_of_ring || request->in_ring || gpu_is_passed(request) ||
        request->doubt != GPU_DOUBT_NONE)
        return;
    request->in_ring = true;
    gpu_list_insert_by_order(&ledger->requests, &gpu_engine_at(ledger, request->engine)->ring,
                             index);
}

void
gpu_pass_leave(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->in_ring)
        gpu_list_remove(&ledger->requests, &gpu_engine_at(ledger, request->engine)->ring,
                        GPU_LIST_RING, index);
    else if (gpu_is_passed(request))
        gpu_list_remove(&ledger->requests, &ledger->requests.passed, GPU_LIST_RING, index);
    request->in_ring = false;
    request->passed_ns = VG_TIME_UNKNOWN;
}

/* Returns whether the first request came before the other one, which is done. If the ring was given
 * both, its queue determines the order. */
static bool
gpu_pass_is_passed(const struct gpu_request *request, const struct gpu_request *done)
{
    if (request->vgpu != done->vgpu)
        return false;
    return request->given == GPU_NOT_GIVEN ? done->queued_ns != VG_TIME_UNKNOWN
                                           : done->given == GPU_NOT_GIVEN;
}

void
gpu_pass_earlier(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *done = gpu_request_at(all, index);
    uint32_t next;

    if (!done->is_of_ring)
        return;
    struct gpu_list *ring = &gpu_engine_at(ledger, done->engine)->ring;
    int not_passed = 0;
    for (uint32_t first = ring->first; first != GPU_NO_INDEX && not_passed < NOT_PASSED_MAX;
         first = next) {
        struct gpu_request *request = gpu_request_at(all, first);
        next = request->lists[GPU_LIST_RING].next;
        if (!gpu_order_is_before(request->order, done->order))
            break;
        if (!gpu_pass_is_passed(request, done)) {
            not_passed++;
            continue;
        }
        gpu_wait_count(ledger, request, false);
        gpu_pass_leave(ledger, first);
        request->passed_ns = ledger->now;
        gpu_wait_count(ledger, request, true);
        gpu_list_append(all, &all->passed, GPU_LIST_RING, first);
    }
}

void
gpu_pass_take_back(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (!gpu_is_passed(request))
        return;
    gpu_wait_count(ledger, request, false);
    gpu_pass_leave(ledger, index);
    gpu_pass_enter(ledger, index);
    gpu_wait_count(ledger, request, true);
}
