/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the devices with which libvirt and QEMU migrate no VM, by their own refusals in the
 * versions of Debian 12 and 13. Pure; any thread.
 */
#ifndef VG_HOST_MOVE_BLOCKERS_H
#define VG_HOST_MOVE_BLOCKERS_H

#include <stdbool.h>

#include <glib.h>

/* Versions as libvirt counts them: 9.0.0 is 9000000. 0 if unknown; QEMU is then taken for the one
 * that Debian has with that libvirt. */
struct vg_virt_versions {
    unsigned long libvirt, qemu;
};

struct vg_move_blocker {
    char *text; /* one sentence */
    bool sure;  /* false if it may block, but the domain alone does not tell */
    /* if not sure, the PCI device of the host whose driver decides; otherwise NULL */
    char *pci_source;
    bool ask_qemu; /* QEMU itself says why if it is asked */
};

/* Lists everything that keeps a domain from being migrated once the devices of these aliases, which
 * end with NULL, are off: struct vg_move_blocker, freed with the array. Returns NULL and sets *err
 * if the XML is no domain. */
GPtrArray *vg_move_blockers(const char *xml, const char *const *off,
                            const struct vg_virt_versions *versions, GError **err);

#endif
