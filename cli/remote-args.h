/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that say where vgpud is and what to show it, of all commands that ask it.
 */
#ifndef VG_CLI_REMOTE_ARGS_H
#define VG_CLI_REMOTE_ARGS_H

#include <argp.h>
#include <stdbool.h>

enum vg_remote_key {
    VG_REMOTE_SOCKET,
    VG_REMOTE_SERVER,
    VG_REMOTE_TOKEN_FILE,
    VG_REMOTE_CACERT,
    VG_REMOTE_CERT,
    VG_REMOTE_KEY,
    VG_REMOTE_MAX
};

/* "server" is --server, and the key of a context; "VGPUCTL_SERVER". */
struct vg_remote_name {
    const char *option;
    const char *variable;
};
extern const struct vg_remote_name vg_remote_names[VG_REMOTE_MAX];

struct vg_remote_args {
    const char *values[VG_REMOTE_MAX]; /* NULL: not given; borrowed from argv */
    const char *context;
    double limit_s; /* for an answer; 0: the default */
};

/* Child parser for argp; its input is a struct vg_remote_args. */
extern const struct argp vg_remote_argp;

/* The first option that was given, without "--"; NULL: none. */
const char *vg_remote_args_given(const struct vg_remote_args *args);

#endif
