/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the configuration who may connect: the addresses to listen on, and the roles of
 * certificates.
 */
#ifndef VG_DAEMON_ACCESS_CONFIG_H
#define VG_DAEMON_ACCESS_CONFIG_H

#include "daemon/daemon-config.h"
#include "model/identity.h"

/* Rejects keys that contradict each other, and addresses that vgpud cannot use. Warns of peers that
 * have another role. */
int vg_access_config_check(const struct vg_daemon_config *config,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Splits [api] listen into a list; the caller frees it. */
GStrv vg_access_config_listen(const struct vg_daemon_config *config);

/* Returns the highest role among the [role NAME] groups with this subject. */
enum vg_role vg_access_config_role(const struct vg_daemon_config *config, const char *subject);

#endif
