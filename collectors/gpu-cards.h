/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of this host's GPUs, which differ between the kernel, drivers and libraries. The
 * common name is the PCI address, as in inventories. Off the PCI bus it is the driver's name, as
 * in fdinfo. One thread at a time.
 */
#ifndef VG_COLLECTORS_GPU_CARDS_H
#define VG_COLLECTORS_GPU_CARDS_H

#include <stdbool.h>

#include <glib.h>

/* Returns whether a render-capable driver has a node in this directory ("/sys/class/drm" except in
 * tests). A driver that only provides a display, such as a server's console, has none. */
bool vg_gpu_cards_can_render(const char *drm);

typedef struct vg_gpu_cards vg_gpu_cards;

/* Creates an empty list, which vg_gpu_cards_read() fills. */
vg_gpu_cards *vg_gpu_cards_new(const char *drm);
void vg_gpu_cards_free(vg_gpu_cards *cards); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_cards, vg_gpu_cards_free)

/* Reads the current GPUs. */
void vg_gpu_cards_read(vg_gpu_cards *cards);

/* Finds the common name of a GPU. told is "card0", the kernel's device name, the name of a driver
 * that drives only this GPU, or an empty name if this is the only render-capable GPU. Returns NULL
 * if no GPU matches. Valid until the next read. */
const char *vg_gpu_cards_device(const vg_gpu_cards *cards, const char *told);

/* Finds a GPU's driver by its common name. Returns NULL if not found. */
const char *vg_gpu_cards_driver(const vg_gpu_cards *cards, const char *device);

#endif
