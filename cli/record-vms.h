/* SPDX-License-Identifier: Apache-2.0
 *
 * This host's VMs during a recording, and the VM map created from them. One thread.
 */
#ifndef VG_CLI_RECORD_VMS_H
#define VG_CLI_RECORD_VMS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

typedef struct vg_record_vms vg_record_vms;

vg_record_vms *vg_record_vms_new(const char *proc);
void vg_record_vms_free(vg_record_vms *vms);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_record_vms, vg_record_vms_free)

/* Scans for VMs if the last scan was at least a second ago. VMs that have ended are kept. */
void vg_record_vms_look(vg_record_vms *vms, int64_t now_ns);

/* Writes the map. Anything that cannot be written is added to notes (char *). */
int vg_record_vms_write(const vg_record_vms *vms, const char *path, GPtrArray *notes, GError **err);

/* [{pid, name, uuid}], in the order of their appearance; the caller owns it. */
json_object *vg_record_vms_to_json(const vg_record_vms *vms);

#endif
