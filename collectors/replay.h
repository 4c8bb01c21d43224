/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays a recording as if its host were live. Creates the same windows as `vgpuctl analyze`,
 * with the recording's times. The collector's name is "replay".
 */
#ifndef VG_COLLECTORS_REPLAY_H
#define VG_COLLECTORS_REPLAY_H

#include <stddef.h>

#include "collectors/collector.h"
#include "trace/alias.h"

#define VG_REPLAY_SPEED_MIN 1e-4
#define VG_REPLAY_SPEED_MAX 1e6

struct vg_replay_options {
    const char *path;
    double speed; /* 1 for real time, 0 for maximum speed */
    int64_t window_ns;
    vg_aliases *aliases;     /* other names of events, or NULL */
    const char *vm_map_name; /* may be NULL */
    const char *vm_map_text;
    size_t vm_map_size;
};

/* Opens a recording; fails if there are several. options is borrowed during the call. A clock
 * without an epoch starts at the file's modification time. */
vg_collector *vg_replay_new(const struct vg_replay_options *options, GError **err);

/* Returns the recorded host's name, or NULL if it is not stated. Borrowed from the collector. */
const char *vg_replay_hostname(const vg_collector *collector);

#endif
