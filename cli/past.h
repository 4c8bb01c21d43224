/* SPDX-License-Identifier: Apache-2.0
 *
 * What happened on the whole host in a time that is past: for --since and --until of `vm list` and
 * `preemptions`. Main thread.
 */
#ifndef VG_CLI_PAST_H
#define VG_CLI_PAST_H

#include "cli/online-args.h"
#include "cli/when.h"

/* Prints the host, who took most, and its VMs. sort: NULL for those that lost most first. limit: of
 * VMs; 0: none. */
int vg_past_show_vms(const struct vg_online_args *online, const struct vg_when_args *when,
                     const char *sort, int64_t limit, vg_client *client, GError **err);

/* Prints who took the CPU from whom; victim: NULL for all; limit: 0 for all. */
int vg_past_show_preemptions(const struct vg_online_args *online, const struct vg_when_args *when,
                             const char *victim, int64_t limit, vg_client *client, GError **err);

#endif
