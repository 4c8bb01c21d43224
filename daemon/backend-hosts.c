/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests for all hosts: this host, the hosts in etcd, and the peers' hosts. No
 * function here waits for another host.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "daemon/backend-private.h"
#include "host/qemu-tls.h"
#include "policy/host-groups.h"

static struct vg_host_info *
hosts_find(const GPtrArray *hosts, const char *name)
{
    for (guint i = 0; i < hosts->len; i++) {
        struct vg_host_info *info = hosts->pdata[i];
        if (strcmp(info->card.name, name) == 0)
            return info;
    }
    return NULL;
}

static void
hosts_take_summary(struct vg_host_info *info, const struct vg_snap_host *host, int64_t at_ns)
{
    struct vg_host_summary *summary = vg_host_summary_of(host, at_ns);
    const struct vg_host_summary old = info->summary;

    info->summary = *summary;
    info->summary_ns = at_ns;
    *summary = old;
    vg_host_summary_free(summary);
}

/* Adds the hosts that are being emptied, according to the cluster, including hosts that are
 * otherwise unknown. */
static void
hosts_take_drained(vg_daemon_backend *backend, GPtrArray *hosts)
{
    g_autoptr(GHashTable) drained = backend_drained(backend);
    GHashTableIter at;
    void *name;

    if (!drained)
        return;
    g_hash_table_iter_init(&at, drained);
    while (g_hash_table_iter_next(&at, &name, NULL)) {
        struct vg_host_info *info = hosts_find(hosts, name);
        if (!info) {
            info = vg_host_info_new();
            info->card.name = g_strdup(name);
            info->state = VG_HOST_SILENT;
            info->reason = g_strdup("it is being drained, and its vgpud is not in the cluster");
            g_ptr_array_add(hosts, info);
        }
        info->maintenance = true;
    }
}

static struct vg_host_info *
hosts_own(vg_daemon_backend *backend)
{
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const char *name = vg_mover_host(backend->parts.mover);
    const struct vg_snap_host *host = vg_snapshot_find_host(view->snapshot, name);
    struct vg_host_info *info = vg_host_info_new();

    info->card.name = g_strdup(name);
    info->card.version = g_strdup(PACKAGE_VERSION);
    info->card.boot_id = g_strdup(view->boot_id);
    info->card.migration_tls = vg_qemu_tls_look("");
    info->card.started_ns = view->started_ns;
    info->self = true;
    info->seen_ns = vg_clock_realtime_ns();
    if (view->windows > 0 && host)
        hosts_take_summary(info, host, view->made_ns);
    VG_LOCK_SCOPE(&backend->lock);
    if (backend->access && backend->access->cluster_etcd[0]) {
        info->card.url = g_strdup(backend->access->cluster_url);
        info->card.libvirt_uri = g_strdup(backend->access->cluster_libvirt_uri);
    }
    return info;
}

/* Adds a peer's report of its host to the information from etcd. */
static void
hosts_take_peer(GPtrArray *hosts, const struct vg_peer_info *peer)
{
    const bool is_disputed = peer->host_proof == VG_PROOF_DISPUTED;
    const char *name = peer->host && !is_disputed ? peer->host : peer->name;
    struct vg_host_info *info = hosts_find(hosts, name);

    /* Ignore a peer that may not speak for a known host. */
    if (info && (info->self || peer->host_reason))
        return;
    if (!info) {
        info = vg_host_info_new();
        info->card.name = g_strdup(name);
        info->card.url = g_strdup(peer->url);
        info->card.libvirt_uri = g_strdup(peer->libvirt_uri);
        info->card.migration_tls = peer->migration_tls;
        info->card.version = g_strdup(peer->version);
        info->state = peer->state == VG_PEER_UNREACHABLE ? VG_HOST_SILENT : VG_HOST_STALE;
        info->reason = g_strdup(peer->reason ? peer->reason : "its vgpud has not been queried yet");
        g_ptr_array_add(hosts, info);
    }
    /* With many members, the last answer may be older than the information from etcd. */
    const bool is_newer = peer->answered_ns >= info->seen_ns;
    info->seen_ns = MAX(info->seen_ns, peer->answered_ns);
    if (peer->state == VG_PEER_REACHABLE && is_newer) {
        info->state = VG_HOST_ALIVE;
        g_clear_pointer(&info->reason, g_free);
    }
}

static int
hosts_compare(const void *a, const void *b)
{
    const struct vg_host_info *x = *(struct vg_host_info *const *)a;
    const struct vg_host_info *y = *(struct vg_host_info *const *)b;

    return strcmp(x->card.name, y->card.name);
}

GPtrArray *
backend_list_hosts(void *data)
{
    vg_daemon_backend *backend = data;
    GPtrArray *hosts = backend->parts.region ? vg_region_hosts(backend->parts.region)
                                             : g_ptr_array_new_with_free_func(vg_host_info_free);
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);

    g_ptr_array_add(hosts, hosts_own(backend));
    for (guint i = 0; i < peers->len; i++)
        hosts_take_peer(hosts, peers->pdata[i]);
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        for (guint k = 0; k < copy->snapshot->hosts->len; k++) {
            const struct vg_snap_host *host = copy->snapshot->hosts->pdata[k];
            struct vg_host_info *info = hosts_find(hosts, host->name);
            /* Use the report that arrived last. That host's own clock may differ. */
            if (info && !info->self && copy->at_ns > info->summary_ns)
                hosts_take_summary(info, host, copy->at_ns);
        }
    }
    hosts_take_drained(backend, hosts);
    for (guint i = 0; i < hosts->len; i++) {
        struct vg_host_info *info = hosts->pdata[i];
        info->maintenance |= info->summary.maintenance;
    }
    g_ptr_array_sort(hosts, hosts_compare);
    return hosts;
}

GPtrArray *
backend_list_group_doubts(void *data)
{
    g_autoptr(GPtrArray) hosts = backend_list_hosts(data);
    GPtrArray *doubts = g_ptr_array_new_with_free_func(g_free);
    struct vg_policy_config policy;

    backend_read_policy(data, &policy);
    for (guint i = 0; i < hosts->len && policy.n_host_groups > 1; i++) {
        const struct vg_host_info *info = hosts->pdata[i];
        char *doubt = vg_host_groups_doubt(&policy, info->card.name);
        if (doubt)
            g_ptr_array_add(doubts, doubt);
    }
    return doubts;
}

/* Adds the VMs of a snapshot's hosts. If two snapshots have the same host, the first one is
 * used. */
static void
hosts_add_vms(GPtrArray *list, GHashTable *done, const vg_snapshot *snapshot, const char *only,
              int64_t at_ns)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        if ((only && strcmp(host->name, only) != 0) ||
            !g_hash_table_add(done, g_strdup(host->name)))
            continue;
        for (guint k = 0; k < host->vms->len; k++)
            g_ptr_array_add(list, vg_cluster_vm_of(host, host->vms->pdata[k], at_ns));
    }
}

GPtrArray *
backend_list_cluster_vms(void *data, const char *host)
{
    vg_daemon_backend *backend = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_cluster_vm_free);
    g_autoptr(GHashTable) done = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);

    hosts_add_vms(list, done, view->snapshot, host, view->made_ns);
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        hosts_add_vms(list, done, copy->snapshot, host, copy->at_ns);
    }
    return list;
}

bool
backend_read_cluster(void *data, struct vg_cluster_status *ret)
{
    vg_daemon_backend *backend = data;
    struct vg_region_state state;

    if (!backend->parts.region)
        return false;
    vg_region_read_state(backend->parts.region, &state);
    *ret = (struct vg_cluster_status){
        .name = g_steal_pointer(&state.cluster),
        .endpoint = g_steal_pointer(&state.endpoint),
        .known = state.known,
        .reason = g_steal_pointer(&state.reason),
        .answered_ns = state.answered_ns,
        .revision = state.revision,
        .puts = state.puts,
        .leader = vg_region_leader(backend->parts.region),
        .proposal = vg_region_proposal(backend->parts.region),
    };
    vg_region_state_clear(&state);
    return true;
}

struct vg_part_status *
backend_cluster_status(vg_daemon_backend *backend)
{
    struct vg_region_state state;

    vg_region_read_state(backend->parts.region, &state);
    struct vg_part_status *part =
        vg_part_status_new("etcd", state.known ? "ok" : "degraded", true,
                           state.known ? NULL : g_steal_pointer(&state.reason));
    vg_region_state_clear(&state);
    return part;
}

GStrv
backend_list_peer_hosts(void *data)
{
    vg_daemon_backend *backend = data;
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    GPtrArray *hosts = g_ptr_array_new();

    for (guint i = 0; i < peers->len; i++) {
        const struct vg_peer_info *peer = peers->pdata[i];
        g_autoptr(GUri) url = g_uri_parse(peer->url, G_URI_FLAGS_NONE, NULL);
        if (url && g_uri_get_host(url))
            g_ptr_array_add(hosts, g_strdup(g_uri_get_host(url)));
    }
    g_ptr_array_add(hosts, NULL);
    return (GStrv)g_ptr_array_free(hosts, FALSE);
}
