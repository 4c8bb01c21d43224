/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings for moving VMs. daemon/move-config reads them from the configuration.
 */
#ifndef VG_MOVER_MOVE_SETTINGS_H
#define VG_MOVER_MOVE_SETTINGS_H

#include "actuators/virt-move.h"
#include "mover/nova-settings.h"

/* The settings of moves. They are immutable and reference-counted, so that a move keeps the
 * settings that it started with. */
struct vg_move_settings {
    bool enabled;
    char *libvirt_uri; /* the URI of this host's libvirt, for reading and writing */
    char *own_uri;     /* the URI for other hosts; empty if they can use this host's URI */
    char *proxies;     /* control sockets of this host's proxies, "PATH,PATH" */
    bool packs_gpus;   /* gpu_placement is pack on this host */
    int64_t moves;     /* the maximum number of concurrent moves */
    int64_t bandwidth_bytes_per_s;
    int64_t downtime_max_ns;
    int64_t guest_deadline_ns;
    int64_t unplug_deadline_ns;
    int64_t migrate_deadline_ns;
    int64_t lease_s;
    enum vg_tls_mode tls;
    int64_t fault_writes;          /* 0 for none; a negative number ends before the write */
    struct vg_named_device *named; /* strings are owned */
    size_t n_named;
    struct vg_nova_settings *nova; /* owned; NULL if nova is not used for moves */
};

typedef struct vg_move_settings vg_move_settings;

/* Returns empty settings with one reference. */
struct vg_move_settings *vg_move_settings_new(void);
struct vg_move_settings *vg_move_settings_ref(struct vg_move_settings *settings);
void vg_move_settings_unref(struct vg_move_settings *settings); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_move_settings, vg_move_settings_unref)

/* Returns prefix, "-" and 16 random hexadecimal digits; the caller frees it. */
char *vg_move_new_id(const char *prefix);

#endif
