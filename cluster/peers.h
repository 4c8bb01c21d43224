/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks other vgpuds, over HTTPS, whether they answer and what their hosts look like. A thread of
 * its own asks each peer from time to time and keeps its newest snapshot; for a plan, all of them
 * are asked again. A slow peer costs a connection, but no thread.
 */
#ifndef VG_CLUSTER_PEERS_H
#define VG_CLUSTER_PEERS_H

#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/peer.h"
#include "model/snapshot.h"

/* The maximum number of peers that are configured, and of those that the cluster names besides. */
#define VG_PEERS_MAX 1000

/* The maximum number of requests at once. */
#define VG_PEERS_PARALLEL 32

/* The maximum size of one answer in bytes. */
#define VG_PEERS_ANSWER_MAX (64 * 1024 * 1024)

/* The address of a peer, and the credentials for it. Strings are borrowed, and NULL or empty where
 * they are not configured. */
struct vg_peer_options {
    const char *name;
    const char *url;        /* https://HOST:PORT, possibly with a path */
    const char *token_file; /* read again for each request */
    const char *cert;       /* PEM; the key may be in the same file */
    const char *key;
    const char *cacert; /* NULL for the CAs that this machine trusts */
    /* how libvirt here reaches that host; of a member of the cluster, it counts once the peer has
     * answered, and so has proved that its certificate is for the host of its url */
    const char *libvirt_uri;
    const char *libvirt_reason; /* why a member of the cluster has no libvirt_uri */
    const char *host;           /* the name of its host, as this host's operator knows it */
    bool gone;                  /* of a member of the cluster: it has fallen silent there */
};

struct vg_peers_options {
    const struct vg_peer_options *peers;
    size_t n_peers;
    const char *own_host; /* the name of this host, which no peer may take */
    int64_t refresh_ns;   /* the time between two attempts, +-20 % */
    int64_t deadline_ns;  /* the limit of one attempt, and of vg_peers_gather() */
};

typedef struct vg_peers vg_peers;

/* Starts the thread "peers". Returns NULL and sets *err if that fails. */
vg_peers *vg_peers_new(const struct vg_peers_options *options, GError **err);

/* Replaces the peers; the state of those that stay the same is kept. Any thread. */
void vg_peers_set(vg_peers *peers, const struct vg_peers_options *options);

/* Sets the peers that are not configured, but known by their cluster; those that the configuration
 * names, too, are left out. The state of those that stay the same is kept. They are asked less
 * often than those that are configured: no more than eleven in a second. Any thread. */
void vg_peers_set_members(vg_peers *peers, const struct vg_peer_options *members, size_t n_members);

size_t vg_peers_count(vg_peers *peers);

/* Returns the number of members of the cluster that are too many to be asked. Any thread. */
size_t vg_peers_left_out(vg_peers *peers);

/* Returns struct vg_peer_info for each peer, in the order of the configuration, as of the last
 * attempts; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_list(vg_peers *peers);

/* A peer's answer. */
struct vg_peer_view {
    struct vg_peer_info *info; /* owned */
    /* sealed; NULL if the peer did not answer, and info->reason says why */
    const vg_snapshot *snapshot;
    int64_t age_ns;       /* of the snapshot; 0: the peer has just answered */
    GPtrArray *approvals; /* struct vg_approval, the moves that it makes or wants; NULL: unknown */
    void *held;           /* private: the owner of the snapshot */
};

/* The newest snapshot of a peer that is in memory. */
struct vg_peer_copy {
    const vg_snapshot *snapshot;
    int64_t at_ns; /* epoch, when the peer last confirmed that this is its newest */
    void *held;    /* private */
};

/* Returns struct vg_peer_copy for each peer that has ever answered, but for those that take the
 * name of another one's host; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_copies(vg_peers *peers);

/* Returns the hosts (char *) to which peers whose hosts are proved are moving this VM, or have
 * lately proposed to; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_approved_targets(vg_peers *peers, const char *uuid);

/* Returns whether the snapshot of a peer is all that the caller needs. Called under a lock;
 * quick. */
typedef bool vg_peers_enough(const vg_snapshot *snapshot, const void *data);

/* Returns the UUIDs (char *) of VMs that such peers are moving to a host, as of their last answers,
 * without moves that they have queued; the caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_moving_to(vg_peers *peers, const char *host);

/* Returns whether such a peer has queued moves to a host, and is making none there. Likewise. */
bool vg_peers_queue_to(vg_peers *peers, const char *host);

/* Asks all peers side by side, and waits until they have answered, the deadline has passed, or the
 * answer of one whose host is proved is enough; if enough is NULL, none is. It does not wait for a
 * peer that let its last deadline pass. Returns struct vg_peer_view in the order of the
 * configuration; the caller frees it. Any thread but "peers". */
GPtrArray *vg_peers_gather(vg_peers *peers, vg_peers_enough *enough, const void *data);

/* A member of the cluster that does not answer in time is planned with by what it said no longer
 * ago than this, unless the cluster says that it has fallen silent. */
#define VG_PEERS_OLD_NS (300 * INT64_C(1000000000))

/* Asks like vg_peers_gather(), for a plan: there can be a thousand members of the cluster, so that
 * those are not asked that have answered within twice refresh_ns, and of those that do not answer
 * older snapshots are taken; both are told with their age. */
GPtrArray *vg_peers_gather_for_plan(vg_peers *peers);

/* Finds the peer that has this name, or whose host has it. The peers of the configuration come
 * first, then hosts whose names are proved. Returns its information as in vg_peers_list(), or NULL;
 * the caller frees it. */
struct vg_peer_info *vg_peers_find(vg_peers *peers, const char *host);

/* Finds the peer that has a VM, asking them all without waiting for more of them than is needed.
 * VG_E_NOT_FOUND: none has it; VG_E_CONFLICT: two have it; VG_E_REFUSED: the host of the one that
 * has it is not proved. The caller frees the result. Blocks. */
struct vg_peer_info *vg_peers_find_owner(vg_peers *peers, const char *id, GError **err);

/* Returns the name of the peer whose newest copy has a VM, or NULL; the caller frees it. */
char *vg_peers_likely_owner(vg_peers *peers, const char *id);

/* Checks that a peer may speak for the host whose name it gives, so that VMs and programs may be
 * moved to and from it. VG_E_REFUSED: it may not. */
int vg_peers_check_host(const struct vg_peer_info *info, GError **err);

/* Merges the host's own snapshot with those of all views that have one. Adds sentences (char *) to
 * ret_notes about peers that cannot be used, and about doubts. A peer is left out if its host is
 * disputed or is in an earlier snapshot; `own` is never left out. Hosts whose names are not proved
 * are in maintenance, and their VMs are never moved. A VM that two hosts have is left to the one
 * that moves it to the other, as own_moves (struct vg_approval of this host) and the views tell, or
 * to the one whose name is proved; otherwise it is left out of both. Hosts of old snapshots are
 * told their age. */
vg_snapshot *vg_peers_merge(const vg_snapshot *own, const GPtrArray *views,
                            const GPtrArray *own_moves, GPtrArray *ret_notes);

/* Ends the thread. Callers that wait for an answer, and later ones, get none. NULL is fine. */
void vg_peers_stop(vg_peers *peers);
void vg_peers_free(vg_peers *peers); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_peers, vg_peers_free)

const vg_thread *vg_peers_thread(const vg_peers *peers);

#endif
