/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings for vgpud and nova's scheduler in a nova.conf, parsed like oslo.config: the options
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
    char *path;           /* NULL without a file; all values are then defaults */
    GPtrArray *endpoints; /* char *, as written */
    char *cafile;         /* NULL for the system's CAs */
    char *token_file;     /* NULL if not set */
    int64_t timeout_ms;   /* for all endpoints together */
    double stale_limit_s;
    double weight_multiplier;
    bool available; /* nova can find VgpudFilter */
    bool filter;    /* VgpudFilter is enabled */
    bool weigher;   /* VgpudWeigher is enabled */
};

/* Sets the values for a missing file: no endpoints, the package's defaults, filter and weigher
 * enabled. */
void vg_nova_conf_init(struct vg_nova_conf *conf);

/* Fails with VG_E_NOT_FOUND if the file does not exist, or with VG_E_INVALID and the line. *ret is
 * initialised in either case and must be cleared. */
int vg_nova_conf_read(const char *path, struct vg_nova_conf *ret, GError **err);

void vg_nova_conf_clear(struct vg_nova_conf *conf);

#endif
