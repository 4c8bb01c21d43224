/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes which OpenCL proxy a VM's programs use, and whether the guest is configured with it.
 */
#ifndef VG_CLI_VM_PROXY_H
#define VG_CLI_VM_PROXY_H

#include <stdbool.h>

#include <json-c/json.h>

#include "client/client.h"

/* Returns whether a member of "guests" in the answer to GET /v1/proxies belongs to the VM with
 * this name or UUID. Returns false if VM is NULL. */
bool vg_vm_proxy_is_of(json_object *guest, const char *vm);

/* Returns a sentence about such a member; the caller frees it. */
char *vg_vm_proxy_text(json_object *guest);

/* Queries the VM's member, by its name or UUID. Returns NULL if it has none or vgpud does not
 * know. */
json_object *vg_vm_proxy_ask(vg_client *client, const char *name, const char *uuid);

#endif
