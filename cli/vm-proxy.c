/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/vm-proxy.h"

#include <string.h>

#include "base/json.h"
#include "cli/output.h"
#include "cli/when.h"
#include "model/vm-name.h"

static const char *
vm_proxy_string(json_object *guest, const char *name)
{
    const char *word = json_object_get_string(vg_output_member(guest, name));

    return word ? word : "";
}

bool
vg_vm_proxy_is_of(json_object *guest, const char *vm)
{
    return vg_vm_is(vm, vm_proxy_string(guest, "vm"), vm_proxy_string(guest, "uuid"));
}

char *
vg_vm_proxy_text(json_object *guest)
{
    const char *address = vm_proxy_string(guest, "address");
    const bool is_told = json_object_get_boolean(vg_output_member(guest, "told"));
    const bool has_none = strcmp(address, "none") == 0;
    char when[VG_WHEN_LEN];

    if (is_told)
        return g_strdup_printf(
            "knows %s since %s", has_none ? "that it has none" : address,
            vg_when_format(json_object_get_int64(vg_output_member(guest, "told_ns")), when));
    return g_strdup_printf("does not know %s: %s", has_none ? "that it has none" : address,
                           vm_proxy_string(guest, "reason"));
}

json_object *
vg_vm_proxy_ask(vg_client *client, const char *name, const char *uuid)
{
    static const char *const lists[] = {"guests", NULL};
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/proxies", lists, &document, NULL) < 0)
        return NULL;
    json_object *guests = vg_output_member(document, "guests");
    for (size_t i = 0; i < vg_output_length(guests); i++) {
        json_object *guest = json_object_array_get_idx(guests, i);
        if (vg_vm_proxy_is_of(guest, name) || vg_vm_proxy_is_of(guest, uuid))
            return json_object_get(guest);
    }
    return NULL;
}
