/* SPDX-License-Identifier: Apache-2.0
 *
 * The full-screen view of `vgpuctl top`.
 */
#ifndef VG_CLI_TOP_H
#define VG_CLI_TOP_H

#include <stdbool.h>

#include "cli/remote-args.h"

/* Shows it until the user leaves, with a query every interval_s seconds; remote as in
 * vg_client_new(). Sets *ret_status to the exit code. Returns false without effect if the terminal
 * is not suitable. */
bool vg_top_run(const struct vg_remote_args *remote, double interval_s, int *ret_status);

#endif
