/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans, of which those of the paper's rule move alpha, and what a scheduler asks: "full" cannot,
 * "good" is best, "nobody" is not known.
 */
#include "config.h"

#include <string.h>

#include "tests/tools/fake-private.h"

/* Moves alpha to node-b. */
static void
add_action(vg_plan *plan)
{
    struct vg_plan_action *action = vg_record_new(&vg_plan_action_record);

    action->vm = g_strdup("alpha");
    action->uuid = g_strdup_printf(FAKE_UUID, 0);
    action->from = g_strdup("test-host");
    action->to = g_strdup("node-b");
    action->role = g_strdup("victim");
    action->reason.rule = g_strdup("paper-threshold");
    action->reason.text = g_strdup("Host 'test-host' loses 1.23 cores.");
    action->gain.lost_cpu_ns_per_s = 1200 * VG_NS_PER_MS;
    action->cost.migration_s = 8.5;
    action->facts.vm = g_strdup("0");
    action->facts.from = g_strdup("0");
    action->facts.to = g_strdup("0");
    g_ptr_array_add(plan->actions, action);
    plan->verdict = VG_PLAN_CHANGES;
}

/* What a scheduler asks: "full" cannot, "good" is best, "nobody" is not known. */
static GPtrArray *
list_approvals(void *data)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_approval_free);

    (void)data;
    g_ptr_array_add(list, vg_approval_new("11111111-2222-4333-8444-555555555555", "good", true));
    return list;
}

static void
rate_arrival(void *data, struct vg_arrival_query *query)
{
    (void)data;
    query->basis = VG_ARRIVAL_BY_SIZE;
    for (guint i = 0; i < query->hosts->len; i++) {
        struct vg_arrival_host *host = query->hosts->pdata[i];
        if (strcmp(host->name, "nobody") == 0)
            continue;
        host->verdict = strcmp(host->name, "full") == 0 ? VG_ARRIVAL_VETO : VG_ARRIVAL_PASS;
        host->score = strcmp(host->name, "full") == 0   ? 0
                      : strcmp(host->name, "good") == 0 ? 0.9
                                                        : 0.3;
        host->age_ms = 100;
        g_strlcpy(host->text, "made up", sizeof(host->text));
    }
}

static struct vg_saved_plan *
find_plan(fake_backend *fake, const char *id)
{
    for (guint i = 0; i < fake->plans->len; i++) {
        struct vg_saved_plan *plan = fake->plans->pdata[i];
        if (strcmp(plan->id, id) == 0)
            return plan;
    }
    return NULL;
}

static vg_plan *
make_plan(void *data, const vg_view *view, const char *rule, const char *free_up,
          int64_t *ret_made_ns, GError **err)
{
    fake_backend *fake = data;
    g_autoptr(vg_plan) plan = vg_plan_new();

    fake_work(fake);
    if (rule && strcmp(rule, "complement") != 0 && strcmp(rule, "paper-threshold") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "there is no rule '%s': complement, paper-threshold", rule);
        return NULL;
    }
    plan->input_hash = vg_snapshot_hash(view->snapshot);
    plan->config_hash = g_strdup("0000");
    plan->rule = g_strdup(free_up ? "free-up" : rule ? rule : "complement");
    plan->free_up = g_strdup(free_up);
    plan->verdict = VG_PLAN_NOTHING_TO_DO;
    vg_plan_add_why(plan, "this is a test");
    if (strcmp(plan->rule, "paper-threshold") == 0)
        add_action(plan);
    vg_plan_set_id(plan);
    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_saved_plan *known = find_plan(fake, plan->id);
    *ret_made_ns = known ? known->made_ns : vg_clock_realtime_ns();
    if (!known) {
        struct vg_saved_plan *saved = g_new0(struct vg_saved_plan, 1);
        g_autoptr(json_object) object = vg_plan_to_json(plan);
        saved->id = g_strdup(plan->id);
        saved->made_ns = *ret_made_ns;
        saved->verdict = g_strdup(vg_plan_verdict_names[plan->verdict]);
        saved->text = vg_json_to_text(object, false);
        g_ptr_array_add(fake->plans, saved);
    }
    return g_steal_pointer(&plan);
}

static struct vg_saved_plan *
read_plan(void *data, const char *id, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_saved_plan *plan = find_plan(fake, id);
    if (plan)
        return vg_saved_plan_copy(plan, true);
    vg_error(err, VG_E_NOT_FOUND, "there is no plan '%s'", id);
    return NULL;
}

static GPtrArray *
list_plans(void *data, int64_t before_ns, size_t limit, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *plans = g_ptr_array_new_with_free_func(vg_saved_plan_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->plans->len; i > 0 && plans->len < limit; i--) {
        const struct vg_saved_plan *plan = fake->plans->pdata[i - 1];
        if (plan->made_ns < before_ns)
            g_ptr_array_add(plans, vg_saved_plan_copy(plan, false));
    }
    return plans;
}

const struct vg_backend_plans fake_plans = {
    .make_plan = make_plan,
    .read_plan = read_plan,
    .list_plans = list_plans,
    .list_approvals = list_approvals,
    .rate_arrival = rate_arrival,
};
