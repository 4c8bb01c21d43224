/* SPDX-License-Identifier: Apache-2.0
 *
 * Activity of the whole host in a past period, for --since and --until of `vm list` and
 * `preemptions`. Main thread.
 */
#ifndef VG_CLI_PAST_H
#define VG_CLI_PAST_H

#include "cli/online-args.h"
#include "cli/when.h"

/* Prints the host, its main aggressors, and its VMs. sort: NULL sorts by lost time, descending.
 * limit: maximum number of VMs; 0 if unlimited. */
int vg_past_show_vms(const struct vg_online_args *online, const struct vg_when_args *when,
                     const char *sort, int64_t limit, vg_client *client, GError **err);

/* Prints the CPU time that aggressors took from victims. victim: NULL for all. limit: 0 if
 * unlimited. */
int vg_past_show_preemptions(const struct vg_online_args *online, const struct vg_when_args *when,
                             const char *victim, int64_t limit, vg_client *client, GError **err);

#endif
