/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the configuration how to reach OpenStack: [nova], and nova_host of [peer NAME].
 */
#ifndef VG_DAEMON_NOVA_CONFIG_H
#define VG_DAEMON_NOVA_CONFIG_H

#include "daemon/daemon-config.h"
#include "mover/nova-settings.h"

/* The values of [nova] interface, ending with NULL. */
extern const char *const vg_nova_interface_names[];

/* Checks the configuration, and reads the files. If they are unusable, returns -1 and sets *err,
 * which names the group. */
int vg_nova_config_check(const struct vg_daemon_config *config, GError **err);

/* Reads the settings. Returns NULL if no cloud is configured. The caller frees them. */
struct vg_nova_settings *vg_nova_config_settings(const struct vg_daemon_config *config);

#endif
