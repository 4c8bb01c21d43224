/* SPDX-License-Identifier: Apache-2.0
 *
 * How to connect to nova to move VMs. daemon/nova-config reads it from the configuration.
 */
#ifndef VG_MOVER_NOVA_SETTINGS_H
#define VG_MOVER_NOVA_SETTINGS_H

#include "actuators/nova-move.h"

/* Nova's name for a peer's host; strings are owned. */
struct vg_nova_name {
    char *peer;
    char *host;
};

struct vg_nova_settings {
    struct vg_nova_options options; /* strings are owned */
    char *host;                     /* nova's name for this host; empty if nova uses vgpud's name */
    int64_t poll_ns;
    int64_t deadline_ns;
    struct vg_nova_name *names;
    size_t n_names;
};

/* Returns settings with copies of these options, and the rest empty. */
struct vg_nova_settings *vg_nova_settings_new(const struct vg_nova_options *options);
void vg_nova_settings_free(struct vg_nova_settings *settings); /* NULL is fine */

/* Returns nova's configured name for the host of this peer, or NULL. Borrowed. */
const char *vg_nova_settings_name(const struct vg_nova_settings *settings, const char *peer);

/* Creates a nova client; the files are read again. leave: see vg_nova_new(). */
vg_nova *vg_nova_settings_open(const struct vg_nova_settings *settings, const atomic_bool *leave,
                               GError **err);

#endif
