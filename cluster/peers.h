/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries other vgpuds, over HTTPS, for their health and the state of their hosts. A separate
 * thread polls each peer and keeps its newest snapshot. For a plan, all peers are queried again. A
 * slow peer occupies a connection, but no thread.
 */
#ifndef VG_CLUSTER_PEERS_H
#define VG_CLUSTER_PEERS_H

#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/peer.h"
#include "model/snapshot.h"

/* The maximum number of configured peers, and of further peers known from the cluster. */
#define VG_PEERS_MAX 1000

/* The maximum number of concurrent requests. */
#define VG_PEERS_PARALLEL 32

/* The maximum size of one answer in bytes. */
#define VG_PEERS_ANSWER_MAX (64 * 1024 * 1024)

/* The address of a peer, and the credentials for it. Strings are borrowed, and NULL or empty if
 * not configured. */
struct vg_peer_options {
    const char *name;
    const char *url;        /* https://HOST:PORT, possibly with a path */
    const char *token_file; /* reread for each request */
    const char *cert;       /* PEM; the key may be in the same file */
    const char *key;
    const char *cacert; /* NULL for the CAs that this machine trusts */
    /* URI of the peer's libvirt from here. For a cluster member, it is used only after the peer
     * has answered, which proves that its certificate is for the host in its url */
    const char *libvirt_uri;
    const char *libvirt_reason; /* why a cluster member has no libvirt_uri */
    const char *host;           /* the name of its host, as configured by this host's operator */
    bool gone;                  /* for a cluster member: it is unresponsive in the cluster */
};

struct vg_peers_options {
    const struct vg_peer_options *peers;
    size_t n_peers;
    const char *own_host; /* the name of this host, which no peer may take */
    int64_t refresh_ns;   /* the interval between attempts, varied by up to 20 % */
    int64_t deadline_ns;  /* the limit for an attempt, and for vg_peers_gather() */
};

typedef struct vg_peers vg_peers;

/* Starts the thread "peers". Returns NULL and sets *err if that fails. */
vg_peers *vg_peers_new(const struct vg_peers_options *options, GError **err);

/* Replaces the peers; unchanged peers keep their state. Any thread. */
void vg_peers_set(vg_peers *peers, const struct vg_peers_options *options);

/* Sets the peers that are known from the cluster; peers that are also configured are ignored.
 * Unchanged peers keep their state. They are queried less often than configured peers, at most
 * eleven per second. Any thread. */
void vg_peers_set_members(vg_peers *peers, const struct vg_peer_options *members, size_t n_members);

size_t vg_peers_count(vg_peers *peers);

/* Returns the number of cluster members beyond the limit, which are not queried. Any thread. */
size_t vg_peers_left_out(vg_peers *peers);

/* Returns struct vg_peer_info for each peer, in the order of the configuration, as of the last
 * attempts; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_list(vg_peers *peers);

/* A peer, with its answer. */
struct vg_peer_view {
    struct vg_peer_info *info; /* owned */
    /* sealed; NULL if the peer did not answer, and info->reason says why */
    const vg_snapshot *snapshot;
    int64_t age_ns;       /* of the snapshot; 0 if the peer has just answered */
    GPtrArray *approvals; /* struct vg_approval, the moves that it makes or has proposed; NULL if
                             unknown */
    void *held;           /* private: the owner of the snapshot */
};

/* A peer's newest snapshot in memory. */
struct vg_peer_copy {
    const vg_snapshot *snapshot;
    int64_t at_ns; /* epoch, when the peer last confirmed that it is current */
    void *held;    /* private */
};

/* Returns struct vg_peer_copy for each peer that has ever answered, except peers that use the name
 * of another peer's host; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_copies(vg_peers *peers);

/* Returns the hosts (char *) that peers with proved hosts are moving this VM to, or have recently
 * proposed; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_approved_targets(vg_peers *peers, const char *uuid);

/* Returns whether a peer's snapshot is all that the caller needs. Called under a lock; must be
 * quick. */
typedef bool vg_peers_enough(const vg_snapshot *snapshot, const void *data);

/* Returns the UUIDs (char *) of VMs that peers with proved hosts are moving to a host, as of their
 * last answers, without queued moves; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_moving_to(vg_peers *peers, const char *host);

/* Returns whether a peer with a proved host has queued moves to a host, and none in progress to it.
 * Any thread; does not block. */
bool vg_peers_queue_to(vg_peers *peers, const char *host);

/* Queries all peers concurrently. Waits until all have answered, the deadline has passed, or
 * `enough` accepts the answer of a peer whose host is proved; enough may be NULL. Does not wait
 * for peers that missed their last deadline. Returns struct vg_peer_view in the order of the
 * configuration; the caller frees it. Any thread except "peers". */
GPtrArray *vg_peers_gather(vg_peers *peers, vg_peers_enough *enough, const void *data);

/* If a cluster member does not answer in time, plans use its last snapshot up to this age, unless
 * the cluster reports it as unresponsive. */
#define VG_PEERS_OLD_NS (300 * INT64_C(1000000000))

/* As vg_peers_gather(), for a plan. There can be a thousand cluster members, so those that have
 * answered within twice refresh_ns are not queried again. For those that do not answer, older
 * snapshots are used. Both are returned with their age. */
GPtrArray *vg_peers_gather_for_plan(vg_peers *peers);

/* Finds the peer with this name, or whose host has this name. Configured peers come first, then
 * hosts with proved names. Returns its information as in vg_peers_list(), or NULL; the caller frees
 * it. */
struct vg_peer_info *vg_peers_find(vg_peers *peers, const char *host);

/* Finds the peer that has a VM. Queries all peers, but waits only until the VM is found. Fails with
 * VG_E_NOT_FOUND if no peer has it, VG_E_CONFLICT if two have it, or VG_E_REFUSED if the host of
 * its peer is not proved. The caller frees the result. Blocks. */
struct vg_peer_info *vg_peers_find_owner(vg_peers *peers, const char *id, GError **err);

/* Returns the name of the peer whose newest copy has a VM, or NULL; the caller frees it. */
char *vg_peers_likely_owner(vg_peers *peers, const char *id);

/* Checks that a peer may represent the host that it names, so that VMs and programs may be moved
 * to and from it. Fails with VG_E_REFUSED otherwise. */
int vg_peers_check_host(const struct vg_peer_info *info, GError **err);

/* Merges the host's own snapshot with the snapshots in all views. Adds sentences (char *) to
 * ret_notes about unusable peers and doubts.
 *
 * A peer is left out if its host is disputed or is in an earlier snapshot; `own` is never left out.
 * Hosts with unproved names are in maintenance, and their VMs are never moved. If two hosts have a
 * VM, it is kept on the host that is moving it to the other, according to own_moves (struct
 * vg_approval of this host) and the views, or on the host whose name is proved. Otherwise it is
 * left out of both. Hosts from old snapshots get the age of the snapshot. */
vg_snapshot *vg_peers_merge(const vg_snapshot *own, const GPtrArray *views,
                            const GPtrArray *own_moves, GPtrArray *ret_notes);

/* Ends the thread. Current and later callers get no answer. NULL is allowed. */
void vg_peers_stop(vg_peers *peers);
void vg_peers_free(vg_peers *peers); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_peers, vg_peers_free)

const vg_thread *vg_peers_thread(const vg_peers *peers);

#endif
