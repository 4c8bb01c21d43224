/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares what a domain needs of CPUs, NUMA nodes, huge pages and a TPM with what libvirt of
 * another host says of itself. Pure; any thread.
 */
#ifndef VG_HOST_TARGET_LACKS_H
#define VG_HOST_TARGET_LACKS_H

#include <glib.h>

/* Appends a sentence (char *) to problems for each thing that the host lacks. capabilities: of the
 * host; domain_capabilities: of its QEMU, or NULL. What they do not tell is no problem. Returns -1
 * and sets *err if one of the texts is no XML of its kind. */
int vg_target_lacks(const char *domain, const char *capabilities, const char *domain_capabilities,
                    GPtrArray *problems, GError **err);

#endif
