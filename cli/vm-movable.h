/* SPDX-License-Identifier: Apache-2.0
 *
 * What `vgpuctl vm show` says of moving a VM: "movable: no, because ...".
 */
#ifndef VG_CLI_VM_MOVABLE_H
#define VG_CLI_VM_MOVABLE_H

#include "client/client.h"
#include "model/migration.h"

/* The document, which the caller puts; an error makes it an unknown one with the error as reason.
 * NULL: libvirt does not know the VM, or vgpud not the question. */
json_object *vg_vm_movable_ask(vg_client *client, const char *vm, const char *uuid);

/* For people, as lines of at most this width; the caller frees it. */
char *vg_vm_movable_text(json_object *document, int width);

#endif
