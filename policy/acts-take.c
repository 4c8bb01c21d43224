/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the groups of a new plan that may start without a person.
 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "policy/acts-past.h"
#include "policy/acts.h"

static struct vg_act_move *
take_move_of(const struct vg_plan_action *action, const char *id, guint number, int64_t until_ns)
{
    struct vg_act_move *move = vg_record_new(&vg_act_move_record);

    move->act = g_strdup_printf("%s/%u", id, number + 1);
    move->vm = g_strdup(action->vm);
    move->uuid = g_strdup(action->uuid);
    move->from = g_strdup(action->from);
    move->to = g_strdup(action->to);
    move->wave = MAX(action->wave, 1);
    move->group = action->group;
    move->undo_rest = action->undo_partial;
    move->until_ns = until_ns;
    return move;
}

/* Returns whether the moves of a group can be carried out, as far as that is known in advance. */
static bool
take_may(const struct vg_acts_facts *facts, const vg_plan *plan, int64_t group)
{
    bool may = group > 0;

    for (guint i = 0; may && i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (action->group != group)
            continue;
        if (!action->uuid)
            return false;
        struct vg_act_move *move = take_move_of(action, "", i, 0);
        g_autofree char *mode = acts_why_mode(facts, move);
        g_autofree char *rests = acts_why_rests(facts, move);
        g_autofree char *cycle = acts_why_cycle(facts, move);
        may = !mode && !rests && !cycle;
        vg_record_free(&vg_act_move_record, move);
    }
    return may;
}

/* The hosts of groups that are left out. */
struct take_left_out {
    GHashTable *sources, *targets;
};

/* Returns whether a group needs moves that are left out: it moves a VM to one of their sources, or
 * away from one of their targets. A common source or a common target does no harm: the source is
 * more loaded than planned, and the target less. */
static bool
take_relies(const vg_plan *plan, int64_t group, const struct take_left_out *left_out)
{
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (action->group == group && (g_hash_table_contains(left_out->sources, action->to) ||
                                       g_hash_table_contains(left_out->targets, action->from)))
            return true;
    }
    return false;
}

static void
take_leave_out(const vg_plan *plan, int64_t group, const struct take_left_out *left_out)
{
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (action->group != group)
            continue;
        g_hash_table_add(left_out->sources, action->from);
        g_hash_table_add(left_out->targets, action->to);
    }
}

static unsigned
take_size_of(const vg_plan *plan, int64_t group)
{
    unsigned n = 0;

    for (guint i = 0; i < plan->actions->len; i++)
        n += ((const struct vg_plan_action *)plan->actions->pdata[i])->group == group;
    return n;
}

/* Returns the document of a plan with the moves that are carried out, but without what is only for
 * people. */
static char *
take_plan_text(const vg_plan *plan, const struct vg_acting *acting)
{
    g_autoptr(vg_plan) copy = vg_record_copy(&vg_plan_record, plan);

    g_ptr_array_set_size(copy->why, 0);
    g_ptr_array_set_size(copy->notes, 0);
    vg_record_truncate(&vg_plan_skip_record, copy->skipped, 0);
    vg_record_truncate(&vg_plan_proxy_action_record, copy->proxies, 0);
    for (guint i = copy->actions->len; i-- > 0;) {
        struct vg_plan_action *action = copy->actions->pdata[i];
        bool carried_out = false;
        for (guint k = 0; k < acting->moves->len; k++) {
            const struct vg_act_move *move = acting->moves->pdata[k];
            carried_out = carried_out || (g_strcmp0(move->uuid, action->uuid) == 0 &&
                                          strcmp(move->to, action->to) == 0);
        }
        if (!carried_out) {
            vg_record_free(&vg_plan_action_record, g_ptr_array_remove_index(copy->actions, i));
            continue;
        }
        vg_record_truncate(&vg_plan_input_record, action->reason.inputs, 0);
        g_clear_pointer(&action->runner_up.what, g_free);
        g_clear_pointer(&action->runner_up.why, g_free);
    }
    g_autoptr(json_object) document = vg_plan_to_json(copy);
    return vg_json_to_text(document, false);
}

/* Removes the earlier moves, except those that reverse others and may still start. */
static void
take_clear(struct vg_acting *acting)
{
    for (guint i = acting->moves->len; i-- > 0;) {
        const struct vg_act_move *move = acting->moves->pdata[i];
        if (!move->undo_of || (vg_act_has_ended(move) && !acts_is_missed(move)))
            vg_record_free(&vg_act_move_record, g_ptr_array_remove_index(acting->moves, i));
    }
}

/* Sets the document of the plan. kept: the number of first moves that are not from the plan. If it
 * is too long, leaves moves to the next plan, starting with the last group, because no group
 * depends on a later one. */
static void
take_fit(const vg_plan *plan, guint kept, struct vg_acting *acting)
{
    for (;;) {
        g_free(acting->plan);
        acting->plan = take_plan_text(plan, acting);
        g_autoptr(json_object) object = vg_record_write(&vg_acting_record, acting);
        g_autofree char *text = vg_json_to_text(object, false);
        guint n = acting->moves->len;
        if (n == kept || strlen(text) <= VG_ACTING_TAKE_BYTES)
            return;
        const int64_t last = ((const struct vg_act_move *)acting->moves->pdata[n - 1])->group;
        while (n > kept && ((const struct vg_act_move *)acting->moves->pdata[n - 1])->group == last)
            n--;
        vg_record_truncate(&vg_act_move_record, acting->moves, n);
    }
}

unsigned
vg_acts_take(const struct vg_acts_facts *facts, const vg_plan *plan, const char *id,
             struct vg_acting *acting)
{
    g_autoptr(GHashTable) sources = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GHashTable) targets = g_hash_table_new(g_str_hash, g_str_equal);
    const struct take_left_out left_out = {sources, targets};
    g_autoptr(GPtrArray) moves = g_ptr_array_new();
    int64_t group = 0;
    bool takes = false;

    /* The moves of a group are adjacent. */
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (action->group != group) {
            group = action->group;
            takes = moves->len + take_size_of(plan, group) <= VG_ACTING_MOVES_MAX &&
                    !take_relies(plan, group, &left_out) && take_may(facts, plan, group);
            if (!takes)
                take_leave_out(plan, group, &left_out);
        }
        if (takes)
            g_ptr_array_add(moves, take_move_of(action, id, i, facts->now_ns + VG_ACT_PLAN_NS));
    }
    if (moves->len == 0)
        return 0;
    take_clear(acting);
    const guint kept = acting->moves->len;
    for (guint i = 0; i < moves->len; i++)
        g_ptr_array_add(acting->moves, moves->pdata[i]);
    g_free(acting->plan_id);
    g_free(acting->plan_hash);
    acting->plan_id = g_strdup(plan->id);
    acting->plan_hash = g_strdup(plan->input_hash);
    take_fit(plan, kept, acting);
    return acting->moves->len - kept;
}
