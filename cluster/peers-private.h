/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files about peers share.
 */
#ifndef VG_CLUSTER_PEERS_PRIVATE_H
#define VG_CLUSTER_PEERS_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "cluster/exchange.h"
#include "cluster/peers.h"

/* A snapshot with counted references. */
struct copy {
    vg_snapshot *snapshot;
};

/* Owned copies of the caller's. */
struct own_options {
    struct vg_peer_options is;
    char *texts[7];
};

/* What a peer is being asked for; one after the other. */
enum peer_stage { PEER_VERSION, PEER_SNAPSHOT, PEER_APPROVALS };

struct peer {
    int refs; /* under the lock */
    struct own_options options;
    /* Under the lock. */
    struct vg_peer_info *info;
    struct copy *copy;    /* of its newest snapshot, or NULL */
    bool silent;          /* it let its last deadline pass */
    bool busy;            /* it is being asked */
    GPtrArray *approvals; /* struct vg_approval, as of the last attempt that succeeded; or NULL */
    uint64_t attempts;    /* that have ended */
    int64_t due_ns;       /* CLOCK_MONOTONIC */
    /* Of the thread. */
    char *etag;          /* of copy */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, of the present attempt */
    int64_t version_ns;  /* CLOCK_MONOTONIC: when its version was asked for; 0: it must be */
    int64_t sent_ns;     /* epoch: the request for it */
    struct vg_exchange *exchange;
    enum peer_stage stage;
    struct copy *fresh; /* that came in this attempt, or NULL */
};

/* A request that somebody waits for. It is freed by whoever is the last to have done with it. */
struct call {
    struct vg_exchange *exchange;
    CURLcode code;
    bool done;
    bool abandoned; /* nobody waits any more */
};

struct vg_peers {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    GPtrArray *list; /* struct peer */
    GQueue calls;    /* struct call: not begun */
    int64_t refresh_ns;
    int64_t deadline_ns;
    bool stopping;
    /* Of the thread. */
    CURLM *multi;
    GPtrArray *active;  /* struct peer: references to those that are being asked */
    unsigned n_silent;  /* of these */
    GPtrArray *calling; /* struct call: begun */
    GRand *random;
    vg_thread *thread;
};

/* cluster/peer-calls.c: requests that somebody waits for; by the thread. */
void peers_begin_calls(vg_peers *peers);
void peers_end_call(vg_peers *peers, struct call *call, CURLcode code);

/* One request to the peer of this name; a JSON body, or NULL. Blocks up to limit_ns. *ret: the
 * answer's document, NULL where it has none; the caller puts it. The errors are those of
 * cluster/peer-moves.h. Any thread but "peers". */
int peers_request(vg_peers *peers, const char *name, const char *method, const char *path,
                  const char *body, int64_t limit_ns, json_object **ret, GError **err);

/* cluster/approvals.c: what a peer says of moves that it wants; NULL: nothing that can be read. */
GPtrArray *peers_read_approvals(const GString *body);

/* When it has ended. */
void peers_drop_calls(vg_peers *peers);

#endif
