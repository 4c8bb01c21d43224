/* SPDX-License-Identifier: Apache-2.0
 *
 * Other vgpuds, over HTTPS: which of them answer, and what their hosts look like. A thread of its
 * own asks each one from time to time and keeps the newest snapshot; whoever makes a plan has all
 * of them asked anew. A peer that is slow costs a connection, never a thread.
 */
#ifndef VG_CLUSTER_PEERS_H
#define VG_CLUSTER_PEERS_H

#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/peer.h"
#include "model/snapshot.h"

#define VG_PEERS_MAX 1000

/* Requests at once. */
#define VG_PEERS_PARALLEL 32

/* Bytes of an answer. */
#define VG_PEERS_ANSWER_MAX (64 * 1024 * 1024)

/* Where a peer is, and who this vgpud is to it; strings are borrowed, and NULL or empty where they
 * are not configured. */
struct vg_peer_options {
    const char *name;
    const char *url;        /* https://HOST:PORT, possibly with a path */
    const char *token_file; /* read again for each request */
    const char *cert;       /* PEM; the key may be in it */
    const char *key;
    const char *cacert; /* NULL: the CAs that this machine trusts */
    const char *libvirt_uri;
};

struct vg_peers_options {
    const struct vg_peer_options *peers;
    size_t n_peers;
    int64_t refresh_ns;  /* between two attempts, +-20 % */
    int64_t deadline_ns; /* of one attempt, and of vg_peers_gather() */
};

typedef struct vg_peers vg_peers;

/* Starts the thread; its name is "peers". NULL and *err if that fails. */
vg_peers *vg_peers_new(const struct vg_peers_options *options, GError **err);

/* Other peers from now on; what is known of those that stay the same is kept. Any thread. */
void vg_peers_set(vg_peers *peers, const struct vg_peers_options *options);

size_t vg_peers_count(vg_peers *peers);

/* Struct vg_peer_info, in the order of the configuration, as of the last attempts; the caller frees
 * it. Any thread; does not block. */
GPtrArray *vg_peers_list(vg_peers *peers);

/* What a peer told. */
struct vg_peer_view {
    struct vg_peer_info *info;   /* owned */
    const vg_snapshot *snapshot; /* sealed; NULL: it did not answer, and info->reason says why */
    void *held;                  /* private: what the snapshot belongs to */
};

/* The newest snapshot of a peer, as it is in memory. */
struct vg_peer_copy {
    const vg_snapshot *snapshot;
    int64_t at_ns; /* epoch: when the peer said that this is its newest */
    void *held;    /* private */
};

/* Struct vg_peer_copy of all that have ever answered; the caller frees it. Any thread; does not
 * block. */
GPtrArray *vg_peers_copies(vg_peers *peers);

/* The hosts (char *) that moves of this VM go to which peers run, or have proposed lately; the
 * caller frees it. Any thread; does not block. */
GPtrArray *vg_peers_approved_targets(vg_peers *peers, const char *uuid);

/* Asks all peers side by side and waits until they have answered or the deadline has come. A peer
 * that let its last deadline pass is not waited for. In the order of the configuration; the caller
 * frees it. Any thread but "peers". */
GPtrArray *vg_peers_gather(vg_peers *peers);

/* The peer whose host has this name, or that has it itself: as vg_peers_list() has it, or NULL; the
 * caller frees it. */
struct vg_peer_info *vg_peers_find(vg_peers *peers, const char *host);

/* One snapshot of own and of all views that have one. Peers that cannot be used, and why, and what
 * is doubtful about others, are sentences in ret_notes (char *). A peer is left out if it tells of
 * a host, or a VM's UUID, that was there before; own is never left out. */
vg_snapshot *vg_peers_merge(const vg_snapshot *own, const GPtrArray *views, GPtrArray *ret_notes);

void vg_peers_free(vg_peers *peers); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_peers, vg_peers_free)

const vg_thread *vg_peers_thread(const vg_peers *peers);

#endif
