/* SPDX-License-Identifier: Apache-2.0
 *
 * What a scheduler is told: from what is in memory of this host and its peers, nothing slow.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "daemon/backend-private.h"
#include "policy/arrival.h"

/* What is older says nothing any more. */
#define STALE_NS (120 * VG_NS_PER_S)

struct arrivals_known {
    const struct vg_snap_host *host;
    int64_t at_ns; /* epoch */
};

/* By name and, in lower case, by UUID. */
struct arrivals_fleet {
    GHashTable *hosts;
    GArray *known; /* struct arrivals_known */
};

static void
arrivals_add(struct arrivals_fleet *fleet, const vg_snapshot *snapshot, int64_t at_ns)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct arrivals_known known = {snapshot->hosts->pdata[i], at_ns};
        g_array_append_val(fleet->known, known);
    }
}

static void
arrivals_index(struct arrivals_fleet *fleet)
{
    for (guint i = fleet->known->len; i > 0; i--) {
        struct arrivals_known *known = &g_array_index(fleet->known, struct arrivals_known, i - 1);
        g_hash_table_insert(fleet->hosts, known->host->name, known);
        if (known->host->uuid)
            g_hash_table_insert(fleet->hosts, known->host->uuid, known);
    }
}

/* Where it runs now, if it does. */
static const struct vg_snap_vm *
arrivals_find_vm(const struct arrivals_fleet *fleet, const char *uuid)
{
    for (guint i = 0; uuid && i < fleet->known->len; i++) {
        const GPtrArray *vms = g_array_index(fleet->known, struct arrivals_known, i).host->vms;
        for (guint k = 0; k < vms->len; k++) {
            const struct vg_snap_vm *vm = vms->pdata[k];
            if (vm->uuid && strcmp(vm->uuid, uuid) == 0)
                return vm;
        }
    }
    return NULL;
}

static struct vg_arrival
arrivals_expect(const struct arrivals_fleet *fleet, struct vg_arrival_query *query)
{
    struct vg_arrival arrival = {.vcpus = query->vcpus,
                                 .vm_class = query->vm_class,
                                 .gpu_type = query->gpu_type,
                                 .gpus = query->gpus};
    const struct vg_snap_vm *vm = arrivals_find_vm(fleet, query->uuid);

    vg_arrival_expect(&arrival);
    query->basis = query->vm_class >= 0 ? VG_ARRIVAL_BY_FLAVOR : VG_ARRIVAL_BY_SIZE;
    if (vm && !vm->problem) {
        vg_arrival_learn(&arrival, vm);
        query->basis = VG_ARRIVAL_BY_HISTORY;
    }
    query->expected_class = arrival.vm_class;
    return arrival;
}

/* A move that vgpud itself wants must not be refused by it. */
static bool
arrivals_is_approved(vg_daemon_backend *backend, const char *uuid, const char *host)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (!uuid)
        return false;
    if (vg_mover_is_moving(backend->parts.mover, uuid, host))
        return true;
    VG_LOCK_SCOPE(&backend->lock);
    for (guint i = 0; i < backend->proposed->len; i++) {
        const struct backend_proposal *one = backend->proposed->pdata[i];
        if (one->until_ns > now_ns && strcmp(one->uuid, uuid) == 0 && strcmp(one->to, host) == 0)
            return true;
    }
    return false;
}

static void
arrivals_rate_host(vg_daemon_backend *backend, const struct arrivals_fleet *fleet,
                   const struct vg_arrival_query *query, const struct vg_arrival *arrival,
                   const struct vg_policy_config *policy, struct vg_arrival_host *host)
{
    const struct arrivals_known *known = g_hash_table_lookup(fleet->hosts, host->name);
    const int64_t now_ns = vg_clock_realtime_ns();
    struct vg_arrival_score score;

    if (!known && host->uuid)
        known = g_hash_table_lookup(fleet->hosts, host->uuid);
    if (!known)
        return;
    host->age_ms = MAX(now_ns - known->at_ns, 0) / VG_NS_PER_MS;
    if (now_ns - known->at_ns > STALE_NS) {
        g_strlcpy(host->text, "what is known of the host is too old", sizeof(host->text));
        return;
    }
    vg_arrival_rate(arrival, known->host, policy, &score);
    host->verdict = score.veto ? VG_ARRIVAL_VETO : VG_ARRIVAL_PASS;
    host->score = score.score;
    g_strlcpy(host->text, score.text, sizeof(host->text));
    if (arrivals_is_approved(backend, query->uuid, known->host->name)) {
        host->verdict = VG_ARRIVAL_PASS;
        host->score = 1;
        g_strlcpy(host->text, "vgpud itself wants this move", sizeof(host->text));
    }
}

void
backend_rate_arrival(void *data, struct vg_arrival_query *query)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);
    struct arrivals_fleet fleet = {g_hash_table_new(g_str_hash, g_str_equal),
                                   g_array_new(FALSE, FALSE, sizeof(struct arrivals_known))};
    struct vg_policy_config policy;

    pthread_mutex_lock(&backend->lock);
    policy = backend->policy;
    pthread_mutex_unlock(&backend->lock);
    if (view->windows > 0)
        arrivals_add(&fleet, view->snapshot, view->replay ? vg_clock_realtime_ns() : view->made_ns);
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        arrivals_add(&fleet, copy->snapshot, copy->at_ns);
    }
    arrivals_index(&fleet);
    const struct vg_arrival arrival = arrivals_expect(&fleet, query);
    for (guint i = 0; i < query->hosts->len; i++)
        arrivals_rate_host(backend, &fleet, query, &arrival, &policy, query->hosts->pdata[i]);
    g_hash_table_unref(fleet.hosts);
    g_array_unref(fleet.known);
}
