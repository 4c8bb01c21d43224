/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl host history: the host's activity over time. Main thread.
 */
#ifndef VG_CLI_HOST_HISTORY_H
#define VG_CLI_HOST_HISTORY_H

#include "cli/online-args.h"
#include "cli/when.h"

struct vg_host_history_args {
    struct vg_when_args when;
    const char *step; /* NULL lets vgpud choose */
    const char *source;
};

int vg_host_history_show(const struct vg_online_args *online,
                         const struct vg_host_history_args *args, vg_client *client, GError **err);

#endif
