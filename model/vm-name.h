/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a name or a UUID that a person, a file or another program gives means a VM. Pure; any
 * thread.
 */
#ifndef VG_MODEL_VM_NAME_H
#define VG_MODEL_VM_NAME_H

#include <stdbool.h>

/* Returns whether id is the name of a VM, or its UUID, in which case does not matter. Each of the
 * three may be NULL or empty, which matches nothing; a NULL name compares the UUID alone. */
bool vg_vm_is(const char *id, const char *name, const char *uuid);

#endif
