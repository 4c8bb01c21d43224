/* SPDX-License-Identifier: Apache-2.0
 *
 * Scheduling of the device. One client has it at a time. Each socket's clients together get a
 * share of its time that is proportional to the socket's weight (weighted fair queueing by time
 * used). If a command overruns its turn, the other sockets are compensated: its socket waits until
 * they have had as much time, even if they pause briefly. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_SHARE_H
#define VG_OPENCL_PROXY_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "opencl/proxy/group.h"
#include "opencl/proxy/rate.h"
#include "opencl/proxy/signer.h"
#include "opencl/serve/meter.h"
#include "opencl/serve/pool.h"
#include "opencl/wire/address.h"
#include "opencl/wire/session.h"

#define PROXY_WEIGHT_MAX 1000
#define PROXY_FROM_MAX   80  /* bytes */
#define PROXY_VM_MAX     256 /* bytes of a VM's name, with the terminator */

struct proxy_client;

/* Clients' activity (opencl/serve/meter.h). */
struct proxy_did {
    uint64_t came, done, used, wait_ns, run_ns;
    uint64_t took[VG_SERVE_TOOK], waited[VG_SERVE_TOOK], ran[VG_SERVE_TOOK];
};

/* A socket and the clients that connect to it. */
struct proxy_tenant {
    char *path;
    char *text;   /* owned; a line from a file; the other strings point into it. NULL for a socket
                     from the command line */
    bool is_gone; /* the socket is closed; its place is free once its clients have ended */
    uint64_t serial;   /* unique among all sockets ever opened */
    uint64_t revision; /* of the following members; increased each time that a file with this socket
                          is read */
    unsigned weight, configured; /* the current weight, and the configured one */
    uint64_t memory;             /* bytes per client */
    uint64_t vm_memory;          /* bytes of all clients together; UINT64_MAX for no limit */
    unsigned clients_max;        /* concurrent clients */
    struct vg_serve_pool *pool;  /* owned; their memory use */
    struct proxy_rate comes, forks, lines; /* admit.h */
    uint64_t n_unsaid;                     /* log lines dropped by the rate limit */
    unsigned cid;                          /* of the only VM that may connect; 0 for any */
    bool has_token;
    char token[VG_WIRE_TOKEN_MAX]; /* the token that clients must present */
    const char *token_file;        /* the token's file; NULL if none */
    int listener;
    double
        passed;   /* ns of device time divided by the weight, adjusted for periods without demand */
    int64_t held; /* ns, in all turns that have ended */
    int64_t lacked;   /* total ns of waiting for the device, up to: */
    int64_t lacks;    /* start of the current wait; 0 if it does not wait */
    bool has_overrun; /* its last turn was too long */
    double owed;      /* value of PASSED until which the socket is compensated for another socket's
                         overrun; 0 if none */
    int64_t patience; /* ns that sockets that overran wait while this one pauses */
    int64_t paused;   /* start of a pause while it is owed time; 0 if it does not pause */
    uint64_t turns, ended;
    const char *vm;                       /* the socket's VM; NULL if not configured */
    struct proxy_did did;                 /* of clients that have left */
    struct vg_serve_note refused, failed; /* refused requests, and failed ones */
};

struct proxy_client {
    pid_t pid; /* 0 if the place is free */
    int fd;    /* to the process; -1 if the process has closed it */
    struct proxy_group group;
    struct proxy_output *output;    /* owned; the process's output */
    struct vg_serve_counts *counts; /* owned, by vg_share_new_counts(); NULL if not counted */
    struct proxy_tenant *tenant;
    unsigned place;                            /* in the tenant's pool */
    unsigned char session[VG_WIRE_SESSION_ID]; /* the session's id, for reconnecting */
    bool is_known; /* authenticated with a certificate of the socket's VM */
    bool wants, has, is_told;
    int64_t came, wanted, given, asked; /* times in ns */
    int64_t due; /* time of the first request to return the device in this turn; 0 if none */
    char from[PROXY_FROM_MAX]; /* the peer, in words */
    const char *why_ended;     /* reason if the proxy ended it; NULL otherwise */
};

struct proxy_share {
    struct proxy_client *clients;
    unsigned n_clients; /* places */
    unsigned max_kernel_s;
    struct proxy_signer signer; /* for binaries that clients' processes hand out */
    double passed;              /* PASSED of the client that returned the device last */
};

/* Returns for how many ns the tenant's clients have had the device until now. */
int64_t vg_share_held(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Returns the ns during which one of the tenant's clients wanted the device and none had it. */
int64_t vg_share_lacked(const struct proxy_tenant *tenant);

/* Reconnects a program that lost its connection to its session. FD is its new connection through
 * the same socket, and IS_KNOWN its authentication, which must match. The caller still owns FD.
 * Returns false if the session does not exist. */
bool vg_share_bring_back(const struct proxy_share *share, const struct proxy_tenant *tenant,
                         bool is_known, const struct vg_wire_session_hello *hello, int fd);

/* Returns the number of TENANT's clients, or of all clients if TENANT is NULL. */
unsigned vg_share_clients_n(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Handles messages from CLIENT's process. */
void vg_share_hear(struct proxy_share *share, struct proxy_client *client);

/* Creates a pool that limits the memory of a socket's clients to MOST bytes together. It is in
 * memory that their processes share with the proxy. Returns NULL with errno on failure. */
struct vg_serve_pool *vg_share_new_pool(uint64_t most);
void vg_share_free_pool(struct vg_serve_pool *pool); /* NULL is fine */

/* Returns a free place in TENANT's pool. The pool has a place for every client that may exist. */
unsigned vg_share_place(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Allocates counters shared with a client's process and with any process that gets *FD, which is
 * the caller's. Returns NULL with errno on failure. */
struct vg_serve_counts *vg_share_new_counts(int *fd);
void vg_share_free_counts(struct vg_serve_counts *counts);
void vg_share_add_did(struct proxy_did *did, const struct vg_serve_counts *counts);

/* Adds a note that a client's process may be writing concurrently. */
void vg_share_add_note(struct vg_serve_note *sum, const struct vg_serve_note *note);

/* Sets the weight. Device time that TENANT has already used counts as before. */
void vg_share_set_weight(const struct proxy_share *share, struct proxy_tenant *tenant,
                         unsigned weight);

/* Handles the end of CLIENT's process. */
void vg_share_gone(struct proxy_share *share, struct proxy_client *client);

/* When due, gives the device to a client, requests it back, or ends a client that keeps it for too
 * long. Returns the ms until the next call is due, or -1 if only a message can change anything. */
int vg_share_decide(struct proxy_share *share);

#endif
