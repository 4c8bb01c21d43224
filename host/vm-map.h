/* SPDX-License-Identifier: Apache-2.0
 *
 * A VM map names the VMs of a recording: one line `pid name [uuid]` for each, pid being the process
 * id of its QEMU, or, for trace text that has no process ids, the id of one of its threads. Blank
 * lines and lines that begin with '#' are skipped.
 */
#ifndef VG_HOST_VM_MAP_H
#define VG_HOST_VM_MAP_H

#include <stddef.h>

#include "model/topology.h"

#define VG_VM_MAP_TEXT_MAX  (4 * 1024 * 1024)
#define VG_VM_MAP_LINES_MAX 100000

/* Names the VMs in topology. VG_E_INVALID or VG_E_CONFLICT names the line; nothing of the map is
 * then to be relied on. label is what messages call the text, usually its file. */
int vg_vm_map_apply(const char *label, const char *text, size_t size, vg_topology *topology,
                    GError **err);

/* Appends the line of a VM, with a uuid that is not NULL or empty. VG_E_INVALID for what no map can
 * say: a name with blanks, or one that vg_topology_name_vm() refuses; map is then as it was. */
int vg_vm_map_append(GString *map, int32_t pid, const char *name, const char *uuid, GError **err);

#endif
