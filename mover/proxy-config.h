/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the configuration which proxy each of this host's VMs uses: [proxy VM].
 */
#ifndef VG_MOVER_PROXY_CONFIG_H
#define VG_MOVER_PROXY_CONFIG_H

#include "base/conf.h"

#define VG_PROXY_N_KEYS    2
#define VG_PROXY_TOKEN_MIN 16 /* bytes; docs/vgpu-proxy.8 */
#define VG_PROXY_TOKEN_MAX 64

/* One group [proxy VM]. Strings are empty if not configured. */
struct vg_proxy_config {
    struct vg_conf_item item; /* name: the VM's name or UUID */
    char *address;            /* "none" for no proxy */
    char *token_file;
};

/* The keys of struct vg_proxy_config, and the groups [proxy VM] in the member at this offset. */
extern const struct vg_conf_key vg_proxy_keys[VG_PROXY_N_KEYS];
#define VG_PROXY_LIST(at)                                                                          \
 {                                                                                                 \
  "proxy", vg_proxy_keys, VG_PROXY_N_KEYS, sizeof(struct vg_proxy_config), at, 256                 \
 }

/* Adds a line to errors for each invalid group (struct vg_proxy_config). */
void vg_proxy_config_check(const GPtrArray *proxies, GString *errors);

/* Reads the token from a file that must not be readable by all users; the caller frees it.
 * Blocks. */
char *vg_proxy_config_token(const char *path, GError **err);

#endif
