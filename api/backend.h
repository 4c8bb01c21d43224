/* SPDX-License-Identifier: Apache-2.0
 *
 * The API's interface to the daemon. The daemon publishes a view after each window; requests read
 * the newest view and never wait for the engine. Functions that take longer (the store, the policy)
 * are called on one of the API's worker threads.
 */
#ifndef VG_API_BACKEND_H
#define VG_API_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/alert.h"
#include "model/arrival.h"
#include "model/drain.h"
#include "model/gpu-log.h"
#include "model/gpu-part.h"
#include "model/happening.h"
#include "model/history.h"
#include "model/host-info.h"
#include "model/identity.h"
#include "model/inventory.h"
#include "model/migration.h"
#include "model/path.h"
#include "model/peer.h"
#include "model/plan.h"
#include "model/proposal.h"
#include "model/provenance.h"
#include "model/proxy-move.h"
#include "model/proxy-show.h"
#include "model/reservation.h"
#include "model/snapshot.h"
#include "model/source-state.h"
#include "model/trouble.h"
#include "model/vulkan.h"
#include "model/window.h"

/* The documents of a view, written on first use and then stored with it. */
enum vg_view_body { VG_BODY_VMS, VG_BODY_GPUS, VG_BODY_PREEMPTIONS, VG_BODY_SNAPSHOT, VG_BODY_MAX };

/* The state after one window (or after a change of the inventory). Immutable except for the bodies,
 * which the lock protects; reference-counted. */
struct vg_view {
    int refs;            /* atomic */
    uint64_t seq;        /* number of the view; the ETag is "<boot id>-<seq>" */
    const char *boot_id; /* UUID of this run of the daemon; valid as long as the daemon runs */
    bool replay;         /* figures are means over a recording */
    bool replay_ended;   /* the recording has been read to its end */
    int64_t made_ns;     /* epoch */
    int64_t started_ns;  /* epoch; start of the daemon */
    int64_t window_ns;   /* configured length of a window */
    uint64_t windows;    /* windows closed until now */
    uint64_t late;       /* parts that arrived after their window was closed */
    uint64_t duplicates; /* parts that arrived twice */
    uint64_t missed;     /* windows that could not be measured, or whose GPU use arrived too late */
    struct vg_provenance
        provenance; /* provenance of the newest window; the source is empty before the first */
    vg_snapshot *snapshot;   /* this host; sealed */
    vg_inventory *inventory; /* never NULL */
    GHashTable *labels;      /* see vg_view_label(); never NULL */
    GPtrArray *alerts;       /* struct vg_active_alert; never NULL */
    size_t alert_rules;      /* number of rules for alerts */
    char *alerts_doubt;      /* why alerts may be missing, or NULL */
    GPtrArray *gpu_parts;    /* struct vg_gpu_part of the inventory; never NULL */
    struct vg_window totals; /* sums since the start (replay: of all windows) */
    GArray *lost_series;     /* struct vg_lost_serie; NULL before the first window */
    struct vg_window
        newest; /* newest window; begin == end before the first. Its GPU requests are in gpu_log */
    vg_gpu_log *gpu_log;       /* NULL before the first request */
    int64_t clock_offset_ns;   /* raw clock + offset = epoch */
    pthread_mutex_t lock;      /* protects the bodies */
    char *bodies[VG_BODY_MAX]; /* JSON text or NULL; never changed once set */
    size_t sizes[VG_BODY_MAX];
};
typedef struct vg_view vg_view;

/* Creates an empty view with one reference. */
vg_view *vg_view_new(void);
vg_view *vg_view_ref(vg_view *view);
void vg_view_unref(vg_view *view); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_view, vg_view_unref)

/* Returns the `id` that identifies a VM of the snapshot in paths: its UUID, or its name if it has
 * none. */
const char *vg_view_vm_id(const struct vg_snap_vm *vm);

/* Finds a VM of the view's snapshot by an id (UUID in any case, or name). May return NULL. */
const struct vg_snap_vm *vg_view_find_vm(const vg_view *view, const char *id);

/* Finds the VM that a client means: by an id, or else by a name in OpenStack that is unique on the
 * host. Fails with VG_E_NOT_FOUND, or with VG_E_CONFLICT, which names the VMs with this name. */
const struct vg_snap_vm *vg_view_name_vm(const vg_view *view, const char *name, GError **err);

/* Sets the labels of a view from its snapshot. */
void vg_view_make_labels(vg_view *view);

/* Returns the label of the view's VM with this name in libvirt: its name in OpenStack, followed by
 * its libvirt name in brackets if the first is ambiguous. Returns the name itself if it has none in
 * OpenStack, or the VM does not exist. */
const char *vg_view_label(const vg_view *view, const char *name);

/* Finds the totals (in view->totals) or newest figures (in view->newest) of a VM. May return
 * NULL. */
const struct vg_vm_sample *vg_view_sample(const struct vg_window *window,
                                          const struct vg_snap_vm *vm);

/* A part of the daemon, for /readyz and /metrics. */
struct vg_part_status {
    const char *name;        /* "collector:procfs", "store", "engine"; static or interned */
    const char *state;       /* "ok", "starting", "degraded", "failed", "ended" */
    bool ready;              /* if false, /readyz answers 503 */
    enum vg_trouble trouble; /* the code of the reason */
    char *reason;            /* one sentence, or NULL */
    int64_t since_ns;        /* epoch; start of this state; 0 if not recorded */
    /* struct vg_source_state of a collector; NULL if it has no sources of its own */
    GPtrArray *sources;
};

struct vg_part_status *vg_part_status_new(const char *name, const char *state, bool ready,
                                          char *take_reason);
void vg_part_status_free(void *part);

/* Maximum length of a directory's path in reports. */
#define VG_DIRECTORY_LEN 4096

/* Values that are not in the view: counters, gauges, and parts of the configuration. */
struct vg_daemon_stats {
    struct vg_store_health store;
    uint64_t queue_dropped; /* number of dropped reports */
    uint64_t queue_high_water;
    uint64_t reloads;
    uint64_t reload_failures;
    int64_t reload_refused_ns; /* epoch, when the last reload was refused; 0 if it was not */
    uint64_t alert_commands;   /* runs of [alerts] command */
    uint64_t alert_command_failures;
    uint64_t alert_commands_dropped;    /* alerts for which it was not run */
    uint64_t verdicts[VG_VERDICT_MAX];  /* verdicts on moves since the start, by result */
    uint64_t acts_started, acts_undone; /* automatic moves that this host has started as leader */
    bool acts_spent;                    /* the error budget is spent, as far as this host knows */
    uint64_t calls_given_up;            /* libvirt calls that hung, since the start */
    unsigned calls_hanging;             /* those that have not returned */
    unsigned peers[VG_PEER_STATE_MAX];  /* number of peers by state */
    double cpu_s;                       /* CPU time of the process */
    int64_t rss_bytes;
    /* The configuration. */
    char store_directory[VG_DIRECTORY_LEN];
    int64_t raw_days, minute_days, hour_days; /* retention of windows and their sums */
    double budget;                            /* budget for measuring, in cores; 0 for no limit */
    bool libvirt, gpu, acting;       /* permissions: query libvirt, measure GPUs, move VMs */
    enum vg_tls_mode tls;            /* for migrations */
    enum vg_tls_certs migration_tls; /* QEMU's certificates, now */
};

/* The state of etcd, where the hosts of a cluster find each other. */
struct vg_cluster_status {
    char *name;                       /* of the cluster */
    char *endpoint;                   /* the endpoint in use */
    bool known;                       /* etcd answers, and other hosts see this host there */
    char *reason;                     /* reason if known is false, one sentence; otherwise NULL */
    int64_t answered_ns;              /* epoch, when it was last read; 0 before the first time */
    int64_t revision;                 /* the revision of the data that was read */
    int64_t puts;                     /* number of writes by this vgpud since its start */
    struct vg_cluster_leader *leader; /* owned; NULL if no leader is known */
    struct vg_proposal *proposal;     /* owned; NULL without proposal */
};

/* Measurements, current and past. */
struct vg_backend_measurement {
    /* Returns the newest view, never NULL; the caller unrefs it. The functions up to read_cluster
     * never block; any thread. */
    vg_view *(*view)(void *data);
    /* Returns struct vg_part_status; the caller frees the list. */
    GPtrArray *(*status)(void *data);
    void (*stats)(void *data, struct vg_daemon_stats *ret);
    /* Returns struct vg_peer_info; the caller frees the list. */
    GPtrArray *(*list_peers)(void *data);
    /* Returns a sentence (char *) for each known host that matches several groups [hosts NAME]; the
     * caller frees the list. Never blocks; any thread. */
    GPtrArray *(*list_group_doubts)(void *data);
    /* Returns struct vg_host_info of all known hosts, by name; the caller frees the list. Never
     * blocks; any thread. */
    GPtrArray *(*list_hosts)(void *data);
    /* Returns struct vg_cluster_vm of this host (NULL for all hosts), if they are in memory,
     * unsorted; the caller frees the list. Never blocks; any thread. */
    GPtrArray *(*list_cluster_vms)(void *data, const char *host);
    /* Returns false if this host is not in a cluster; otherwise the caller frees the strings. Never
     * blocks; any thread. */
    bool (*read_cluster)(void *data, struct vg_cluster_status *ret);
    /* The functions below may block, and are called by the API's workers. Returns the samples of
     * one VM. */
    GArray *(*samples)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the sums of all VMs. */
    vg_history_host *(*past)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the whole host, step by step (struct vg_history_step). */
    GArray *(*steps)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the name that samples() uses for the newest VM with this name. Fails with
     * VG_E_NOT_FOUND. */
    char *(*find_vm)(void *data, const char *name, GError **err);
    /* Returns one snapshot of this host, as in the view, and of all peers that answer. ret_notes:
     * char *, sentences about peers that are left out, and about doubts. */
    vg_snapshot *(*gather)(void *data, const vg_view *view, GPtrArray *ret_notes);
    /* Returns struct vg_proxy_socket of all proxies of a host, NULL for this host; the caller frees
     * the list. Fails with VG_E_NOT_FOUND if there is no such host. */
    GPtrArray *(*list_proxies)(void *data, const char *host, GError **err);
    /* Returns everything about a VM's sockets of these proxies; the caller frees it. Fails with
     * VG_E_NOT_FOUND if it has no sockets, and its guest is not configured with a proxy. */
    vg_proxy_show *(*show_proxy)(void *data, const char *vm, GError **err);
    /* Returns struct vg_proxy_guest: the guests that should be configured with a proxy, and whether
     * they are. */
    GPtrArray *(*list_proxy_guests)(void *data);
    /* Returns struct vg_happening, oldest first, as vg_journal_list_events() does. */
    GPtrArray *(*list_events)(void *data, const struct vg_happening_query *query, GError **err);
};

/* Access to the API, and the audit log of its use. */
struct vg_backend_access {
    /* Finds the identity of a token. Fails with VG_E_DENIED if it is unknown or has expired, and
     * with another error if tokens cannot be checked now. The functions up to list_tokens never
     * block; any thread. */
    int (*check_token)(void *data, const char *token, struct vg_identity *ret, GError **err);
    /* Returns the role of clients with this certificate subject. */
    enum vg_role (*role_of_subject)(void *data, const char *subject);
    /* Lists the hosts in the URLs of peers, without brackets; the caller frees it. */
    GStrv (*list_peer_hosts)(void *data);
    /* Records that a request without a known identity received this status. */
    void (*note_refusal)(void *data, const char *origin, unsigned status);
    /* Returns struct vg_token, by name. Fails if tokens cannot be read now. */
    GPtrArray *(*list_tokens)(void *data, GError **err);
    /* The functions below may block. Does the same as vg_journal_create_token(). */
    char *(*create_token)(void *data, const char *name, enum vg_role role, int64_t expires_ns,
                          GError **err);
    int (*revoke_token)(void *data, const char *name, GError **err);
    /* Records a write; entry->seq and at_ns are ignored. */
    int (*audit)(void *data, const struct vg_audit_entry *entry, GError **err);
    GPtrArray *(*list_audit)(void *data, int64_t before, size_t limit, GError **err);
};

/* Plans, and queries from schedulers. */
struct vg_backend_plans {
    /* Returns the moves that this vgpud is executing, or has recently proposed, as struct
     * vg_approval; the caller frees the list. Neither this function nor rate_arrival blocks; any
     * thread. */
    GPtrArray *(*list_approvals)(void *data);
    /* Fills in the answer to a scheduler's query. */
    void (*rate_arrival)(void *data, struct vg_arrival_query *query);
    /* The functions below may block. Makes a plan for this host and all peers with the daemon's
     * policy. The plan has been committed to the journal when this returns. rule: NULL for the
     * configured rule; VG_E_NOT_FOUND lists the existing rules. free_up: a request to free slots
     * instead, as in model/free-up.h; or NULL. *ret_made_ns: when the same plan was made for the
     * first time. */
    vg_plan *(*make_plan)(void *data, const vg_view *view, const char *rule, const char *free_up,
                          int64_t *ret_made_ns, GError **err);
    /* Returns a plan. Fails with VG_E_NOT_FOUND. */
    struct vg_saved_plan *(*read_plan)(void *data, const char *id, GError **err);
    /* Returns plans without their text, newest first, made before before_ns (INT64_MAX for all). */
    GPtrArray *(*list_plans)(void *data, int64_t before_ns, size_t limit, GError **err);
};

#define VG_BACKEND_HOSTS 2 /* the hosts that a move involves: the VM's, and the target */

/* Moves of VMs, and GPUs reserved for them. All functions except the first may block. */
struct vg_backend_moves {
    /* Returns the names of the hosts that a move of this VM would contact, as far as known; "" is
     * this host. The caller frees the names. Never blocks; any thread. */
    void (*find_hosts)(void *data, const char *vm, const char *to, char *ret[VG_BACKEND_HOSTS]);
    /* Starts a move, or finds the move that was started with the same key (*ret_known). *ret_peer:
     * the name of the peer that runs it, or NULL for this vgpud; the caller frees it. The errors
     * are VG_E_REFUSED (actions are disabled, nova manages the VM), VG_E_CONFLICT (the VM is being
     * moved, is elsewhere, or the situation has changed since the plan) and VG_E_NOT_FOUND. */
    struct vg_migration *(*migrate)(void *data, const struct vg_migration_request *request,
                                    bool *ret_known, char **ret_peer, GError **err);
    /* Returns the reasons against a move, and its steps, as a document; the caller releases it with
     * json_object_put(). */
    json_object *(*check_migration)(void *data, const struct vg_migration_request *request,
                                    GError **err);
    /* Checks whether a VM of this host could be moved now. Queries the host and the guest, which
     * may take half a minute. Fails with VG_E_NOT_FOUND if this host has no such VM. */
    struct vg_movable *(*movable)(void *data, const char *vm, GError **err);
    /* Returns a move that is executed by this peer, or by this vgpud if peer is NULL. */
    struct vg_migration *(*read_migration)(void *data, const char *id, const char *peer,
                                           GError **err);
    /* Lists the VMs (struct vg_bare_vm) that lost their GPUs in a move; the caller frees the list.
     * Never blocks; any thread. */
    GPtrArray *(*list_bare)(void *data);
    /* Returns moves, newest first, made before before_ns (INT64_MAX for all). *ret_lacks, which the
     * caller frees, is the reason why moves may be missing, or NULL. */
    GPtrArray *(*list_migrations)(void *data, bool active, int64_t before_ns, size_t limit,
                                  char **ret_lacks, GError **err);
    /* Returns struct vg_host_moves: first of this host, then of all peers, which are queried. Each
     * has up to `limit` moves, the newest. */
    GPtrArray *(*list_all_migrations)(void *data, bool active, size_t limit, GError **err);
    struct vg_migration *(*abort_migration)(void *data, const char *id, const char *peer,
                                            const char *asked_by, GError **err);
    /* Resumes a failed move. Fails with VG_E_CONFLICT if it has not failed, or if nothing remains
     * to be done. */
    struct vg_migration *(*retry_migration)(void *data, const char *id, const char *peer,
                                            const char *asked_by, GError **err);
    /* Reserves GPUs of this host; sets id, times, and the devices found here. A reservation belongs
     * to reservation->asked_by. Changes by other clients fail with VG_E_DENIED. */
    int (*reserve)(void *data, struct vg_reservation *reservation, GError **err);
    struct vg_reservation *(*renew)(void *data, const char *id, const char *asked_by,
                                    int64_t lease_s, GError **err);
    int (*release)(void *data, const char *id, const char *asked_by, GError **err);
    GPtrArray *(*list_reservations)(void *data, GError **err);
    /* Returns the progress of a host's drain, or, in a dry run, the drain that would take place;
     * the caller frees it. Fails with VG_E_NOT_FOUND if the host is not being drained or does not
     * exist. */
    vg_drain *(*read_drain)(void *data, const char *host, bool dry_run, GError **err);
    vg_drain *(*begin_drain)(void *data, const char *host, const char *asked_by, GError **err);
    int (*end_drain)(void *data, const char *host, const char *asked_by, GError **err);
    /* Checks paths (char *) on this host. Returns struct vg_path_seen, one for each and in the same
     * order; the caller frees the list. Fails with VG_E_REFUSED if actions are disabled. */
    GPtrArray *(*look_at_paths)(void *data, const GPtrArray *paths, GError **err);
    /* Adds Vulkan to the definition of a VM of this host, or removes it, or only reports the
     * changes; the caller frees the answer. Fails with VG_E_NOT_FOUND if this host has no such VM.
     * Fails with VG_E_REFUSED if actions are disabled, or OpenStack manages the VM. Fails with
     * VG_E_CONFLICT if the VM is being moved, or its definition does not allow the change. */
    vg_vulkan_change *(*set_vulkan)(void *data, const char *vm,
                                    const struct vg_vulkan_request *request, GError **err);
    /* Sets the limits of a VM's sockets in this host's proxies, and returns the resulting sockets.
     * The caller frees the list. Fails with VG_E_NOT_FOUND if no socket belongs to this VM. */
    GPtrArray *(*limit_proxy)(void *data, const char *vm, const struct vg_proxy_limit *limit,
                              GError **err);

    /* Reserves memory in a proxy of this host for programs that will connect. Fails with
     * VG_E_NOT_FOUND if no proxy has the socket, VG_E_CONFLICT if there is too little memory,
     * VG_E_REFUSED if the proxy does not support it, and VG_E_DENIED if the id belongs to another
     * client. */
    int (*reserve_room)(void *data, const struct vg_proxy_room *room, const char *asked_by,
                        GError **err);
    int (*release_room)(void *data, const char *id, const char *asked_by, GError **err);

    /* Moves the VM's OpenCL programs that use a vgpu-proxy to another place. Returns the result,
     * which the caller frees. Blocks until the guest has answered. */
    struct vg_proxy_move *(*move_proxy)(void *data, const char *vm,
                                        const struct vg_proxy_move_request *request, GError **err);
};

/* Automatic moves. */
struct vg_acts_report {
    enum vg_policy_mode mode; /* the mode configured on this host */
    bool has_cluster; /* if false, automatic moves are impossible, and the other members are NULL */
    vg_acting *acting;         /* the leader's record; NULL if it has not written one */
    struct vg_act_mark *pause; /* NULL if automatic moves are not paused */
};
typedef struct vg_acts_report vg_acts_report;

struct vg_backend_acts {
    /* Reads the report from etcd. The caller frees the members. Blocks. */
    int (*read)(void *data, vg_acts_report *ret, GError **err);
    /* Stops all automatic moves in the cluster, or lets them continue. Fails with VG_E_REFUSED if
     * this host is not in a cluster. Blocks. */
    int (*set_paused)(void *data, bool paused, const char *asked_by, GError **err);
    /* Sets the policy's mode for a VM of this host, VG_POLICY_UNSET for none. Fails with
     * VG_E_NOT_FOUND if this host has no such VM, or with VG_E_REFUSED if actions are disabled or
     * another manager controls the VM. Blocks. */
    int (*set_vm_mode)(void *data, const char *vm, enum vg_policy_mode mode, GError **err);
    /* Returns whether the error budget is spent, as far as this host knows. Does not block; any
     * thread. */
    bool (*is_spent)(void *data);
};

struct vg_backend {
    void *data; /* first argument of the functions */
    const struct vg_backend_measurement *measurement;
    const struct vg_backend_access *access;
    const struct vg_backend_plans *plans; /* if NULL, the answer on its routes is 501 */
    const struct vg_backend_moves *moves; /* if NULL, its routes are answered 501 */
    const struct vg_backend_acts *acts;   /* if NULL, its routes are answered 501 */
};

#endif
