/* SPDX-License-Identifier: Apache-2.0
 *
 * How to connect and authenticate to vgpud. The settings are combined from options, the
 * environment, contexts, and the files named there. Credentials in a context are only sent to the
 * context's own server.
 */
#ifndef VG_CLIENT_REMOTE_H
#define VG_CLIENT_REMOTE_H

#include <glib.h>

#include "client/remote-names.h"

#define VG_REMOTE_DEFAULT_SOCKET "/run/vgpud/vgpud.sock"

/* The context without a name: this machine. */
#define VG_REMOTE_LOCAL "local"

struct vg_remote_setting {
    char *value; /* or NULL */
    char *from;  /* "--server", "VGPUCTL_SERVER", "context 'a'", "default" */
};

/* Either SOCKET or SERVER has a value; the others have values only with SERVER. */
struct vg_remote {
    struct vg_remote_setting settings[VG_REMOTE_MAX];
    char *context; /* NULL if no context applies */
    char *host;    /* of the server, for messages */
    char *port;
};

/* Fails with VG_E_INVALID if settings contradict each other, or VG_E_NOT_FOUND if the context does
 * not exist. */
int vg_remote_resolve(const struct vg_remote_args *args, struct vg_remote *ret, GError **err);
void vg_remote_clear(struct vg_remote *remote);

static inline const char *
vg_remote_value(const struct vg_remote *remote, enum vg_remote_key key)
{
    return remote->settings[key].value;
}

/* Checks the files before they are used, so that messages can name the faulty file, and reads the
 * token, which is NULL if none is configured. Fails with VG_E_UNREACHABLE. Warns about files that
 * others could read. */
int vg_remote_read_files(const struct vg_remote *remote, char **ret_token, GError **err);

/* Warns if path is a file with secrets that every user can read. */
void vg_remote_warn_if_open(const char *path, const char *what);

#endif
