/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries the vendors' devices in a separate process, because the proxy loads no vendor's library.
 * The proxy thus knows which GPU it serves before the first client connects. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_LOOK_H
#define VG_OPENCL_PROXY_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/keeper.h"

#define PROXY_LOOK_MAX 16 /* devices; any others are not reported */

struct proxy_look_device {
    char name[64];
    char pci[16];    /* "0000:3b:00.0"; empty if the vendor does not report it */
    uint64_t memory; /* bytes */
};

/* Written by the query process and read after it has ended. */
struct proxy_found {
    unsigned n;
    struct proxy_look_device devices[PROXY_LOOK_MAX];
};

struct proxy_look {
    struct proxy_found *found; /* shared with that process; NULL if none has run */
    struct proxy_found known;  /* the last result */
    bool is_known, is_wanted;
    pid_t pid;   /* of the process; 0 if none runs */
    int64_t due; /* by vg_cl_now(): time of the next try after a failure */
    struct proxy_keeper keeper;
};

/* Requests a query, unless the devices are known. */
void vg_look_want(struct proxy_look *look);

/* Requests a new query. The last result remains valid until then. */
void vg_look_again(struct proxy_look *look);

/* Starts a query process if one was requested and is due, and starts the keeper. It is
 * confined like clients' processes,
 * after LEAVE has closed what it must not inherit from the proxy. */
void vg_look_begin(struct proxy_look *look, const struct proxy_confinement *confinement,
                   void (*leave)(void *data), void *data);

/* Called in another process: unmaps memory that is shared with these processes. */
void vg_look_leave(const struct proxy_look *look);

/* Called when a process has ended. Returns whether it was the query process or the keeper. */
bool vg_look_ended(struct proxy_look *look, pid_t pid, int status);

/* Kills these processes. */
void vg_look_end(const struct proxy_look *look);

#endif
