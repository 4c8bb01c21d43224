/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's process may not do, whoever has got hold of it.
 */
#ifndef VG_OPENCL_PROXY_CONFINE_H
#define VG_OPENCL_PROXY_CONFINE_H

#include <stdbool.h>
#include <sys/types.h>

/* Of all clients' processes. */
struct proxy_confinement {
    const char *user;    /* whose they are; NULL: the proxy's */
    const char *vendors; /* the folder of the vendors' .icd files */
    bool is_strict;      /* what they may not do ends them */
    bool is_unconfined;  /* they are the proxy's equals, and only some system calls are refused */
};

/* Returns whose the clients' processes are. */
uid_t vg_proxy_client_uid(const struct proxy_confinement *confinement);

/* As fork(): the process has namespaces of its own, and has to confine itself. */
pid_t vg_proxy_fork(const struct proxy_confinement *confinement);

/* Takes from this process, which has one thread yet, what no vendor's library needs: another user
 * than its own, capabilities, files but those of reach.h, other processes, system calls but those
 * of seccomp-allow.c, and core files. The kernel ends it before others when memory is short.
 * Returns NULL, or what failed, with errno. */
const char *vg_proxy_confine(const struct proxy_confinement *confinement);

/* Tries both. False, after a message. */
bool vg_proxy_confine_check(const struct proxy_confinement *confinement);

#endif
