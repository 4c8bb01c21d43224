/* SPDX-License-Identifier: Apache-2.0
 *
 * `vgpu-guestd try` and `vgpu-guestd restore`, with which a person releases programs and
 * brings them back, without a move.
 */
#ifndef VG_GUEST_HAND_H
#define VG_GUEST_HAND_H

#include "guest/work.h"

/* Releases all processes, finds out who still has the GPUs, and brings them back at once. Prints to
 * stdout. Returns the exit status. */
int vg_guest_hand_try(const struct vg_guest_config *config);

/* Brings back the processes that stayed released. */
int vg_guest_hand_restore(const struct vg_guest_config *config);

#endif
