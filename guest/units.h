/* SPDX-License-Identifier: Apache-2.0
 *
 * The systemd units that are stopped before programs are released (guest/provider-units.c).
 */
#ifndef VG_GUEST_UNITS_H
#define VG_GUEST_UNITS_H

#include <sys/types.h>

#include "guest/conf.h"

/* Returns the configured unit that a process belongs to, which will be stopped before the process
 * is queried. Returns NULL if it belongs to no such unit. */
const char *vg_guest_units_of(const struct vg_guest_config *config, pid_t pid);

#endif
