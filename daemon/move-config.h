/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings for moves from the configuration: [actions] and [gpu NAME].
 */
#ifndef VG_DAEMON_MOVE_CONFIG_H
#define VG_DAEMON_MOVE_CONFIG_H

#include "daemon/daemon-config.h"
#include "mover/move-settings.h"

/* Adds a line to errors for each [gpu NAME] group that is invalid, or has an invalid file. */
void vg_move_config_check(const struct vg_daemon_config *config, GString *errors);

/* Reads the settings of this host. Returns NULL and sets *err if a device_xml can no longer be
 * read. The caller unrefs them. */
vg_move_settings *vg_move_config_settings(const struct vg_daemon_config *config, const char *host,
                                          GError **err);

#endif
