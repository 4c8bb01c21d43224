/* SPDX-License-Identifier: Apache-2.0
 *
 * The units of systemd that are stopped before programs are released (guest/provider-units.c).
 */
#ifndef VG_GUEST_UNITS_H
#define VG_GUEST_UNITS_H

#include <sys/types.h>

#include "guest/conf.h"

/* Finds the unit of the configuration that a process belongs to, which will be stopped before
 * anything is asked of the process. Returns NULL if there is none. */
const char *vg_guest_units_of(const struct vg_guest_config *config, pid_t pid);

#endif
