/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the moves that peers plan: {"items": [{"uuid", "to"}]}.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cluster/peers-private.h"
#include "model/arrival.h"
#include "model/vm-name.h"

#define TEXT_MAX      (4 * 1024 * 1024)
#define TEXT_DEPTH    8
#define APPROVALS_MAX 10000

/* The time for which a peer's answer is valid after the last contact. */
#define HEARD_NS (3600 * VG_NS_PER_S)

/* The same for a peer's running moves, for which other moves wait. */
#define MOVING_NS (60 * VG_NS_PER_S)

static int
approvals_read_one(const struct vg_json_node *item, GPtrArray *list)
{
    struct vg_json_node uuid_node, to_node, moving_node, queued_node;
    const char *uuid = NULL, *to = NULL;
    bool moving = false, queued = false;

    if (vg_json_member(item, "uuid", VG_JSON_REQUIRED, &uuid_node, NULL) < 0 ||
        vg_json_member(item, "to", VG_JSON_REQUIRED, &to_node, NULL) < 0 ||
        vg_json_string(&uuid_node, VG_ARRIVAL_NAME_MAX, &uuid, NULL) < 0 ||
        vg_json_string(&to_node, VG_ARRIVAL_NAME_MAX, &to, NULL) < 0)
        return -1;
    /* Older peers do not report this member. */
    const int told = vg_json_member(item, "moving", VG_JSON_OPTIONAL, &moving_node, NULL);
    if (told < 0 || (told > 0 && vg_json_bool(&moving_node, &moving, NULL) < 0))
        return -1;
    const int waits = vg_json_member(item, "queued", VG_JSON_OPTIONAL, &queued_node, NULL);
    if (waits < 0 || (waits > 0 && vg_json_bool(&queued_node, &queued, NULL) < 0))
        return -1;
    struct vg_approval *approval = vg_approval_new(uuid, to, moving);
    approval->queued = queued;
    g_ptr_array_add(list, approval);
    return 0;
}

GPtrArray *
peers_read_approvals(const GString *body)
{
    g_autoptr(json_object) document =
        vg_json_parse(body->str, body->len, TEXT_MAX, TEXT_DEPTH, NULL);
    g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func(vg_approval_free);
    const struct vg_json_node root = vg_json_root(document);
    struct vg_json_node items;

    if (!document || vg_json_member(&root, "items", VG_JSON_REQUIRED, &items, NULL) < 0 ||
        vg_json_array(&items, APPROVALS_MAX, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < vg_json_length(&items); i++) {
        const struct vg_json_node item = vg_json_item(&items, i);
        if (approvals_read_one(&item, list) < 0)
            return NULL;
    }
    return g_steal_pointer(&list);
}

GPtrArray *
vg_peers_approved_targets(vg_peers *peers, const char *uuid)
{
    GPtrArray *targets = g_ptr_array_new_with_free_func(g_free);
    const int64_t now_ns = vg_clock_realtime_ns();

    VG_LOCK_SCOPE(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        const struct peer *peer = peers->list->pdata[i];
        const guint n = now_ns - peer->info->answered_ns < HEARD_NS && peer->approvals &&
                                !peer->info->host_reason
                            ? peer->approvals->len
                            : 0;
        for (guint k = 0; k < n; k++) {
            const struct vg_approval *one = peer->approvals->pdata[k];
            if (vg_vm_is(uuid, NULL, one->uuid))
                g_ptr_array_add(targets, g_strdup(one->to));
        }
    }
    return targets;
}

/* Returns the running and queued moves of a peer, or NULL if its last answer is too old. Called
 * under the lock. */
static const GPtrArray *
approvals_of_moves(const struct peer *peer)
{
    const bool is_fresh = vg_clock_realtime_ns() - peer->info->answered_ns < MOVING_NS;

    return is_fresh && !peer->info->host_reason ? peer->approvals : NULL;
}

GPtrArray *
vg_peers_moving_to(vg_peers *peers, const char *host)
{
    GPtrArray *moving = g_ptr_array_new_with_free_func(g_free);

    VG_LOCK_SCOPE(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        const GPtrArray *moves = approvals_of_moves(peers->list->pdata[i]);
        for (guint k = 0; moves && k < moves->len; k++) {
            const struct vg_approval *one = moves->pdata[k];
            if (one->moving && strcmp(one->to, host) == 0)
                g_ptr_array_add(moving, g_strdup(one->uuid));
        }
    }
    return moving;
}

bool
vg_peers_queue_to(vg_peers *peers, const char *host)
{
    VG_LOCK_SCOPE(&peers->lock);
    for (guint i = 0; i < peers->list->len; i++) {
        const GPtrArray *moves = approvals_of_moves(peers->list->pdata[i]);
        bool queues = false, moves_one = false;
        for (guint k = 0; moves && k < moves->len; k++) {
            const struct vg_approval *one = moves->pdata[k];
            if (strcmp(one->to, host) != 0)
                continue;
            queues = queues || one->queued;
            moves_one = moves_one || one->moving;
        }
        if (queues && !moves_one)
            return true;
    }
    return false;
}
