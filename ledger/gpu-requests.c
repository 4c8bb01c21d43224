/* SPDX-License-Identifier: Apache-2.0
 *
 * One hash table for all keys of requests: a key's hash starts with its kind. Chains connect the
 * requests, newest first, so a pointer or number that is reused finds the latest request.
 *
 * The tables grow with the number of requests, so a few requests and their cells fit into the
 * caches.
 */
#include "config.h"

#include "ledger/gpu-requests.h"

#include <string.h>

/* Cells for each request, which has up to four keys, and for each context. */
#define CELLS_PER_ENTRY 8

#define FIRST_ROOM 64

/* Fibonacci hashing of two integers. */
static uint32_t
mix(uint64_t a, uint64_t b, uint32_t mask)
{
    uint64_t hash = a * UINT64_C(0x9e3779b97f4a7c15);

    hash ^= hash >> 29;
    hash = (hash + b) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(hash >> 32) & mask;
}

static uint32_t
power_of_two(uint32_t at_least)
{
    uint32_t n = 1;

    while (n < at_least)
        n *= 2;
    return n;
}

/* Returns empty cells. *ret_mask limits an index into them. */
static uint32_t *
new_cells(uint32_t entries, uint32_t *ret_mask)
{
    uint32_t n = power_of_two(entries * CELLS_PER_ENTRY);
    uint32_t *cells = g_new(uint32_t, n);

    memset(cells, 0xff, n * sizeof(*cells)); /* GPU_NO_INDEX */
    *ret_mask = n - 1;
    return cells;
}

void
gpu_requests_init(struct gpu_requests *all, uint32_t requests_max, uint32_t contexts_max)
{
    *all = (struct gpu_requests){
        .requests_max = requests_max,
        .contexts_max = contexts_max,
        .free_request = GPU_NO_INDEX,
        .free_context = GPU_NO_INDEX,
        .newest_context = GPU_NO_INDEX,
        .oldest_context = GPU_NO_INDEX,
        .age = {GPU_NO_INDEX, GPU_NO_INDEX},
        .doubt = {GPU_NO_INDEX, GPU_NO_INDEX},
        .passed = {GPU_NO_INDEX, GPU_NO_INDEX},
    };
    all->request_cells = new_cells(FIRST_ROOM, &all->request_mask);
    all->context_cells = new_cells(FIRST_ROOM, &all->context_mask);
}

void
gpu_requests_clear(struct gpu_requests *all)
{
    g_free(all->requests);
    g_free(all->contexts);
    g_free(all->request_cells);
    g_free(all->context_cells);
}

/* ---- the index of requests ---- */

static uint32_t
cell_of_workload(const struct gpu_requests *all, uint16_t device, int32_t vgpu, uint64_t id)
{
    return mix(id, (uint64_t)GPU_KEY_ID << 56 | (uint64_t)device << 32 | (uint32_t)vgpu,
               all->request_mask);
}

static uint32_t
cell_of(const struct gpu_requests *all, enum gpu_key key, uint64_t value, uint32_t scope)
{
    /* Bit 55 distinguishes jobs from workloads. */
    return mix(value, (uint64_t)key << 56 | UINT64_C(1) << 55 | scope, all->request_mask);
}

/* Returns the cell of a request's key, or the cell for it. */
static uint32_t
cell_of_request(const struct gpu_requests *all, const struct gpu_request *request, enum gpu_key key)
{
    switch (key) {
    case GPU_KEY_SEQNO:
        return cell_of(all, key, request->seqno, request->context);
    case GPU_KEY_ID:
        if (request->id_space == VG_GPU_ID_WORKLOAD)
            return cell_of_workload(all, request->device, request->vgpu, request->id);
        return cell_of(all, key, request->id, request->engine);
    case GPU_KEY_GLOBAL:
        return cell_of(all, key, request->global, request->engine);
    case GPU_KEY_FENCE:
    case GPU_KEY_MAX:
        break;
    }
    return cell_of(all, GPU_KEY_FENCE, request->fence, 0);
}

static bool
has_key(const struct gpu_request *request, enum gpu_key key)
{
    switch (key) {
    case GPU_KEY_SEQNO:
        return request->context != GPU_NO_INDEX;
    case GPU_KEY_ID:
        return request->id_space != VG_GPU_ID_NONE;
    case GPU_KEY_GLOBAL:
        return request->global != 0;
    case GPU_KEY_FENCE:
    case GPU_KEY_MAX:
        break;
    }
    return request->fence != 0;
}

static void
index_key(struct gpu_requests *all, uint32_t index, enum gpu_key key)
{
    struct gpu_request *request = &all->requests[index];
    uint32_t *cell = &all->request_cells[cell_of_request(all, request, key)];

    request->chain[key] = *cell;
    *cell = index * GPU_KEY_MAX + key;
}

/* Returns a place in a chain: a request, and one of its chains. */
static uint32_t *
chain_of(const struct gpu_requests *all, uint32_t place)
{
    return &all->requests[place / GPU_KEY_MAX].chain[place % GPU_KEY_MAX];
}

static void
unindex_key(struct gpu_requests *all, uint32_t index, enum gpu_key key)
{
    const struct gpu_request *request = &all->requests[index];
    uint32_t *at = &all->request_cells[cell_of_request(all, request, key)];
    uint32_t place = index * GPU_KEY_MAX + key;

    while (*at != place)
        at = chain_of(all, *at);
    *at = request->chain[key];
}

static uint32_t
gpu_requests_by_seqno(const struct gpu_requests *all, uint32_t context, uint64_t seqno)
{
    uint32_t at = all->request_cells[cell_of(all, GPU_KEY_SEQNO, seqno, context)];

    for (; at != GPU_NO_INDEX; at = *chain_of(all, at)) {
        const struct gpu_request *request = &all->requests[at / GPU_KEY_MAX];
        if (at % GPU_KEY_MAX == GPU_KEY_SEQNO && request->context == context &&
            request->seqno == seqno)
            return at / GPU_KEY_MAX;
    }
    return GPU_NO_INDEX;
}

uint32_t
gpu_requests_by_workload(const struct gpu_requests *all, uint16_t device, int32_t vgpu, uint64_t id)
{
    uint32_t at = all->request_cells[cell_of_workload(all, device, vgpu, id)];

    for (; at != GPU_NO_INDEX; at = *chain_of(all, at)) {
        const struct gpu_request *request = &all->requests[at / GPU_KEY_MAX];
        if (at % GPU_KEY_MAX == GPU_KEY_ID && request->id_space == VG_GPU_ID_WORKLOAD &&
            request->id == id && request->vgpu == vgpu && request->device == device)
            return at / GPU_KEY_MAX;
    }
    return GPU_NO_INDEX;
}

static uint32_t
by_engine(const struct gpu_requests *all, enum gpu_key key, uint32_t engine, uint64_t value)
{
    uint32_t at = all->request_cells[cell_of(all, key, value, engine)];

    for (; at != GPU_NO_INDEX; at = *chain_of(all, at)) {
        const struct gpu_request *request = &all->requests[at / GPU_KEY_MAX];
        if (at % GPU_KEY_MAX != key || request->engine != engine)
            continue;
        if (key == GPU_KEY_GLOBAL ? request->global == value
                                  : request->id_space == VG_GPU_ID_JOB && request->id == value)
            return at / GPU_KEY_MAX;
    }
    return GPU_NO_INDEX;
}

uint32_t
gpu_requests_by_job(const struct gpu_requests *all, uint32_t engine, uint64_t id)
{
    return by_engine(all, GPU_KEY_ID, engine, id);
}

uint32_t
gpu_requests_by_global(const struct gpu_requests *all, uint32_t engine, uint64_t global)
{
    return by_engine(all, GPU_KEY_GLOBAL, engine, global);
}

uint32_t
gpu_requests_by_fence(const struct gpu_requests *all, uint64_t fence)
{
    uint32_t at = all->request_cells[cell_of(all, GPU_KEY_FENCE, fence, 0)];

    for (; at != GPU_NO_INDEX; at = *chain_of(all, at)) {
        if (at % GPU_KEY_MAX == GPU_KEY_FENCE && all->requests[at / GPU_KEY_MAX].fence == fence)
            return at / GPU_KEY_MAX;
    }
    return GPU_NO_INDEX;
}

void
gpu_request_set_seqno(struct gpu_requests *all, uint32_t index, uint32_t context, uint64_t seqno)
{
    struct gpu_request *request = &all->requests[index];

    request->context = context;
    request->seqno = seqno;
    index_key(all, index, GPU_KEY_SEQNO);
    gpu_list_insert_by_seqno(all, &all->contexts[context].open, index);
}

void
gpu_request_set_id(struct gpu_requests *all, uint32_t index, uint8_t id_space, uint64_t id)
{
    all->requests[index].id_space = id_space;
    all->requests[index].id = id;
    index_key(all, index, GPU_KEY_ID);
}

void
gpu_request_set_global(struct gpu_requests *all, uint32_t index, uint64_t global)
{
    all->requests[index].global = global;
    index_key(all, index, GPU_KEY_GLOBAL);
}

void
gpu_request_set_fence(struct gpu_requests *all, uint32_t index, uint64_t fence)
{
    all->requests[index].fence = fence;
    index_key(all, index, GPU_KEY_FENCE);
}

void
gpu_request_drop_key(struct gpu_requests *all, uint32_t index, enum gpu_key key)
{
    struct gpu_request *request = &all->requests[index];

    if (!has_key(request, key))
        return;
    unindex_key(all, index, key);
    switch (key) {
    case GPU_KEY_SEQNO:
        gpu_list_remove(all, &all->contexts[request->context].open, GPU_LIST_CONTEXT, index);
        request->context = GPU_NO_INDEX;
        break;
    case GPU_KEY_ID:
        request->id_space = VG_GPU_ID_NONE;
        break;
    case GPU_KEY_GLOBAL:
        request->global = 0;
        break;
    case GPU_KEY_FENCE:
    case GPU_KEY_MAX:
        request->fence = 0;
        break;
    }
}

void
gpu_request_set_engine(struct gpu_requests *all, uint32_t index, uint32_t engine)
{
    static const enum gpu_key scoped[] = {GPU_KEY_ID, GPU_KEY_GLOBAL};
    struct gpu_request *request = &all->requests[index];

    for (size_t i = 0; i < G_N_ELEMENTS(scoped); i++) {
        if (has_key(request, scoped[i]))
            unindex_key(all, index, scoped[i]);
    }
    request->engine = engine;
    for (size_t i = 0; i < G_N_ELEMENTS(scoped); i++) {
        if (has_key(request, scoped[i]))
            index_key(all, index, scoped[i]);
    }
}

/* ---- requests ---- */

bool
gpu_requests_is_full(const struct gpu_requests *all)
{
    return all->open == all->requests_max;
}

/* Puts the oldest request of a chain first. */
static uint32_t
gpu_requests_reverse_chain(const struct gpu_requests *all, uint32_t at)
{
    uint32_t reversed = GPU_NO_INDEX, next;

    for (; at != GPU_NO_INDEX; at = next) {
        next = *chain_of(all, at);
        *chain_of(all, at) = reversed;
        reversed = at;
    }
    return reversed;
}

static void
gpu_requests_grow_cells(struct gpu_requests *all)
{
    g_autofree uint32_t *cells = all->request_cells;
    const uint32_t mask = all->request_mask;
    uint32_t next;

    all->request_cells = new_cells(all->requests_room, &all->request_mask);
    for (uint32_t i = 0; i <= mask; i++) {
        for (uint32_t at = gpu_requests_reverse_chain(all, cells[i]); at != GPU_NO_INDEX;
             at = next) {
            next = *chain_of(all, at);
            index_key(all, at / GPU_KEY_MAX, at % GPU_KEY_MAX);
        }
    }
}

static uint32_t
take_request(struct gpu_requests *all)
{
    uint32_t index = all->free_request;

    if (index != GPU_NO_INDEX) {
        all->free_request = all->requests[index].lists[GPU_LIST_AGE].next;
        return index;
    }
    if (all->n_requests == all->requests_room) {
        all->requests_room = CLAMP(all->requests_room * 2, FIRST_ROOM, all->requests_max);
        all->requests = g_renew(struct gpu_request, all->requests, all->requests_room);
        gpu_requests_grow_cells(all);
    }
    return all->n_requests++;
}

uint32_t
gpu_request_new(struct gpu_requests *all)
{
    uint32_t index = take_request(all);

    all->requests[index] = (struct gpu_request){
        .queued_ns = VG_TIME_UNKNOWN,
        .submitted_ns = VG_TIME_UNKNOWN,
        .ready_ns = VG_TIME_UNKNOWN,
        .run_ns = VG_TIME_UNKNOWN,
        .given_ns = VG_TIME_UNKNOWN,
        .passed_ns = VG_TIME_UNKNOWN,
        .order = all->next_order++,
        .context = GPU_NO_INDEX,
        .engine = GPU_NO_INDEX,
        .user = GPU_NO_INDEX,
        .vgpu = VG_NONE,
        .in_use = true,
    };
    gpu_list_append(all, &all->age, GPU_LIST_AGE, index);
    all->open++;
    return index;
}

static struct gpu_list *
age_list(struct gpu_requests *all, const struct gpu_request *request)
{
    return request->doubt == GPU_DOUBT_NONE ? &all->age : &all->doubt;
}

void
gpu_request_set_doubt(struct gpu_requests *all, uint32_t index, enum gpu_doubt doubt)
{
    struct gpu_request *request = &all->requests[index];

    gpu_list_remove(all, age_list(all, request), GPU_LIST_AGE, index);
    request->doubt = (uint8_t)doubt;
    gpu_list_append(all, age_list(all, request), GPU_LIST_AGE, index);
}

void
gpu_request_free(struct gpu_requests *all, uint32_t index)
{
    struct gpu_request *request = &all->requests[index];

    for (enum gpu_key key = 0; key < GPU_KEY_MAX; key++)
        gpu_request_drop_key(all, index, key);
    gpu_list_remove(all, age_list(all, request), GPU_LIST_AGE, index);
    request->in_use = false;
    request->lists[GPU_LIST_AGE].next = all->free_request;
    all->free_request = index;
    all->open--;
}

/* ---- contexts ---- */

bool
gpu_contexts_are_full(const struct gpu_requests *all)
{
    return all->n_contexts == all->contexts_max && all->free_context == GPU_NO_INDEX;
}

static void
leave_order(struct gpu_requests *all, const struct gpu_context *context)
{
    if (context->prev == GPU_NO_INDEX)
        all->oldest_context = context->next;
    else
        all->contexts[context->prev].next = context->next;
    if (context->next == GPU_NO_INDEX)
        all->newest_context = context->prev;
    else
        all->contexts[context->next].prev = context->prev;
}

static void
become_newest(struct gpu_requests *all, uint32_t index)
{
    struct gpu_context *context = &all->contexts[index];

    context->prev = all->newest_context;
    context->next = GPU_NO_INDEX;
    if (all->newest_context == GPU_NO_INDEX)
        all->oldest_context = index;
    else
        all->contexts[all->newest_context].next = index;
    all->newest_context = index;
}

static bool
is_context(const struct gpu_context *context, uint64_t number, uint16_t device, uint32_t engine)
{
    return context->number == number &&
           (context->device == device || !context->device || !device) &&
           (context->engine == engine || context->engine == GPU_NO_INDEX || engine == GPU_NO_INDEX);
}

static void
mark_used(struct gpu_requests *all, uint32_t index)
{
    if (index == all->newest_context)
        return;
    leave_order(all, &all->contexts[index]);
    become_newest(all, index);
}

uint32_t
gpu_context_find(struct gpu_requests *all, uint64_t number, uint16_t device, uint32_t engine)
{
    uint32_t index = all->context_cells[mix(number, 0, all->context_mask)];

    for (; index != GPU_NO_INDEX; index = all->contexts[index].chain) {
        if (is_context(&all->contexts[index], number, device, engine)) {
            mark_used(all, index);
            return index;
        }
    }
    return GPU_NO_INDEX;
}

uint32_t
gpu_requests_by_number(struct gpu_requests *all, uint64_t number, uint16_t device, uint32_t engine,
                       uint64_t seqno)
{
    uint32_t index = all->context_cells[mix(number, 0, all->context_mask)];

    for (; index != GPU_NO_INDEX; index = all->contexts[index].chain) {
        if (!is_context(&all->contexts[index], number, device, engine))
            continue;
        uint32_t request = gpu_requests_by_seqno(all, index, seqno);
        if (request != GPU_NO_INDEX) {
            mark_used(all, index);
            return request;
        }
    }
    return GPU_NO_INDEX;
}

static void
gpu_requests_grow_context_cells(struct gpu_requests *all)
{
    g_free(all->context_cells);
    all->context_cells = new_cells(all->contexts_room, &all->context_mask);
    for (uint32_t i = all->oldest_context; i != GPU_NO_INDEX; i = all->contexts[i].next) {
        struct gpu_context *context = &all->contexts[i];
        uint32_t *cell = &all->context_cells[mix(context->number, 0, all->context_mask)];
        context->chain = *cell;
        *cell = i;
    }
}

static uint32_t
take_context(struct gpu_requests *all)
{
    uint32_t index = all->free_context;

    if (index != GPU_NO_INDEX) {
        all->free_context = all->contexts[index].next;
        return index;
    }
    if (all->n_contexts == all->contexts_room) {
        all->contexts_room = CLAMP(all->contexts_room * 2, FIRST_ROOM, all->contexts_max);
        all->contexts = g_renew(struct gpu_context, all->contexts, all->contexts_room);
        gpu_requests_grow_context_cells(all);
    }
    return all->n_contexts++;
}

uint32_t
gpu_context_new(struct gpu_requests *all, uint64_t number, uint16_t device, uint32_t engine)
{
    uint32_t index = take_context(all);
    uint32_t *cell = &all->context_cells[mix(number, 0, all->context_mask)];

    all->contexts[index] = (struct gpu_context){
        .number = number,
        .device = device,
        .engine = engine,
        .owner = GPU_NO_INDEX,
        .vgpu = VG_NONE,
        .in_use = true,
        .open = {GPU_NO_INDEX, GPU_NO_INDEX},
        .chain = *cell,
    };
    gpu_queue_init(&all->contexts[index].queue);
    *cell = index;
    become_newest(all, index);
    return index;
}

void
gpu_context_free(struct gpu_requests *all, uint32_t index)
{
    struct gpu_context *context = &all->contexts[index];
    uint32_t *at = &all->context_cells[mix(context->number, 0, all->context_mask)];

    while (*at != index)
        at = &all->contexts[*at].chain;
    *at = context->chain;
    leave_order(all, context);
    context->in_use = false;
    context->next = all->free_context;
    all->free_context = index;
}
