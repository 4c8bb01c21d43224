/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings from the agent's command line and its configuration file.
 */
#ifndef VG_GUEST_CONF_H
#define VG_GUEST_CONF_H

#include <stdbool.h>
#include <stddef.h>

#define VG_GUEST_CONFIG_FILE "/etc/vgpud/vgpu-guestd.conf"
/* The maximum number of systemd units that the file may name. */
#define VG_GUEST_UNITS_MAX 32

struct vg_guest_config {
    /* The virtio port, or a socket to listen on instead. */
    const char *port;
    const char *listen;
    const char *hooks;
    /* The prefix of /sys, /proc and /dev; "" for none. */
    const char *root;

    /* [cuda] unwatched: processes may be released even if it is unknown whether they can be
     * restored. */
    bool cuda_unwatched_allowed;
    /* [cuda] forked: forked children of CUDA programs release the files that they inherited. */
    bool cuda_release_forked;
    /* [cuda] huge_pages: the kernel provides huge pages while programs are copied. */
    bool cuda_huge_pages;
    /* [cuda] hold_faults: threads that fault while their process is stopped are held. */
    bool cuda_hold_faults;
    /* [cuda] driver_faults: programs are released even if the driver is known to lose them. */
    bool cuda_faults_allowed;
    /* [units] stop: the units to stop before CUDA programs are released, in this order. */
    char *units[VG_GUEST_UNITS_MAX];
    size_t n_units;
};

/* Fills in the defaults, and then the settings from the file; the other members are unchanged. If
 * file is NULL, it is the default one below root, which need not exist. Returns 0, or -1 after a
 * message to the log. The caller clears the configuration in both cases. */
int vg_guest_config_read(struct vg_guest_config *config, const char *file);

void vg_guest_config_clear(struct vg_guest_config *config);

#endif
