/* SPDX-License-Identifier: Apache-2.0
 *
 * What a nova.conf says of vgpud and of nova's scheduler, read as oslo.config reads it: the options
 * that integrations/nova documents, with its defaults. One thread.
 */
#ifndef VG_CLI_NOVA_CONF_H
#define VG_CLI_NOVA_CONF_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#define VG_NOVA_CONF_DEFAULT "/etc/nova/nova.conf"

#define VG_NOVA_TIMEOUT_MS 250

struct vg_nova_conf {
    char *path;           /* NULL: there is no file, all are defaults */
    GPtrArray *endpoints; /* char *, as they are written */
    char *cafile;         /* NULL: the CAs of the system */
    char *token_file;     /* NULL: none */
    int64_t timeout_ms;   /* for all endpoints together */
    double stale_limit_s;
    double weight_multiplier;
    bool available; /* nova finds VgpudFilter */
    bool filter;    /* VgpudFilter is enabled */
    bool weigher;   /* VgpudWeigher is */
};

/* Without a file: no endpoints, the defaults of the package, filter and weigher enabled. */
void vg_nova_conf_init(struct vg_nova_conf *conf);

/* VG_E_NOT_FOUND: there is no such file; VG_E_INVALID names the line. *ret is initialised, and to
 * be cleared, either way. */
int vg_nova_conf_read(const char *path, struct vg_nova_conf *ret, GError **err);

void vg_nova_conf_clear(struct vg_nova_conf *conf);

#endif
