/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes in namespaces of their own. They cannot name other processes, and they write to a
 * private file system.
 */
#ifndef VG_OPENCL_PROXY_APART_H
#define VG_OPENCL_PROXY_APART_H

#include <stdbool.h>
#include <sys/types.h>

#include "opencl/proxy/reach.h"

#define APART_ROOM_MIB 256 /* size of the private file system, in memory */
#define APART_HOME     REACH_ROOM "/home"
#define APART_CACHE    REACH_ROOM "/cache"

/* As fork(), with new PID and mount namespaces. Unless this process has CAP_SYS_ADMIN, it also
 * creates a user namespace, which the others then require. */
pid_t vg_apart_fork(void);

/* In a client's process: maps the user's and the group's IDs to themselves in the user namespace,
 * if it has one. Returns NULL, or what failed, with errno. */
const char *vg_apart_map(void);

/* In a client's process: mounts the private file system, owned by USER or, if that is NULL, by this
 * process's user. Mounts an empty folder over each folder of which REACH needs nothing. Returns
 * NULL, or what failed, with errno. */
const char *vg_apart_mount(const struct proxy_reach *reach, const char *user);

/* Permanently drops all capabilities. Returns false with errno on failure. */
bool vg_apart_drop(void);

#endif
