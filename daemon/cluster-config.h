/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the cluster of this host from the configuration, and joins it: hosts registered in etcd
 * become peers of this vgpud.
 */
#ifndef VG_DAEMON_CLUSTER_CONFIG_H
#define VG_DAEMON_CLUSTER_CONFIG_H

#include "api/backend.h"
#include "cluster/peers.h"
#include "cluster/region.h"
#include "daemon/daemon-config.h"

#define VG_CLUSTER_N_KEYS 17

/* The keys of the [cluster] group; offsets are those of struct vg_daemon_config. */
extern const struct vg_conf_key vg_cluster_keys[VG_CLUSTER_N_KEYS];

/* Checks that the keys of [cluster] are consistent. */
int vg_cluster_config_check(const struct vg_daemon_config *config, GError **err);

/* Returns the settings for etcd; strings are borrowed from config. */
struct vg_etcd_options vg_cluster_config_etcd(const struct vg_daemon_config *config);

typedef struct vg_membership vg_membership;

/* Joins the configured cluster; *ret remains NULL if no cluster is configured. peers is borrowed,
 * and its members are set from now on. */
int vg_membership_new(const struct vg_daemon_config *config, const char *host, const char *boot_id,
                      vg_peers *peers, vg_membership **ret, GError **err);

/* Returns the region, borrowed, or NULL if membership is NULL. */
vg_region *vg_membership_region(const vg_membership *membership);

/* Updates the summary that other hosts read about this host. Main thread; membership may be NULL.
 */
void vg_membership_tick(vg_membership *membership, const vg_view *view);

/* Returns whether its thread is alive. NULL is fine. */
bool vg_membership_is_alive(const vg_membership *membership, int64_t limit_ns);

/* Leaves the cluster, and stops setting members of peers. NULL is fine. */
void vg_membership_stop(vg_membership *membership);
void vg_membership_free(vg_membership *membership); /* NULL is fine */

#endif
