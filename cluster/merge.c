/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the answers of all peers into one snapshot.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peers.h"
#include "model/arrival.h"
#include "model/vm-name.h"

/* Figures are moving averages over a minute. With a clock difference of this size, they refer to
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

/* Returns whether a version has this vgpud's MAJOR.MINOR. */
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
        merge_note(notes, "peer '%s' runs vgpud %s, but this host runs %s", info->name,
                   info->version, PACKAGE_VERSION);
    if (info->clock_known && llabs(info->clock_difference_ns) > CLOCK_DIFFERENCE_MAX)
        merge_note(notes, "the clock of peer '%s' is %.1f s %s this host's clock", info->name,
                   (double)llabs(info->clock_difference_ns) / (double)VG_NS_PER_S,
                   info->clock_difference_ns > 0 ? "ahead of" : "behind");
}

struct merge_parts {
    GPtrArray *snapshots;       /* borrowed */
    GPtrArray *labels;          /* borrowed */
    GPtrArray *views;           /* struct vg_peer_view, borrowed; NULL for this host */
    const GPtrArray *own_moves; /* struct vg_approval of this host */
};

static vg_snapshot *
merge_all(const struct merge_parts *parts, GError **err)
{
    return vg_snapshot_merge((const vg_snapshot *const *)parts->snapshots->pdata,
                             (const char *const *)parts->labels->pdata, parts->snapshots->len, err);
}

/* Records the hosts of a snapshot. Returns false, with a note, if an earlier snapshot contains one
 * of them. */
static bool
merge_own_hosts(const vg_snapshot *snapshot, const char *label, GHashTable *owners,
                GPtrArray *notes)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        const char *owner = g_hash_table_lookup(owners, host->name);
        if (owner) {
            merge_note(notes, "peer '%s' is left out: host '%s' is in %s and in %s", label,
                       host->name, owner, label);
            return false;
        }
        g_hash_table_insert(owners, host->name, (void *)label);
    }
    return true;
}

/* Retains only snapshots whose hosts are in no earlier snapshot. */
static void
merge_what_fits(struct merge_parts *parts, GPtrArray *notes)
{
    g_autoptr(GHashTable) owners = g_hash_table_new(g_str_hash, g_str_equal);
    guint kept = 0;

    for (guint i = 0; i < parts->snapshots->len; i++) {
        if (!merge_own_hosts(parts->snapshots->pdata[i], parts->labels->pdata[i], owners, notes))
            continue;
        parts->snapshots->pdata[kept] = parts->snapshots->pdata[i];
        parts->labels->pdata[kept] = parts->labels->pdata[i];
        parts->views->pdata[kept++] = parts->views->pdata[i];
    }
    g_ptr_array_set_size(parts->snapshots, (int)kept);
    g_ptr_array_set_size(parts->labels, (int)kept);
    g_ptr_array_set_size(parts->views, (int)kept);
}

/* ---- VMs that two hosts have ---- */

/* The place where a VM was first found. */
struct merge_place {
    guint part;
    const struct vg_snap_host *host;
    const struct vg_snap_vm *vm;
};

/* Returns whether the vgpud of a part is moving a VM to a host. */
static bool
merge_moves_to(const struct merge_parts *parts, guint part, const char *uuid, const char *to)
{
    const struct vg_peer_view *view = parts->views->pdata[part];
    const GPtrArray *moves = view ? view->approvals : parts->own_moves;

    for (guint i = 0; moves && i < moves->len; i++) {
        const struct vg_approval *one = moves->pdata[i];
        if (one->moving && vg_vm_is(uuid, NULL, one->uuid) && strcmp(one->to, to) == 0)
            return true;
    }
    return false;
}

static bool
merge_is_proved(const struct merge_parts *parts, guint part)
{
    const struct vg_peer_view *view = parts->views->pdata[part];

    return !view || view->info->host_proof == VG_PROOF_PROVED;
}

/* Records that a VM is omitted from a part. */
static void
merge_drop(GHashTable *dropped, guint part, const struct vg_snap_vm *vm)
{
    g_hash_table_add(dropped, g_strdup_printf("%u %s", part, vm->uuid));
}

/* Decides which of two hosts has a VM: the host from which it is being moved to the other, or else
 * the host whose name is verified. Otherwise, both are omitted. Returns whether it is the second
 * host. */
static bool
merge_decide(const struct merge_parts *parts, const struct merge_place *first,
             const struct merge_place *second, GHashTable *dropped, GPtrArray *notes)
{
    const char *uuid = first->vm->uuid;
    const bool proved[] = {merge_is_proved(parts, first->part),
                           merge_is_proved(parts, second->part)};

    if (merge_moves_to(parts, first->part, uuid, second->host->name) || (proved[0] && !proved[1])) {
        merge_drop(dropped, second->part, second->vm);
    } else if (merge_moves_to(parts, second->part, uuid, first->host->name) ||
               (proved[1] && !proved[0])) {
        merge_drop(dropped, first->part, first->vm);
        return true;
    } else {
        merge_drop(dropped, first->part, first->vm);
        merge_drop(dropped, second->part, second->vm);
        merge_note(notes,
                   "VM UUID '%s' is left out: hosts '%s' and '%s' both have it, and no move "
                   "explains that",
                   uuid, first->host->name, second->host->name);
    }
    return false;
}

/* Finds the VMs that two hosts have. Returns those to omit, as "PART UUID". */
static GHashTable *
merge_find_doubles(const struct merge_parts *parts, GPtrArray *notes)
{
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    GHashTable *dropped = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);

    for (guint p = 0; p < parts->snapshots->len; p++) {
        const vg_snapshot *snapshot = parts->snapshots->pdata[p];
        for (guint h = 0; h < snapshot->hosts->len; h++) {
            const struct vg_snap_host *host = snapshot->hosts->pdata[h];
            for (guint k = 0; k < host->vms->len; k++) {
                const struct merge_place place = {p, host, host->vms->pdata[k]};
                if (!place.vm->uuid)
                    continue;
                g_autofree char *key = g_ascii_strdown(place.vm->uuid, -1);
                const struct merge_place *first = g_hash_table_lookup(places, key);
                if (!first || merge_decide(parts, first, &place, dropped, notes))
                    g_hash_table_replace(places, g_steal_pointer(&key),
                                         g_memdup2(&place, sizeof(place)));
            }
        }
    }
    return dropped;
}

/* Removes the omitted VMs from a copy, and excludes a host as a target if its name is not
 * verified. */
static void
merge_change(vg_snapshot *copy, guint part, bool is_proved, GHashTable *dropped)
{
    for (guint h = 0; h < copy->hosts->len; h++) {
        struct vg_snap_host *host = copy->hosts->pdata[h];
        host->maintenance |= !is_proved;
        for (guint k = host->vms->len; k > 0; k--) {
            struct vg_snap_vm *vm = host->vms->pdata[k - 1];
            g_autofree char *key = g_strdup_printf("%u %s", part, vm->uuid ? vm->uuid : "");
            vm->never_move |= !is_proved;
            if (g_hash_table_contains(dropped, key))
                vg_record_free(&vg_snap_vm_record, g_ptr_array_remove_index(host->vms, k - 1));
        }
    }
}

static bool
merge_loses(GHashTable *dropped, guint part)
{
    g_autofree char *prefix = g_strdup_printf("%u ", part);
    GHashTableIter at;
    void *key;

    g_hash_table_iter_init(&at, dropped);
    while (g_hash_table_iter_next(&at, &key, NULL)) {
        if (g_str_has_prefix(key, prefix))
            return true;
    }
    return false;
}

/* Replaces snapshots that need changes with copies. `copies` owns the copies. */
static void
merge_replace(struct merge_parts *parts, GPtrArray *copies, GPtrArray *notes)
{
    g_autoptr(GHashTable) dropped = merge_find_doubles(parts, notes);

    for (guint i = 0; i < parts->snapshots->len; i++) {
        const bool is_proved = merge_is_proved(parts, i);
        if (is_proved && !merge_loses(dropped, i))
            continue;
        vg_snapshot *copy = vg_record_copy(&vg_snapshot_record, parts->snapshots->pdata[i]);
        copy->sealed = ((const vg_snapshot *)parts->snapshots->pdata[i])->sealed;
        merge_change(copy, i, is_proved, dropped);
        parts->snapshots->pdata[i] = copy;
        g_ptr_array_add(copies, copy);
    }
}

/* ---- all of them ---- */

/* Adds the snapshots of views that match `old` and `proved`. */
static void
merge_add(struct merge_parts *parts, const GPtrArray *views, bool old, bool proved)
{
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        if (!view->snapshot || (view->age_ns > 0) != old ||
            view->info->host_proof == VG_PROOF_DISPUTED ||
            (view->info->host_proof == VG_PROOF_PROVED) != proved)
            continue;
        g_ptr_array_add(parts->snapshots, (void *)view->snapshot);
        g_ptr_array_add(parts->labels, view->info->name);
        g_ptr_array_add(parts->views, (void *)view);
    }
}

/* Adds notes on omitted peers, and on doubts about the others. */
static void
merge_explain(const GPtrArray *views, GPtrArray *notes)
{
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        const struct vg_peer_info *info = view->info;
        if (!view->snapshot) {
            merge_note(notes, "peer '%s' is left out: %s", info->name,
                       info->reason ? info->reason : "it has not been queried yet");
            continue;
        }
        if (info->host_proof == VG_PROOF_DISPUTED) {
            merge_note(notes, "peer '%s' is left out: %s", info->name, info->host_reason);
            continue;
        }
        if (info->host_proof == VG_PROOF_UNPROVED)
            merge_note(notes, "peer '%s': %s", info->name, info->host_reason);
        merge_doubts(info, notes);
    }
}

/* Sets the age of the hosts in old snapshots. */
static void
merge_ages(vg_snapshot *merged, const GPtrArray *views)
{
    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i];
        for (guint k = 0; view->age_ns > 0 && k < view->snapshot->hosts->len; k++) {
            const struct vg_snap_host *said = view->snapshot->hosts->pdata[k];
            struct vg_snap_host *host =
                (struct vg_snap_host *)vg_snapshot_find_host(merged, said->name);
            /* The host may come from another peer. */
            if (host && host->end_ns == said->end_ns)
                host->age_ns = view->age_ns;
        }
    }
}

static void
merge_parts_clear(struct merge_parts *parts)
{
    g_ptr_array_unref(parts->snapshots);
    g_ptr_array_unref(parts->labels);
    g_ptr_array_unref(parts->views);
}

static void
merge_free_copy(void *copy)
{
    vg_snapshot_free(copy);
}

vg_snapshot *
vg_peers_merge(const vg_snapshot *own, const GPtrArray *views, const GPtrArray *own_moves,
               GPtrArray *ret_notes)
{
    struct merge_parts parts = {g_ptr_array_new(), g_ptr_array_new(), g_ptr_array_new(), own_moves};
    g_autoptr(GPtrArray) copies = g_ptr_array_new_with_free_func(merge_free_copy);
    g_autoptr(GError) bad = NULL;

    g_ptr_array_add(parts.snapshots, (void *)own);
    g_ptr_array_add(parts.labels, (void *)"this host");
    g_ptr_array_add(parts.views, NULL);
    merge_explain(views, ret_notes);
    /* If two snapshots have the same host, the first one is used. Verified names precede others,
     * and new snapshots precede old ones. */
    for (int proved = 1; proved >= 0; proved--) {
        merge_add(&parts, views, false, proved);
        merge_add(&parts, views, true, proved);
    }
    merge_what_fits(&parts, ret_notes);
    merge_replace(&parts, copies, ret_notes);
    vg_snapshot *merged = merge_all(&parts, &bad);
    if (!merged) {
        /* The snapshots together exceed a limit. */
        merge_note(ret_notes, "all peers are left out: %s", bad->message);
        g_clear_error(&bad);
        parts.snapshots->pdata[0] = (void *)own;
        g_ptr_array_set_size(parts.snapshots, 1);
        g_ptr_array_set_size(parts.labels, 1);
        merged = merge_all(&parts, &bad);
    }
    merge_parts_clear(&parts);
    if (!merged)
        vg_bug("a sealed snapshot does not merge with nothing: %s", bad->message);
    merge_ages(merged, views);
    return merged;
}
