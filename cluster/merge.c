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

/* Finds a host or a VM's UUID of a snapshot that an earlier one has, too. Returns NULL if there is
 * none, or why the snapshot does not fit; the caller frees it. */
static char *
merge_contradiction(const vg_snapshot *snapshot, const char *label, GHashTable *owners)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        const char *owner = g_hash_table_lookup(owners, host->name);
        if (owner)
            return g_strdup_printf("host '%s' is in %s and in %s", host->name, owner, label);
        for (guint k = 0; k < host->vms->len; k++) {
            const struct vg_snap_vm *vm = host->vms->pdata[k];
            g_autofree char *key = g_strconcat("/", vm->uuid, NULL);
            owner = vm->uuid ? g_hash_table_lookup(owners, key) : NULL;
            if (owner)
                return g_strdup_printf("VM UUID '%s' is in %s and in %s", vm->uuid, owner, label);
        }
    }
    return NULL;
}

/* Notes whose the hosts and UUIDs of a snapshot are. UUIDs have a '/' before them, which tells them
 * from hosts: a host that is called "/UUID" would only be left out. */
static void
merge_own(const vg_snapshot *snapshot, const char *label, GHashTable *owners)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        g_hash_table_insert(owners, g_strdup(host->name), (void *)label);
        for (guint k = 0; k < host->vms->len; k++) {
            const struct vg_snap_vm *vm = host->vms->pdata[k];
            if (vm->uuid)
                g_hash_table_insert(owners, g_strconcat("/", vm->uuid, NULL), (void *)label);
        }
    }
}

/* Merges those snapshots that do not contradict an earlier one. While a VM moves, two hosts may
 * have it, so that this is nothing rare where there are many hosts. */
static vg_snapshot *
merge_what_fits(struct merge_parts *parts, GPtrArray *notes, GError **err)
{
    g_autoptr(GHashTable) owners = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    struct merge_parts good = {g_ptr_array_new(), g_ptr_array_new()};

    for (guint i = 0; i < parts->snapshots->len; i++) {
        const char *label = parts->labels->pdata[i];
        g_autofree char *why = merge_contradiction(parts->snapshots->pdata[i], label, owners);
        if (why) {
            merge_note(notes, "peer '%s' is left out: %s", label, why);
            continue;
        }
        merge_own(parts->snapshots->pdata[i], label, owners);
        g_ptr_array_add(good.snapshots, parts->snapshots->pdata[i]);
        g_ptr_array_add(good.labels, parts->labels->pdata[i]);
    }
    vg_snapshot *merged = merge_all(&good, err);
    g_ptr_array_unref(good.snapshots);
    g_ptr_array_unref(good.labels);
    return merged;
}

/* Adds the snapshots of views that are old, or of those that are not. */
static void
merge_add(struct merge_parts *parts, const GPtrArray *views, bool old, GPtrArray *notes)
{
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        if ((view->age_ns > 0) != old)
            continue;
        if (!view->snapshot) {
            merge_note(notes, "peer '%s' is left out: %s", view->info->name,
                       view->info->reason ? view->info->reason : "it has not been asked yet");
            continue;
        }
        merge_doubts(view->info, notes);
        g_ptr_array_add(parts->snapshots, (void *)view->snapshot);
        g_ptr_array_add(parts->labels, view->info->name);
    }
}

/* Tells the hosts of old snapshots how old they are. */
static void
merge_ages(vg_snapshot *merged, const GPtrArray *views)
{
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        for (guint k = 0; view->age_ns > 0 && k < view->snapshot->hosts->len; k++) {
            const struct vg_snap_host *said = view->snapshot->hosts->pdata[k];
            struct vg_snap_host *host =
                (struct vg_snap_host *)vg_snapshot_find_host(merged, said->name);
            /* It may be there by another peer. */
            if (host && host->end_ns == said->end_ns)
                host->age_ns = view->age_ns;
        }
    }
}

vg_snapshot *
vg_peers_merge(const vg_snapshot *own, const GPtrArray *views, GPtrArray *ret_notes)
{
    struct merge_parts parts = {g_ptr_array_new(), g_ptr_array_new()};
    g_autoptr(GError) bad = NULL;

    g_ptr_array_add(parts.snapshots, (void *)own);
    g_ptr_array_add(parts.labels, (void *)"this host");
    merge_add(&parts, views, false, ret_notes);
    /* Where an old one contradicts a new one, the new one is right. */
    merge_add(&parts, views, true, ret_notes);
    vg_snapshot *merged = merge_what_fits(&parts, ret_notes, &bad);
    if (!merged) {
        /* All of them together are too much. */
        merge_note(ret_notes, "all peers are left out: %s", bad->message);
        g_clear_error(&bad);
        g_ptr_array_set_size(parts.snapshots, 1);
        g_ptr_array_set_size(parts.labels, 1);
        merged = merge_all(&parts, &bad);
    }
    g_ptr_array_unref(parts.snapshots);
    g_ptr_array_unref(parts.labels);
    if (!merged)
        vg_bug("a sealed snapshot does not merge with nothing: %s", bad->message);
    merge_ages(merged, views);
    return merged;
}
