/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the configuration by which proxy VMs of this host use a GPU: [proxy VM].
 */
#ifndef VG_MOVER_PROXY_CONFIG_H
#define VG_MOVER_PROXY_CONFIG_H

#include "base/conf.h"

#define VG_PROXY_N_KEYS    2
#define VG_PROXY_TOKEN_MIN 16 /* bytes; docs/vgpu-proxy.8 */
#define VG_PROXY_TOKEN_MAX 64

/* One group [proxy VM]. Strings are empty where nothing is configured. */
struct vg_proxy_config {
    struct vg_conf_item item; /* name: that of the VM, or its UUID */
    char *address;            /* "none": it has none */
    char *token_file;
};

/* The keys of struct vg_proxy_config, and the groups [proxy VM] in the member at this offset. */
extern const struct vg_conf_key vg_proxy_keys[VG_PROXY_N_KEYS];
#define VG_PROXY_LIST(at)                                                                          \
 {                                                                                                 \
  "proxy", vg_proxy_keys, VG_PROXY_N_KEYS, sizeof(struct vg_proxy_config), at, 256                 \
 }

/* Adds a line to errors for each group (struct vg_proxy_config) that cannot be right. */
void vg_proxy_config_check(const GPtrArray *proxies, GString *errors);

/* Reads the token in a file that not everybody may read; the caller frees it. Blocks. */
char *vg_proxy_config_token(const char *path, GError **err);

#endif
