/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "engine/gather-private.h"
#include "model/window-cut.h"

/* The number of stored parts of closed windows, to distinguish late parts from duplicates. */
#define CLOSED_MAX 64

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
    gather->closed_ns = gather->measured_ns = gather->forgotten_ns = INT64_MIN;
    gather->lost = vg_gather_lost_new();
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
    g_array_unref(gather->lost);
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

/* Returns whether this part is a duplicate of one in a closed or a waiting window. */
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

/* Returns how many windows end in this time. */
static uint64_t
gather_windows_in(const vg_gather *gather, int64_t begin_ns, int64_t end_ns)
{
    const int64_t length_ns = end_ns > begin_ns ? end_ns - begin_ns : 0;

    return (uint64_t)((length_ns + gather->window_ns / 2) / gather->window_ns);
}

/* Counts the windows in a part that comes too late for any of them. */
static void
gather_count_late(vg_gather *gather, const struct vg_window *window, bool besides)
{
    gather->stats.late++;
    if (besides)
        vg_gather_lose(gather, window->begin_ns, window->end_ns);
    else
        gather->cpu_missed +=
            gather_windows_in(gather, MAX(window->begin_ns, gather->measured_ns), window->end_ns);
}

/* Puts the pieces back: a part has come that may be their window. */
static void
gather_take_back(vg_gather *gather)
{
    while (gather->pieces->len > 0)
        g_ptr_array_add(gather->parts,
                        g_ptr_array_steal_index(gather->pieces, gather->pieces->len - 1));
}

/* Returns whether a part is too late because its window is closed. CPU figures are not cut: they
 * are also too late if a part of their time is in closed windows. */
static bool
gather_is_late(const vg_gather *gather, const struct vg_window *window, bool besides)
{
    if (window->end_ns <= gather->closed_ns)
        return true;
    return !besides && gather->closed_ns != INT64_MIN &&
           gather_windows_in(gather, window->begin_ns, gather->closed_ns) > 0;
}

enum vg_gather_taken
vg_gather_put(vg_gather *gather, unsigned int source, struct vg_window *take_window,
              const struct vg_provenance *provenance, int64_t clock_offset_ns)
{
    int64_t end_ns = take_window->end_ns;
    enum vg_gather_taken taken = VG_GATHER_TAKEN;

    if (gather_is_known(gather, source, end_ns))
        taken = VG_GATHER_DUPLICATE;
    else if (gather_is_late(gather, take_window, provenance->besides))
        taken = VG_GATHER_LATE;
    gather->stats.duplicates += taken == VG_GATHER_DUPLICATE;
    if (taken == VG_GATHER_LATE)
        gather_count_late(gather, take_window, provenance->besides);
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
    if (!provenance->besides)
        gather_take_back(gather);
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

/* Returns how long after its end a window may still be incomplete: as long as missing parts may
 * take. */
static int64_t
grace_of(const vg_gather *gather, int64_t end_ns)
{
    int64_t lag_ns = 0;

    for (unsigned int i = 0; i < gather->n_sources; i++) {
        if (gather->sources[i].alive && gather->sources[i].passed_ns < end_ns)
            lag_ns = MAX(lag_ns, gather->sources[i].lag_ns);
    }
    return gather->window_ns + lag_ns;
}

/* ---- closing ---- */

static void
remember_closed(vg_gather *gather, struct part *part)
{
    const struct closed closed = {part->source, part->window.end_ns};

    if (part->remembered)
        return;
    part->remembered = true;
    if (gather->closed_parts->len >= CLOSED_MAX)
        g_array_remove_index(gather->closed_parts, 0);
    g_array_append_val(gather->closed_parts, closed);
}

/* Returns the index of the most trusted of the first n parts, which belong to one window. If any of
 * them measures CPUs, it is one of those. */
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

/* Returns the start of the window that the first n parts form. begin_ns is the lead's start. */
static int64_t
gather_begin(const vg_gather *gather, guint n, const struct part *lead, int64_t begin_ns)
{
    for (guint i = 0; i < n; i++) {
        const struct part *part = gather->parts->pdata[i];
        if (part->provenance.besides == lead->provenance.besides)
            begin_ns = MIN(begin_ns, part->window.begin_ns);
    }
    return MAX(begin_ns, gather->closed_ns);
}

/* Appends the name of the source of the GPU figures. */
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

static bool
gather_has_part_of(const vg_gather *gather, guint n, unsigned int source)
{
    for (guint i = 0; i < n; i++) {
        if (((const struct part *)gather->parts->pdata[i])->source == source)
            return true;
    }
    return false;
}

/* Uses the newest piece of each source that has no part among the first n, which belong to one
 * window that starts at begin_ns. Returns the new n. */
static guint
gather_recall(vg_gather *gather, guint n, int64_t begin_ns)
{
    for (guint i = gather->pieces->len; i > 0; i--) {
        const struct part *piece = gather->pieces->pdata[i - 1];
        if (piece->window.end_ns <= begin_ns || gather_has_part_of(gather, n, piece->source))
            continue;
        g_ptr_array_insert(gather->parts, (int)n, g_ptr_array_steal_index(gather->pieces, i - 1));
        n++;
    }
    return n;
}

static void
gather_close_window(vg_gather *gather, guint n, struct vg_gathered *ret)
{
    char gpu_source[VG_GPU_SOURCE_SIZE] = "";
    guint best = most_trusted(gather, n);
    struct part *lead = gather->parts->pdata[best];
    const int64_t begin_ns = MAX(lead->window.begin_ns, gather->closed_ns);
    const uint64_t missed =
        vg_gather_count_missed(gather, &lead->provenance, gather_begin(gather, n, lead, begin_ns));
    int64_t cost_ns = 0;

    if (!lead->provenance.besides)
        n = gather_recall(gather, n, begin_ns);

    gather->stats.windows++;
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[i];
        vg_gather_rename(gather, part);
        remember_closed(gather, part);
        name_gpu_source(part, gpu_source);
        cost_ns += part->provenance.cost_ns;
    }
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[i];
        bool only_gpu = part->provenance.besides && !lead->provenance.besides;
        if (part->provenance.besides) {
            vg_gather_lose_before(gather, part);
            vg_gather_trim(gather, part, begin_ns);
        }
        if (only_gpu)
            vg_gather_add_pieces(gather, part, begin_ns);
        if (i != best)
            vg_gather_join(&lead->window, &part->window, only_gpu);
    }
    /* The remaining pieces belong to closed windows, or to none. */
    for (guint i = 0; i < gather->pieces->len; i++) {
        vg_gather_lose_before(gather, gather->pieces->pdata[i]);
        vg_gather_trim(gather, gather->pieces->pdata[i], begin_ns);
    }
    g_ptr_array_set_size(gather->pieces, 0);
    *ret = (struct vg_gathered){
        .window = lead->window,
        .provenance = lead->provenance,
        .clock_offset_ns = lead->clock_offset_ns,
    };
    ret->provenance.cost_ns = cost_ns;
    g_strlcpy(ret->provenance.gpu_source, gpu_source, sizeof(ret->provenance.gpu_source));
    ret->provenance.missed = missed;
    ret->provenance.gpu_missed = gather->gpu_missed;
    gather->gpu_missed = 0;
    ret->window.begin_ns = MAX(ret->window.begin_ns, gather->closed_ns);
    gather->closed_ns = ret->window.end_ns;
    if (!lead->provenance.besides) {
        gather->measured_ns = ret->window.end_ns;
        gather->cpu_missed = 0;
    }
    lead->window = (struct vg_window){0};
    g_ptr_array_remove_range(gather->parts, 0, n);
    vg_gather_forget(gather);
}

/* Returns whether the first n parts, which belong to one window, do not form a window. */
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

/* Puts parts aside: one with CPU figures of the same window, or of a longer one, may still come. */
static void
put_aside(vg_gather *gather, guint n)
{
    for (guint i = 0; i < n; i++) {
        struct part *part = gather->parts->pdata[0];
        remember_closed(gather, part);
        if (gather->pieces->len >= VG_GATHER_PENDING_MAX) {
            struct part *oldest = gather->pieces->pdata[0];
            vg_gather_lose_before(gather, oldest);
            vg_gather_lose(gather, oldest->window.begin_ns, oldest->window.end_ns);
            g_ptr_array_remove_index(gather->pieces, 0);
        }
        g_ptr_array_add(gather->pieces, g_ptr_array_steal_index(gather->parts, 0));
    }
}

/* Returns how many of the parts belong to the window that ends first. */
static guint
gather_group(const vg_gather *gather, int64_t end_ns)
{
    guint n = 0;

    while (n < gather->parts->len &&
           ((const struct part *)gather->parts->pdata[n])->window.end_ns == end_ns)
        n++;
    return n;
}

/* Cuts the time of the first n parts, which are one window with CPU figures, out of longer parts
 * with GPU figures, which were read late. */
static void
gather_cut_longer(vg_gather *gather, guint n, int64_t end_ns)
{
    const guint all = gather->parts->len;

    for (guint i = n; i < all; i++) {
        struct part *part = gather->parts->pdata[i];
        if (!part->provenance.besides || part->window.begin_ns >= end_ns)
            continue;
        struct part *first = g_new0(struct part, 1);
        *first = *part;
        vg_window_cut(&part->window, end_ns, &first->window);
        /* These are reported once. */
        part->provenance.cost_ns = 0;
        part->provenance.gpu_missed = 0;
        g_ptr_array_add(gather->parts, first);
    }
    if (gather->parts->len > all)
        g_ptr_array_sort(gather->parts, compare_parts);
}

static bool
gather_has_cpus(const vg_gather *gather, guint n)
{
    for (guint i = 0; i < n; i++) {
        if (!((const struct part *)gather->parts->pdata[i])->provenance.besides)
            return true;
    }
    return false;
}

/* Drops those of the first n parts whose window has been closed since they came, if they have CPU
 * figures. */
static void
gather_drop_late(vg_gather *gather, guint n)
{
    for (guint i = n; i > 0; i--) {
        const struct part *part = gather->parts->pdata[i - 1];
        if (!gather_is_late(gather, &part->window, part->provenance.besides))
            continue;
        gather_count_late(gather, &part->window, part->provenance.besides);
        g_ptr_array_remove_index(gather->parts, i - 1);
    }
}

/* Like vg_gather_next(), but also processes void windows. Returns 1 for a window, -1 for a void
 * one, 0 for none. */
static int
next_window(vg_gather *gather, int64_t now_ns, struct vg_gathered *ret)
{
    if (gather->parts->len == 0)
        return 0;
    const struct part *first = gather->parts->pdata[0];
    int64_t end_ns = first->window.end_ns;
    bool complete = all_passed(gather, end_ns);
    bool over = now_ns - grace_of(gather, end_ns) >= end_ns;
    if (!complete && !over && gather->parts->len <= VG_GATHER_PENDING_MAX)
        return 0;
    gather_drop_late(gather, gather_group(gather, end_ns));
    if (gather_has_cpus(gather, gather_group(gather, end_ns)))
        gather_cut_longer(gather, gather_group(gather, end_ns), end_ns);
    const guint n = gather_group(gather, end_ns);
    if (n == 0)
        return -1;
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
