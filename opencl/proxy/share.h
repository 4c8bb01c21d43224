/* SPDX-License-Identifier: Apache-2.0
 *
 * Who has the device: one client at a time, and each socket's clients together as much of its time
 * as the socket's weight says (weighted fair queueing over the time that they had it). A command
 * that kept the device for too long is made up for: its socket waits until those who waited have
 * had as much, also while they pause for a moment. Used by one thread.
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
#define PROXY_VM_MAX     256 /* bytes of a VM's name, with its end */

struct proxy_client;

/* What clients did (opencl/serve/meter.h). */
struct proxy_did {
    uint64_t came, done, used, wait_ns, run_ns;
    uint64_t took[VG_SERVE_TOOK], waited[VG_SERVE_TOOK], ran[VG_SERVE_TOOK];
};

/* Whose the clients are that come by one socket. */
struct proxy_tenant {
    char *path;
    char
        *text; /* owned: the line of a file, whose parts the others are; NULL: the command line's */
    bool is_gone;      /* it is closed; its place is free once its clients are gone, too */
    uint64_t serial;   /* that no other socket has or had */
    uint64_t revision; /* of what follows, each time that a file is read which says it */
    unsigned weight, configured;           /* the one now, and that of its line */
    uint64_t memory;                       /* bytes of each client */
    uint64_t vm_memory;                    /* bytes of all of them together; UINT64_MAX: no limit */
    unsigned clients_max;                  /* at a time */
    struct vg_serve_pool *pool;            /* owned: what memory they have */
    struct proxy_rate comes, forks, lines; /* admit.h */
    uint64_t n_unsaid;                     /* lines of the log that were too many */
    unsigned cid;                          /* of the only VM that may connect; 0: any */
    bool has_token;
    char token[VG_WIRE_TOKEN_MAX]; /* that clients have to show */
    const char *token_file;        /* it is from; NULL: none */
    int listener;
    double
        passed; /* ns of the device divided by the weight, but for times in which it wanted none */
    int64_t held;     /* ns, in all turns that have ended */
    int64_t lacked;   /* ns in which it wanted the device and did not have it, until: */
    int64_t lacks;    /* when it came to want it, and not to have it; 0: it does not now */
    bool has_overrun; /* it kept the device for too long in its last turn */
    double owed;      /* until it has passed this, it lacks what others overran; 0: nothing */
    int64_t patience; /* ns for which those who overran wait while it wants nothing */
    int64_t paused;   /* since when it wants nothing, while it is owed; 0: it wants */
    uint64_t turns, ended;
    const char *vm;                       /* whose the socket is; NULL: nobody said */
    struct proxy_did did;                 /* of clients that have left */
    struct vg_serve_note refused, failed; /* likewise, and what came of others */
};

struct proxy_client {
    pid_t pid; /* 0: none */
    int fd;    /* to the process; -1: it has closed it */
    struct proxy_group group;
    struct proxy_output *output;    /* owned; what its process writes */
    struct vg_serve_counts *counts; /* owned, by vg_share_new_counts(); NULL: none */
    struct proxy_tenant *tenant;
    unsigned place;                            /* in the tenant's pool */
    unsigned char session[VG_WIRE_SESSION_ID]; /* by which it comes back */
    bool is_known;                             /* by a certificate of the socket's VM */
    bool wants, has, is_told;
    int64_t came, wanted, given, asked; /* when, in ns */
    int64_t due;                        /* when it was first asked in this turn; 0: it was not */
    char from[PROXY_FROM_MAX];          /* who is at the other side, in words */
    const char *why_ended;              /* by the proxy; NULL: it has not been */
};

struct proxy_share {
    struct proxy_client *clients;
    unsigned n_clients; /* places */
    unsigned max_kernel_s;
    struct proxy_signer signer; /* of what clients' processes hand out */
    double passed;              /* by whoever gave the device back last */
};

/* Ns that the tenant's clients have had the device by now. */
int64_t vg_share_held(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Ns that one of the tenant's clients has wanted the device by now, and none of them had it. */
int64_t vg_share_lacked(const struct proxy_tenant *tenant);

/* Brings a program that has lost its connection back to its session, by another one, FD, which came
 * by the same socket, and which IS_KNOWN in the same way. FD is the caller's. False: there is no
 * such session. */
bool vg_share_bring_back(const struct proxy_share *share, const struct proxy_tenant *tenant,
                         bool is_known, const struct vg_wire_session_hello *hello, int fd);

/* Returns how many clients there are of TENANT; NULL: of all. */
unsigned vg_share_clients_n(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Takes what CLIENT's process says. */
void vg_share_hear(struct proxy_share *share, struct proxy_client *client);

/* What a socket's clients have together, MOST bytes at most, in memory that their processes have in
 * common with the proxy. NULL, with errno. */
struct vg_serve_pool *vg_share_new_pool(uint64_t most);
void vg_share_free_pool(struct vg_serve_pool *pool); /* NULL is fine */

/* Returns a place in TENANT's pool that none of its clients has; there are not more of them. */
unsigned vg_share_place(const struct proxy_share *share, const struct proxy_tenant *tenant);

/* Memory in common with a client's process, and whoever gets *FD, which is the caller's; NULL, with
 * errno. */
struct vg_serve_counts *vg_share_new_counts(int *fd);
void vg_share_free_counts(struct vg_serve_counts *counts);
void vg_share_add_did(struct proxy_did *did, const struct vg_serve_counts *counts);

/* Adds one that a client's process may be writing. */
void vg_share_add_note(struct vg_serve_note *sum, const struct vg_serve_note *note);

/* What TENANT has had by now stays as it was. */
void vg_share_set_weight(const struct proxy_share *share, struct proxy_tenant *tenant,
                         unsigned weight);

/* CLIENT's process has ended. */
void vg_share_gone(struct proxy_share *share, struct proxy_client *client);

/* Gives the device, asks for it, and ends who keeps it, as it is time. Returns for how many ms
 * nothing has to be done; -1: until somebody says something. */
int vg_share_decide(struct proxy_share *share);

#endif
