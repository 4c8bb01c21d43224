/* SPDX-License-Identifier: Apache-2.0
 *
 * Frees peers and their snapshots after the last use.
 */
#include "config.h"

#include "cluster/peers-private.h"

static void
copy_clear(void *data)
{
    struct copy *copy = data;

    vg_snapshot_free(copy->snapshot);
}

void
peers_copy_release(struct copy *copy)
{
    if (copy)
        g_atomic_rc_box_release_full(copy, copy_clear);
}

void
peers_unref(void *data)
{
    struct peer *peer = data;

    if (--peer->refs > 0)
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(peer->options.texts); i++)
        g_free(peer->options.texts[i]);
    g_free(peer->turns.waiting);
    vg_peer_info_free(peer->info);
    peers_copy_release(peer->copy);
    peers_copy_release(peer->fresh);
    g_clear_pointer(&peer->approvals, g_ptr_array_unref);
    g_strfreev(peer->names);
    g_free(peer->etag);
    g_free(peer);
}
