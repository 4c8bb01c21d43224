/* SPDX-License-Identifier: Apache-2.0
 *
 * A VM map names the VMs of a recording. It has one line `pid name [uuid]` for each, where pid is
 * the process id of its QEMU or, for trace text without process ids, the id of one of its threads.
 * Blank lines and lines that start with '#' are skipped.
 */
#ifndef VG_HOST_VM_MAP_H
#define VG_HOST_VM_MAP_H

#include <stddef.h>

#include "model/topology.h"

#define VG_VM_MAP_TEXT_MAX  (4 * 1024 * 1024)
#define VG_VM_MAP_LINES_MAX 100000

/* Names the VMs in topology. Fails with VG_E_INVALID or VG_E_CONFLICT, and names the line; the
 * topology can then not be relied on. label is the name of the text in messages, usually its
 * file. */
int vg_vm_map_apply(const char *label, const char *text, size_t size, vg_topology *topology,
                    GError **err);

/* Appends a VM's line; uuid may be NULL or empty. Fails with VG_E_INVALID for a name that a map
 * cannot contain: a name with blanks, or one that vg_topology_name_vm() refuses. map is then
 * unchanged. */
int vg_vm_map_append(GString *map, int32_t pid, const char *name, const char *uuid, GError **err);

#endif
