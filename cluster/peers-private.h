/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files about peers.
 */
#ifndef VG_CLUSTER_PEERS_PRIVATE_H
#define VG_CLUSTER_PEERS_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/asker.h"
#include "base/log.h"
#include "cluster/exchange.h"
#include "cluster/peers.h"

/* A reference-counted snapshot. */
struct copy {
    vg_snapshot *snapshot;
};

/* The number of strings of struct vg_peer_options. */
#define PEER_TEXTS 9

/* Options whose strings are owned. */
struct own_options {
    struct vg_peer_options is;
    char *texts[PEER_TEXTS];
};

/* The requests of an attempt, in order. */
enum peer_stage { PEER_VERSION, PEER_SNAPSHOT, PEER_APPROVALS };

struct peer {
    int refs; /* protected by the lock */
    struct own_options options;
    bool member; /* only the cluster knows it, not the configuration */
    bool gone;   /* the cluster reports that the peer is unresponsive; protected by the lock */
    /* These are protected by the lock. */
    struct vg_peer_info *info;
    struct vg_log_turns turns;
    struct copy *copy; /* the newest snapshot, or NULL */
    bool silent;       /* it missed its last deadline */
    bool busy;         /* a query is in progress */
    /* query the peer again as soon as the current attempt has ended */
    bool again;
    GPtrArray *approvals; /* struct vg_approval, from the last attempt that succeeded, or NULL;
                             immutable and reference-counted */
    char **names; /* from the certificate that it presents; NULL if none was seen. Only the thread
                     changes it */
    uint64_t attempts;   /* the number of attempts that have ended */
    int64_t answered_ns; /* CLOCK_MONOTONIC, of the last one that succeeded */
    int64_t due_ns;      /* CLOCK_MONOTONIC, of the next attempt */
    /* These belong to the thread. */
    char *etag;          /* the etag of copy */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, of the present attempt */
    /* CLOCK_MONOTONIC, when its version was last read; 0 to read it in the next attempt */
    int64_t version_ns;
    int64_t sent_ns; /* epoch, of the request for the version */
    bool told_host;  /* it reports its host's name directly, not only in its snapshot */
    struct vg_exchange *exchange;
    enum peer_stage stage;
    struct copy *fresh; /* the snapshot received in this attempt, or NULL */
};

/* A request whose caller waits for the answer. It is freed by the caller or by the thread,
 * whichever needs it last. */
struct call {
    struct vg_exchange *exchange;
    struct peer *peer; /* a reference */
    CURLcode code;
    bool done;
    bool abandoned; /* the caller no longer waits */
};

struct vg_peers {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    GPtrArray *list;    /* struct peer; configured peers come first */
    unsigned n_members; /* the number known only from the cluster */
    size_t n_left_out;  /* further peers in the cluster, beyond the limit */
    char *own_host;     /* or NULL */
    GQueue calls;       /* struct call that have not started */
    int64_t refresh_ns;
    int64_t deadline_ns;
    bool stopping;
    /* These belong to the thread. */
    CURLM *multi;
    GPtrArray *active;  /* struct peer with a query in progress, as references */
    unsigned n_silent;  /* the number of peers in active that are unresponsive */
    GPtrArray *calling; /* struct call in progress */
    GRand *random;
    vg_thread *thread;
};

/* cluster/peer-refs.c */
void peers_copy_release(struct copy *copy); /* NULL is fine */
void peers_unref(void *data);               /* struct peer; called under the lock */

/* cluster/peer-proof.c: determines which host each peer may represent. peers_note_names records the
 * certificate's names after a successful exchange on a new connection; called on the thread.
 * peers_prove sets host_proof of all peers; called under the lock. */
void peers_note_names(vg_peers *peers, struct peer *peer, const struct vg_exchange *exchange);
void peers_prove(vg_peers *peers);

/* cluster/peer-calls.c: requests whose callers wait. Called on the thread. */
void peers_begin_calls(vg_peers *peers);
void peers_end_call(vg_peers *peers, struct call *call, CURLcode code);

/* A request to a peer. */
struct peers_question {
    const char *method;
    const char *path;
    const char *body; /* JSON, or NULL */
    int64_t limit_ns;
    const struct vg_asker *asker; /* NULL if the caller does not disconnect */
    const char *key;              /* Idempotency-Key, or NULL */
    const char *person; /* the user for whom the request is sent, if the body does not contain this;
                           or NULL */
    const char *forecast; /* the prediction for a move, as JSON, or NULL */
};

/* Sends one request to the peer with this name and blocks up to its limit, or until its asker has
 * disconnected. *ret: the document of the answer, or NULL if it has none; the caller puts it. The
 * errors are those of cluster/peer-moves.h. Any thread except "peers". */
int peers_request(vg_peers *peers, const char *name, const struct peers_question *question,
                  json_object **ret, GError **err);

/* The answer of one of several peers. */
struct peers_reply {
    char *name;            /* owned */
    json_object *document; /* owned; may be NULL */
    GError *error;         /* owned; NULL if the peer has answered */
};

/* Sends the same request to each of these peers (char *), VG_PEERS_PARALLEL concurrently. Blocks
 * up to until_ns (CLOCK_MONOTONIC), after which no further request is sent. Returns struct
 * peers_reply for each, in their order; the caller frees the list. */
GPtrArray *peers_request_all(vg_peers *peers, const GPtrArray *names,
                             const struct peers_question *question, int64_t until_ns);

/* cluster/approvals.c: reads the moves that a peer makes or has proposed. Returns NULL if the
 * answer cannot be read. */
GPtrArray *peers_read_approvals(const GString *body);

/* Ends all requests, after the thread has ended. */
void peers_drop_calls(vg_peers *peers);

#endif
