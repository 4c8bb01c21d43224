/* SPDX-License-Identifier: Apache-2.0
 *
 * What the configuration says of who may come in: addresses to listen on, and roles of
 * certificates.
 */
#ifndef VG_DAEMON_ACCESS_CONFIG_H
#define VG_DAEMON_ACCESS_CONFIG_H

#include "daemon/daemon-config.h"
#include "model/identity.h"

/* Keys that contradict each other. */
int vg_access_config_check(const struct vg_daemon_config *config,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* [api] listen as a list; the caller frees it. */
GStrv vg_access_config_listen(const struct vg_daemon_config *config);

/* The highest role of a group [role NAME] that has this subject. */
enum vg_role vg_access_config_role(const struct vg_daemon_config *config, const char *subject);

#endif
