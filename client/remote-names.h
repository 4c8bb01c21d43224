/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings for reaching a vgpud and authenticating to it, and their names.
 */
#ifndef VG_CLIENT_REMOTE_NAMES_H
#define VG_CLIENT_REMOTE_NAMES_H

enum vg_remote_key {
    VG_REMOTE_SOCKET,
    VG_REMOTE_SERVER,
    VG_REMOTE_TOKEN_FILE,
    VG_REMOTE_CACERT,
    VG_REMOTE_CERT,
    VG_REMOTE_KEY,
    VG_REMOTE_MAX
};

/* "server" for --server and the key of a context; "VGPUCTL_SERVER". */
struct vg_remote_name {
    const char *option;
    const char *variable;
};
extern const struct vg_remote_name vg_remote_names[VG_REMOTE_MAX];

struct vg_remote_args {
    const char *values[VG_REMOTE_MAX]; /* NULL if not given; borrowed from argv */
    const char *context;
    double limit_s; /* time limit for an answer; 0 for the default */
};

/* Returns the first option that was given, without "--", or NULL. */
const char *vg_remote_args_given(const struct vg_remote_args *args);

#endif
