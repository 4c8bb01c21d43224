/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_DAEMON_BACKEND_PRIVATE_H
#define VG_DAEMON_BACKEND_PRIVATE_H

#include <pthread.h>

#include "cluster/leader.h"
#include "daemon/backend.h"
#include "daemon/judge.h"
#include "mover/drain.h"
#include "mover/proxy-notifier.h"

/* A move that a plan of this vgpud proposes, so that a scheduler should allow it. */
struct backend_proposal {
    char *uuid;
    char *to;
    int64_t until_ns; /* CLOCK_MONOTONIC */
};

/* The vGPUs of a VM that a scheduler could not place. */
struct backend_unplaced {
    char *type; /* NULL if there was none */
    int64_t n;
    int64_t at_ns; /* CLOCK_MONOTONIC */
};

/* Memory that a proxy reserves for a client. */
struct backend_room {
    char *owner;      /* identity of the client */
    int64_t until_ns; /* CLOCK_MONOTONIC */
};

struct vg_daemon_backend {
    struct vg_backend ops;
    vg_drainer *drainer; /* NULL until the backend is started */
    vg_judge *judge;     /* NULL until the backend is started */
    vg_leader
        *leader; /* NULL if this host is not in a cluster; the same applies to the next member */
    struct backend_act *act;
    vg_proxy_notifier *notifier; /* NULL until the backend is started */
    struct vg_daemon_backend_parts parts;
    pthread_mutex_t lock; /* protects the members below */
    struct vg_policy_config policy;
    const struct vg_daemon_config *access;
    char *open_secrets; /* files that were readable by everyone at the last check, or NULL */
    int64_t age_ns;
    int64_t age_at_ns; /* CLOCK_MONOTONIC, when age_ns was measured */
    bool replay_ended;
    uint64_t reloads;
    uint64_t reload_failures;
    int64_t reload_refused_ns;
    GPtrArray *proposed;              /* struct backend_proposal */
    struct backend_unplaced unplaced; /* the newest one */
    GHashTable *rooms; /* id of a client's reservation in proxies -> struct backend_room */
    struct arrivals_fleet
        *fleet; /* the indexes that were built for the last answer to a scheduler; may be NULL */
};

/* daemon/backend-forecast.c: adds the steps of a move to the document of a dry run. Blocks. */
void backend_add_forecast(vg_daemon_backend *backend, json_object *document,
                          const struct vg_inv_vm *vm, const struct vg_migration *migration);

/* daemon/backend-arrivals.c: list_approvals and rate_arrival of struct vg_backend_plans */
GPtrArray *backend_list_approvals(void *data);
void backend_rate_arrival(void *data, struct vg_arrival_query *query);
void backend_arrivals_unref(struct arrivals_fleet *fleet); /* NULL is fine */

/* daemon/backend-libvirt.c: reports how well libvirt responds, on this host and on the peers */
struct vg_part_status *backend_libvirt_status(vg_daemon_backend *backend);

/* daemon/backend-peers.c: reports the peers, for example "2 of 3 peers cannot be used: b, c". vgpud
 * remains ready while a peer is unreachable, or does not prove which host it is. */
struct vg_part_status *backend_peers_status(vg_daemon_backend *backend);

/* daemon/backend-hosts.c: list_hosts, list_cluster_vms and read_cluster of struct
 * vg_backend_measurement, and the state of etcd, if this host is in a cluster */
GPtrArray *backend_list_hosts(void *data);
GPtrArray *backend_list_group_doubts(void *data);
GStrv backend_list_peer_hosts(void *data); /* of struct vg_backend_access */
GPtrArray *backend_list_cluster_vms(void *data, const char *host);
bool backend_read_cluster(void *data, struct vg_cluster_status *ret);
struct vg_part_status *backend_cluster_status(vg_daemon_backend *backend);

/* daemon/backend-drain.c: returns the user of a request for another vgpud together with this host's
 * name, because an identity is only valid on one host. The caller frees it. */
char *backend_person(const vg_daemon_backend *backend, const char *asked_by);

/* daemon/backend-all-moves.c: list_all_migrations of struct vg_backend_moves */
GPtrArray *backend_list_all_migrations(void *data, bool active, size_t limit, GError **err);

/* daemon/backend-maintenance.c: returns the names of the other hosts that are being drained
 * according to the cluster, as a set that the caller frees; NULL if this host is not in a cluster.
 * The second function marks these hosts in a snapshot. */
GHashTable *backend_drained(vg_daemon_backend *backend);
void backend_mark_drained(vg_daemon_backend *backend, vg_snapshot *snapshot);

/* daemon/backend-drain.c: drains this host if a drain has been requested */
int backend_start_drainer(vg_daemon_backend *backend, GError **err);

/* daemon/backend-drain.c: of struct vg_backend_moves */
vg_drain *backend_read_drain(void *data, const char *host, bool dry_run, GError **err);
vg_drain *backend_begin_drain(void *data, const char *host, const char *asked_by, GError **err);
int backend_end_drain(void *data, const char *host, const char *asked_by, GError **err);

/* Checks whether a VM can move to a host now: no VM of one of its anti-affinity groups is moving
 * there, and the host is not being drained. Waits up to two seconds for the target's vgpud. */
int backend_check_target(vg_daemon_backend *backend, const struct vg_migration *migration,
                         GError **err);

/* daemon/backend-judge.c: judges moves that are done */
int backend_start_judge(vg_daemon_backend *backend, GError **err);

/* daemon/backend-leader.c: takes part in the election of the cluster's leader, if this host is in a
 * cluster */
int backend_start_leader(vg_daemon_backend *backend, GError **err);

/* daemon/backend-act.c: checks that the configuration of this host and the VM's own mode allow
 * automatic moves of a VM of this host. Fails with VG_E_REFUSED. */
int backend_act_check(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GError **err);

/* daemon/backend-groups.c */

/* Checks that no VM of the same anti-affinity group is being moved to the same host, by this vgpud
 * or by peers. data is the backend. */
int backend_check_groups(void *data, const struct vg_migration *migration, GError **err);

/* Checks that two VMs (UUIDs) moving to this host are not in the same anti-affinity group, as far
 * as this is known. data is the backend. */
int backend_check_arrivals(void *data, const char *uuid, const char *other, GError **err);

/* daemon/backend-find.c: finds a VM of this host. Returns NULL if it has no such VM. */
const struct vg_inv_vm *backend_find_here(const vg_view *view, const char *id);

/* daemon/backend-moves.c */
extern const struct vg_backend_moves backend_moves;

/* Sets the CPU time that the VM lost in the last minutes before its move, from the store. */
void backend_measure_before(vg_store *store, struct vg_migration *migration);

/* Checks that the target host has free GPUs for the VM. Blocks. */
int backend_check_gpus(vg_daemon_backend *backend, const struct vg_migration *migration,
                       GError **err);

/* daemon/backend-planned.c */

/* Adds the prediction of its plan to a move; NULL without a plan. */
void backend_note_forecast(struct vg_migration *migration, const vg_move_forecast *forecast);

/* The part of a plan that concerns one move. */
struct backend_planned {
    vg_move_forecast *forecast; /* NULL without a plan */
    GPtrArray *gpus;            /* struct vg_gpu_target, or NULL without a plan */
};

/* Looks up the plan of a request and checks that it is still valid. The caller clears *ret, which
 * is empty after a failure. */
int backend_check_plan(vg_daemon_backend *backend, const vg_view *view,
                       const struct vg_migration_request *request, struct backend_planned *ret,
                       GError **err);
void backend_planned_clear(struct backend_planned *planned);
typedef struct backend_planned backend_planned;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(backend_planned, backend_planned_clear)

/* Returns a request with the GPUs that its plan names, if any. Its members are borrowed. */
struct vg_migration_request backend_with_gpus(const struct vg_migration_request *request,
                                              const struct backend_planned *planned);

/* daemon/backend-plans.c */
extern const struct vg_backend_plans backend_plans;
void backend_proposal_free(void *proposal);

/* Reads the policy's present configuration. */
void backend_read_policy(vg_daemon_backend *backend, struct vg_policy_config *ret);

/* Merges this host, as in the view, with all peers: the gather function of struct
 * vg_backend_measurement. */
vg_snapshot *backend_gather(void *data, const vg_view *view, GPtrArray *ret_notes);

/* daemon/backend-queue.c: functions that are called when the turn of a queued move comes */
extern const struct vg_mover_turn backend_turn;

/* daemon/backend-vulkan.c: of struct vg_backend_moves */
vg_vulkan_change *backend_set_vulkan(void *data, const char *vm,
                                     const struct vg_vulkan_request *request, GError **err);

/* daemon/backend-proxy-place.c: returns the control sockets of this host's proxies from [gpu]
 * proxies, which the caller frees; the proxies' sockets; and list_proxies of struct
 * vg_backend_measurement */
char *backend_proxy_paths(vg_daemon_backend *backend);
GPtrArray *backend_list_proxies(vg_daemon_backend *backend, GError **err);
GPtrArray *backend_list_proxies_of(void *data, const char *host, GError **err);

/* daemon/backend-proxies.c: of struct vg_backend_measurement and struct vg_backend_moves */
GPtrArray *backend_list_proxy_guests(void *data);
vg_proxy_show *backend_show_proxy(void *data, const char *id, GError **err);
GPtrArray *backend_limit_proxy(void *data, const char *id, const struct vg_proxy_limit *limit,
                               GError **err);

/* Also of struct vg_backend_moves. */
int backend_reserve_room(void *data, const struct vg_proxy_room *room, const char *asked_by,
                         GError **err);
void backend_room_free(void *room);
int backend_release_room(void *data, const char *id, const char *asked_by, GError **err);

/* daemon/backend-proxies.c: prepares the move that a request describes. If vgpud is to choose the
 * proxy where programs continue during the move, it does so, and gpu_during_why of the result has
 * the reason. */
struct vg_migration *backend_prepare_move(vg_daemon_backend *backend, const struct vg_inv_vm *vm,
                                          const struct vg_migration_request *request, GError **err);

/* daemon/backend-proxies.c: of struct vg_backend_moves */
struct vg_proxy_move *backend_move_proxy(void *data, const char *id,
                                         const struct vg_proxy_move_request *request, GError **err);

/* daemon/backend-proxy-place.c: sets in move what the name of a GPU, of a host, or HOST/GPU means
 * for a VM: to, host, gpu and why. Fails with VG_E_NOT_FOUND if there is no such GPU or host,
 * VG_E_CONFLICT if the name is ambiguous, and VG_E_REFUSED if the VM has no socket there that its
 * programs can reach. Blocks. */
int backend_find_place(vg_daemon_backend *backend, const struct vg_inv_vm *vm, const char *name,
                       struct vg_proxy_move *move, GError **err);

#endif
