/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests to empty a host. The host's own vgpud does this, so requests for other hosts
 * are forwarded.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"
#include "policy/evacuate.h"

/* A dry run queries all peers of that host. */
#define ASK_LIMIT_NS (20 * VG_NS_PER_S)

/* The time limit for an answer of a move's target. Without an answer, the move starts. */
#define TARGET_LIMIT_NS (2 * VG_NS_PER_S)

static bool
drain_is_here(const vg_daemon_backend *backend, const char *host)
{
    return strcmp(host, vg_mover_host(backend->parts.mover)) == 0;
}

/* Returns the peer with this host, and sets the host's name in the result. */
static struct vg_peer_info *
drain_find_peer(const vg_daemon_backend *backend, const char *host, GError **err)
{
    struct vg_peer_info *info = vg_peers_find(backend->parts.peers, host);

    if (!info)
        vg_error(err, VG_E_NOT_FOUND, "neither this host nor any of its peers is named '%s'", host);
    else if (vg_peers_check_host(info, err) < 0)
        g_clear_pointer(&info, vg_peer_info_free);
    else if (!info->host)
        info->host = g_strdup(host);
    return info;
}

char *
backend_person(const vg_daemon_backend *backend, const char *asked_by)
{
    return g_strdup_printf("%s at %s", asked_by, vg_mover_host(backend->parts.mover));
}

/* ---- calls by this host's drain ---- */

static GPtrArray *
drain_evacuate(void *data, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    struct vg_policy_config policy;

    if (view->windows == 0) {
        vg_error(err, VG_E_BUSY, "nothing has been measured yet: the first window is not complete");
        return NULL;
    }
    g_autoptr(vg_snapshot) snapshot = backend_gather(backend, view, notes);
    backend_read_policy(backend, &policy);
    return vg_policy_evacuate(snapshot, &policy, vg_mover_host(backend->parts.mover));
}

static struct vg_migration *
drain_migrate(void *data, const struct vg_migration_request *request, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autofree char *peer = NULL;
    bool known;

    return backend->ops.moves->migrate(backend, request, &known, &peer, err);
}

static void
drain_set_maintenance(void *data, bool maintenance)
{
    const vg_daemon_backend *backend = data;

    vg_node_set_maintenance(backend->parts.node, maintenance);
}

int
backend_start_drainer(vg_daemon_backend *backend, GError **err)
{
    backend->drainer = vg_drainer_new(
        &(struct vg_drainer_parts){
            .journal = backend->parts.journal,
            .mover = backend->parts.mover,
            .region = backend->parts.region,
            .host = vg_mover_host(backend->parts.mover),
            .data = backend,
            .evacuate = drain_evacuate,
            .migrate = drain_migrate,
            .set_maintenance = drain_set_maintenance,
        },
        err);
    return backend->drainer ? 0 : -1;
}

/* ---- what the API calls ---- */

vg_drain *
backend_read_drain(void *data, const char *host, bool dry_run, GError **err)
{
    vg_daemon_backend *backend = data;

    if (drain_is_here(backend, host))
        return vg_drainer_read(backend->drainer, dry_run, err);
    struct vg_peer_info *peer = drain_find_peer(backend, host, err);
    if (!peer)
        return NULL;
    const struct vg_peer_drain_order order = {peer->host, dry_run ? "POST" : "GET", dry_run, NULL};
    vg_drain *drain = vg_peer_drain(backend->parts.peers, peer->name, &order, ASK_LIMIT_NS, err);
    vg_peer_info_free(peer);
    return drain;
}

vg_drain *
backend_begin_drain(void *data, const char *host, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;

    if (drain_is_here(backend, host))
        return vg_drainer_begin(backend->drainer, asked_by, err) < 0
                   ? NULL
                   : vg_drainer_read(backend->drainer, false, err);
    struct vg_peer_info *peer = drain_find_peer(backend, host, err);
    if (!peer)
        return NULL;
    g_autofree char *person = backend_person(backend, asked_by);
    const struct vg_peer_drain_order order = {peer->host, "POST", false, person};
    vg_drain *drain = vg_peer_drain(backend->parts.peers, peer->name, &order, ASK_LIMIT_NS, err);
    vg_peer_info_free(peer);
    return drain;
}

int
backend_end_drain(void *data, const char *host, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;

    if (drain_is_here(backend, host))
        return vg_drainer_end(backend->drainer, err);
    struct vg_peer_info *peer = drain_find_peer(backend, host, err);
    if (!peer)
        return -1;
    g_autofree char *person = backend_person(backend, asked_by);
    const int status =
        vg_peer_end_drain(backend->parts.peers, peer->name, peer->host, person, ASK_LIMIT_NS, err);
    vg_peer_info_free(peer);
    return status;
}

static bool
drain_is_marked(vg_daemon_backend *backend, const char *host)
{
    g_autoptr(GHashTable) drained = backend_drained(backend);

    return drained && g_hash_table_contains(drained, host);
}

int
backend_check_target(vg_daemon_backend *backend, const struct vg_migration *migration, GError **err)
{
    if (backend_check_groups(backend, migration, err) < 0)
        return -1;
    struct vg_peer_info *peer =
        migration->peer ? vg_peers_find(backend->parts.peers, migration->peer) : NULL;
    const struct vg_peer_drain_order order = {peer && peer->host ? peer->host : migration->to,
                                              "GET", false, NULL};
    g_autoptr(GError) no = NULL;
    g_autoptr(vg_drain) drain =
        peer ? vg_peer_drain(backend->parts.peers, peer->name, &order, TARGET_LIMIT_NS, &no) : NULL;
    vg_peer_info_free(peer);
    /* The target's vgpud knows first that the host is no longer in maintenance. If it does not
     * exist or does not answer, etcd decides, and the move itself detects other problems. */
    if (!drain &&
        (g_error_matches(no, VG_ERROR, VG_E_NOT_FOUND) || !drain_is_marked(backend, migration->to)))
        return 0;
    return vg_error(err, VG_E_REFUSED,
                    "host '%s' is in maintenance and accepts no VMs; `vgpuctl host undrain %s` "
                    "ends the maintenance",
                    migration->to, migration->to);
}
