/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent is told by its command line and its configuration file.
 */
#ifndef VG_GUEST_CONF_H
#define VG_GUEST_CONF_H

#include <stdbool.h>
#include <stddef.h>

#define VG_GUEST_CONFIG_FILE "/etc/vgpud/vgpu-guestd.conf"
/* Units of systemd that the file may name. */
#define VG_GUEST_UNITS_MAX 32

struct vg_guest_config {
    /* The virtio port, or with listen a socket instead. */
    const char *port;
    const char *listen;
    const char *hooks;
    /* What comes before /sys, /proc and /dev; "" for nothing. */
    const char *root;

    /* [cuda] unwatched: processes may be released of which it is not known whether they can come
     * back. */
    bool cuda_unwatched_allowed;
    /* [cuda] forked: forked children of programs of CUDA give up the files that they inherited. */
    bool cuda_release_forked;
    /* [cuda] huge_pages: the kernel gives huge pages while programs are copied. */
    bool cuda_huge_pages;
    /* [units] stop: those to be stopped before CUDA's programs are released, in this order. */
    char *units[VG_GUEST_UNITS_MAX];
    size_t n_units;
};

/* Fills in what the file can say, its defaults first; the other members stay. file: NULL for the
 * default one below root, which need not be there. Returns 0, or -1 after a message to the log. The
 * caller clears it in both cases. */
int vg_guest_config_read(struct vg_guest_config *config, const char *file);

void vg_guest_config_clear(struct vg_guest_config *config);

#endif
