/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files about peers share.
 */
#ifndef VG_CLUSTER_PEERS_PRIVATE_H
#define VG_CLUSTER_PEERS_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/asker.h"
#include "base/log.h"
#include "cluster/exchange.h"
#include "cluster/peers.h"

/* A snapshot with counted references. */
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

/* The requests of an attempt, one after the other. */
enum peer_stage { PEER_VERSION, PEER_SNAPSHOT, PEER_APPROVALS };

struct peer {
    int refs; /* protected by the lock */
    struct own_options options;
    bool member; /* it is known by the cluster only */
    bool gone;   /* its cluster says that it has fallen silent; protected by the lock */
    /* These are protected by the lock. */
    struct vg_peer_info *info;
    struct vg_log_turns turns;
    struct copy *copy; /* the newest snapshot, or NULL */
    bool silent;       /* it let its last deadline pass */
    bool busy;         /* it is being asked */
    /* the peer is to be asked once more, as soon as the present attempt has ended */
    bool again;
    GPtrArray *approvals; /* struct vg_approval, of the last attempt that succeeded, or NULL; it
                           * does not change, and references are counted */
    char **names; /* of the certificate that it shows; NULL if none has been seen. Only the thread
                   * changes it */
    uint64_t attempts;   /* the number of attempts that have ended */
    int64_t answered_ns; /* CLOCK_MONOTONIC, of the last one that succeeded */
    int64_t due_ns;      /* CLOCK_MONOTONIC, of the next attempt */
    /* These belong to the thread. */
    char *etag;          /* the etag of copy */
    int64_t deadline_ns; /* CLOCK_MONOTONIC, of the present attempt */
    /* CLOCK_MONOTONIC, when its version was last read; 0 to read it in the next attempt */
    int64_t version_ns;
    int64_t sent_ns; /* epoch, of the request for the version */
    bool told_host;  /* it says what it calls its host, and not only by its snapshot */
    struct vg_exchange *exchange;
    enum peer_stage stage;
    struct copy *fresh; /* the snapshot that came in this attempt, or NULL */
};

/* A request with a caller that waits for the answer. It is freed by the caller or by the thread,
 * whichever is the last to need it. */
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
    GPtrArray *list;    /* struct peer; those that are configured come first */
    unsigned n_members; /* those of them that only the cluster names */
    size_t n_left_out;  /* those that the cluster names besides, and that are too many */
    char *own_host;     /* or NULL */
    GQueue calls;       /* struct call that have not begun */
    int64_t refresh_ns;
    int64_t deadline_ns;
    bool stopping;
    /* These belong to the thread. */
    CURLM *multi;
    GPtrArray *active;  /* struct peer that are being asked, as references */
    unsigned n_silent;  /* the number of those in active that are silent */
    GPtrArray *calling; /* struct call that have begun */
    GRand *random;
    vg_thread *thread;
};

/* cluster/peer-refs.c */
void peers_copy_release(struct copy *copy); /* NULL is fine */
void peers_unref(void *data);               /* struct peer; called under the lock */

/* cluster/peer-proof.c: which hosts the peers may speak for. peers_note_names takes the names of
 * the certificate of an exchange that has ended well, if it made a connection; called on the
 * thread. peers_prove settles host_proof of all peers; called under the lock. */
void peers_note_names(vg_peers *peers, struct peer *peer, const struct vg_exchange *exchange);
void peers_prove(vg_peers *peers);

/* cluster/peer-calls.c: requests with callers that wait. Called on the thread. */
void peers_begin_calls(vg_peers *peers);
void peers_end_call(vg_peers *peers, struct call *call, CURLcode code);

/* A request to a peer. */
struct peers_question {
    const char *method;
    const char *path;
    const char *body; /* JSON, or NULL */
    int64_t limit_ns;
    const struct vg_asker *asker; /* NULL if the caller does not go away */
    const char *key;              /* Idempotency-Key, or NULL */
    const char *person;           /* for whom is asked, where the body does not say it, or NULL */
    const char *forecast;         /* the prediction for a move, as JSON, or NULL */
};

/* Sends one request to the peer of this name and blocks up to its limit, or until its asker has
 * gone. *ret: the document of the answer, or NULL if it has none; the caller puts it. The errors
 * are those of cluster/peer-moves.h. Called on any thread but "peers". */
int peers_request(vg_peers *peers, const char *name, const struct peers_question *question,
                  json_object **ret, GError **err);

/* What one of several peers has answered. */
struct peers_reply {
    char *name;            /* owned */
    json_object *document; /* owned; NULL if there is none */
    GError *error;         /* owned; NULL if it has answered */
};

/* Sends the same request to each of these peers (char *), side by side, VG_PEERS_PARALLEL at a
 * time, and blocks up to until_ns (CLOCK_MONOTONIC), after which no further one is asked. Returns
 * struct peers_reply for each, in their order; the caller frees the list. */
GPtrArray *peers_request_all(vg_peers *peers, const GPtrArray *names,
                             const struct peers_question *question, int64_t until_ns);

/* cluster/approvals.c: reads the moves that a peer wants. Returns NULL if the answer cannot be
 * read. */
GPtrArray *peers_read_approvals(const GString *body);

/* Ends all requests, once the thread has ended. */
void peers_drop_calls(vg_peers *peers);

#endif
