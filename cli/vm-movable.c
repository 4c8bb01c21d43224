/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/vm-movable.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/printable.h"
#include "base/record.h"
#include "cli/fold.h"
#include "cli/move-text.h"

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

/* Appends the names of programs for which the guest does not know whether they can be restored. */
static void
vm_movable_add_unknown(GString *to, int width, const GPtrArray *programs)
{
    for (guint i = 0; i < programs->len; i++) {
        const struct vg_guest_program *program = programs->pdata[i];
        if (g_strcmp0(program->movable, "unknown") != 0)
            continue;
        g_autofree char *text = g_strdup_printf("it is unknown whether %s (%" PRId64 ") can be "
                                                "restored: the agent did not watch from its "
                                                "start whether it uses another process's memory",
                                                program->comm ? program->comm : "?", program->pid);
        vm_movable_add(to, width, text);
    }
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
    for (guint i = 0; i < movable->doubts->len; i++) {
        g_autofree char *line = g_strconcat("not known: ", movable->doubts->pdata[i], NULL);
        vm_movable_add(to, width, line);
    }
    for (guint i = 0; i < movable->guest.driver_faults->len; i++) {
        g_autofree char *line =
            g_strdup_printf("in the guest, NVIDIA's driver %s: %s",
                            movable->guest.driver ? movable->guest.driver : "?",
                            (const char *)movable->guest.driver_faults->pdata[i]);
        vm_movable_add(to, width, line);
    }
    if (movable->guest.total > 0) {
        g_autofree char *bytes = vg_move_text_bytes(movable->guest.gpu_bytes);
        g_autofree char *text = g_strdup_printf(
            "in the guest: %lld program%s with %s of GPU memory", (long long)movable->guest.total,
            movable->guest.total == 1 ? "" : "s", bytes);
        vg_printable_append_line(to, "%s", text);
        if (movable->guest.forked > 0) {
            g_autofree char *forked =
                vg_move_text_forked(movable->guest.forked, movable->guest.forked_descriptors,
                                    movable->guest.forked_maps);
            g_autofree char *line = g_strconcat(forked, ", which they release", NULL);
            vg_fold_append(to, line, 2, vg_fold_terminal());
            g_string_append_c(to, '\n');
        }
        vm_movable_add_unknown(to, width, movable->guest.programs);
    }
    vg_movable_free(movable);
    return g_string_free(to, FALSE);
}
