/* SPDX-License-Identifier: Apache-2.0
 *
 * What the GPUs of this host are called: kernel, drivers and libraries have different names for the
 * same one. The name that everything has in common is the PCI address, as inventories have it, or,
 * of what is on no PCI bus, the name of its driver, as fdinfo tells it. One thread at a time.
 */
#ifndef VG_COLLECTORS_GPU_CARDS_H
#define VG_COLLECTORS_GPU_CARDS_H

#include <stdbool.h>

#include <glib.h>

/* Has a driver here that works for clients a node in this directory ("/sys/class/drm" but in
 * tests)? One that only shows a picture, as that of a server's console, has none. */
bool vg_gpu_cards_can_render(const char *drm);

typedef struct vg_gpu_cards vg_gpu_cards;

/* Knows nothing until it is read. */
vg_gpu_cards *vg_gpu_cards_new(const char *drm);
void vg_gpu_cards_free(vg_gpu_cards *cards); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_cards, vg_gpu_cards_free)

/* Looks which there are now. */
void vg_gpu_cards_read(vg_gpu_cards *cards);

/* The common name of the GPU that somebody told as "card0", by the name of its device in the
 * kernel, by that of its driver if that has no other one, or not at all (an empty name) if there is
 * no other one that works for clients. NULL: it is none of these. Good until the next read. */
const char *vg_gpu_cards_device(const vg_gpu_cards *cards, const char *told);

/* The driver of a GPU by its common name, or NULL. */
const char *vg_gpu_cards_driver(const vg_gpu_cards *cards, const char *device);

#endif
