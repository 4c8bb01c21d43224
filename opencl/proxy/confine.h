/* SPDX-License-Identifier: Apache-2.0
 *
 * Restrictions of a client's process, which hold even if it is compromised.
 */
#ifndef VG_OPENCL_PROXY_CONFINE_H
#define VG_OPENCL_PROXY_CONFINE_H

#include <stdbool.h>
#include <sys/types.h>

struct proxy_seed;

/* Applies to all clients' processes. */
struct proxy_confinement {
    const char *user;              /* their user; NULL for the proxy's */
    const char *vendors;           /* the folder of the vendors' .icd files */
    bool is_strict;                /* a forbidden system call ends the process */
    const struct proxy_seed *seed; /* files for their caches (seed.h); NULL for none */
    bool is_unconfined; /* they run as the proxy's user, and only some system calls are refused */
};

/* Returns the user ID of the clients' processes. */
uid_t vg_proxy_client_uid(const struct proxy_confinement *confinement);

/* As fork(). The process has its own namespaces and must confine itself. */
pid_t vg_proxy_fork(const struct proxy_confinement *confinement);

/* Confines this process, which may have only one thread. It changes to its own user and loses
 * capabilities, access to other processes, core files, all files except those of reach.h, and all
 * system calls except those of seccomp-allow.c. No vendor's library needs any of these. The
 * kernel's OOM killer prefers this process. Returns NULL, or what failed, with errno. */
const char *vg_proxy_confine(const struct proxy_confinement *confinement);

/* Tries both functions in a test process. Returns false after logging a message. */
bool vg_proxy_confine_check(const struct proxy_confinement *confinement);

#endif
