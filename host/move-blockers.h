/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the devices that prevent migration in libvirt and QEMU, according to the checks in the
 * versions of Debian 12 and 13. Pure; any thread.
 */
#ifndef VG_HOST_MOVE_BLOCKERS_H
#define VG_HOST_MOVE_BLOCKERS_H

#include <stdbool.h>

#include <glib.h>

/* Versions in libvirt's notation: 9.0.0 is 9000000. 0 if unknown; QEMU is then assumed to be
 * Debian's version for that libvirt. */
struct vg_virt_versions {
    unsigned long libvirt, qemu;
};

struct vg_move_blocker {
    char *text; /* one sentence */
    bool sure;  /* false if it may block, but the domain alone does not show it */
    /* if not sure, the PCI device of the host whose driver decides; otherwise NULL */
    char *pci_source;
    bool ask_qemu; /* QEMU itself gives the reason when queried */
};

/* Lists everything that would prevent a domain's migration after the devices with these aliases,
 * which end with NULL, are unplugged: struct vg_move_blocker, freed with the array. Returns NULL
 * and sets *err if the XML is not a domain. */
GPtrArray *vg_move_blockers(const char *xml, const char *const *off,
                            const struct vg_virt_versions *versions, GError **err);

#endif
