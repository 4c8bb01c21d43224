/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether QEMU encrypts the data that it sends during a migration.
 */
#ifndef VG_MODEL_MIGRATION_TLS_H
#define VG_MODEL_MIGRATION_TLS_H

#include <stdbool.h>

#include <glib.h>

/* [actions] tls */
enum vg_tls_mode { VG_TLS_AUTO, VG_TLS_ALWAYS, VG_TLS_NEVER, VG_TLS_MODE_MAX };

/* QEMU's certificates for migrations on a host, as its vgpud reports them. */
enum vg_tls_certs {
    VG_TLS_CERTS_UNKNOWN, /* not reported, as by an older vgpud */
    VG_TLS_CERTS_READY,
    VG_TLS_CERTS_MISSING,
    VG_TLS_CERTS_UNREADABLE, /* vgpud has no access to them or to qemu.conf */
    VG_TLS_CERTS_MAX
};

/* Whether a move uses TLS. */
enum vg_move_tls {
    VG_MOVE_TLS_UNKNOWN, /* nova decides, or an older vgpud started the move, without TLS */
    VG_MOVE_TLS_NO,
    VG_MOVE_TLS_YES,
    VG_MOVE_TLS_MAX
};

extern const char *const vg_tls_mode_names[];  /* "auto", "yes", "no" */
extern const char *const vg_tls_certs_names[]; /* "unknown", "ready", "missing", "unreadable" */
extern const char *const vg_move_tls_names[];  /* "unknown", "no", "yes" */

/* Returns the value of a name; VG_TLS_CERTS_UNKNOWN for other names, and for NULL. */
enum vg_tls_certs vg_tls_certs_of(const char *name);

struct vg_tls_facts {
    enum vg_tls_mode mode;
    const char *uri; /* how the source's libvirt connects to the target's */
    const char *from, *to;
    enum vg_tls_certs own;   /* certificates of the source */
    enum vg_tls_certs other; /* certificates of the target */
};

struct vg_tls_choice {
    enum vg_move_tls tls;
    bool refused; /* TLS is required but not available */
    bool warns;   /* memory is sent in clear text because certificates are missing */
    char *why;    /* one sentence; the caller frees it */
};

struct vg_tls_choice vg_tls_choose(const struct vg_tls_facts *facts);

#endif
