/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers a scheduler's requests from this host's and its peers' snapshots in memory, so that every
 * answer is fast.
 */
#include "config.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/backend-private.h"
#include "model/gpu-part.h"
#include "model/vm-name.h"
#include "policy/arrival.h"

#define VG_LOG_TAG "nova"

struct arrivals_known {
    const struct vg_snap_host *host;
    const vg_arrival_hosts *hosts; /* contains the host */
    size_t at;                     /* its index in hosts */
    guint from;                    /* 0 for this host, otherwise 1 + the index of the peer's copy */
};

/* Indexes of the hosts, VMs and types that a scheduler may query. They are rebuilt only when a
 * snapshot has changed: for 1,000 hosts and 10,000 VMs, this takes as long as an answer. They are
 * reference-counted and immutable. */
struct arrivals_fleet {
    vg_view *view;     /* NULL if nothing has been measured here yet */
    GPtrArray *copies; /* struct vg_peer_copy; the other members point into them */
    GPtrArray *loads;  /* vg_arrival_hosts of each snapshot */
    GHashTable *hosts; /* struct arrivals_known by name and, in lower case, by UUID */
    GHashTable *vms;   /* struct vg_snap_vm, by UUID */
    GHashTable *types; /* vGPU types (char *), by trait */
    GArray *known;     /* struct arrivals_known */
};

static void
arrivals_unref_loads(void *hosts)
{
    vg_arrival_hosts_unref(hosts);
}

static void
arrivals_clear(void *data)
{
    struct arrivals_fleet *fleet = data;

    g_hash_table_unref(fleet->hosts);
    g_hash_table_unref(fleet->vms);
    g_hash_table_unref(fleet->types);
    g_array_unref(fleet->known);
    g_ptr_array_unref(fleet->loads);
    g_ptr_array_unref(fleet->copies);
    vg_view_unref(fleet->view);
}

void
backend_arrivals_unref(struct arrivals_fleet *fleet)
{
    if (fleet)
        g_atomic_rc_box_release_full(fleet, arrivals_clear);
}

/* Returns the loads of a snapshot, from the older indexes if they have it, otherwise newly
 * computed. hint is its likely index in the older ones. older may be NULL. The caller unrefs the
 * result. */
static vg_arrival_hosts *
arrivals_need_loads(const struct arrivals_fleet *older, const vg_snapshot *snapshot, guint hint,
                    const struct vg_policy_config *policy)
{
    const guint n = older ? older->loads->len : 0;

    /* Most snapshots have kept their index. */
    for (guint i = 0; i < n; i++) {
        vg_arrival_hosts *hosts = older->loads->pdata[(hint + i) % n];
        if (vg_arrival_hosts_snapshot(hosts) == snapshot)
            return vg_arrival_hosts_ref(hosts);
    }
    return vg_arrival_hosts_new(snapshot, policy);
}

static void
arrivals_add(struct arrivals_fleet *fleet, vg_arrival_hosts *take_hosts, guint from)
{
    const vg_snapshot *snapshot = vg_arrival_hosts_snapshot(take_hosts);

    g_ptr_array_add(fleet->loads, take_hosts);
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        const struct arrivals_known known = {host, take_hosts, i, from};
        g_array_append_val(fleet->known, known);
    }
}

/* Records the vGPU types of a host. Most hosts have the same types. */
static void
arrivals_index_types(struct arrivals_fleet *fleet, GHashTable *seen,
                     const struct vg_snap_host *host)
{
    for (guint i = 0; i < host->gpus->len; i++) {
        const GPtrArray *types = ((const struct vg_snap_gpu *)host->gpus->pdata[i])->vgpu_types;
        for (guint k = 0; k < types->len; k++) {
            char *type = ((struct vg_snap_vgpu_type *)types->pdata[k])->type;
            if (g_hash_table_add(seen, type))
                g_hash_table_insert(fleet->types, vg_gpu_type_trait(type), type);
        }
    }
}

/* Fills the indexes. If two hosts or VMs have the same name or UUID, the first one is used. */
static void
arrivals_index(struct arrivals_fleet *fleet)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    for (guint i = fleet->known->len; i > 0; i--) {
        struct arrivals_known *known = &g_array_index(fleet->known, struct arrivals_known, i - 1);
        const GPtrArray *vms = known->host->vms;
        arrivals_index_types(fleet, seen, known->host);
        g_hash_table_insert(fleet->hosts, known->host->name, known);
        if (known->host->uuid)
            g_hash_table_insert(fleet->hosts, known->host->uuid, known);
        for (guint k = vms->len; k > 0; k--) {
            struct vg_snap_vm *vm = vms->pdata[k - 1];
            if (vm->uuid)
                g_hash_table_insert(fleet->vms, vm->uuid, vm);
        }
    }
}

static struct arrivals_fleet *
arrivals_new(vg_view *view, GPtrArray *copies, const struct arrivals_fleet *older,
             const struct vg_policy_config *policy)
{
    struct arrivals_fleet *fleet = g_atomic_rc_box_new0(struct arrivals_fleet);

    fleet->view = view ? vg_view_ref(view) : NULL;
    fleet->copies = g_ptr_array_ref(copies);
    fleet->hosts = g_hash_table_new(g_str_hash, g_str_equal);
    fleet->vms = g_hash_table_new(g_str_hash, g_str_equal);
    fleet->types = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    fleet->loads = g_ptr_array_new_with_free_func(arrivals_unref_loads);
    fleet->known = g_array_new(FALSE, FALSE, sizeof(struct arrivals_known));
    if (view)
        arrivals_add(fleet, arrivals_need_loads(older, view->snapshot, 0, policy), 0);
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        const guint hint = fleet->loads->len;
        arrivals_add(fleet, arrivals_need_loads(older, copy->snapshot, hint, policy), i + 1);
    }
    arrivals_index(fleet);
    return fleet;
}

static bool
arrivals_is_of(const struct arrivals_fleet *fleet, const vg_view *view, const GPtrArray *copies)
{
    if (!fleet || fleet->view != view || fleet->copies->len != copies->len)
        return false;
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *had = fleet->copies->pdata[i], *has = copies->pdata[i];
        if (had->snapshot != has->snapshot)
            return false;
    }
    return true;
}

/* Returns the indexes for the newest snapshots. The caller unrefs them. view is NULL if nothing has
 * been measured yet. */
static struct arrivals_fleet *
arrivals_get(vg_daemon_backend *backend, vg_view *view, GPtrArray *copies)
{
    pthread_mutex_lock(&backend->lock);
    struct arrivals_fleet *older = backend->fleet ? g_atomic_rc_box_acquire(backend->fleet) : NULL;
    const struct vg_policy_config policy = backend->policy;
    pthread_mutex_unlock(&backend->lock);
    if (arrivals_is_of(older, view, copies))
        return older;
    struct arrivals_fleet *fleet = arrivals_new(view, copies, older, &policy);
    backend_arrivals_unref(older);
    pthread_mutex_lock(&backend->lock);
    struct arrivals_fleet *old = backend->fleet;
    backend->fleet = g_atomic_rc_box_acquire(fleet);
    pthread_mutex_unlock(&backend->lock);
    backend_arrivals_unref(old);
    return fleet;
}

/* Reads from the traits which vGPU types a request requires or forbids. A type that no host has is
 * ignored, because placement handles it. */
static void
arrivals_read_traits(const struct arrivals_fleet *fleet, const struct vg_arrival_query *query,
                     GPtrArray *forbidden, struct vg_arrival *arrival)
{
    for (guint i = 0; i < query->traits->len && !arrival->gpu_type; i++)
        arrival->gpu_type = g_hash_table_lookup(fleet->types, query->traits->pdata[i]);
    for (guint i = 0; i < query->traits_forbidden->len; i++) {
        char *type = g_hash_table_lookup(fleet->types, query->traits_forbidden->pdata[i]);
        if (type)
            g_ptr_array_add(forbidden, type);
    }
    arrival->forbidden_types = forbidden;
}

static struct vg_arrival
arrivals_expect(const struct arrivals_fleet *fleet, struct vg_arrival_query *query,
                GPtrArray *forbidden)
{
    struct vg_arrival arrival = {.vcpus = query->vcpus,
                                 .vm_class = query->vm_class,
                                 .gpu_type = query->gpu_type,
                                 .gpus = query->gpus};
    /* NULL unless the VM runs on a known host. */
    const struct vg_snap_vm *vm = query->uuid ? g_hash_table_lookup(fleet->vms, query->uuid) : NULL;

    arrivals_read_traits(fleet, query, forbidden, &arrival);
    vg_arrival_expect(&arrival);
    query->basis = query->vm_class >= 0 ? VG_ARRIVAL_BY_FLAVOR : VG_ARRIVAL_BY_SIZE;
    if (vm && !vm->problem) {
        vg_arrival_learn(&arrival, vm);
        query->basis = VG_ARRIVAL_BY_HISTORY;
    }
    query->expected_class = arrival.vm_class;
    return arrival;
}

GPtrArray *
backend_list_approvals(void *data)
{
    vg_daemon_backend *backend = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_approval_free);
    const int64_t now_ns = vg_clock_monotonic_ns();

    vg_mover_add_approvals(backend->parts.mover, list);
    VG_LOCK_SCOPE(&backend->lock);
    for (guint i = 0; i < backend->proposed->len; i++) {
        const struct backend_proposal *one = backend->proposed->pdata[i];
        if (one->until_ns > now_ns)
            g_ptr_array_add(list, vg_approval_new(one->uuid, one->to, false));
    }
    return list;
}

/* Lists the hosts (char *) to which this vgpud or a peer is to move the VM. */
static GPtrArray *
arrivals_targets(vg_daemon_backend *backend, const char *uuid)
{
    g_autoptr(GPtrArray) approvals = backend_list_approvals(backend);
    GPtrArray *targets = vg_peers_approved_targets(backend->parts.peers, uuid);

    for (guint i = 0; i < approvals->len; i++) {
        const struct vg_approval *one = approvals->pdata[i];
        if (vg_vm_is(uuid, NULL, one->uuid))
            g_ptr_array_add(targets, g_strdup(one->to));
    }
    return targets;
}

struct arrivals_asked {
    vg_daemon_backend *backend;
    const struct arrivals_fleet *fleet;
    const GPtrArray *copies; /* the peers' newest snapshots */
    const struct vg_arrival_query *query;
    struct vg_arrival arrival;
    struct vg_policy_config policy;
    /* the names of hosts that are being emptied, according to the cluster, or NULL */
    GHashTable *drained;
    GPtrArray *targets; /* char *, hosts that are always allowed, or NULL if the VM is unknown */
    int64_t now_ns;     /* epoch */
};

/* Returns whether vgpud itself is to move the VM to this host, which must then not be refused. */
static bool
arrivals_is_approved(const struct arrivals_asked *asked, const char *host)
{
    return asked->targets &&
           g_ptr_array_find_with_equal_func(asked->targets, host, g_str_equal, NULL);
}

static int64_t
arrivals_at_ns(const struct arrivals_asked *asked, guint from)
{
    const vg_view *view = asked->fleet->view;

    if (from > 0)
        return ((const struct vg_peer_copy *)asked->copies->pdata[from - 1])->at_ns;
    return view->replay ? asked->now_ns : view->made_ns;
}

static void
arrivals_rate_host(const struct arrivals_asked *asked, struct vg_arrival_host *host)
{
    const struct arrivals_known *known = g_hash_table_lookup(asked->fleet->hosts, host->name);

    if (!known && host->uuid)
        known = g_hash_table_lookup(asked->fleet->hosts, host->uuid);
    const char *name = known ? known->host->name : host->name;
    const bool is_wanted = arrivals_is_approved(asked, name);
    if (known)
        vg_arrival_judge(&asked->arrival, known->hosts, known->at, &asked->policy,
                         asked->now_ns - arrivals_at_ns(asked, known->from), is_wanted, host);
    /* The host's vgpud may have stopped, or may not have reported this yet. */
    if (host->verdict != VG_ARRIVAL_VETO && !is_wanted && asked->drained &&
        g_hash_table_contains(asked->drained, name)) {
        host->verdict = VG_ARRIVAL_VETO;
        host->score = 0;
        g_strlcpy(host->text, "the host is in maintenance, according to the cluster",
                  sizeof(host->text));
    }
}

/* Records a request for a vGPU type that no host can provide, for a plan that frees vGPUs. */
static void
arrivals_note_unplaced(const struct arrivals_asked *asked)
{
    const struct vg_arrival *arrival = &asked->arrival;
    const GPtrArray *hosts = asked->query->hosts;
    struct backend_unplaced *unplaced = &asked->backend->unplaced;

    if (arrival->gpus <= 0 || !arrival->gpu_type || hosts->len == 0)
        return;
    for (guint i = 0; i < hosts->len; i++) {
        if (((const struct vg_arrival_host *)hosts->pdata[i])->verdict != VG_ARRIVAL_VETO)
            return;
    }
    vg_log_warn_limited(
        "the scheduler found no host for a vGPU type=%s n=%" PRId64
        " instance=%s; `vgpuctl placement --dry-run --free-up nova` plans moves that free vGPUs",
        arrival->gpu_type, arrival->gpus, asked->query->uuid ? asked->query->uuid : "-");
    VG_LOCK_SCOPE(&asked->backend->lock);
    g_free(unplaced->type);
    unplaced->type = g_strdup(arrival->gpu_type);
    unplaced->n = arrival->gpus;
    unplaced->at_ns = vg_clock_monotonic_ns();
}

void
backend_rate_arrival(void *data, struct vg_arrival_query *query)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);
    g_autoptr(GPtrArray) forbidden = g_ptr_array_new();
    struct arrivals_fleet *fleet = arrivals_get(backend, view->windows > 0 ? view : NULL, copies);
    struct arrivals_asked asked = {.backend = backend,
                                   .fleet = fleet,
                                   .copies = copies,
                                   .query = query,
                                   .arrival = arrivals_expect(fleet, query, forbidden),
                                   .now_ns = vg_clock_realtime_ns()};

    if (query->uuid)
        asked.targets = arrivals_targets(backend, query->uuid);
    asked.drained = backend_drained(backend);
    pthread_mutex_lock(&backend->lock);
    asked.policy = backend->policy;
    pthread_mutex_unlock(&backend->lock);
    for (guint i = 0; i < query->hosts->len; i++)
        arrivals_rate_host(&asked, query->hosts->pdata[i]);
    arrivals_note_unplaced(&asked);
    g_clear_pointer(&asked.drained, g_hash_table_destroy);
    if (asked.targets)
        g_ptr_array_unref(asked.targets);
    backend_arrivals_unref(fleet);
}
