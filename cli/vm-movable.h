/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of `vgpuctl vm show` about moving a VM: "movable: no, because ...".
 */
#ifndef VG_CLI_VM_MOVABLE_H
#define VG_CLI_VM_MOVABLE_H

#include "client/client.h"
#include "model/migration.h"

/* Returns the document, which the caller releases with json_object_put(). After an error, its state
 * is "unknown", and its reason is the error. Returns NULL if libvirt does not know the VM or vgpud
 * does not support the request. */
json_object *vg_vm_movable_ask(vg_client *client, const char *vm, const char *uuid);

/* Formats it as lines of at most this width; the caller frees it. */
char *vg_vm_movable_text(json_object *document, int width);

#endif
