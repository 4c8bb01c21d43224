/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells for people which proxy of OpenCL a VM's programs use, and whether the guest knows of it.
 */
#ifndef VG_CLI_VM_PROXY_H
#define VG_CLI_VM_PROXY_H

#include <stdbool.h>

#include <json-c/json.h>

#include "client/client.h"

/* Returns whether a member of "guests" in the answer to GET /v1/proxies is of the VM with this name
 * or UUID; NULL is none's. */
bool vg_vm_proxy_is_of(json_object *guest, const char *vm);

/* Returns a sentence about such a member; the caller frees it. */
char *vg_vm_proxy_text(json_object *guest);

/* Asks for the VM's member, by its name or UUID. Returns NULL if it has none, or vgpud cannot
 * tell. */
json_object *vg_vm_proxy_ask(vg_client *client, const char *name, const char *uuid);

#endif
