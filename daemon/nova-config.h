/* SPDX-License-Identifier: Apache-2.0
 *
 * What the configuration says of OpenStack: [nova], and nova_host of [peer NAME].
 */
#ifndef VG_DAEMON_NOVA_CONFIG_H
#define VG_DAEMON_NOVA_CONFIG_H

#include "actuators/nova-move.h"
#include "daemon/daemon-config.h"

/* What nova calls the host of a peer; strings are owned. */
struct vg_nova_name {
    char *peer;
    char *host;
};

struct vg_nova_settings {
    struct vg_nova_options options; /* strings are owned */
    char *host;                     /* what nova calls this host; empty: as vgpud does */
    int64_t poll_ns;
    int64_t deadline_ns;
    struct vg_nova_name *names;
    size_t n_names;
};

/* The values of [nova] interface; NULL ends them. */
extern const char *const vg_nova_interface_names[];

/* -1 and *err, which names the group, if what is configured cannot be used. Reads the files. */
int vg_nova_config_check(const struct vg_daemon_config *config, GError **err);

/* NULL: no cloud is configured. */
struct vg_nova_settings *vg_nova_settings_new(const struct vg_daemon_config *config);
void vg_nova_settings_free(struct vg_nova_settings *settings); /* NULL is fine */

/* What nova calls the host of this peer, as configured; NULL: that is not. Borrowed. */
const char *vg_nova_settings_name(const struct vg_nova_settings *settings, const char *peer);

/* One who asks nova; the files are read again. leave: see vg_nova_new(). */
vg_nova *vg_nova_settings_open(const struct vg_nova_settings *settings, const atomic_bool *leave,
                               GError **err);

#endif
