/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes in namespaces of their own: they cannot name other processes, and have a private file
 * system for what they write.
 */
#ifndef VG_OPENCL_PROXY_APART_H
#define VG_OPENCL_PROXY_APART_H

#include <stdbool.h>
#include <sys/types.h>

#include "opencl/proxy/reach.h"

#define APART_ROOM_MIB 256 /* of the private file system, in memory */
#define APART_HOME     REACH_ROOM "/home"
#define APART_CACHE    REACH_ROOM "/cache"

/* As fork(), into a PID and a mount namespace; and into a user namespace, without which those
 * cannot be made, unless this process may administrate the system. */
pid_t vg_apart_fork(void);

/* In such a process: keeps its user's and group's numbers in the user namespace, if it has one.
 * Returns NULL, or what failed, with errno. */
const char *vg_apart_map(void);

/* In such a process: mounts the private file system, which USER (NULL: this one) owns, and an empty
 * folder over those that REACH has nothing of. Returns NULL, or what failed, with errno. */
const char *vg_apart_mount(const struct proxy_reach *reach, const char *user);

/* Gives up all capabilities, for good. False, with errno. */
bool vg_apart_drop(void);

#endif
