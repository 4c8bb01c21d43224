/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups [alert NAME] of a configuration, and how their alerts are told.
 */
#ifndef VG_DAEMON_ALERT_CONFIG_H
#define VG_DAEMON_ALERT_CONFIG_H

#include "daemon/daemon-config.h"
#include "engine/alerts.h"

/* Adds a line for each that is incomplete. */
void vg_alert_config_check(const struct vg_daemon_config *config, GString *errors);

/* The rules; strings are the configuration's. The caller frees the array with g_free(). */
struct vg_alert_rule *vg_alert_config_rules(const struct vg_daemon_config *config, size_t *ret_n);

/* Logs the change and makes an event of it; events: vg_event_log. */
void vg_alert_tell(void *events, const struct vg_alert_change *change);

#endif
