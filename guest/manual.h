/* SPDX-License-Identifier: Apache-2.0
 *
 * `vgpu-guestd try` and `vgpu-guestd restore`, which let a user release programs and restore them
 * without a move.
 */
#ifndef VG_GUEST_MANUAL_H
#define VG_GUEST_MANUAL_H

#include "guest/work.h"

/* Releases all processes, determines which processes still have the GPUs, and restores the
 * released processes immediately. Prints to stdout. Returns the exit status. */
int vg_guest_manual_try(const struct vg_guest_config *config);

/* Restores the processes that remained released. */
int vg_guest_manual_restore(const struct vg_guest_config *config);

#endif
