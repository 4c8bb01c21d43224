/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the peers, other vgpuds, from the configuration.
 */
#ifndef VG_DAEMON_PEER_CONFIG_H
#define VG_DAEMON_PEER_CONFIG_H

#include "cluster/peers.h"
#include "daemon/daemon-config.h"

#define VG_PEER_N_KEYS 8

/* The keys of struct vg_peer_config. */
extern const struct vg_conf_key vg_peer_keys[VG_PEER_N_KEYS];

/* Adds a line to errors for each invalid [peer NAME] group. */
void vg_peer_config_check(const struct vg_daemon_config *config, GString *errors);

/* Fills in options for vg_peers_new() and vg_peers_set(). Their strings and own_host, this host's
 * name, are borrowed; the caller frees ret->peers. */
void vg_peer_config_options(const struct vg_daemon_config *config, const char *own_host,
                            struct vg_peers_options *ret);

#endif
