/* SPDX-License-Identifier: Apache-2.0
 *
 * `vgpu-guestd status`: prints the agent's view for a person.
 */
#ifndef VG_GUEST_STATUS_H
#define VG_GUEST_STATUS_H

#include "guest/work.h"

/* Prints to stdout. Returns the exit status. */
int vg_guest_status_print(const struct vg_guest_config *config);

#endif
