/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks paths of this host, which may be on a file system that does not respond. A separate
 * process, without files and threads, does the checking, and is abandoned if it hangs. Any thread.
 */
#ifndef VG_HOST_PATH_LOOK_H
#define VG_HOST_PATH_LOOK_H

#include "model/path.h"

/* The maximum duration of a check, with a tolerance of about a second. */
#define VG_PATH_LOOK_NS (INT64_C(7) * 1000000000)

/* The maximum number of concurrent processes that check or hang. */
#define VG_PATH_LOOKERS_MAX 16

struct vg_path_look {
    /* where the mounts of process 1, which are the host's, are read: "/proc" */
    const char *proc;
    /* The maximum time for one path, and for all of them. */
    int64_t path_ns;
    int64_t limit_ns;
};

/* Checks paths (char *), with the defaults if look is NULL. Returns struct vg_path_seen, one for
 * each path and in the same order, freed with the array. A path is unknown if this process cannot
 * access it, because permission is missing or because its mounts differ from the host's. */
GPtrArray *vg_path_look(const GPtrArray *paths, const struct vg_path_look *look);

#endif
