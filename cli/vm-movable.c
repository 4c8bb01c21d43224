/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/vm-movable.h"

#include "base/error.h"
#include "base/record.h"
#include "cli/move-text.h"
#include "cli/printable.h"

json_object *
vg_vm_movable_ask(vg_client *client, const char *vm, const char *uuid)
{
    static const char *const lists[] = {"devices", NULL};
    g_autofree char *path = vg_client_vm_path(vm, "/movable");
    g_autoptr(GError) error = NULL;
    json_object *document = NULL;

    if (vg_client_get(client, path, lists, &document, &error) == 0)
        return document;
    if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        return NULL;
    struct vg_movable *unknown = vg_record_new(&vg_movable_record);
    unknown->vm = g_strdup(vm);
    unknown->uuid = g_strdup(uuid);
    g_ptr_array_add(unknown->reasons, g_strdup(error->message));
    document = vg_record_write(&vg_movable_record, unknown);
    vg_movable_free(unknown);
    return document;
}

static void
vm_movable_add(GString *to, int width, const char *text)
{
    const gsize at = to->len;

    vg_move_text_append_wrapped(to, 2, width, text);
    if (to->len > at)
        to->str[at] = '-';
}

char *
vg_vm_movable_text(json_object *document, int width)
{
    const struct vg_json_node root = vg_json_root(document);
    struct vg_movable *movable = vg_record_read(&vg_movable_record, &root, NULL);
    GString *to = g_string_new(NULL);

    if (!movable)
        return g_string_free(to, FALSE);
    g_string_append_printf(to, "\nmovable: %s%s\n", vg_movable_names[movable->movable],
                           movable->reasons->len > 0 ? ", because" : "");
    for (guint i = 0; i < movable->reasons->len; i++)
        vm_movable_add(to, width, movable->reasons->pdata[i]);
    if (movable->guest.total > 0) {
        g_autofree char *bytes = vg_move_text_bytes(movable->guest.gpu_bytes);
        g_autofree char *text = g_strdup_printf(
            "in the guest: %lld program%s of CUDA with %s of GPU memory",
            (long long)movable->guest.total, movable->guest.total == 1 ? "" : "s", bytes);
        vg_printable_append_line(to, "%s", text);
    }
    vg_movable_free(movable);
    return g_string_free(to, FALSE);
}
