/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests for plans, and merges the hosts for which they are made.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/backend-private.h"
#include "daemon/trace.h"
#include "model/free-up.h"
#include "policy/host-groups.h"
#include "policy/policy.h"

#define VG_LOG_TAG "plans"

/* The maximum number of proposed moves that a scheduler must allow, and the time for which they are
 * valid. */
#define PROPOSED_MAX 1000
#define PROPOSED_NS  (3600 * VG_NS_PER_S)

void
backend_read_policy(vg_daemon_backend *backend, struct vg_policy_config *ret)
{
    VG_LOCK_SCOPE(&backend->lock);
    *ret = backend->policy;
}

vg_snapshot *
backend_gather(void *data, const vg_view *view, GPtrArray *ret_notes)
{
    vg_daemon_backend *backend = data;
    g_autoptr(GPtrArray) views = vg_peers_gather_for_plan(backend->parts.peers);
    const size_t left_out = vg_peers_left_out(backend->parts.peers);
    g_autoptr(GPtrArray) own_moves = backend_list_approvals(backend);
    vg_snapshot *merged = vg_peers_merge(view->snapshot, views, own_moves, ret_notes);

    if (left_out > 0)
        g_ptr_array_add(ret_notes,
                        g_strdup_printf("%zu hosts of the cluster are omitted: a plan covers at "
                                        "most %d",
                                        left_out, VG_PEERS_MAX));
    backend_mark_drained(backend, merged);
    return merged;
}

void
backend_proposal_free(void *data)
{
    struct backend_proposal *proposal = data;

    g_free(proposal->uuid);
    g_free(proposal->to);
    g_free(proposal);
}

/* Remembers the moves of a plan for an hour. If there are too many, the oldest are forgotten. */
static void
plans_note_proposed(vg_daemon_backend *backend, const vg_plan *plan)
{
    VG_LOCK_SCOPE(&backend->lock);
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (!action->uuid)
            continue;
        struct backend_proposal *proposal = g_new0(struct backend_proposal, 1);
        proposal->uuid = g_strdup(action->uuid);
        proposal->to = g_strdup(action->to);
        proposal->until_ns = vg_clock_monotonic_ns() + PROPOSED_NS;
        if (backend->proposed->len >= PROPOSED_MAX)
            g_ptr_array_remove_index(backend->proposed, 0);
        g_ptr_array_add(backend->proposed, proposal);
    }
}

static void
plans_publish(vg_daemon_backend *backend, const vg_plan *plan)
{
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "id", plan->id);
    vg_json_add_string(data, "verdict", vg_plan_verdict_names[plan->verdict]);
    vg_json_add_int64(data, "actions", plan->actions->len);
    vg_event_log_add(backend->parts.events, "plan", data);
}

/* Warns of a host that matches several groups, which the configuration file does not show. */
static void
plans_log_groups(const struct vg_policy_config *policy, const vg_snapshot *snapshot)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        g_autofree char *doubt = vg_host_groups_doubt(policy, host->name);
        if (doubt)
            vg_log_warn_limited("a host matches several groups: %s", doubt);
    }
}

/* Returns the request to free vGPUs. "nova" stands for nova's last request. The caller frees it. */
static char *
plans_read_free_up(vg_daemon_backend *backend, const char *request, GError **err)
{
    const int64_t oldest_ns = vg_clock_monotonic_ns() - PROPOSED_NS;

    if (strcmp(request, VG_FREE_UP_NOVA) != 0)
        return g_strdup(request);
    VG_LOCK_SCOPE(&backend->lock);
    if (backend->unplaced.type && backend->unplaced.at_ns >= oldest_ns)
        return vg_free_up_text(backend->unplaced.type, backend->unplaced.n);
    vg_error(err, VG_E_INVALID,
             "free_up: in the last hour, nova has sent this vgpud no request for a vGPU type that "
             "no host could provide");
    return NULL;
}

/* Makes a plan for these hosts by a rule, or a plan that frees vGPUs. */
static vg_plan *
plans_plan(vg_daemon_backend *backend, const vg_snapshot *snapshot,
           const struct vg_policy_config *policy, enum vg_rule_id rule, const char *free_up,
           GError **err)
{
    if (!free_up)
        return vg_policy_plan(snapshot, policy, rule, err);
    g_autofree char *request = plans_read_free_up(backend, free_up, err);
    return request ? vg_policy_plan_free_up(snapshot, policy, request, err) : NULL;
}

static vg_plan *
plans_make(void *data, const vg_view *view, const char *rule_name, const char *free_up,
           int64_t *ret_made_ns, GError **err)
{
    vg_daemon_backend *backend = data;
    struct vg_policy_config policy;

    backend_read_policy(backend, &policy);
    if (view->windows == 0) {
        vg_error(err, VG_E_BUSY, "nothing has been measured yet: the first window is not complete");
        return NULL;
    }
    enum vg_rule_id rule = policy.rule;
    if (rule_name && vg_rule_from_name(rule_name, &rule, err) < 0)
        return NULL;
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(vg_snapshot) snapshot = backend_gather(backend, view, notes);
    g_autoptr(vg_plan) plan = plans_plan(backend, snapshot, &policy, rule, free_up, err);
    if (!plan)
        return NULL;
    plans_log_groups(&policy, snapshot);
    for (guint i = 0; i < notes->len; i++)
        vg_plan_add_note(plan, "%s", (const char *)notes->pdata[i]);
    g_autoptr(json_object) document = vg_plan_to_json(plan);
    g_autofree char *text = vg_json_to_text(document, false);
    const int64_t now_ns = vg_clock_realtime_ns();
    const struct vg_saved_plan saved = {
        .id = plan->id,
        .made_ns = now_ns,
        .verdict = (char *)vg_plan_verdict_names[plan->verdict],
        .text = text,
    };
    if (vg_journal_save_plan(backend->parts.journal, &saved, ret_made_ns, err) < 0)
        return NULL;
    plans_note_proposed(backend, plan);
    if (*ret_made_ns == now_ns) {
        plans_publish(backend, plan);
        vg_trace_plan(plan);
    }
    return g_steal_pointer(&plan);
}

static struct vg_saved_plan *
plans_read(void *data, const char *id, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_read_plan(backend->parts.journal, id, err);
}

static GPtrArray *
plans_list(void *data, int64_t before_ns, size_t limit, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_list_plans(backend->parts.journal, before_ns, limit, err);
}

const struct vg_backend_plans backend_plans = {
    .make_plan = plans_make,
    .read_plan = plans_read,
    .list_plans = plans_list,
    .list_approvals = backend_list_approvals,
    .rate_arrival = backend_rate_arrival,
};
