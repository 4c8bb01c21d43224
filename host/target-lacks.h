/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a domain's requirements for CPUs, NUMA nodes, huge pages and a TPM with the
 * capabilities that another host's libvirt reports. Pure; any thread.
 */
#ifndef VG_HOST_TARGET_LACKS_H
#define VG_HOST_TARGET_LACKS_H

#include <glib.h>

/* Appends a sentence (char *) to problems for each missing capability. capabilities: of the host.
 * domain_capabilities: of its QEMU, or NULL. Unreported capabilities are not a problem. Returns -1
 * and sets *err if a text is not XML of the right kind. */
int vg_target_lacks(const char *domain, const char *capabilities, const char *domain_capabilities,
                    GPtrArray *problems, GError **err);

#endif
