/* SPDX-License-Identifier: Apache-2.0
 *
 * Landlock: the files that this process may open from now on. The kernel's interface has versions;
 * whatever the running kernel can deny is denied.
 */
#ifndef VG_OPENCL_PROXY_LANDLOCK_H
#define VG_OPENCL_PROXY_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

enum landlock_use {
    LANDLOCK_READ, /* read, list and run */
    LANDLOCK_NODE, /* a device's node, or a folder of them: read, write, ioctl */
    LANDLOCK_ROOM, /* all but making device nodes */
};

struct landlock_rule {
    const char *path; /* a file, or a folder with all below it */
    enum landlock_use use;
};

/* Denies this process, its threads to come and its children everything but what the N RULES allow.
 * A rule whose path does not exist allows nothing. It needs PR_SET_NO_NEW_PRIVS. False, with
 * errno. */
bool vg_landlock_confine(const struct landlock_rule *rules, size_t n);

#endif
