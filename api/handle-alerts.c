/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles current alerts. api/handle-events.c handles past ones.
 */
#include "config.h"

#include "api/route.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"

static json_object *
alerts_one(const struct vg_view *view, const struct vg_active_alert *alert)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "alert", alert->alert);
    vg_json_add_string(object, "vm", alert->vm);
    vg_json_add_string(object, "label", alert->vm ? vg_view_label(view, alert->vm) : NULL);
    vg_json_add_string(object, "display_name", alert->display_name);
    vg_json_add_string(object, "uuid", alert->uuid);
    vg_json_add_double(object, "lost_cores", alert->lost_cores);
    vg_json_add_double(object, "limit", alert->limit);
    vg_json_add_double(object, "for_s", (double)alert->for_ns / (double)VG_NS_PER_S);
    vg_json_add_int64(object, "since_ns", alert->since_ns);
    vg_json_add_string(object, "move", NULL);
    return object;
}

/* Creates the document of a VM that a move has left without its GPU. */
static json_object *
alerts_bare(const struct vg_view *view, const struct vg_bare_vm *vm)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "alert", VG_BARE_ALERT);
    vg_json_add_string(object, "vm", vm->vm);
    vg_json_add_string(object, "label", vg_view_label(view, vm->vm));
    vg_json_add_string(object, "display_name", NULL);
    vg_json_add_string(object, "uuid", vm->uuid);
    vg_json_add(object, "lost_cores", NULL);
    vg_json_add(object, "limit", NULL);
    vg_json_add(object, "for_s", NULL);
    vg_json_add(object, "since_ns", NULL);
    vg_json_add_string(object, "move", vm->move);
    return object;
}

/* Creates the document of the spent error budget for automatic moves. */
static json_object *
alerts_spent(void)
{
    static const char *const unset[] = {"vm",    "label", "display_name", "uuid", "lost_cores",
                                        "limit", "for_s", "since_ns",     "move"};
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "alert", VG_ACT_ALERT);
    for (size_t i = 0; i < G_N_ELEMENTS(unset); i++)
        vg_json_add(object, unset[i], NULL);
    return object;
}

json_object *
vg_doc_alerts(const struct vg_view *view, const struct vg_backend *backend)
{
    g_autoptr(GPtrArray) bare =
        backend->moves ? backend->moves->list_bare(backend->data) : g_ptr_array_new();
    json_object *items = json_object_new_array();

    for (guint i = 0; i < bare->len; i++)
        vg_json_append(items, alerts_bare(view, bare->pdata[i]));
    if (backend->acts && backend->acts->is_spent(backend->data))
        vg_json_append(items, alerts_spent());
    for (guint i = 0; i < view->alerts->len; i++)
        vg_json_append(items, alerts_one(view, view->alerts->pdata[i]));
    return items;
}

void
vg_handle_alerts(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    GError *err = NULL;

    if (view->alerts_doubt) {
        vg_error(&err, VG_E_IO, "%s", view->alerts_doubt);
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "rules", (int64_t)view->alert_rules);
    vg_json_add(object, "items", vg_doc_alerts(view, backend));
    vg_answer_json(request, 200, object);
}
