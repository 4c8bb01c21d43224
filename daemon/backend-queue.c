/* SPDX-License-Identifier: Apache-2.0
 *
 * Prepares a queued move again when its turn comes: the VM, its GPUs, the target and the plan may
 * have changed.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "daemon/backend-private.h"

/* The maximum size of a request's document, which follows from its members' limits. */
#define REQUEST_MAX   65536
#define REQUEST_DEPTH 4

/* Returns the prediction that came with the request from another vgpud. */
static vg_move_forecast *
queue_forecast_of(const struct vg_migration *queued)
{
    vg_move_forecast *forecast = vg_move_forecast_new();

    forecast->plan_id = g_strdup(queued->plan_id);
    forecast->rule = g_strdup(queued->rule);
    forecast->gain_ns_per_s = queued->predicted_gain_ns_per_s;
    forecast->gpu_ns_per_s = queued->predicted_gpu_ns_per_s;
    forecast->group = queued->group;
    forecast->group_moves = queued->group_moves;
    return forecast;
}

static struct vg_migration_request *
queue_read_request(const struct vg_migration *queued, const char *text, GError **err)
{
    g_autoptr(json_object) document =
        vg_json_parse(text, strlen(text), REQUEST_MAX, REQUEST_DEPTH, err);
    const struct vg_json_node root = vg_json_root(document);
    struct vg_migration_request *request =
        document ? vg_record_read(&vg_migration_request_record, &root, err) : NULL;

    if (!request) {
        g_prefix_error(err, "the stored request cannot be read: ");
        return NULL;
    }
    /* Names may have changed. */
    g_free(request->vm);
    request->vm = g_strdup(queued->uuid);
    request->asked_by = g_strdup(queued->asked_by);
    request->begun_by = queued->begun_by;
    if (queued->predicted)
        request->forecast = queue_forecast_of(queued);
    return request;
}

static bool
queue_is_here(void *data, const char *uuid)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);

    return backend_find_here(view, uuid) != NULL;
}

static struct vg_migration *
queue_prepare_request(vg_daemon_backend *backend, const vg_view *view,
                      const struct vg_migration_request *request, GError **err)
{
    const struct vg_inv_vm *vm = backend_find_here(view, request->vm);
    g_auto(backend_planned) planned = {0};

    if (!vm) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM with the UUID %s",
                 request->vm);
        return NULL;
    }
    if (request->plan_id && backend_check_plan(backend, view, request, &planned, err) < 0)
        return NULL;
    const struct vg_migration_request wanted = backend_with_gpus(request, &planned);
    g_autoptr(vg_migration) migration = backend_prepare_move(backend, vm, &wanted, err);
    if (!migration || backend_check_gpus(backend, migration, err) < 0)
        return NULL;
    backend_note_forecast(migration, planned.forecast ? planned.forecast : request->forecast);
    backend_measure_before(backend->parts.store, migration);
    return g_steal_pointer(&migration);
}

static struct vg_migration *
queue_prepare(void *data, const struct vg_migration *queued, const char *text, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    struct vg_migration_request *request = queue_read_request(queued, text, err);
    struct vg_migration *migration =
        request ? queue_prepare_request(backend, view, request, err) : NULL;

    vg_migration_request_free(request);
    return migration;
}

const struct vg_mover_turn backend_turn = {
    .prepare = queue_prepare,
    .check = backend_check_groups,
    .is_here = queue_is_here,
};
