/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that was reported as missing from windows, so that none is reported twice. GPU use that
 * came too late may belong to a window that the source of CPU figures has also missed.
 */
#include "config.h"

#include "engine/gather-private.h"

/* The maximum number of stored spans. Time before them is not reported any more. */
#define SPANS_MAX 64

struct span {
    int64_t begin_ns, end_ns;
};

/* Returns the length of this many windows. */
static int64_t
lost_ns(const vg_gather *gather, uint64_t windows)
{
    const uint64_t most = (uint64_t)(INT64_MAX / 4 / gather->window_ns);

    return (int64_t)MIN(windows, most) * gather->window_ns;
}

GArray *
vg_gather_lost_new(void)
{
    return g_array_new(FALSE, FALSE, sizeof(struct span));
}

/* Returns how much of this time has not been reported as missing. */
static int64_t
lost_unreported_ns(const vg_gather *gather, int64_t begin_ns, int64_t end_ns)
{
    int64_t untold_ns;

    begin_ns = MAX(begin_ns, gather->forgotten_ns);
    if (end_ns <= begin_ns)
        return 0;
    untold_ns = end_ns - begin_ns;
    for (guint i = 0; i < gather->lost->len; i++) {
        const struct span *span = &g_array_index(gather->lost, struct span, i);
        untold_ns -= MAX(MIN(span->end_ns, end_ns) - MAX(span->begin_ns, begin_ns), 0);
    }
    return untold_ns;
}

/* Notes that this time was reported as missing. */
static void
lost_note_reported(vg_gather *gather, int64_t begin_ns, int64_t end_ns)
{
    struct span all = {MAX(begin_ns, gather->forgotten_ns), end_ns};
    guint at = 0;

    if (all.end_ns <= all.begin_ns)
        return;
    for (guint i = gather->lost->len; i > 0; i--) {
        const struct span *span = &g_array_index(gather->lost, struct span, i - 1);
        if (span->begin_ns > all.end_ns || span->end_ns < all.begin_ns)
            continue;
        all.begin_ns = MIN(all.begin_ns, span->begin_ns);
        all.end_ns = MAX(all.end_ns, span->end_ns);
        g_array_remove_index(gather->lost, i - 1);
    }
    while (at < gather->lost->len &&
           g_array_index(gather->lost, struct span, at).begin_ns < all.begin_ns)
        at++;
    g_array_insert_val(gather->lost, at, all);
    if (gather->lost->len > SPANS_MAX) {
        gather->forgotten_ns = g_array_index(gather->lost, struct span, 0).end_ns;
        g_array_remove_index(gather->lost, 0);
    }
}

void
vg_gather_lose(vg_gather *gather, int64_t begin_ns, int64_t end_ns)
{
    const int64_t untold_ns = lost_unreported_ns(gather, begin_ns, end_ns);

    gather->gpu_missed += (uint64_t)((untold_ns + gather->window_ns / 2) / gather->window_ns);
    lost_note_reported(gather, begin_ns, end_ns);
}

void
vg_gather_lose_before(vg_gather *gather, struct part *part)
{
    const int64_t begin_ns = part->window.begin_ns;

    vg_gather_lose(gather, begin_ns - lost_ns(gather, part->provenance.gpu_missed), begin_ns);
    part->provenance.gpu_missed = 0;
}

uint64_t
vg_gather_count_missed(vg_gather *gather, const struct vg_provenance *lead, int64_t begin_ns)
{
    const int64_t since_ns = lead->besides ? gather->closed_ns : gather->measured_ns;
    const int64_t closed_ns = gather->closed_ns;
    uint64_t missed = lead->missed + (lead->besides ? 0 : gather->cpu_missed);

    /* No window was closed before, so the source's figure counts. */
    if (since_ns == INT64_MIN) {
        lost_note_reported(gather, begin_ns - lost_ns(gather, missed), begin_ns);
        return missed;
    }
    const int64_t hole_ns = lost_unreported_ns(gather, closed_ns, begin_ns);
    const int64_t all_ns = lost_unreported_ns(gather, since_ns, begin_ns);
    missed = MIN(missed, (uint64_t)(all_ns / gather->window_ns));
    /* In a hole, there is no window whose GPU figures could be missed. */
    if (!lead->besides || missed > 0)
        lost_note_reported(gather, closed_ns, begin_ns);
    if (missed > (uint64_t)(hole_ns / gather->window_ns))
        lost_note_reported(gather, since_ns, begin_ns);
    return missed;
}
