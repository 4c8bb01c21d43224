/* SPDX-License-Identifier: Apache-2.0
 *
 * A process that loads the vendors' libraries, creates and releases a context for each device, and
 * then keeps the libraries loaded. The driver thus stays initialised, and the processes of clients
 * start faster. Each of them also gets a copy of the files that the libraries have cached,
 * such as compiled built-in kernels. The keeper executes nothing for clients, so a client cannot
 * influence what others get. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_KEEPER_H
#define VG_OPENCL_PROXY_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/seed.h"

struct proxy_keeper {
    pid_t pid;                    /* of the process; 0 if none runs */
    int alive;                    /* closing it ends the process; valid while PID is set */
    int64_t due;                  /* by vg_cl_now(): time of the next try after a failure */
    struct keeper_shared *shared; /* with the process; NULL when its files have been taken */
    struct proxy_seed seed;
};

/* Starts the process if CONFINEMENT names a seed, and it is due and not running. Takes its files
 * when they are complete. The process is confined like clients' processes, after LEAVE has closed
 * what it must not inherit from the proxy. */
void vg_keeper_look(struct proxy_keeper *keeper, const struct proxy_confinement *confinement,
                    void (*leave)(void *data), void *data);

/* Called in another process: unmaps and closes what belongs to the proxy alone. The seed is kept.
 */
void vg_keeper_leave(const struct proxy_keeper *keeper);

/* Called when a process has ended. Returns whether it was the keeper's. */
bool vg_keeper_ended(struct proxy_keeper *keeper, pid_t pid, int status);

#endif
