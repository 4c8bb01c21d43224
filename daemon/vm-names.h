/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the names that OpenStack gives VMs, and tells what becomes of VMs. One thread.
 */
#ifndef VG_DAEMON_VM_NAMES_H
#define VG_DAEMON_VM_NAMES_H

#include <stdint.h>

#include <glib.h>

#include "base/event-log.h"
#include "model/inventory.h"
#include "model/window.h"

typedef struct vg_vm_names vg_vm_names;

/* proc: "/proc", or NULL if the windows are of another machine or of a recording. */
vg_vm_names *vg_vm_names_new(const char *proc);
void vg_vm_names_free(vg_vm_names *names); /* NULL is fine */

/* Takes the names of an inventory. Those of the one before are kept for VMs that have just gone. */
void vg_vm_names_take(vg_vm_names *names, const vg_inventory *inventory);

/* Returns the name of a VM in OpenStack, for engine/alerts: names is a vg_vm_names. NULL if it is
 * not known to have one. The name lasts until the next inventory but one. */
const char *vg_vm_names_find_sample(void *names, const struct vg_vm_sample *vm);

/* Fills in names and UUIDs that libvirt knows and the collector does not. A process of this machine
 * that says it is a VM of libvirt, and is not libvirt's process, gets a name with its pid and no
 * UUID, so that it is a VM of nobody's. */
void vg_vm_names_match(vg_vm_names *names, const vg_inventory *inventory, struct vg_window *window);

/* Makes VMs' identities unique. Several processes may say that they are the same VM: in a migration
 * within the host, by mistake, or as a lie. The first one seen keeps the identity; the others get a
 * name with their pid, as does a VM whose name is that of an aggressor that is no VM, or a UUID. */
void vg_vm_names_part(struct vg_window *window);

/* Logs an event of a VM, and adds it to the event log. uuid may be NULL or empty, pid 0. */
void vg_vm_names_tell(const vg_vm_names *names, vg_event_log *events, const char *what,
                      const char *name, const char *uuid, int64_t pid, const char *source);

#endif
