/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the [alert NAME] groups of a configuration, and reports changes of their alerts.
 */
#ifndef VG_DAEMON_ALERT_CONFIG_H
#define VG_DAEMON_ALERT_CONFIG_H

#include "base/conf.h"
#include "daemon/daemon-config.h"
#include "engine/alerts.h"

#define VG_ALERT_N_KEYS 4

/* The keys of struct vg_alert_config. */
extern const struct vg_conf_key vg_alert_keys[VG_ALERT_N_KEYS];

/* Adds a line for each incomplete group. */
void vg_alert_config_check(const struct vg_daemon_config *config, GString *errors);

/* Checks the value of [alerts] command. */
int vg_alert_config_check_command(const struct vg_daemon_config *config, GError **err);

/* Returns the rules, whose strings belong to the configuration. The caller frees the array with
 * g_free(). */
struct vg_alert_rule *vg_alert_config_rules(const struct vg_daemon_config *config, size_t *ret_n);

/* Logs a change and records it as an event. events is the vg_event_log. */
void vg_alert_report(void *events, const struct vg_alert_change *change);

#endif
