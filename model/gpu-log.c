/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-log.h"

#include <string.h>

#include "model/vm-name.h"

/* ---- chunks ---- */

static void
vm_clear(void *data)
{
    struct vg_gpu_log_vm *vm = data;

    g_free(vm->name);
    g_free(vm->uuid);
}

static struct vg_gpu_log_chunk *
chunk_new(void)
{
    struct vg_gpu_log_chunk *chunk = g_new0(struct vg_gpu_log_chunk, 1);

    chunk->refs = 1;
    chunk->engines = g_array_new(FALSE, FALSE, sizeof(struct vg_gpu_log_engine));
    chunk->vms = g_array_new(FALSE, FALSE, sizeof(struct vg_gpu_log_vm));
    chunk->requests = g_array_new(FALSE, FALSE, sizeof(struct vg_gpu_log_request));
    g_array_set_clear_func(chunk->vms, vm_clear);
    return chunk;
}

static void
chunk_unref(void *data)
{
    struct vg_gpu_log_chunk *chunk = data;

    if (!g_atomic_int_dec_and_test(&chunk->refs))
        return;
    g_array_unref(chunk->engines);
    g_array_unref(chunk->vms);
    g_array_unref(chunk->requests);
    g_free(chunk);
}

static void
add_vm(struct vg_gpu_log_chunk *chunk, const char *name, const char *uuid)
{
    const struct vg_gpu_log_vm vm = {g_strdup(name), g_strdup(uuid)};

    g_array_append_val(chunk->vms, vm);
}

static struct vg_gpu_log_chunk *
chunk_copy(const struct vg_gpu_log_chunk *from)
{
    struct vg_gpu_log_chunk *chunk = chunk_new();

    g_array_append_vals(chunk->engines, from->engines->data, from->engines->len);
    for (guint i = 0; i < from->vms->len; i++) {
        const struct vg_gpu_log_vm *vm = &g_array_index(from->vms, struct vg_gpu_log_vm, i);
        add_vm(chunk, vm->name, vm->uuid);
    }
    g_array_append_vals(chunk->requests, from->requests->data, from->requests->len);
    return chunk;
}

static const struct vg_gpu_log_request *
request_at(const struct vg_gpu_log_chunk *chunk, guint i)
{
    return &g_array_index(chunk->requests, struct vg_gpu_log_request, i);
}

static int64_t
last_moment(const struct vg_gpu_log_chunk *chunk)
{
    return request_at(chunk, chunk->requests->len - 1)->at_ns;
}

/* ---- a window ---- */

static uint32_t
engine_of(struct vg_gpu_log_chunk *chunk, const struct vg_gpu_sample *gpu)
{
    struct vg_gpu_log_engine engine = {0};

    for (guint i = 0; i < chunk->engines->len; i++) {
        const struct vg_gpu_log_engine *known =
            &g_array_index(chunk->engines, struct vg_gpu_log_engine, i);
        if (strcmp(known->device, gpu->device) == 0 && strcmp(known->engine, gpu->engine) == 0)
            return i;
    }
    g_strlcpy(engine.device, gpu->device, sizeof(engine.device));
    g_strlcpy(engine.engine, gpu->engine, sizeof(engine.engine));
    g_array_append_val(chunk->engines, engine);
    return chunk->engines->len - 1;
}

static uint32_t
vm_of(struct vg_gpu_log_chunk *chunk, const struct vg_vm_sample *vm)
{
    for (guint i = 0; i < chunk->vms->len; i++) {
        const struct vg_gpu_log_vm *known = &g_array_index(chunk->vms, struct vg_gpu_log_vm, i);
        if (strcmp(known->name, vm->name) == 0 && strcmp(known->uuid, vm->uuid) == 0)
            return i;
    }
    add_vm(chunk, vm->name, vm->uuid);
    return chunk->vms->len - 1;
}

static int
compare_moments(const void *a, const void *b)
{
    const struct vg_gpu_log_request *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->request.context != y->request.context)
        return x->request.context < y->request.context ? -1 : 1;
    return (x->request.seqno > y->request.seqno) - (x->request.seqno < y->request.seqno);
}

/* Returns the window's requests, each with a distinct time after `after_ns`. */
static GArray *
sort_out(const struct vg_window *window, int64_t after_ns)
{
    guint n = window->gpu_requests->len;
    GArray *requests = g_array_sized_new(FALSE, FALSE, sizeof(struct vg_gpu_log_request), n);
    int64_t from_ns = MAX(window->begin_ns, after_ns);
    bool sorted = true;

    for (guint i = 0; i < n; i++) {
        struct vg_gpu_log_request one = {
            .request = g_array_index(window->gpu_requests, struct vg_gpu_request_sample, i)};
        one.at_ns = MAX(MIN(one.request.end_ns, window->end_ns), from_ns + 1);
        sorted = sorted &&
                 (i == 0 ||
                  g_array_index(requests, struct vg_gpu_log_request, i - 1).at_ns <= one.at_ns);
        g_array_append_val(requests, one);
    }
    if (!sorted)
        g_array_sort(requests, compare_moments);
    for (guint i = 0; i < n; i++) {
        struct vg_gpu_log_request *one = &g_array_index(requests, struct vg_gpu_log_request, i);
        one->at_ns = MAX(one->at_ns, from_ns + 1);
        from_ns = one->at_ns;
    }
    return requests;
}

/* Gives each request its place in the chunk's tables. */
static void
add_requests(struct vg_gpu_log_chunk *chunk, const struct vg_window *window, const GArray *requests)
{
    g_autofree uint32_t *engines = g_new(uint32_t, window->gpus->len + 1);
    g_autoptr(GHashTable) vms = g_hash_table_new(NULL, NULL);

    for (guint i = 0; i < window->gpus->len; i++)
        engines[i] = UINT32_MAX;
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        g_hash_table_insert(vms, GUINT_TO_POINTER(vm->id), vm);
    }
    for (guint i = 0; i < requests->len; i++) {
        struct vg_gpu_log_request one = g_array_index(requests, struct vg_gpu_log_request, i);
        struct vg_gpu_request_sample *request = &one.request;
        uint32_t *engine = &engines[request->gpu];
        if (*engine == UINT32_MAX)
            *engine =
                engine_of(chunk, &g_array_index(window->gpus, struct vg_gpu_sample, request->gpu));
        request->gpu = *engine;
        const struct vg_vm_sample *vm =
            request->vm == VG_PROCESS_NO_ID
                ? NULL
                : g_hash_table_lookup(vms, GUINT_TO_POINTER(request->vm));
        request->vm = vm ? vm_of(chunk, vm) : VG_PROCESS_NO_ID;
        g_array_append_val(chunk->requests, one);
    }
}

/* ---- logs ---- */

static vg_gpu_log *
log_copy(const vg_gpu_log *from)
{
    vg_gpu_log *log = g_new0(vg_gpu_log, 1);

    log->refs = 1;
    log->chunks = g_ptr_array_new_with_free_func(chunk_unref);
    log->dropped_ns = from ? from->dropped_ns : VG_TIME_UNKNOWN;
    log->n_requests = from ? from->n_requests : 0;
    for (guint i = 0; from && i < from->chunks->len; i++) {
        struct vg_gpu_log_chunk *chunk = from->chunks->pdata[i];
        g_atomic_int_inc(&chunk->refs);
        g_ptr_array_add(log->chunks, chunk);
    }
    return log;
}

/* Returns the chunk for a window's n requests: a new one, or a copy of the newest one, which is
 * removed from the log. */
static struct vg_gpu_log_chunk *
open_chunk(vg_gpu_log *log, guint n)
{
    guint n_chunks = log->chunks->len;
    const struct vg_gpu_log_chunk *newest = n_chunks > 0 ? log->chunks->pdata[n_chunks - 1] : NULL;

    if (!newest || newest->requests->len + n > VG_GPU_LOG_CHUNK_MAX)
        return chunk_new();
    struct vg_gpu_log_chunk *chunk = chunk_copy(newest);
    log->n_requests -= newest->requests->len;
    g_ptr_array_remove_index(log->chunks, n_chunks - 1);
    return chunk;
}

static void
drop_oldest(vg_gpu_log *log)
{
    guint n = 0;

    while (log->n_requests > VG_GPU_LOG_REQUESTS_MAX) {
        const struct vg_gpu_log_chunk *chunk = log->chunks->pdata[n++];
        log->n_requests -= chunk->requests->len;
        log->dropped_ns = MAX(log->dropped_ns, last_moment(chunk));
    }
    if (n > 0)
        g_ptr_array_remove_range(log->chunks, 0, n);
}

vg_gpu_log *
vg_gpu_log_add(vg_gpu_log *take_log, const struct vg_window *window)
{
    g_autoptr(vg_gpu_log) before = take_log;
    int64_t after_ns = VG_TIME_UNKNOWN;

    if (window->gpu_requests->len == 0)
        return g_steal_pointer(&before);
    vg_gpu_log *log = log_copy(before);
    if (log->chunks->len > 0)
        after_ns = last_moment(log->chunks->pdata[log->chunks->len - 1]);
    g_autoptr(GArray) requests = sort_out(window, after_ns);
    if (requests->len > VG_GPU_LOG_REQUESTS_MAX) {
        guint n = requests->len - VG_GPU_LOG_REQUESTS_MAX;
        log->dropped_ns = g_array_index(requests, struct vg_gpu_log_request, n - 1).at_ns;
        g_array_remove_range(requests, 0, n);
    }
    struct vg_gpu_log_chunk *chunk = open_chunk(log, requests->len);
    add_requests(chunk, window, requests);
    g_ptr_array_add(log->chunks, chunk);
    log->n_requests += chunk->requests->len;
    drop_oldest(log);
    return log;
}

vg_gpu_log *
vg_gpu_log_ref(vg_gpu_log *log)
{
    if (log)
        g_atomic_int_inc(&log->refs);
    return log;
}

void
vg_gpu_log_unref(vg_gpu_log *log)
{
    if (!log || !g_atomic_int_dec_and_test(&log->refs))
        return;
    g_ptr_array_unref(log->chunks);
    g_free(log);
}

/* ---- reading ---- */

/* The rows of a chunk's tables that are requested. */
struct wanted {
    gboolean *engines;
    gboolean *vms; /* NULL: all, including requests without a VM */
};

static void
wanted_init(struct wanted *wanted, const struct vg_gpu_log_chunk *chunk,
            const struct vg_gpu_log_query *query)
{
    wanted->engines = g_new0(gboolean, chunk->engines->len + 1);
    wanted->vms = query->vm ? g_new0(gboolean, chunk->vms->len + 1) : NULL;
    for (guint i = 0; i < chunk->engines->len; i++)
        wanted->engines[i] =
            strcmp(g_array_index(chunk->engines, struct vg_gpu_log_engine, i).device,
                   query->device) == 0;
    for (guint i = 0; query->vm && i < chunk->vms->len; i++) {
        const struct vg_gpu_log_vm *vm = &g_array_index(chunk->vms, struct vg_gpu_log_vm, i);
        wanted->vms[i] = vg_vm_is(query->vm, vm->name, vm->uuid);
    }
}

static void
wanted_clear(struct wanted *wanted)
{
    g_free(wanted->engines);
    g_free(wanted->vms);
}

static bool
is_wanted(const struct wanted *wanted, const struct vg_gpu_request_sample *request)
{
    if (!wanted->engines[request->gpu])
        return false;
    return !wanted->vms || (request->vm != VG_PROCESS_NO_ID && wanted->vms[request->vm]);
}

static void
read_chunk(const struct vg_gpu_log_chunk *chunk, const struct vg_gpu_log_query *query,
           struct vg_gpu_log_page *page)
{
    struct wanted wanted;

    wanted_init(&wanted, chunk, query);
    for (guint i = 0; i < chunk->requests->len && !page->more; i++) {
        const struct vg_gpu_log_entry entry = {chunk, request_at(chunk, i)};
        int64_t at_ns = entry.request->at_ns;
        if (at_ns <= query->since_ns || at_ns > query->until_ns ||
            !is_wanted(&wanted, &entry.request->request))
            continue;
        page->more = page->entries->len >= query->limit;
        if (!page->more)
            g_array_append_val(page->entries, entry);
    }
    wanted_clear(&wanted);
}

static uint64_t
count_left_out(const vg_gpu_log *log, int64_t since_ns, int64_t next_ns)
{
    uint64_t n = 0;

    for (guint i = 0; log && i < log->chunks->len; i++) {
        const struct vg_gpu_log_chunk *chunk = log->chunks->pdata[i];
        if (last_moment(chunk) <= since_ns || request_at(chunk, 0)->at_ns > next_ns)
            continue;
        for (guint k = 0; k < chunk->requests->len; k++) {
            const struct vg_gpu_log_request *one = request_at(chunk, k);
            n += one->at_ns > since_ns && one->at_ns <= next_ns ? one->request.left_out : 0;
        }
    }
    return n;
}

void
vg_gpu_log_read(const vg_gpu_log *log, const struct vg_gpu_log_query *query, int64_t newest_ns,
                struct vg_gpu_log_page *ret)
{
    *ret = (struct vg_gpu_log_page){.entries =
                                        g_array_new(FALSE, FALSE, sizeof(struct vg_gpu_log_entry))};
    for (guint i = 0; log && i < log->chunks->len && !ret->more; i++) {
        const struct vg_gpu_log_chunk *chunk = log->chunks->pdata[i];
        newest_ns = MAX(newest_ns, last_moment(chunk));
        if (last_moment(chunk) > query->since_ns && request_at(chunk, 0)->at_ns <= query->until_ns)
            read_chunk(chunk, query, ret);
    }
    ret->next_ns = MAX(query->since_ns, MIN(query->until_ns, newest_ns));
    if (ret->more)
        ret->next_ns = g_array_index(ret->entries, struct vg_gpu_log_entry, ret->entries->len - 1)
                           .request->at_ns;
    ret->left_out = count_left_out(log, query->since_ns, ret->next_ns);
}

void
vg_gpu_log_page_clear(struct vg_gpu_log_page *page)
{
    g_clear_pointer(&page->entries, g_array_unref);
}

bool
vg_gpu_log_has_vm(const vg_gpu_log *log, const char *vm)
{
    for (guint i = 0; log && i < log->chunks->len; i++) {
        const struct vg_gpu_log_chunk *chunk = log->chunks->pdata[i];
        for (guint k = 0; k < chunk->vms->len; k++) {
            const struct vg_gpu_log_vm *known = &g_array_index(chunk->vms, struct vg_gpu_log_vm, k);
            if (vg_vm_is(vm, known->name, known->uuid))
                return true;
        }
    }
    return false;
}
