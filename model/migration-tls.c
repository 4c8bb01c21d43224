/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/migration-tls.h"

#include <string.h>

const char *const vg_tls_mode_names[] = {"auto", "yes", "no", NULL};
const char *const vg_tls_certs_names[] = {"unknown", "ready", "missing", "unreadable", NULL};
const char *const vg_move_tls_names[] = {"unknown", "no", "yes", NULL};

enum vg_tls_certs
vg_tls_certs_of(const char *name)
{
    for (int i = 0; name && vg_tls_certs_names[i]; i++) {
        if (strcmp(vg_tls_certs_names[i], name) == 0)
            return (enum vg_tls_certs)i;
    }
    return VG_TLS_CERTS_UNKNOWN;
}

/* Returns whether libvirt is reached through TLS, which is the default for other hosts. */
static bool
tls_is_uri(const char *uri)
{
    static const char plain[] = "qemu://";

    return g_str_has_prefix(uri, "qemu+tls://") ||
           (g_str_has_prefix(uri, plain) && uri[strlen(plain)] != '/' &&
            uri[strlen(plain)] != '\0');
}

/* Describes a host that is not ready. The caller frees the text. */
static char *
tls_lack(const char *host, enum vg_tls_certs certs)
{
    const char *what = certs == VG_TLS_CERTS_MISSING ? "QEMU's TLS certificates are missing on"
                       : certs == VG_TLS_CERTS_UNREADABLE
                           ? "vgpud cannot read qemu.conf or QEMU's TLS certificates on"
                           : "vgpud does not report QEMU's TLS certificates on";

    return g_strdup_printf("%s '%s'", what, host);
}

/* Describes the first matching host, or returns NULL. The caller frees the text. */
static char *
tls_find_lack(const struct vg_tls_facts *facts, bool is_known)
{
    const enum vg_tls_certs certs[] = {facts->own, facts->other};
    const char *const hosts[] = {facts->from, facts->to};

    for (size_t i = 0; i < G_N_ELEMENTS(certs); i++) {
        if (is_known ? certs[i] == VG_TLS_CERTS_MISSING : certs[i] != VG_TLS_CERTS_READY)
            return tls_lack(hosts[i], certs[i]);
    }
    return NULL;
}

struct vg_tls_choice
vg_tls_choose(const struct vg_tls_facts *facts)
{
    struct vg_tls_choice choice = {.tls = VG_MOVE_TLS_NO};

    if (facts->mode == VG_TLS_NEVER) {
        choice.why = g_strdup("[actions] tls=no forbids it");
        return choice;
    }
    if (facts->mode == VG_TLS_ALWAYS) {
        g_autofree char *missing = tls_find_lack(facts, true);
        choice.refused = missing != NULL;
        choice.tls = missing ? VG_MOVE_TLS_NO : VG_MOVE_TLS_YES;
        choice.why = missing ? g_strdup_printf("[actions] tls=yes requires TLS, but %s", missing)
                             : g_strdup("[actions] tls=yes requires it");
        return choice;
    }
    if (!tls_is_uri(facts->uri)) {
        choice.why = g_strdup("the target's libvirt is not reached through qemu+tls");
        return choice;
    }
    choice.why = tls_find_lack(facts, false);
    choice.warns = choice.why != NULL;
    if (!choice.why) {
        choice.tls = VG_MOVE_TLS_YES;
        choice.why = g_strdup("QEMU's certificates exist on both hosts");
    }
    return choice;
}
