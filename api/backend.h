/* SPDX-License-Identifier: Apache-2.0
 *
 * The API's view of the daemon. The daemon publishes a view after each window; requests read the
 * newest one and never wait for the engine. Functions that take longer (the store, the policy) are
 * called on one of the API's worker threads.
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

/* The documents of a view, written when first asked for and then kept with it. */
enum vg_view_body { VG_BODY_VMS, VG_BODY_GPUS, VG_BODY_PREEMPTIONS, VG_BODY_SNAPSHOT, VG_BODY_MAX };

/* The state after one window (or after a change of the inventory). Immutable but for the bodies,
 * which are guarded by the lock; counted references. */
struct vg_view {
    int refs;            /* atomic */
    uint64_t seq;        /* number of the view; the ETag is "<boot id>-<seq>" */
    const char *boot_id; /* UUID of this run of the daemon; lives as long as the daemon */
    bool replay;         /* figures are means over a recording */
    bool replay_ended;   /* the recording was read to its end */
    int64_t made_ns;     /* epoch */
    int64_t started_ns;  /* epoch; start of the daemon */
    int64_t window_ns;   /* configured length of a window */
    uint64_t windows;    /* windows closed so far */
    uint64_t late;       /* parts that came after their window was closed */
    uint64_t duplicates; /* parts that came twice */
    uint64_t missed; /* windows that could not be measured, or whose use of GPUs came too late */
    struct vg_provenance provenance; /* provenance of the newest window; empty source: none yet */
    vg_snapshot *snapshot;           /* this host; sealed */
    vg_inventory *inventory;         /* never NULL */
    GHashTable *labels;              /* see vg_view_label(); never NULL */
    GPtrArray *alerts;               /* struct vg_active_alert; never NULL */
    size_t alert_rules;              /* number of rules for alerts */
    GPtrArray *gpu_parts;            /* struct vg_gpu_part of the inventory; never NULL */
    struct vg_window totals;         /* sums since the start (replay: of all windows) */
    GArray *lost_series;             /* struct vg_lost_serie; NULL: none yet */
    struct vg_window newest;         /* newest window; begin == end: none yet. The log has its
                                      * GPU requests */
    vg_gpu_log *gpu_log;             /* NULL: no request yet */
    int64_t clock_offset_ns;         /* raw clock + offset = epoch */
    pthread_mutex_t lock;            /* guards the bodies */
    char *bodies[VG_BODY_MAX];       /* JSON text or NULL; never changed once set */
    size_t sizes[VG_BODY_MAX];
};
typedef struct vg_view vg_view;

/* Makes an empty view with one reference. */
vg_view *vg_view_new(void);
vg_view *vg_view_ref(vg_view *view);
void vg_view_unref(vg_view *view); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_view, vg_view_unref)

/* Returns the `id` that paths have for a VM of the snapshot: its UUID, or its name if it has
 * none. */
const char *vg_view_vm_id(const struct vg_snap_vm *vm);

/* Finds the VM of the view's snapshot by an id (UUID in any case, or name); NULL: there is none. */
const struct vg_snap_vm *vg_view_find_vm(const vg_view *view, const char *id);

/* Finds the VM that a client means: by an id, or else by a name in OpenStack that no other VM of
 * the host has. VG_E_NOT_FOUND, or VG_E_CONFLICT naming those that are called so. */
const struct vg_snap_vm *vg_view_name_vm(const vg_view *view, const char *name, GError **err);

/* Makes the labels of a view from its snapshot. */
void vg_view_make_labels(vg_view *view);

/* Returns what people call the VM of the view with this name in libvirt: its name in OpenStack,
 * with that of libvirt behind it in brackets where the first one could mean somebody else. Returns
 * the name itself where OpenStack has none, or there is no such VM. */
const char *vg_view_label(const vg_view *view, const char *name);

/* Finds the totals (in view->totals) or newest figures (in view->newest) of a VM; NULL: not
 * there. */
const struct vg_vm_sample *vg_view_sample(const struct vg_window *window,
                                          const struct vg_snap_vm *vm);

/* One part of the daemon, for /readyz and /metrics. */
struct vg_part_status {
    const char *name;        /* "collector:procfs", "store", "engine"; static or interned */
    const char *state;       /* "ok", "starting", "degraded", "failed", "ended" */
    bool ready;              /* if false, /readyz answers 503 */
    enum vg_trouble trouble; /* the code of the reason */
    char *reason;            /* one sentence, or NULL */
    int64_t since_ns;        /* epoch; start of this state; 0: not recorded */
    GPtrArray *sources; /* struct vg_source_state of a collector; NULL: it has no sources of its
                         * own */
};

struct vg_part_status *vg_part_status_new(const char *name, const char *state, bool ready,
                                          char *take_reason);
void vg_part_status_free(void *part);

/* The longest path of a directory that is reported. */
#define VG_DIRECTORY_LEN 4096

/* Figures that are not in the view: counters, gauges, and parts of the configuration. */
struct vg_daemon_stats {
    struct vg_store_health store;
    uint64_t queue_dropped; /* reports that were dropped */
    uint64_t queue_high_water;
    uint64_t reloads;
    uint64_t reload_failures;
    uint64_t alert_commands; /* runs of [alerts] command */
    uint64_t alert_command_failures;
    uint64_t alert_commands_dropped;   /* alerts for which it was not run */
    uint64_t verdicts[VG_VERDICT_MAX]; /* on moves, by result, since the start */
    uint64_t calls_given_up;           /* calls of libvirt that hung, since the start */
    unsigned calls_hanging;            /* those of them that have not come back */
    unsigned peers[VG_PEER_STATE_MAX]; /* number of peers by state */
    double cpu_s;                      /* CPU time of the process */
    int64_t rss_bytes;
    /* The configuration. */
    char store_directory[VG_DIRECTORY_LEN];
    int64_t raw_days, minute_days, hour_days; /* how long the store keeps windows and their sums */
    double budget;                            /* budget of measuring, in cores; 0: no limit */
    bool libvirt, gpu, acting;                /* allowed: ask libvirt, look at GPUs, move VMs */
    enum vg_tls_mode tls;                     /* of migrations */
    enum vg_tls_certs migration_tls;          /* QEMU's certificates, now */
};

/* How it stands with the etcd by which the hosts of a cluster find each other. */
struct vg_cluster_status {
    char *name;                       /* of the cluster */
    char *endpoint;                   /* the one that is asked */
    bool known;                       /* etcd answers, and the others see this host there */
    char *reason;                     /* why not, as a sentence; NULL if it does */
    int64_t answered_ns;              /* epoch, when it was last read; 0: never */
    int64_t revision;                 /* of what was read */
    int64_t puts;                     /* what this vgpud has written since its start */
    struct vg_cluster_leader *leader; /* owned; NULL: nobody is known to lead */
    struct vg_proposal *proposal;     /* owned; NULL: nothing was proposed */
};

/* What was measured, now and in the past. */
struct vg_backend_measurement {
    /* Returns the newest view, never NULL; the caller unrefs it. These never block; any
     * thread, up to read_cluster. */
    vg_view *(*view)(void *data);
    /* Returns struct vg_part_status; the caller frees the list. */
    GPtrArray *(*status)(void *data);
    void (*stats)(void *data, struct vg_daemon_stats *ret);
    /* Returns struct vg_peer_info; the caller frees the list. */
    GPtrArray *(*list_peers)(void *data);
    /* Returns struct vg_host_info of all hosts that this vgpud knows, by name; the caller frees the
     * list. Never blocks; any thread. */
    GPtrArray *(*list_hosts)(void *data);
    /* Returns struct vg_cluster_vm of this host (NULL: of all), as far as they are in memory, in no
     * order; the caller frees the list. Never blocks; any thread. */
    GPtrArray *(*list_cluster_vms)(void *data, const char *host);
    /* Returns false if this host is in no cluster; else the caller frees the strings. Never blocks;
     * any thread. */
    bool (*read_cluster)(void *data, struct vg_cluster_status *ret);
    /* The rest may block; one of the API's workers. Returns the samples of one VM. */
    GArray *(*samples)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the sums of all VMs. */
    vg_history_host *(*past)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the whole host, step by step (struct vg_history_step). */
    GArray *(*steps)(void *data, const struct vg_history_query *query, GError **err);
    /* Returns the name by which samples() knows the newest VM called so. VG_E_NOT_FOUND: there is
     * none. */
    char *(*find_vm)(void *data, const char *name, GError **err);
    /* Makes one snapshot of this host, as of the view, and of all peers that answer. ret_notes:
     * char *, sentences on peers that are left out and on doubts. */
    vg_snapshot *(*gather)(void *data, const vg_view *view, GPtrArray *ret_notes);
    /* Returns struct vg_proxy_socket of all proxies of a host, NULL: this one; the caller frees the
     * list. VG_E_NOT_FOUND: there is no such host. */
    GPtrArray *(*list_proxies)(void *data, const char *host, GError **err);
    /* Returns all that there is to a VM's sockets of these proxies; the caller frees it.
     * VG_E_NOT_FOUND: it has none, and its guest knows of no proxy. */
    vg_proxy_show *(*show_proxy)(void *data, const char *vm, GError **err);
    /* Returns struct vg_proxy_guest: which guests are to know of a proxy, and do. */
    GPtrArray *(*list_proxy_guests)(void *data);
    /* Returns struct vg_happening, oldest first, as vg_journal_list_events() does. */
    GPtrArray *(*list_events)(void *data, const struct vg_happening_query *query, GError **err);
};

/* Access to the API, and the audit of its use. */
struct vg_backend_access {
    /* Finds the owner of a token. VG_E_DENIED: nobody's, or expired; VG_E_BUSY: not known now.
     * These four never block; any thread. */
    int (*check_token)(void *data, const char *token, struct vg_identity *ret, GError **err);
    /* Returns the role of clients that show a certificate with this subject. */
    enum vg_role (*role_of_subject)(void *data, const char *subject);
    /* Lists the hosts in the URLs of peers, without brackets; the caller frees it. */
    GStrv (*list_peer_hosts)(void *data);
    /* Notes that a request without a known identity was answered with this status. */
    void (*note_refusal)(void *data, const char *origin, unsigned status);
    /* Returns struct vg_token, by name; never blocks. */
    GPtrArray *(*list_tokens)(void *data);
    /* The rest may block. Does what vg_journal_create_token() does. */
    char *(*create_token)(void *data, const char *name, enum vg_role role, int64_t expires_ns,
                          GError **err);
    int (*revoke_token)(void *data, const char *name, GError **err);
    /* Records a write; entry->seq and at_ns are ignored. */
    int (*audit)(void *data, const struct vg_audit_entry *entry, GError **err);
    GPtrArray *(*list_audit)(void *data, int64_t before, size_t limit, GError **err);
};

/* Plans, and the questions of schedulers. */
struct vg_backend_plans {
    /* Returns the moves that this vgpud runs, or has proposed lately, as struct vg_approval; the
     * caller frees the list. These two never block; any thread. */
    GPtrArray *(*list_approvals)(void *data);
    /* Fills the answer of a scheduler's question. */
    void (*rate_arrival)(void *data, struct vg_arrival_query *query);
    /* The rest may block. Makes a plan for this host and all peers with the daemon's policy; it is
     * committed to the journal when this returns. rule: NULL for the configured one; VG_E_NOT_FOUND
     * names the rules that there are. *ret_made_ns: when the same plan was made for the first
     * time. */
    vg_plan *(*make_plan)(void *data, const vg_view *view, const char *rule, int64_t *ret_made_ns,
                          GError **err);
    /* Returns a plan; VG_E_NOT_FOUND if there is none. */
    struct vg_saved_plan *(*read_plan)(void *data, const char *id, GError **err);
    /* Returns plans without their text, newest first, made before before_ns (INT64_MAX: all). */
    GPtrArray *(*list_plans)(void *data, int64_t before_ns, size_t limit, GError **err);
};

#define VG_BACKEND_HOSTS 2 /* those that a move needs: of the VM, and the target */

/* Moves of VMs, and GPUs reserved for them. All functions but the first may block. */
struct vg_backend_moves {
    /* Names the hosts that a move of this VM would ask, as far as they are known; "" is this one.
     * The caller frees the names. Never blocks; any thread. */
    void (*find_hosts)(void *data, const char *vm, const char *to, char *ret[VG_BACKEND_HOSTS]);
    /* Starts a move, or finds the one that was started with the same key (*ret_known). *ret_peer:
     * the name of the peer that runs it, if that is not this vgpud; the caller frees it. Errors say
     * why not: VG_E_REFUSED (acting is off, nova has the VM), VG_E_CONFLICT (it is being moved, is
     * elsewhere, things have changed since the plan), VG_E_NOT_FOUND. */
    struct vg_migration *(*migrate)(void *data, const struct vg_migration_request *request,
                                    bool *ret_known, char **ret_peer, GError **err);
    /* Returns the reasons against a move, and its steps, as a document; the caller puts it. */
    json_object *(*check_migration)(void *data, const struct vg_migration_request *request,
                                    GError **err);
    /* Tells if a VM of this host could be moved now: asks the host and the guest, which may take
     * half a minute. VG_E_NOT_FOUND: this host has no such VM. */
    struct vg_movable *(*movable)(void *data, const char *vm, GError **err);
    /* Returns a move that this peer runs; NULL: this vgpud. */
    struct vg_migration *(*read_migration)(void *data, const char *id, const char *peer,
                                           GError **err);
    /* Lists the VMs (struct vg_bare_vm) that a move has left without their GPUs; the caller frees
     * the list. Never blocks; any thread. */
    GPtrArray *(*list_bare)(void *data);
    /* Returns moves, newest first, made before before_ns (INT64_MAX: all). *ret_lacks, which the
     * caller frees, says why some may be missing, or is NULL. */
    GPtrArray *(*list_migrations)(void *data, bool active, int64_t before_ns, size_t limit,
                                  char **ret_lacks, GError **err);
    /* Returns struct vg_host_moves of this host, the first one, and of all peers, which are asked;
     * of each up to `limit` moves, the newest ones. */
    GPtrArray *(*list_all_migrations)(void *data, bool active, size_t limit, GError **err);
    struct vg_migration *(*abort_migration)(void *data, const char *id, const char *peer,
                                            const char *asked_by, GError **err);
    /* Takes up a move that has failed. VG_E_CONFLICT: it has not, or has left nothing undone. */
    struct vg_migration *(*retry_migration)(void *data, const char *id, const char *peer,
                                            const char *asked_by, GError **err);
    /* Reserves GPUs of this host; fills id, times, and the devices found here. What is reserved
     * belongs to reservation->asked_by: VG_E_DENIED to change what is somebody else's. */
    int (*reserve)(void *data, struct vg_reservation *reservation, GError **err);
    struct vg_reservation *(*renew)(void *data, const char *id, const char *asked_by,
                                    int64_t lease_s, GError **err);
    int (*release)(void *data, const char *id, const char *asked_by, GError **err);
    GPtrArray *(*list_reservations)(void *data, GError **err);
    /* Returns how far a host is emptied, or what would be done in a dry run; the caller frees it.
     * VG_E_NOT_FOUND: it is not being emptied, or there is no such host. */
    vg_drain *(*read_drain)(void *data, const char *host, bool dry_run, GError **err);
    vg_drain *(*begin_drain)(void *data, const char *host, const char *asked_by, GError **err);
    int (*end_drain)(void *data, const char *host, const char *asked_by, GError **err);
    /* Looks at paths (char *) of this host: struct vg_path_seen, one for each and in the same
     * order; the caller frees the list. VG_E_REFUSED: acting is off. */
    GPtrArray *(*look_at_paths)(void *data, const GPtrArray *paths, GError **err);
    /* Puts Vulkan into the definition of a VM of this host, or takes it out, or tells what that
     * would change; the caller frees the answer. VG_E_NOT_FOUND: this host has no such VM;
     * VG_E_REFUSED: acting is off, or OpenStack has the VM; VG_E_CONFLICT: the VM is being moved,
     * or its definition cannot be changed so. */
    vg_vulkan_change *(*set_vulkan)(void *data, const char *vm,
                                    const struct vg_vulkan_request *request, GError **err);
    /* Sets what a VM's sockets of proxies of this host have; returns them as they are then. The
     * caller frees the list. VG_E_NOT_FOUND: no socket is this VM's. */
    GPtrArray *(*limit_proxy)(void *data, const char *vm, const struct vg_proxy_limit *limit,
                              GError **err);

    /* Has a proxy of this host keep memory for programs that will come. VG_E_NOT_FOUND: none has
     * the socket; VG_E_CONFLICT: there is too little; VG_E_REFUSED: it keeps none; VG_E_DENIED: the
     * id is that of another client's. */
    int (*reserve_room)(void *data, const struct vg_proxy_room *room, const char *asked_by,
                        GError **err);
    int (*release_room)(void *data, const char *id, const char *asked_by, GError **err);

    /* Has the VM's programs of OpenCL that are at a vgpu-proxy go on at another place; what came of
     * it, which the caller frees. Blocks for the guest. */
    struct vg_proxy_move *(*move_proxy)(void *data, const char *vm,
                                        const struct vg_proxy_move_request *request, GError **err);
};

struct vg_backend {
    void *data; /* first argument of the functions */
    const struct vg_backend_measurement *measurement;
    const struct vg_backend_access *access;
    const struct vg_backend_plans *plans; /* NULL: its routes are answered 501 */
    const struct vg_backend_moves *moves; /* likewise */
};

#endif
