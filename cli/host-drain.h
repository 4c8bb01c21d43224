/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl host drain and undrain: starts and ends the evacuation of a host.
 */
#ifndef VG_CLI_HOST_DRAIN_H
#define VG_CLI_HOST_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/online-args.h"

struct vg_host_drain_args {
    bool dry_run;
    bool wait;         /* until no more VMs are being moved */
    int64_t timeout_s; /* 0 if unlimited */
};

/* Starts the drain and prints the outcome for each VM; with wait, prints it again at the end. Fails
 * with VG_E_REFUSED if VMs remain, and with VG_E_TIMEOUT if the drain takes too long. */
int vg_host_drain(const struct vg_online_args *args, const struct vg_host_drain_args *wanted,
                  vg_client *client, GError **err);
int vg_host_undrain(const struct vg_online_args *args, vg_client *client, GError **err);

#endif
