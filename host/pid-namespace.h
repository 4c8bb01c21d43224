/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out whether threads have the same numbers here as in the kernel's events. Any thread.
 */
#ifndef VG_HOST_PID_NAMESPACE_H
#define VG_HOST_PID_NAMESPACE_H

#include <glib.h>

/* Returns -1 if they have not, since this process is in a pid namespace of its own. proc is
 * "/proc". If it cannot be found out, the numbers are taken to be the same. */
int vg_pid_namespace_check(const char *proc, GError **err);

#endif
