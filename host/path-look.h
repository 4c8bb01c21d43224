/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at paths of this host, which may be on a file system that does not answer. A process of its
 * own, without files and threads, does the looking, and is left behind if it hangs. Any thread.
 */
#ifndef VG_HOST_PATH_LOOK_H
#define VG_HOST_PATH_LOOK_H

#include "model/path.h"

/* The maximum time of a look, but for a second or so. */
#define VG_PATH_LOOK_NS (INT64_C(7) * 1000000000)

/* The maximum number of processes that look, or hang, at the same time. */
#define VG_PATH_LOOKERS_MAX 16

struct vg_path_look {
    /* where the mounts of process 1, which are the host's, are read: "/proc" */
    const char *proc;
    /* The maximum time for one path, and for all of them. */
    int64_t path_ns;
    int64_t limit_ns;
};

/* Looks at paths (char *), as the defaults say if look is NULL. Returns struct vg_path_seen, one
 * for each path and in the same order, freed with the array. What this process is kept from
 * seeing is unknown: it has no right to, or mounts of its own where the host has others. */
GPtrArray *vg_path_look(const GPtrArray *paths, const struct vg_path_look *look);

#endif
