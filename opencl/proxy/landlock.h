/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock: restricts which files this process can open from now on. It uses whatever the running
 * kernel's version of the interface can deny.
 */
#ifndef VG_OPENCL_PROXY_LANDLOCK_H
#define VG_OPENCL_PROXY_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

enum landlock_use {
    LANDLOCK_READ, /* read, list and run */
    LANDLOCK_NODE, /* a device's node, or a folder of them: read, write, ioctl */
    LANDLOCK_ROOM, /* everything except creating device nodes */
};

struct landlock_rule {
    const char *path; /* a file, or a folder with everything below it */
    enum landlock_use use;
};

/* Denies this process, its future threads and its children everything that the N RULES do not
 * allow. A rule for a path that does not exist allows nothing. Requires PR_SET_NO_NEW_PRIVS.
 * Returns false with errno on failure. */
bool vg_landlock_confine(const struct landlock_rule *rules, size_t n);

#endif
