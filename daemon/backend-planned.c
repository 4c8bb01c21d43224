/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the plan of a requested move: checks whether it still holds, and reads its prediction and
 * its GPUs.
 */
#include "config.h"

#include <string.h>

#include "daemon/backend-private.h"
#include "model/gpu-target.h"
#include "model/plan.h"
#include "policy/drift.h"

void
backend_note_forecast(struct vg_migration *migration, const vg_move_forecast *forecast)
{
    migration->predicted = forecast != NULL;
    if (!forecast)
        return;
    g_free(migration->plan_id);
    g_free(migration->rule);
    migration->plan_id = g_strdup(forecast->plan_id);
    migration->rule = g_strdup(forecast->rule);
    migration->predicted_gain_ns_per_s = forecast->gain_ns_per_s;
    migration->predicted_gpu_ns_per_s = forecast->gpu_ns_per_s;
    migration->group = forecast->group;
    migration->group_moves = forecast->group_moves;
}

static vg_move_forecast *
planned_forecast_of(const vg_plan *plan, const struct vg_plan_action *action)
{
    vg_move_forecast *forecast = vg_move_forecast_new();

    forecast->plan_id = g_strdup(plan->id);
    forecast->rule = g_strdup(plan->rule);
    forecast->gain_ns_per_s = action->gain.lost_cpu_ns_per_s;
    forecast->gpu_ns_per_s = action->gain.gpu_wait_ns_per_s;
    forecast->group = action->group;
    for (guint i = 0; i < plan->actions->len; i++)
        forecast->group_moves +=
            ((const struct vg_plan_action *)plan->actions->pdata[i])->group == action->group;
    return forecast;
}

static void
planned_free_target(void *target)
{
    vg_record_free(&vg_gpu_target_record, target);
}

int
backend_check_plan(vg_daemon_backend *backend, const vg_view *view,
                   const struct vg_migration_request *request, struct backend_planned *ret,
                   GError **err)
{
    struct vg_saved_plan *saved =
        vg_journal_read_plan(backend->parts.journal, request->plan_id, err);

    if (!saved)
        return -1;
    g_autoptr(vg_plan) plan = vg_plan_from_json(saved->text, strlen(saved->text), err);
    vg_saved_plan_free(saved);
    if (!plan)
        return -1;
    const struct vg_plan_action *action =
        vg_drift_find_action(plan, request->vm, request->to, request->plan_hash, err);
    if (!action)
        return -1;
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(vg_snapshot) snapshot = backend_gather(backend, view, notes);
    if (vg_drift_check(snapshot, plan, action, err) < 0)
        return -1;
    ret->forecast = planned_forecast_of(plan, action);
    ret->gpus = g_ptr_array_new_with_free_func(planned_free_target);
    for (guint i = 0; i < action->gpus->len; i++)
        g_ptr_array_add(ret->gpus, vg_record_copy(&vg_gpu_target_record, action->gpus->pdata[i]));
    return 0;
}

void
backend_planned_clear(struct backend_planned *planned)
{
    g_clear_pointer(&planned->forecast, vg_move_forecast_free);
    g_clear_pointer(&planned->gpus, g_ptr_array_unref);
}

struct vg_migration_request
backend_with_gpus(const struct vg_migration_request *request, const struct backend_planned *planned)
{
    struct vg_migration_request with = *request;

    if (planned->gpus && planned->gpus->len > 0)
        with.gpus = planned->gpus;
    return with;
}
