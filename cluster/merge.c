/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the answers of all peers into one picture.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peers.h"

/* Figures are moving averages over a minute. If clocks differ by this much, the figures belong to
 * different times. */
#define CLOCK_DIFFERENCE_MAX (5 * VG_NS_PER_S)

static void merge_note(GPtrArray *notes, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
merge_note(GPtrArray *notes, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(notes, g_strdup_vprintf(fmt, args));
    va_end(args);
}

/* Returns whether a version has the same MAJOR.MINOR as this vgpud. */
static bool
merge_is_alike(const char *version)
{
    unsigned ours[2] = {0}, theirs[2] = {0};

    return sscanf(PACKAGE_VERSION, "%u.%u", &ours[0], &ours[1]) == 2 &&
           sscanf(version, "%u.%u", &theirs[0], &theirs[1]) == 2 && ours[0] == theirs[0] &&
           ours[1] == theirs[1];
}

static void
merge_doubts(const struct vg_peer_info *info, GPtrArray *notes)
{
    if (info->version && !merge_is_alike(info->version))
        merge_note(notes, "peer '%s' runs vgpud %s, this host %s", info->name, info->version,
                   PACKAGE_VERSION);
    if (info->clock_known && llabs(info->clock_difference_ns) > CLOCK_DIFFERENCE_MAX)
        merge_note(notes, "the clock of peer '%s' is %.1f s %s that of this host", info->name,
                   (double)llabs(info->clock_difference_ns) / (double)VG_NS_PER_S,
                   info->clock_difference_ns > 0 ? "ahead of" : "behind");
}

struct merge_parts {
    GPtrArray *snapshots; /* borrowed */
    GPtrArray *labels;    /* borrowed */
};

static vg_snapshot *
merge_all(const struct merge_parts *parts, GError **err)
{
    return vg_snapshot_merge((const vg_snapshot *const *)parts->snapshots->pdata,
                             (const char *const *)parts->labels->pdata, parts->snapshots->len, err);
}

/* Merges one snapshot after the other, and leaves out those that contradict an earlier one. */
static vg_snapshot *
merge_what_fits(struct merge_parts *parts, GPtrArray *notes)
{
    struct merge_parts good = {g_ptr_array_new(), g_ptr_array_new()};
    vg_snapshot *merged = NULL;

    for (guint i = 0; i < parts->snapshots->len; i++) {
        g_autoptr(GError) bad = NULL;
        g_ptr_array_add(good.snapshots, parts->snapshots->pdata[i]);
        g_ptr_array_add(good.labels, parts->labels->pdata[i]);
        vg_snapshot *more = merge_all(&good, &bad);
        if (more) {
            vg_snapshot_free(merged);
            merged = more;
            continue;
        }
        g_ptr_array_set_size(good.snapshots, (int)good.snapshots->len - 1);
        g_ptr_array_set_size(good.labels, (int)good.labels->len - 1);
        merge_note(notes, "peer '%s' is left out: %s", (const char *)parts->labels->pdata[i],
                   bad->message);
    }
    g_ptr_array_unref(good.snapshots);
    g_ptr_array_unref(good.labels);
    return merged;
}

vg_snapshot *
vg_peers_merge(const vg_snapshot *own, const GPtrArray *views, GPtrArray *ret_notes)
{
    struct merge_parts parts = {g_ptr_array_new(), g_ptr_array_new()};
    g_autoptr(GError) bad = NULL;

    g_ptr_array_add(parts.snapshots, (void *)own);
    g_ptr_array_add(parts.labels, (void *)"this host");
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        if (!view->snapshot) {
            merge_note(ret_notes, "peer '%s' is left out: %s", view->info->name,
                       view->info->reason ? view->info->reason : "it has not been asked yet");
            continue;
        }
        merge_doubts(view->info, ret_notes);
        g_ptr_array_add(parts.snapshots, (void *)view->snapshot);
        g_ptr_array_add(parts.labels, view->info->name);
    }
    vg_snapshot *merged = merge_all(&parts, &bad);
    if (!merged)
        merged = merge_what_fits(&parts, ret_notes);
    g_ptr_array_unref(parts.snapshots);
    g_ptr_array_unref(parts.labels);
    if (!merged)
        vg_bug("a sealed snapshot does not merge with nothing: %s", bad->message);
    return merged;
}
