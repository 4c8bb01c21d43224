/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks whether thread IDs here are the same as in the kernel's events. Any thread.
 */
#ifndef VG_HOST_PID_NAMESPACE_H
#define VG_HOST_PID_NAMESPACE_H

#include <glib.h>

/* Returns -1 if they differ, because this process runs in its own PID namespace. proc is "/proc".
 * If this cannot be determined, the IDs are assumed to be the same. */
int vg_pid_namespace_check(const char *proc, GError **err);

#endif
