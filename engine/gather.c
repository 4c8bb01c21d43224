/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/gather.h"

#include <string.h>

#include "base/error.h"
#include "model/window-sum.h"

/* The number of parts of closed windows that are remembered, to tell late parts from double
 * ones. */
#define CLOSED_MAX 64

/* The number of windows for which the identity of a VM is remembered without being in them. */
#define FORGET_WINDOWS 64

/* One source's measurement of one window. */
struct part {
    unsigned int source;
    struct vg_window window;
    struct vg_provenance provenance;
    int64_t clock_offset_ns;
};

struct source {
    bool alive;
    bool besides; /* its newest part has no CPU figures */
    int64_t lag_ns;
    int64_t passed_ns; /* the end of its newest part; INT64_MIN if there is none yet */
};

/* A VM of one source, and its name in gathered windows. */
struct identity {
    unsigned int source;
    uint32_t source_id;
    uint32_t id;
    int32_t pid;
    char uuid[VG_UUID_LEN];
    uint64_t last_window;
};

struct vg_gather {
    int64_t window_ns;
    struct source sources[VG_GATHER_SOURCES_MAX];
    unsigned int n_sources;
    GPtrArray *parts;     /* struct part, sorted by end, then by source */
    GPtrArray *pieces;    /* struct part that made no window, and may be pieces of the next one */
    int64_t closed_ns;    /* the end of the newest window that was closed */
    GArray *closed_parts; /* struct closed, the newest ones, to tell late parts from double ones */
    GArray *identities;   /* struct identity */
    uint32_t n_ids;
    struct vg_gather_stats stats;
};

struct closed {
    unsigned int source;
    int64_t end_ns;
};

static void
part_free(void *data)
{
    struct part *part = data;

    vg_window_clear(&part->window);
    g_free(part);
}

vg_gather *
vg_gather_new(int64_t window_ns)
{
    vg_gather *gather = g_new0(vg_gather, 1);

    gather->window_ns = window_ns;
    gather->parts = g_ptr_array_new_with_free_func(part_free);
    gather->pieces = g_ptr_array_new_with_free_func(part_free);
    gather->closed_ns = INT64_MIN;
    gather->closed_parts = g_array_new(FALSE, FALSE, sizeof(struct closed));
    gather->identities = g_array_new(FALSE, FALSE, sizeof(struct identity));
    return gather;
}

void
vg_gather_free(vg_gather *gather)
{
    if (!gather)
        return;
    g_ptr_array_unref(gather->parts);
    g_ptr_array_unref(gather->pieces);
    g_array_unref(gather->closed_parts);
    g_array_unref(gather->identities);
    g_free(gather);
}

unsigned int
vg_gather_add_source(vg_gather *gather)
{
    if (gather->n_sources == VG_GATHER_SOURCES_MAX)
        vg_bug("more than %d sources of windows", VG_GATHER_SOURCES_MAX);
    gather->sources[gather->n_sources] = (struct source){.alive = true, .passed_ns = INT64_MIN};
    return gather->n_sources++;
}

void
vg_gather_set_alive(vg_gather *gather, unsigned int source, bool alive)
{
    gather->sources[source].alive = alive;
}

void
vg_gather_set_lag(vg_gather *gather, unsigned int source, int64_t lag_ns)
{
    gather->sources[source].lag_ns = lag_ns;
}

/* Returns whether this part was there already, in a window that is closed or waits. */
static bool
gather_is_known(const vg_gather *gather, unsigned int source, int64_t end_ns)
{
    for (guint i = 0; i < gather->closed_parts->len; i++) {
        const struct closed *closed = &g_array_index(gather->closed_parts, struct closed, i);
        if (closed->source == source && closed->end_ns == end_ns)
            return true;
    }
    for (guint i = 0; i < gather->parts->len; i++) {
        const struct part *part = gather->parts->pdata[i];
        if (part->source == source && part->window.end_ns == end_ns)
            return true;
    }
    return false;
}

static int
compare_parts(const void *a, const void *b)
{
    const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;

    if (x->window.end_ns != y->window.end_ns)
        return (x->window.end_ns > y->window.end_ns) - (x->window.end_ns < y->window.end_ns);
    return (x->source > y->source) - (x->source < y->source);
}

enum vg_gather_taken
vg_gather_put(vg_gather *gather, unsigned int source, struct vg_window *take_window,
              const struct vg_provenance *provenance, int64_t clock_offset_ns)
{
    int64_t end_ns = take_window->end_ns;
    enum vg_gather_taken taken = VG_GATHER_TAKEN;

    if (gather_is_known(gather, source, end_ns))
        taken = VG_GATHER_DUPLICATE;
    else if (end_ns <= gather->closed_ns)
        taken = VG_GATHER_LATE;
    gather->stats.duplicates += taken == VG_GATHER_DUPLICATE;
    gather->stats.late += taken == VG_GATHER_LATE;
    if (taken != VG_GATHER_TAKEN) {
        vg_window_clear(take_window);
        return taken;
    }
    struct part *part = g_new0(struct part, 1);
    part->source = source;
    part->window = *take_window;
    part->provenance = *provenance;
    part->clock_offset_ns = clock_offset_ns;
    *take_window = (struct vg_window){0};
    g_ptr_array_add(gather->parts, part);
    g_ptr_array_sort(gather->parts, compare_parts);
    gather->sources[source].besides = provenance->besides;
    gather->sources[source].passed_ns = MAX(gather->sources[source].passed_ns, end_ns);
    return VG_GATHER_TAKEN;
}

static bool
all_passed(const vg_gather *gather, int64_t end_ns)
{
    for (unsigned int i = 0; i < gather->n_sources; i++) {
        if (gather->sources[i].alive && gather->sources[i].passed_ns < end_ns)
            return false;
    }
    return true;
}

/* Returns how long after its end a window may still be incomplete. */
static int64_t
grace_of(const vg_gather *gather)
{
    int64_t lag_ns = 0;

    for (unsigned int i = 0; i < gather->n_sources; i++) {
        if (gather->sources[i].alive)
            lag_ns = MAX(lag_ns, gather->sources[i].lag_ns);
    }
    return gather->window_ns + lag_ns;
}

/* ---- identity ---- */

static bool
is_same_vm(const struct identity *known, const struct vg_vm_sample *vm)
{
    if (known->uuid[0] && vm->uuid[0])
        return strcmp(known->uuid, vm->uuid) == 0 && known->pid == vm->pid;
    return known->pid > 0 && known->pid == vm->pid;
}

/* Returns the id of a VM in gathered windows. */
static uint32_t
identify(vg_gather *gather, unsigned int source, const struct vg_vm_sample *vm)
{
    struct identity *known, *same = NULL;

    for (guint i = 0; i < gather->identities->len; i++) {
        known = &g_array_index(gather->identities, struct identity, i);
        if (known->source == source && known->source_id == vm->id) {
            known->last_window = gather->stats.windows;
            known->pid = vm->pid;
            g_strlcpy(known->uuid, vm->uuid, sizeof(known->uuid));
            return known->id;
        }
        if (known->source != source && is_same_vm(known, vm))
            same = known;
    }
    struct identity identity = {
        .source = source,
        .source_id = vm->id,
        .id = same ? same->id : gather->n_ids++,
        .pid = vm->pid,
        .last_window = gather->stats.windows,
    };
    g_strlcpy(identity.uuid, vm->uuid, sizeof(identity.uuid));
    g_array_append_val(gather->identities, identity);
    return identity.id;
}

static void
forget_identities(vg_gather *gather)
{
    for (guint i = gather->identities->len; i > 0; i--) {
        const struct identity *known = &g_array_index(gather->identities, struct identity, i - 1);
        if (gather->stats.windows - known->last_window > FORGET_WINDOWS)
            g_array_remove_index_fast(gather->identities, i - 1);
    }
}

/* Gives the VMs of a part their common ids. */
static void
rename_vms(vg_gather *gather, struct part *part)
{
    GArray *vms = part->window.vms;
    g_autoptr(GHashTable) ids = g_hash_table_new(NULL, NULL);

    for (guint i = 0; i < vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(vms, struct vg_vm_sample, i);
        uint32_t id = identify(gather, part->source, vm);
        g_hash_table_insert(ids, GUINT_TO_POINTER(vm->id), GUINT_TO_POINTER(id));
        vm->id = id;
    }
    for (guint i = 0; i < part->window.gpu_requests->len; i++) {
        struct vg_gpu_request_sample *request =
            &g_array_index(part->window.gpu_requests, struct vg_gpu_request_sample, i);
        void *id;
        request->vm = g_hash_table_lookup_extended(ids, GUINT_TO_POINTER(request->vm), NULL, &id)
                          ? GPOINTER_TO_UINT(id)
                          : VG_PROCESS_NO_ID;
    }
    for (guint i = 0; i < vms->len; i++) {
        GArray *lost_to = g_array_index(vms, struct vg_vm_sample, i).lost_to;
        for (guint k = 0; k < lost_to->len; k++) {
            struct vg_lost_to *lost = &g_array_index(lost_to, struct vg_lost_to, k);
            if (lost->kind == VG_AGGRESSOR_VM)
                lost->vm_id =
                    GPOINTER_TO_UINT(g_hash_table_lookup(ids, GUINT_TO_POINTER(lost->vm_id)));
        }
    }
}

/* ---- closing ---- */

static struct vg_gpu_sample *
gather_find_gpu(const GArray *gpus, const struct vg_gpu_sample *like)
{
    for (guint i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, like->device) == 0 && strcmp(gpu->engine, like->engine) == 0)
            return gpu;
    }
    return NULL;
}

/* Joins the GPU figures of a part. For an engine that both know, the lead's figures count; missing
 * ones come from the other part. */
static void
join_gpus(GArray *lead, const GArray *other)
{
    for (guint i = 0; i < other->len; i++) {
        const struct vg_gpu_sample *more = &g_array_index(other, struct vg_gpu_sample, i);
        struct vg_gpu_sample *gpu = gather_find_gpu(lead, more);
        if (!gpu) {
            g_array_append_vals(lead, more, 1);
            continue;
        }
        if (gpu->mem_bytes == 0) {
            gpu->mem_bytes = more->mem_bytes;
            gpu->mem_peak_bytes = more->mem_peak_bytes;
        }
        if (gpu->contexts == 0)
            gpu->contexts = more->contexts;
        if (gpu->slices == 0)
            gpu->slices = more->slices;
    }
}

/* Joins the GPU requests, after join_gpus() or a sum, when every GPU of the other part is one of
 * the lead's. */
static void
join_requests(struct vg_window *lead, const struct vg_window *other)
{
    for (guint i = 0; i < other->gpu_requests->len; i++) {
        struct vg_gpu_request_sample request =
            g_array_index(other->gpu_requests, struct vg_gpu_request_sample, i);
        const struct vg_gpu_sample *gpu =
            &g_array_index(other->gpus, struct vg_gpu_sample, request.gpu);
        request.gpu = (uint32_t)(gather_find_gpu(lead->gpus, gpu) -
                                 &g_array_index(lead->gpus, struct vg_gpu_sample, 0));
        g_array_append_val(lead->gpu_requests, request);
    }
}

/* Joins a less trusted part: GPU use, and VMs that the lead does not see. A VM of which only GPU
 * use is known waits for the lead to see it, since its CPU figures would be zeros. */
static void
gather_join(struct vg_window *lead, struct vg_window *other, bool only_gpu)
{
    lead->begin_ns = MIN(lead->begin_ns, other->begin_ns);
    lead->lost_events += other->lost_events;
    lead->lost_packets += other->lost_packets;
    if (lead->host.runnable < 0)
        lead->host = other->host;
    if (lead->cpus->len == 0)
        g_array_append_vals(lead->cpus, other->cpus->data, other->cpus->len);
    for (guint i = 0; i < other->vms->len; i++) {
        struct vg_vm_sample *more = &g_array_index(other->vms, struct vg_vm_sample, i);
        struct vg_vm_sample *vm = vg_window_find_vm(lead, more->id);
        if (!vm && only_gpu)
            continue;
        if (!vm) {
            struct vg_vm_sample taken = *more;
            vg_vm_sample_init(more);
            g_array_append_val(lead->vms, taken);
            continue;
        }
        if (!vm->gpu_known && more->gpu_known) {
            vm->gpu_known = true;
            vm->gpu_active_ns = more->gpu_active_ns;
        }
        join_gpus(vm->gpus, more->gpus);
        if (!vm->uuid[0])
            g_strlcpy(vm->uuid, more->uuid, sizeof(vm->uuid));
    }
    join_gpus(lead->gpus, other->gpus);
    g_array_append_vals(lead->proxies, other->proxies->data, other->proxies->len);
    join_requests(lead, other);
    g_array_append_vals(lead->gpu_processes, other->gpu_processes->data, other->gpu_processes->len);
}

/* Joins pieces. A source that was late makes one long window, while others went on; their pieces,
 * the last of which is this part, are put together again. */
static void
add_pieces(vg_gather *gather, struct part *last, int64_t begin_ns)
{
    struct vg_window sum = {0};

    for (guint i = 0; i < gather->pieces->len; i++) {
        struct part *piece = gather->pieces->pdata[i];
        if (piece->source != last->source || piece->window.begin_ns < begin_ns)
            continue;
        rename_vms(gather, piece);
        if (!sum.vms) {
            vg_window_copy(&sum, &piece->window);
            continue;
        }
        vg_window_add(&sum, &piece->window);
        join_requests(&sum, &piece->window);
    }
    if (!sum.vms)
        return;
    vg_window_add(&sum, &last->window);
    join_requests(&sum, &last->window);
    vg_window_clear(&last->window);
    last->window = sum;
}

static void
remember_closed(vg_gather *gather, const struct part *part)
{
    const struct closed closed = {part->source, part->window.end_ns};

    if (gather->closed_parts->len >= CLOSED_MAX)
        g_array_remove_index(gather->closed_parts, 0);
    g_array_append_val(gather->closed_parts, closed);
}

/* Returns the most trusted of the first n parts, which are of one window; it is one that measures
 * CPUs, if there is one. */
static guint
most_trusted(const vg_gather *gather, guint n)
{
    guint best = 0;

    for (guint i = 1; i < n; i++) {
        const struct part *part = gather->parts->pdata[i], *lead = gather->parts->pdata[best];
        if (part->provenance.besides != lead->provenance.besides
                ? lead->provenance.besides
                : part->provenance.confidence > lead->provenance.confidence)
            best = i;
    }
    return best;
}

/* Counts windows that one source missed, unless another one has seen them. */
static uint64_t
count_missed(const vg_gather *gather, const struct part *lead)
{
    if (gather->closed_ns == INT64_MIN)
        return lead->provenance.missed;
    int64_t gap_ns = MAX(lead->window.begin_ns - gather->closed_ns, 0);
    return MIN(lead->provenance.missed, (uint64_t)(gap_ns / gather->window_ns));
}

/* Names in words the source of the GPU figures. */
static void
name_gpu_source(const struct part *part, char ret[VG_GPU_SOURCE_SIZE])
{
    const struct vg_provenance *provenance = &part->provenance;
    const char *name = provenance->gpu_source[0] ? provenance->gpu_source : provenance->source;
    bool tells = part->window.gpus->len > 0 || part->window.gpu_processes->len > 0;

    for (guint i = 0; i < part->window.vms->len && !tells; i++)
        tells = g_array_index(part->window.vms, struct vg_vm_sample, i).gpu_known;
    if (!tells || !name[0])
        return;
    if (ret[0])
        g_strlcat(ret, ", ", VG_GPU_SOURCE_SIZE);
    g_strlcat(ret, name, VG_GPU_SOURCE_SIZE);
}

static void
gather_close_window(vg_gather *gather, guint n, struct vg_gathered *ret)
{
    char gpu_source[VG_GPU_SOURCE_SIZE] = "";
    guint best = most_trusted(gather, n);
    struct part *lead = gather->parts->pdata[best];
    int64_t cost_ns = 0;

    gather->stats.windows++;
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[i];
        rename_vms(gather, part);
        remember_closed(gather, part);
        name_gpu_source(part, gpu_source);
        cost_ns += part->provenance.cost_ns;
    }
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[i];
        bool only_gpu = part->provenance.besides && !lead->provenance.besides;
        if (only_gpu)
            add_pieces(gather, part, lead->window.begin_ns);
        if (i != best)
            gather_join(&lead->window, &part->window, only_gpu);
    }
    g_ptr_array_set_size(gather->pieces, 0);
    *ret = (struct vg_gathered){
        .window = lead->window,
        .provenance = lead->provenance,
        .clock_offset_ns = lead->clock_offset_ns,
    };
    ret->provenance.cost_ns = cost_ns;
    g_strlcpy(ret->provenance.gpu_source, gpu_source, sizeof(ret->provenance.gpu_source));
    ret->provenance.missed = count_missed(gather, lead);
    if (gather->closed_ns != INT64_MIN)
        ret->window.begin_ns = MAX(ret->window.begin_ns, gather->closed_ns);
    gather->closed_ns = ret->window.end_ns;
    lead->window = (struct vg_window){0};
    g_ptr_array_remove_range(gather->parts, 0, n);
    forget_identities(gather);
}

/* Returns whether the first n parts, which are of one window, make none. */
static bool
is_void(const vg_gather *gather, guint n)
{
    bool empty = true, cpus_live = false;

    for (guint i = 0; i < n; i++) {
        const struct part *part = gather->parts->pdata[i];
        if (!part->provenance.besides)
            return false;
        empty = empty && part->window.vms->len == 0 && part->window.gpus->len == 0;
    }
    for (unsigned int i = 0; i < gather->n_sources; i++)
        cpus_live = cpus_live || (gather->sources[i].alive && !gather->sources[i].besides);
    return empty || cpus_live;
}

/* Puts parts aside: one with CPU figures of that window, or of a longer one, may still come. */
static void
put_aside(vg_gather *gather, guint n)
{
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[0];
        remember_closed(gather, part);
        if (gather->pieces->len >= VG_GATHER_PENDING_MAX)
            g_ptr_array_remove_index(gather->pieces, 0);
        g_ptr_array_add(gather->pieces, g_ptr_array_steal_index(gather->parts, 0));
    }
}

/* Does as vg_gather_next(), but also for windows that are void. Returns 1 for a window, -1 for a
 * void one, 0 for none. */
static int
next_window(vg_gather *gather, int64_t now_ns, struct vg_gathered *ret)
{
    if (gather->parts->len == 0)
        return 0;
    const struct part *first = gather->parts->pdata[0];
    int64_t end_ns = first->window.end_ns;
    bool complete = all_passed(gather, end_ns);
    bool over = now_ns - grace_of(gather) >= end_ns;
    if (!complete && !over && gather->parts->len <= VG_GATHER_PENDING_MAX)
        return 0;
    guint n = 0;
    while (n < gather->parts->len &&
           ((const struct part *)gather->parts->pdata[n])->window.end_ns == end_ns)
        n++;
    if (is_void(gather, n)) {
        put_aside(gather, n);
        return -1;
    }
    gather->stats.incomplete += !complete;
    gather_close_window(gather, n, ret);
    return 1;
}

bool
vg_gather_next(vg_gather *gather, int64_t now_ns, struct vg_gathered *ret)
{
    int found;

    do
        found = next_window(gather, now_ns, ret);
    while (found < 0);
    return found > 0;
}

void
vg_gather_read_stats(const vg_gather *gather, struct vg_gather_stats *ret)
{
    *ret = gather->stats;
}
