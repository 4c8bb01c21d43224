/* SPDX-License-Identifier: Apache-2.0
 *
 * With which devices libvirt and QEMU migrate no VM, by their own refusals of the versions of
 * Debian 12 and 13. Pure; any thread.
 */
#ifndef VG_HOST_MOVE_BLOCKERS_H
#define VG_HOST_MOVE_BLOCKERS_H

#include <stdbool.h>

#include <glib.h>

/* As libvirt counts them: 9.0.0 is 9000000. 0: not known; QEMU is then taken for the one that
 * Debian has with that libvirt. */
struct vg_virt_versions {
    unsigned long libvirt, qemu;
};

struct vg_move_blocker {
    char *text;       /* a sentence */
    bool sure;        /* false: it may block, which cannot be told from the domain */
    char *pci_source; /* not sure, as it depends on the driver of this PCI device of the host; else
                       * NULL */
};

/* What keeps a domain from being migrated once the devices of these aliases (NULL-terminated) are
 * off: struct vg_move_blocker, freed with the array. NULL and *err if it is no domain. */
GPtrArray *vg_move_blockers(const char *xml, const char *const *off,
                            const struct vg_virt_versions *versions, GError **err);

#endif
