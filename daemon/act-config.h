/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the settings for automatic moves from the configuration: [policy] mode, and the keys that
 * depend on it.
 */
#ifndef VG_DAEMON_ACT_CONFIG_H
#define VG_DAEMON_ACT_CONFIG_H

#include "daemon/daemon-config.h"
#include "policy/acts.h"

#define VG_ACT_N_KEYS 7

/* Adds the policy's keys and the keys for acting, vg_policy_n_keys and VG_ACT_N_KEYS. Their offsets
 * are for struct vg_daemon_config. */
void vg_act_config_add_policy(struct vg_conf_key *keys);

/* Warns if both [policy] mode and [cluster] mode are set. */
void vg_act_config_warn(const struct vg_conf_key *keys, const struct vg_conf_place *places,
                        size_t n);

/* Checks that the keys are consistent: automatic moves require etcd. */
int vg_act_config_check(const struct vg_daemon_config *config, GError **err);

/* Reads the settings. Without [policy] mode, [cluster] mode applies. */
void vg_act_config_rules(const struct vg_daemon_config *config, struct vg_act_rules *ret);

#endif
