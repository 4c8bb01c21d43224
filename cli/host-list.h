/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl host list --all: the hosts of the cluster and of its peers.
 */
#ifndef VG_CLI_HOST_LIST_H
#define VG_CLI_HOST_LIST_H

#include "cli/online-args.h"

/* Queries and prints the list. */
int vg_host_list_all(const struct vg_online_args *args, vg_client *client, GError **err);

#endif
