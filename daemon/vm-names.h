/* SPDX-License-Identifier: Apache-2.0
 *
 * Remembers the OpenStack names of VMs, and reports events of VMs. One thread.
 */
#ifndef VG_DAEMON_VM_NAMES_H
#define VG_DAEMON_VM_NAMES_H

#include <stdint.h>

#include <glib.h>

#include "base/event-log.h"
#include "model/inventory.h"
#include "model/window.h"

typedef struct vg_vm_names vg_vm_names;

/* proc: "/proc", or NULL if the windows are from another machine or a recording. */
vg_vm_names *vg_vm_names_new(const char *proc);
void vg_vm_names_free(vg_vm_names *names); /* NULL is fine */

/* Stores the names of an inventory. The previous names are kept for VMs that have just
 * disappeared. */
void vg_vm_names_take(vg_vm_names *names, const vg_inventory *inventory);

/* Returns the OpenStack name of a VM, for engine/alerts: names is a vg_vm_names. NULL if no name is
 * known. The name is valid until the inventory after the next. */
const char *vg_vm_names_find_sample(void *names, const struct vg_vm_sample *vm);

/* Fills in names and UUIDs that libvirt knows but the collector does not. A process of this machine
 * that claims to be a libvirt VM, but is not libvirt's process, gets a name with its pid, and no
 * UUID, so that it is not mistaken for a known VM. */
void vg_vm_names_match(vg_vm_names *names, const vg_inventory *inventory, struct vg_window *window);

/* Makes VMs' identities unique. Several processes may claim to be the same VM: during a migration
 * within the host, by mistake, or maliciously. The first process seen keeps the identity, and the
 * others get a name with their pid. A VM also gets such a name if its own name is a UUID, or is
 * reserved for an aggressor other than a VM. */
void vg_vm_names_part(struct vg_window *window);

/* Logs an event of a VM, and adds it to the event log. uuid may be NULL or empty, pid 0. */
void vg_vm_names_log(const vg_vm_names *names, vg_event_log *events, const char *what,
                     const char *name, const char *uuid, int64_t pid, const char *source);

#endif
