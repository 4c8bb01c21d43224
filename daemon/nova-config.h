/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads from the configuration how to reach OpenStack: [nova], and nova_host of [peer NAME].
 */
#ifndef VG_DAEMON_NOVA_CONFIG_H
#define VG_DAEMON_NOVA_CONFIG_H

#include "actuators/nova-move.h"
#include "daemon/daemon-config.h"

/* The name that nova has for a peer's host; strings are owned. */
struct vg_nova_name {
    char *peer;
    char *host;
};

struct vg_nova_settings {
    struct vg_nova_options options; /* strings are owned */
    char *host;                     /* nova's name for this host; empty if it is vgpud's */
    int64_t poll_ns;
    int64_t deadline_ns;
    struct vg_nova_name *names;
    size_t n_names;
};

/* The values of [nova] interface, ending with NULL. */
extern const char *const vg_nova_interface_names[];

/* Checks the configuration, and reads the files. Returns -1 and sets *err, which names the group,
 * if it cannot be used. */
int vg_nova_config_check(const struct vg_daemon_config *config, GError **err);

/* Reads the settings. Returns NULL if no cloud is configured. */
struct vg_nova_settings *vg_nova_settings_new(const struct vg_daemon_config *config);
void vg_nova_settings_free(struct vg_nova_settings *settings); /* NULL is fine */

/* Returns the configured name that nova has for the host of this peer, or NULL. Borrowed. */
const char *vg_nova_settings_name(const struct vg_nova_settings *settings, const char *peer);

/* Makes a client of nova; the files are read again. leave: see vg_nova_new(). */
vg_nova *vg_nova_settings_open(const struct vg_nova_settings *settings, const atomic_bool *leave,
                               GError **err);

#endif
