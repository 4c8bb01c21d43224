/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out which devices the vendors' libraries have, in a process of its own, as the proxy loads
 * none of them: before any client has come, it is told by this which GPU the proxy serves. Used by
 * one thread.
 */
#ifndef VG_OPENCL_PROXY_LOOK_H
#define VG_OPENCL_PROXY_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "opencl/proxy/confine.h"

#define PROXY_LOOK_MAX 16 /* devices; there may be more, which are not told of */

struct proxy_look_device {
    char name[64];
    char pci[16];    /* "0000:3b:00.0"; empty: its vendor does not tell */
    uint64_t memory; /* bytes */
};

/* Written by the process that looks, and read when it has ended. */
struct proxy_found {
    unsigned n;
    struct proxy_look_device devices[PROXY_LOOK_MAX];
};

struct proxy_look {
    struct proxy_found *found; /* in common with that process; NULL: none was begun */
    struct proxy_found known;  /* what was found last */
    bool is_known, is_wanted;
    pid_t pid;   /* of the process; 0: there is none */
    int64_t due; /* by vg_cl_now(), when to try again after one that has failed */
};

/* Has devices be looked for, unless they are known. */
void vg_look_want(struct proxy_look *look);

/* Has them be looked for anew: what is known holds until then. */
void vg_look_again(struct proxy_look *look);

/* Begins a process that looks, if one is wanted and it is time: confined as those of clients, after
 * LEAVE has closed what it is not to have of the proxy. */
void vg_look_begin(struct proxy_look *look, const struct proxy_confinement *confinement,
                   void (*leave)(void *data), void *data);

/* Takes from this process what the one that looks writes into. */
void vg_look_leave(const struct proxy_look *look);

/* A process has ended. Returns whether it was the one that looked. */
bool vg_look_ended(struct proxy_look *look, pid_t pid, int status);

#endif
