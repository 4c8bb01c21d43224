/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a name or UUID from a user, a file or another program with those of a VM. Pure; any
 * thread.
 */
#ifndef VG_MODEL_VM_NAME_H
#define VG_MODEL_VM_NAME_H

#include <stdbool.h>

/* Returns whether id is the name of a VM, or its UUID in upper or lower case. Each of the three may
 * be NULL or empty; it then matches nothing; if name is NULL, only the UUID is compared. */
bool vg_vm_is(const char *id, const char *name, const char *uuid);

#endif
