/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered lists of requests: the hardware's queue by turns, those of a context by seqno, and those
 * of a ring by their first records.
 */
#include "config.h"

#include "ledger/gpu-requests.h"

/* The maximum number of later requests in a list before which a request is inserted. */
#define LATE_REQUESTS_MAX 256

void
gpu_queue_init(struct gpu_queue *queue)
{
    *queue = (struct gpu_queue){
        .given = {GPU_NO_INDEX, GPU_NO_INDEX},
        .last_end_ns = VG_TIME_UNKNOWN,
    };
}

/* Inserts the request after prev, or as the first one. */
static void
gpu_list_insert(struct gpu_requests *all, struct gpu_list *list, enum gpu_list_kind kind,
                uint32_t index, uint32_t prev)
{
    struct gpu_link *link = &all->requests[index].lists[kind];

    link->prev = prev;
    link->next = prev == GPU_NO_INDEX ? list->first : all->requests[prev].lists[kind].next;
    if (link->prev == GPU_NO_INDEX)
        list->first = index;
    else
        all->requests[link->prev].lists[kind].next = index;
    if (link->next == GPU_NO_INDEX)
        list->last = index;
    else
        all->requests[link->next].lists[kind].prev = index;
}

void
gpu_queue_insert(struct gpu_requests *all, struct gpu_queue *queue, uint32_t index)
{
    uint32_t prev = queue->given.last;

    for (int i = 0; i < LATE_REQUESTS_MAX && prev != GPU_NO_INDEX &&
                    all->requests[prev].turn > all->requests[index].turn;
         i++)
        prev = all->requests[prev].lists[GPU_LIST_HARDWARE].prev;
    gpu_list_insert(all, &queue->given, GPU_LIST_HARDWARE, index, prev);
    queue->n_given++;
}

bool
gpu_seqno_is_before(uint64_t a, uint64_t b)
{
    if (a <= UINT32_MAX && b <= UINT32_MAX)
        return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
    return a < b;
}

void
gpu_list_insert_by_seqno(struct gpu_requests *all, struct gpu_list *list, uint32_t index)
{
    const uint64_t seqno = all->requests[index].seqno;
    uint32_t prev = list->last;

    for (int i = 0; i < LATE_REQUESTS_MAX && prev != GPU_NO_INDEX &&
                    gpu_seqno_is_before(seqno, all->requests[prev].seqno);
         i++)
        prev = all->requests[prev].lists[GPU_LIST_CONTEXT].prev;
    gpu_list_insert(all, list, GPU_LIST_CONTEXT, index, prev);
}

void
gpu_list_insert_by_order(struct gpu_requests *all, struct gpu_list *list, uint32_t index)
{
    const uint32_t order = all->requests[index].order;
    uint32_t prev = list->last;

    for (int i = 0; i < LATE_REQUESTS_MAX && prev != GPU_NO_INDEX &&
                    gpu_order_is_before(order, all->requests[prev].order);
         i++)
        prev = all->requests[prev].lists[GPU_LIST_RING].prev;
    gpu_list_insert(all, list, GPU_LIST_RING, index, prev);
}
