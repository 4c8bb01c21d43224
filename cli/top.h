/* SPDX-License-Identifier: Apache-2.0
 *
 * The full-screen view of `vgpuctl top`.
 */
#ifndef VG_CLI_TOP_H
#define VG_CLI_TOP_H

#include <stdbool.h>

#include "cli/remote-args.h"

/* Shows it until it is left, looking every interval_s seconds; remote as in vg_client_new().
 * *ret_status is then the exit code. false: this terminal cannot; nothing was done. */
bool vg_top_run(const struct vg_remote_args *remote, double interval_s, int *ret_status);

#endif
