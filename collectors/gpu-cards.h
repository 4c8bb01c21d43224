/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of this host's GPUs: kernel, drivers and libraries have different names for the same
 * one. The common name is the PCI address, as in inventories, or, off the PCI bus, the name of the
 * driver, as in fdinfo. One thread at a time.
 */
#ifndef VG_COLLECTORS_GPU_CARDS_H
#define VG_COLLECTORS_GPU_CARDS_H

#include <stdbool.h>

#include <glib.h>

/* Tells if a driver that works for clients has a node in this directory ("/sys/class/drm" except in
 * tests). A driver that only shows a picture, as for a server's console, has none. */
bool vg_gpu_cards_can_render(const char *drm);

typedef struct vg_gpu_cards vg_gpu_cards;

/* Makes an empty list, which vg_gpu_cards_read() fills. */
vg_gpu_cards *vg_gpu_cards_new(const char *drm);
void vg_gpu_cards_free(vg_gpu_cards *cards); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_cards, vg_gpu_cards_free)

/* Reads which GPUs there are now. */
void vg_gpu_cards_read(vg_gpu_cards *cards);

/* Finds the common name of the GPU that somebody calls "card0", or by the name of its device in the
 * kernel, or by that of its driver if that drives no other one, or by no name (empty) if no other
 * one works for clients. NULL: it is none of these. Good until the next read. */
const char *vg_gpu_cards_device(const vg_gpu_cards *cards, const char *told);

/* Finds the driver of a GPU by its common name; NULL: none. */
const char *vg_gpu_cards_driver(const vg_gpu_cards *cards, const char *device);

#endif
