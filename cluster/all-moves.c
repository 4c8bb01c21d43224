/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries all peers for their moves.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cluster/peer-moves.h"
#include "cluster/peers-private.h"

/* The limit for one answer, and for all of them. */
#define ONE_LIMIT_NS (3 * VG_NS_PER_S)
#define ALL_LIMIT_NS (15 * VG_NS_PER_S)

static int
all_moves_read(json_object *document, GPtrArray *moves, GError **err)
{
    const struct vg_json_node root = vg_json_root(document);
    struct vg_json_node items;

    if (vg_json_member(&root, "items", VG_JSON_REQUIRED, &items, err) < 0)
        return -1;
    if (!json_object_is_type(items.value, json_type_array))
        return vg_error(err, VG_E_EXTERNAL, "its answer contains no list of moves");
    for (size_t i = 0; i < json_object_array_length(items.value); i++) {
        const struct vg_json_node item = vg_json_item(&items, i);
        struct vg_migration *move = vg_record_read(&vg_migration_record, &item, err);
        if (!move)
            return -1;
        g_ptr_array_add(moves, move);
    }
    return 0;
}

static void
all_moves_take(struct vg_host_moves *all, struct peers_reply *reply)
{
    g_autoptr(GError) error = g_steal_pointer(&reply->error);

    if (!error && all_moves_read(reply->document, all->moves, &error) == 0)
        return;
    g_ptr_array_set_size(all->moves, 0);
    all->reason = g_strdup(error->message);
}

GPtrArray *
vg_peer_all_moves(vg_peers *peers, bool active, size_t limit)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + ALL_LIMIT_NS;
    g_autofree char *path =
        g_strdup_printf("/v1/migrations?limit=%zu&active=%s", limit, active ? "true" : "false");
    const struct peers_question question = {"GET", path, NULL, ONE_LIMIT_NS,
                                            NULL,  NULL, NULL, NULL};
    g_autoptr(GPtrArray) known = vg_peers_list(peers);
    g_autoptr(GPtrArray) names = g_ptr_array_new();
    g_autoptr(GPtrArray) asked = g_ptr_array_new();
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_host_moves_free);

    for (guint i = 0; i < known->len; i++) {
        const struct vg_peer_info *peer = known->pdata[i];
        struct vg_host_moves *moves = vg_host_moves_new(peer->host ? peer->host : peer->name);
        moves->peer = g_strdup(peer->name);
        g_ptr_array_add(list, moves);
        if (peer->state == VG_PEER_UNREACHABLE) {
            moves->reason = g_strdup(peer->reason);
        } else if (peer->host_proof == VG_PROOF_DISPUTED) {
            moves->reason = g_strdup(peer->host_reason);
        } else {
            g_ptr_array_add(names, peer->name);
            g_ptr_array_add(asked, moves);
        }
    }
    g_autoptr(GPtrArray) replies = peers_request_all(peers, names, &question, until_ns);
    for (guint i = 0; i < replies->len; i++)
        all_moves_take(asked->pdata[i], replies->pdata[i]);
    return list;
}
