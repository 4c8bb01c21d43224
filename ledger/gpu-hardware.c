/* SPDX-License-Identifier: Apache-2.0
 *
 * What the hardware was given, and which part of it runs. Drivers give an engine its next requests
 * while it works on one, so that it need not wait for them. i915 fills two ports (ELSP), of which
 * the hardware runs one. The DRM scheduler gives a ring up to its limit of jobs, which the ring
 * processes in order. A request runs from the later of two moments: its own record, and the end of
 * the request in front of it. Until then, it waits.
 *
 * Requests may end in another order than that of the queue:
 * - A firmware chooses (the GuC of i915, which has all contexts, and runs one per engine at a
 *   time). The request that ends has run since the previous end, or since it was given. The one in
 *   front was interrupted.
 * - Rings are processed in order, so the two requests were in different rings. Kernels before 6.17
 *   do not report the GPU of a ring. Each request has run since it was given.
 * - An engine that represents several (a GT of xe, whose records do not report which engine has a
 *   job) has a queue for each context, because the context's jobs are in one ring.
 */
#include "config.h"

#include "ledger/gpu-ledger-private.h"

/* The maximum number of a context's requests on the hardware. i915's rings hold fewer. */
#define PARTED_MAX 1024

/* ---- queues ---- */

/* Returns the queue that contains the request. There must be one. */
static struct gpu_queue *
gpu_hardware_queue(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    return request->given == GPU_GIVEN_TO_ENGINE
               ? &gpu_engine_at(ledger, request->engine)->queue
               : &gpu_context_at(&ledger->requests, request->context)->queue;
}

static enum gpu_order
gpu_hardware_order(const struct vg_event *event)
{
    if (event->gpu.flags & VG_GPU_SIDE_BY_SIDE)
        return GPU_SIDE_BY_SIDE;
    return event->gpu.flags & VG_GPU_ANY_ORDER ? GPU_ANY_ORDER : GPU_IN_ORDER;
}

bool
gpu_hardware_is_free(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (gpu_hardware_order(event) != GPU_SIDE_BY_SIDE)
        return gpu_engine_at(ledger, engine)->queue.n_given == 0;
    uint32_t context = gpu_find_context(ledger, event, engine);
    return context == GPU_NO_INDEX ||
           gpu_context_at(&ledger->requests, context)->queue.n_given == 0;
}

/* ---- runs ---- */

/* i915 gives the hardware the newest request of a context. Merges all earlier ones into it. */
static __attribute__((noinline)) void
gpu_hardware_merge_earlier(struct vg_gpu_ledger *ledger, const struct gpu_request *newest,
                           int64_t since_ns)
{
    /* Backwards, up to a merged request, before which all others are merged. */
    uint32_t index = newest->lists[GPU_LIST_CONTEXT].prev;
    for (; index != GPU_NO_INDEX;
         index = gpu_request_at(&ledger->requests, index)->lists[GPU_LIST_CONTEXT].prev) {
        struct gpu_request *request = gpu_request_at(&ledger->requests, index);
        if (request->state == GPU_STATE_MERGED)
            break;
        if (!gpu_is_waiting(request) || request->doubt != GPU_DOUBT_NONE ||
            request->given != GPU_NOT_GIVEN)
            continue;
        if (request->engine != newest->engine)
            gpu_life_set_engine(ledger, index, newest->engine);
        request->engine_weak = false;
        gpu_life_set_state(ledger, index, GPU_STATE_MERGED,
                           MAX(gpu_life_known_ns(request), since_ns));
    }
}

static void
gpu_hardware_start(struct vg_gpu_ledger *ledger, uint32_t index, int64_t since_ns)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_life_set_state(ledger, index, GPU_STATE_RUNNING, since_ns);
    if (request->context != GPU_NO_INDEX && request->lists[GPU_LIST_CONTEXT].prev != GPU_NO_INDEX &&
        gpu_context_at(&ledger->requests, request->context)->coalesces)
        gpu_hardware_merge_earlier(ledger, request, since_ns);
}

/* Runs the first request of the queue since this time or its own last record, unless it runs
 * already. A request in doubt keeps its place until its end is reported. */
static void
gpu_hardware_start_first(struct vg_gpu_ledger *ledger, const struct gpu_queue *queue,
                         int64_t since_ns)
{
    if (queue->n_given == 0)
        return;
    const struct gpu_request *first = gpu_request_at(&ledger->requests, queue->given.first);
    if (gpu_is_waiting(first) && first->doubt == GPU_DOUBT_NONE)
        gpu_hardware_start(ledger, queue->given.first, MAX(gpu_life_known_ns(first), since_ns));
}

static inline void
gpu_hardware_queue_up(struct vg_gpu_ledger *ledger, uint32_t index, struct gpu_request *request,
                      bool at_once)
{
    struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    struct gpu_queue *queue = &engine->queue;
    bool is_first = true;

    request->given = GPU_GIVEN_TO_ENGINE;
    if (engine->order == GPU_SIDE_BY_SIDE && request->context == GPU_NO_INDEX) {
        request->given = GPU_NOT_GIVEN;
    } else if (engine->order == GPU_SIDE_BY_SIDE) {
        request->given = GPU_GIVEN_TO_CONTEXT;
        queue = &gpu_context_at(&ledger->requests, request->context)->queue;
    }
    if (request->given != GPU_NOT_GIVEN) {
        is_first = queue->n_given == 0;
        request->turn = is_first ? 0 : queue->last_turn + 1;
        request->next_turn = 0;
        queue->last_turn = request->turn;
        gpu_queue_append(&ledger->requests, queue, index);
    }
    if ((is_first || at_once) && gpu_is_waiting(request) && request->doubt == GPU_DOUBT_NONE)
        gpu_hardware_start(ledger, index, gpu_life_known_ns(request));
}

void
gpu_hardware_enter(struct vg_gpu_ledger *ledger, uint32_t index)
{
    gpu_hardware_queue_up(ledger, index, gpu_request_at(&ledger->requests, index), false);
}

static int
gpu_hardware_compare_given(const void *a, const void *b, void *data)
{
    const struct gpu_requests *all = data;
    int64_t x = gpu_request_at(all, *(const uint32_t *)a)->given_ns;
    int64_t y = gpu_request_at(all, *(const uint32_t *)b)->given_ns;

    return (x > y) - (x < y);
}

void
gpu_hardware_sort(struct vg_gpu_ledger *ledger, uint32_t engine)
{
    struct gpu_requests *all = &ledger->requests;
    struct gpu_queue *queue = &gpu_engine_at(ledger, engine)->queue;
    g_autoptr(GArray) given = g_array_new(FALSE, FALSE, sizeof(uint32_t));

    while (queue->n_given > 0) {
        const uint32_t first = queue->given.first;
        gpu_queue_remove(all, queue, first);
        g_array_append_val(given, first);
    }
    g_array_sort_with_data(given, gpu_hardware_compare_given, all);
    for (guint i = 0; i < given->len; i++) {
        const uint32_t index = g_array_index(given, uint32_t, i);
        struct gpu_request *request = gpu_request_at(all, index);
        request->turn = i;
        request->next_turn = 0;
        gpu_queue_append(all, queue, index);
        if (i > 0 && request->state == GPU_STATE_RUNNING && request->doubt == GPU_DOUBT_NONE)
            gpu_life_set_state(ledger, index, GPU_STATE_READY, request->state_ns);
    }
    queue->last_turn = given->len;
    gpu_hardware_start_first(ledger, queue, queue->last_end_ns);
}

/* Returns whether the record is about another ring with the same name: the scheduler reports how
 * many jobs its ring has, and this ring would have more. A number that never changes is ignored. */
static bool
gpu_hardware_is_other_ring(struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                           const struct vg_event *event)
{
    struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    const struct gpu_queue *queue = &engine->queue;

    ledger->counts_from_zero |= event->gpu.depth == 1;
    engine->counts |= engine->depth != 0 && engine->depth != event->gpu.depth;
    engine->depth = event->gpu.depth;
    if (!engine->counts || gpu_find_device(event) != VG_NAME_NONE || queue->n_given == 0 ||
        gpu_request_at(&ledger->requests, queue->given.first)->doubt != GPU_DOUBT_NONE)
        return false;
    return event->gpu.depth - (ledger->counts_from_zero ? 1U : 2U) < queue->n_given;
}

void
gpu_hardware_give(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->doubt == GPU_DOUBT_PASSED || request->state == GPU_STATE_MERGED)
        return;
    if (request->given != GPU_NOT_GIVEN) {
        /* Since 5.3, i915 fills both ports again when one changes, and then reports the end of the
         * previous turns. */
        if (event->gpu.flags & VG_GPU_COALESCES && request->given_ns < ledger->now)
            request->next_turn = ++gpu_hardware_queue(ledger, request)->last_turn;
        return;
    }
    if (!(event->gpu.flags & VG_GPU_OF_FENCE))
        gpu_engine_at(ledger, request->engine)->order = gpu_hardware_order(event);
    request->given_ns = ledger->now;
    gpu_hardware_queue_up(ledger, index, request,
                          event->gpu.depth > 0 &&
                              gpu_hardware_is_other_ring(ledger, request, event));
}

/* ---- ends ---- */

/* Removes a request from its queue, and returns the queue. */
static inline struct gpu_queue *
gpu_hardware_remove(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_queue *queue = gpu_hardware_queue(ledger, request);

    request->given = GPU_NOT_GIVEN;
    gpu_queue_remove(&ledger->requests, queue, index);
    return queue;
}

void
gpu_hardware_pass_on(struct vg_gpu_ledger *ledger, uint32_t index, bool is_told)
{
    struct gpu_queue *queue = gpu_hardware_remove(ledger, index);

    if (is_told)
        queue->last_end_ns = ledger->now;
    gpu_hardware_start_first(ledger, queue, queue->last_end_ns);
}

void
gpu_hardware_overtake(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *request = gpu_request_at(all, index);
    const struct gpu_queue *queue = gpu_hardware_queue(ledger, request);
    const struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);

    /* For requests in doubt, the record of the end was lost. */
    while (queue->given.first != index) {
        if (gpu_request_at(all, queue->given.first)->doubt != GPU_DOUBT_NONE)
            gpu_hardware_leave(ledger, queue->given.first, false);
        else if (engine->order != GPU_ANY_ORDER)
            gpu_life_doubt(ledger, queue->given.first, GPU_DOUBT_PASSED);
        else
            break;
    }
    if (!gpu_is_waiting(request))
        return;
    const struct gpu_request *first = gpu_request_at(all, queue->given.first);
    int64_t since_ns = MAX(gpu_life_known_ns(request), queue->last_end_ns);
    if (first->state == GPU_STATE_RUNNING) {
        since_ns = MAX(since_ns, first->state_ns);
        gpu_life_set_state(ledger, queue->given.first, GPU_STATE_READY, since_ns);
    }
    gpu_hardware_start(ledger, index, since_ns);
}

/* Handles the context of a request leaving the hardware: earlier requests of the context that were
 * on it wait again.
 */
static void
gpu_hardware_part_earlier(struct vg_gpu_ledger *ledger, const struct gpu_request *newest)
{
    const struct gpu_requests *all = &ledger->requests;

    if (newest->context == GPU_NO_INDEX || !gpu_context_at(all, newest->context)->coalesces)
        return;
    uint32_t index = newest->lists[GPU_LIST_CONTEXT].prev;
    for (int i = 0; i < PARTED_MAX && index != GPU_NO_INDEX; i++) {
        const struct gpu_request *request = gpu_request_at(all, index);
        if (request->engine != newest->engine ||
            (gpu_is_waiting(request) && request->given == GPU_NOT_GIVEN))
            break;
        if (request->doubt == GPU_DOUBT_NONE && !gpu_is_waiting(request))
            gpu_life_set_state(ledger, index, GPU_STATE_READY, ledger->now);
        if (request->given != GPU_NOT_GIVEN)
            gpu_hardware_remove(ledger, index);
        index = request->lists[GPU_LIST_CONTEXT].prev;
    }
}

/* Handles the end of a turn of a request that has already been given another turn. */
static void
gpu_hardware_take_next_turn(struct vg_gpu_ledger *ledger, uint32_t index)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    struct gpu_queue *queue = gpu_hardware_queue(ledger, request);

    gpu_queue_remove(&ledger->requests, queue, index);
    request->turn = request->next_turn;
    request->next_turn = 0;
    gpu_queue_insert(&ledger->requests, queue, index);
    if (queue->given.first == index)
        return;
    if (request->state == GPU_STATE_RUNNING && request->doubt == GPU_DOUBT_NONE)
        gpu_life_set_state(ledger, index, GPU_STATE_READY, ledger->now);
    queue->last_end_ns = ledger->now;
    gpu_hardware_start_first(ledger, queue, ledger->now);
}

void
gpu_hardware_take_off(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (request->next_turn > 0 && request->given != GPU_NOT_GIVEN) {
        gpu_hardware_take_next_turn(ledger, index);
        return;
    }
    if (request->doubt == GPU_DOUBT_NONE) {
        if (request->state == GPU_STATE_RUNNING)
            gpu_life_set_state(ledger, index, GPU_STATE_READY, ledger->now);
        else if (request->given == GPU_NOT_GIVEN && request->state_ns < ledger->now)
            gpu_life_resume(ledger, index, GPU_STATE_READY); /* it ran in the meantime */
    }
    if (request->given == GPU_NOT_GIVEN)
        return;
    struct gpu_queue *queue = gpu_hardware_remove(ledger, index);
    gpu_hardware_part_earlier(ledger, request);
    queue->last_end_ns = ledger->now;
    gpu_hardware_start_first(ledger, queue, ledger->now);
}
