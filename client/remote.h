/* SPDX-License-Identifier: Apache-2.0
 *
 * Where vgpud is and what to show it, put together of options, the environment and contexts; and
 * the files named there. What a context names is shown to its own server only.
 */
#ifndef VG_CLIENT_REMOTE_H
#define VG_CLIENT_REMOTE_H

#include <glib.h>

#include "client/remote-names.h"

#define VG_REMOTE_DEFAULT_SOCKET "/run/vgpud/vgpud.sock"

/* The context without a name: this machine. */
#define VG_REMOTE_LOCAL "local"

struct vg_remote_setting {
    char *value; /* NULL: there is none */
    char *from;  /* "--server", "VGPUCTL_SERVER", "context 'a'", "default" */
};

/* Either SOCKET or SERVER has a value; the others only with SERVER. */
struct vg_remote {
    struct vg_remote_setting settings[VG_REMOTE_MAX];
    char *context; /* NULL: none counts */
    char *host;    /* of the server, for messages */
    char *port;
};

/* VG_E_INVALID, VG_E_NOT_FOUND: settings contradict each other, or there is no such context. */
int vg_remote_resolve(const struct vg_remote_args *args, struct vg_remote *ret, GError **err);
void vg_remote_clear(struct vg_remote *remote);

static inline const char *
vg_remote_value(const struct vg_remote *remote, enum vg_remote_key key)
{
    return remote->settings[key].value;
}

/* Looks at the files before they are used, so that messages can say which of them is no good, and
 * reads the token, which is NULL where there is none; VG_E_UNREACHABLE. Warns of what others could
 * read. */
int vg_remote_read_files(const struct vg_remote *remote, char **ret_token, GError **err);

/* Warns if path is a file with secrets that everybody may read. */
void vg_remote_warn_if_open(const char *path, const char *what);

#endif
