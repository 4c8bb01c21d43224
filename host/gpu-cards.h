/* SPDX-License-Identifier: Apache-2.0
 *
 * PCI functions that the operator declares to be GPUs although their class is neither 03 nor 12.
 * Also, displays of management controllers, which do not count as GPUs although their class is 03.
 */
#ifndef VG_HOST_GPU_CARDS_H
#define VG_HOST_GPU_CARDS_H

#include <stdbool.h>

#include <glib.h>

/* Checks a list such as "1b36:0010,1234:11e8": vendor and device, four hexadecimal digits each.
 * Fails with VG_E_INVALID. */
int vg_gpu_cards_check(const char *text, GError **err);

/* Sets the list, which has been checked. Called before there are threads. */
void vg_gpu_cards_set(const char *text);

/* Returns whether a PCI id, in lower case, is in the list. Any thread. */
bool vg_gpu_cards_has(const char *pci_id);

/* Returns whether a PCI id, in lower case, belongs to a management controller's display chip: the
 * host's console, which is never assigned to a VM. Any thread. */
bool vg_gpu_cards_is_display(const char *pci_id);

#endif
