/* SPDX-License-Identifier: Apache-2.0
 *
 * The options for connecting and authenticating to vgpud, for all commands that query it.
 */
#ifndef VG_CLI_REMOTE_ARGS_H
#define VG_CLI_REMOTE_ARGS_H

#include <argp.h>

#include "client/remote-names.h"

/* Child parser for argp; its input is a struct vg_remote_args. */
extern const struct argp vg_remote_argp;

#endif
