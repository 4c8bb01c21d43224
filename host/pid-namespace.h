/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether threads have the numbers here that the kernel's events have for them. Any thread.
 */
#ifndef VG_HOST_PID_NAMESPACE_H
#define VG_HOST_PID_NAMESPACE_H

#include <glib.h>

/* -1: they have not, as this process is in a pid namespace of its own. proc: "/proc". Where that
 * cannot be told it is taken for granted. */
int vg_pid_namespace_check(const char *proc, GError **err);

#endif
