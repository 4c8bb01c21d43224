/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests for the moves of all hosts.
 */
#include "config.h"

#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"

GPtrArray *
backend_list_all_migrations(void *data, bool active, size_t limit, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autofree char *lacks = NULL;
    GPtrArray *moves =
        backend->ops.moves->list_migrations(backend, active, INT64_MAX, limit, &lacks, err);

    if (!moves)
        return NULL;
    struct vg_host_moves *own = vg_host_moves_new(vg_mover_host(backend->parts.mover));
    g_ptr_array_unref(own->moves);
    own->moves = moves;
    own->reason = g_steal_pointer(&lacks);
    GPtrArray *list = vg_peer_all_moves(backend->parts.peers, active, limit);
    g_ptr_array_insert(list, 0, own);
    return list;
}
