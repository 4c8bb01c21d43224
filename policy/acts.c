/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/acts.h"

#include <string.h>

#include "base/json.h"
#include "policy/acts-past.h"
#include "policy/drift.h"
#include "policy/host-groups.h"

#define MINUTE_NS (60 * VG_ACT_S)

/* The tolerance for clocks that differ. If a source has no record of a move this long after
 * until_ns, it has not started the move. */
#define LOST_NS (30 * VG_ACT_S)

/* A move is dropped if its VM or a host has been missing for this time. */
#define UNSEEN_NS (5 * MINUTE_NS)

/* A reversal that did not start is attempted again after this time, then after twice this time, and
 * so on: eight times within a day. */
#define UNDO_PAUSE_NS (5 * MINUTE_NS)
#define UNDOS_MAX     8

/* The age of a host's figures that is too old if [policy] stale does not say. */
#define STALE_NS (60 * VG_ACT_S)

/* ---- modes ---- */

bool
vg_acts_is_wanted(const struct vg_act_rules *rules, const struct vg_policy_config *policy)
{
    bool wanted = rules->mode == VG_POLICY_ACT;

    for (size_t i = 0; i < policy->n_host_groups; i++)
        wanted = wanted || policy->host_groups[i].mode == VG_POLICY_ACT;
    return wanted;
}

/* Returns whether a VM is on any host. */
static bool
acts_is_known(const struct vg_acts_facts *facts, const char *uuid)
{
    for (guint i = 0; i < facts->snapshot->hosts->len; i++) {
        if (acts_find_on(facts->snapshot->hosts->pdata[i], uuid))
            return true;
    }
    return false;
}

/* ---- hosts ---- */

/* Returns why a move cannot be checked: its VM or a host is missing; or NULL. */
static char *
acts_why_unseen(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    const bool has_from = vg_snapshot_find_host(facts->snapshot, move->from) != NULL;

    if (!has_from || !vg_snapshot_find_host(facts->snapshot, move->to))
        return g_strdup_printf("the current state of host '%s' is unknown",
                               has_from ? move->to : move->from);
    /* Its host's vgpud may have just started. */
    if (!acts_is_known(facts, move->uuid))
        return g_strdup_printf("'%s' is currently not on a known host", move->vm);
    if (move->undo_of && !acts_find_vm(facts, move))
        return g_strdup_printf("'%s' is currently not on host '%s'", move->vm, move->from);
    return NULL;
}

/* Returns why the figures of a known host do not allow a move, or NULL. */
static char *
acts_why_host(const struct vg_acts_facts *facts, const char *name)
{
    const struct vg_snap_host *host = vg_snapshot_find_host(facts->snapshot, name);
    const int64_t stale_ns = facts->policy->stale_ns > 0 ? facts->policy->stale_ns : STALE_NS;

    if (host->age_ns > stale_ns)
        return g_strdup_printf("the figures of host '%s' are %.0f s old", name,
                               (double)host->age_ns / VG_ACT_S);
    if (!vg_snap_host_takes_acts(host))
        return g_strdup_printf("vgpud on host '%s' is too old for automatic moves", name);
    return NULL;
}

/* Returns why a VM cannot be moved now, or NULL. That may change. */
static char *
acts_why_unfit(const struct vg_act_move *move, const struct vg_snap_vm *vm,
               const struct vg_snap_host *to)
{
    if (vm && vm->problem)
        return g_strdup_printf("'%s' must not be moved now: %s", move->vm, vm->problem);
    if (to && to->maintenance)
        return g_strdup_printf("host '%s' is in maintenance", move->to);
    return NULL;
}

/* Returns why a VM must not move to a host automatically, or NULL. The host may be busy if its own
 * CPU use is unknown. */
static char *
acts_why_target(const struct vg_acts_facts *facts, const char *name)
{
    const struct vg_snap_host *host = vg_snapshot_find_host(facts->snapshot, name);

    if (host && host->source == VG_SOURCE_LIVE && !vg_snap_host_knows_own(host))
        return g_strdup_printf("the CPU time that host '%s' itself uses is unknown", name);
    return NULL;
}

/* Returns why a VM cannot be moved as intended any more, or NULL. */
static char *
acts_why_drift(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    const struct vg_snap_host *to = vg_snapshot_find_host(facts->snapshot, move->to);
    const struct vg_snap_vm *vm = acts_find_vm(facts, move);
    g_autoptr(GError) error = NULL;

    if (!vm)
        return g_strdup_printf("'%s' is no longer on host '%s'", move->vm, move->from);
    if (vm->never_move)
        return g_strdup_printf("'%s' must not be moved now", move->vm);
    if (move->undo_of)
        return NULL;
    char *why = acts_why_unfit(move, vm, to);
    if (why)
        return why;
    if (!facts->plan)
        return g_strdup("the move's plan no longer exists");
    const struct vg_plan_action *action =
        vg_drift_find_action(facts->plan, move->uuid, move->to, NULL, &error);
    if (!action || vg_drift_check(facts->snapshot, facts->plan, action, &error) < 0)
        return g_strdup(error->message);
    return NULL;
}

/* ---- what may start ---- */

static char *
acts_why_wave(const struct vg_acting *acting, const struct vg_act_move *move)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        const struct vg_act_move *other = acting->moves->pdata[i];
        if (other->wave < move->wave && !vg_act_has_ended(other) && !vg_act_undo_waits(other))
            return g_strdup_printf("the move of '%s' must come first", other->vm);
    }
    return NULL;
}

/* Returns how long the window stays open, or 0 if it is closed. */
static int64_t
acts_window_ns(const struct vg_acts_facts *facts)
{
    const int left = vg_act_window_left(&facts->rules->window, facts->minute_of_week);

    return left == 0 ? 0 : left * MINUTE_NS - facts->now_ns % MINUTE_NS;
}

/* Returns why a move waits, or NULL. */
static char *
acts_why_waits(const struct vg_acts_facts *facts, const struct vg_acting *acting,
               const struct vg_act_move *move)
{
    if (facts->unknown || facts->stopped)
        return g_strdup(facts->unknown ? facts->unknown : facts->stopped);
    if (acts_window_ns(facts) == 0)
        return g_strdup("the next period in [policy] act_window");
    if (!facts->snapshot)
        return g_strdup("the current state of the hosts is unknown");
    char *why = acts_why_wave(acting, move);
    if (!why)
        why = acts_why_unseen(facts, move);
    if (!why)
        why = acts_why_host(facts, move->from);
    if (!why)
        why = acts_why_host(facts, move->to);
    if (!why && !move->undo_of)
        why = acts_why_target(facts, move->to);
    /* No later plan contains a move that reverses another. */
    if (!why && move->undo_of)
        why = acts_why_unfit(move, acts_find_vm(facts, move),
                             vg_snapshot_find_host(facts->snapshot, move->to));
    if (!why && move->undo_of)
        why = acts_why_mode(facts, move);
    return why;
}

/* Finds the record of a move by its id. */
static const struct vg_migration *
acts_find_id(const struct vg_acts_facts *facts, const char *id)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *record = facts->moves->pdata[i];
        if (strcmp(record->id, id) == 0)
            return record;
    }
    return NULL;
}

/* Returns why a move is dropped instead of kept waiting, or NULL. */
static char *
acts_why_dropped(const struct vg_acts_facts *facts, const struct vg_acting *acting,
                 const struct vg_act_move *move)
{
    char *why = acts_why_drift(facts, move);

    if (!why && move->undo_of) {
        const struct vg_migration *undone = acts_find_id(facts, move->undo_of);
        return !undone                         ? g_strdup("the move to be reversed is unknown")
               : acts_has_later(facts, undone) ? g_strdup("the VM has been moved again")
                                               : acts_why_undone(facts, move->uuid);
    }
    if (!why)
        why = acts_why_mode(facts, move);
    if (!why && acting->spent)
        why = g_strdup("the error budget is spent");
    if (!why)
        why = acts_why_rests(facts, move);
    if (!why)
        why = acts_why_cycle(facts, move);
    return why;
}

static void
acts_drop(struct vg_act_move *move, const char *why)
{
    move->step = VG_ACT_DROPPED;
    vg_act_set_why(move, "%s", why);
}

void
vg_acts_refuse(struct vg_act_move *move, const char *reason)
{
    acts_drop(move, reason);
}

/* Decides about a waiting move. Returns whether it starts now. */
static bool
acts_decide(const struct vg_acts_facts *facts, const struct vg_acting *acting,
            struct vg_act_move *move)
{
    char *why = acts_why_waits(facts, acting, move);
    g_autofree char *end = why ? NULL : acts_why_dropped(facts, acting, move);

    if (!why && !end)
        why = acts_why_moving(facts, move);
    if (!why && !end)
        why = acts_why_limit(facts, acting, move);
    if (end) {
        acts_drop(move, end);
        return false;
    }
    g_free(move->why);
    move->why = why;
    if (why)
        return false;
    move->step = VG_ACT_STARTING;
    move->asked_ns = facts->now_ns;
    move->until_ns = facts->now_ns + MIN(acts_window_ns(facts), VG_ACT_START_NS);
    return true;
}

/* ---- results ---- */

static void
acts_take_record(struct vg_act_move *move, const struct vg_migration *record)
{
    g_autofree char *cause = vg_migration_cause(record);

    g_free(move->move);
    move->move = g_strdup(record->id);
    g_clear_pointer(&move->why, g_free);
    if (!vg_migration_has_ended(record->state)) {
        move->step = VG_ACT_MOVING;
        move->why = vg_act_shorten(record->waits_for);
        return;
    }
    move->step = record->state == VG_MIGRATION_DONE ? VG_ACT_DONE : VG_ACT_FAILED;
    if (record->not_started)
        move->step = VG_ACT_DROPPED;
    move->why = vg_act_shorten(cause);
}

static void
acts_reconcile(const struct vg_acts_facts *facts, struct vg_acting *acting)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        struct vg_act_move *move = acting->moves->pdata[i];
        if (move->step != VG_ACT_STARTING && move->step != VG_ACT_MOVING)
            continue;
        const struct vg_migration *record = acts_find(facts, move->act);
        if (record)
            acts_take_record(move, record);
        else if (move->step == VG_ACT_STARTING && facts->now_ns > move->until_ns + LOST_NS)
            acts_drop(move, "the source host has not started the move");
        else if (facts->now_ns > move->asked_ns + VG_ACT_DAY_NS)
            acts_drop(move, "no host has a record of the move");
    }
}

/* ---- waves and groups ---- */

static bool
acts_has_broken(const struct vg_act_move *move)
{
    return move->step == VG_ACT_FAILED || move->step == VG_ACT_DROPPED;
}

/* Drops what cannot be carried out any more: the rest of a group, and later waves. */
static void
acts_drop_rest(const struct vg_acts_facts *facts, struct vg_acting *acting)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        const struct vg_act_move *broken = acting->moves->pdata[i];
        for (guint k = 0; broken->wave > 0 && acts_has_broken(broken) && k < acting->moves->len;
             k++) {
            struct vg_act_move *other = acting->moves->pdata[k];
            if (other->step != VG_ACT_WAITS || other->wave == 0)
                continue;
            if (other->group == broken->group)
                acts_drop(other, "another move of the same group did not take place");
            else if (other->wave > broken->wave)
                acts_drop(other, "a move of an earlier wave did not take place");
        }
    }
    for (guint i = 0; i < acting->moves->len; i++) {
        struct vg_act_move *move = acting->moves->pdata[i];
        if (move->step == VG_ACT_WAITS && facts->now_ns > move->until_ns)
            acts_drop(move, "the move has waited too long");
    }
}

/* Drops moves whose VM or host has been missing for a while: it may no longer exist. */
static void
acts_drop_unseen(const struct vg_acts_facts *facts, struct vg_acting *acting)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        struct vg_act_move *move = acting->moves->pdata[i];
        if (move->step != VG_ACT_WAITS)
            continue;
        g_autofree char *why = acts_why_unseen(facts, move);
        if (!why)
            move->unseen_since_ns = 0;
        else if (move->unseen_since_ns == 0)
            move->unseen_since_ns = facts->now_ns;
        else if (facts->now_ns - move->unseen_since_ns > UNSEEN_NS)
            acts_drop(move, why);
    }
}

static bool
acts_group_is_broken(const struct vg_acting *acting, const struct vg_act_move *move)
{
    bool broken = false;

    for (guint i = 0; i < acting->moves->len; i++) {
        const struct vg_act_move *other = acting->moves->pdata[i];
        if (other == move || other->wave == 0 || other->group != move->group)
            continue;
        if (!vg_act_has_ended(other))
            return false;
        broken = broken || acts_has_broken(other);
    }
    return broken;
}

/* ---- reversing ---- */

static struct vg_act_move *
acts_find_act(const struct vg_acting *acting, const char *act)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        struct vg_act_move *move = acting->moves->pdata[i];
        if (strcmp(move->act, act) == 0)
            return move;
    }
    return NULL;
}

/* Counts the moves that reverse others. If necessary, drops those that ended the longest ago. */
static bool
acts_has_room(struct vg_acting *acting)
{
    guint n = 0;

    for (guint i = 0; i < acting->moves->len; i++)
        n += ((const struct vg_act_move *)acting->moves->pdata[i])->undo_of != NULL;
    for (guint i = 0; n >= VG_ACTING_UNDOS_MAX && i < acting->moves->len; i++) {
        const struct vg_act_move *move = acting->moves->pdata[i];
        if (!move->undo_of || !vg_act_has_ended(move))
            continue;
        vg_record_free(&vg_act_move_record, g_ptr_array_remove_index(acting->moves, i));
        return true;
    }
    return n < VG_ACTING_UNDOS_MAX;
}

/* Returns the identifier of the nth attempt to reverse a move. The caller frees it. */
static char *
acts_undo_name(const struct vg_migration *record, unsigned n)
{
    return n == 1 ? g_strconcat("undo/", record->id, NULL)
                  : g_strdup_printf("undo/%s/%u", record->id, n);
}

/* Returns when an attempt failed without having started: negative if there was none, INT64_MAX if
 * no other attempt may follow. Both may be NULL. */
static int64_t
acts_missed_ns(const struct vg_act_move *move, const struct vg_migration *record)
{
    if (record && (!record->not_started || !vg_migration_has_ended(record->state)))
        return INT64_MAX;
    if (move && !acts_is_missed(move))
        return INT64_MAX;
    if (!move && !record)
        return -1;
    if (move && move->unseen_since_ns > 0)
        return move->unseen_since_ns + UNSEEN_NS;
    return MAX(move ? move->asked_ns : 0, record ? record->ended_ns : 0);
}

/* Returns the identifier of the next attempt to reverse a move, or NULL if there is none now. The
 * attempts follow each other at intervals that double. Removes the attempt that it replaces. */
static char *
acts_next_undo(const struct vg_acts_facts *facts, struct vg_acting *acting,
               const struct vg_migration *record)
{
    for (unsigned n = UNDOS_MAX; n > 0; n--) {
        g_autofree char *last = acts_undo_name(record, n);
        struct vg_act_move *move = acts_find_act(acting, last);
        const int64_t missed_ns = acts_missed_ns(move, acts_find(facts, last));
        if (missed_ns < 0)
            continue;
        if (n == UNDOS_MAX || missed_ns > facts->now_ns - (UNDO_PAUSE_NS << (n - 1)))
            return NULL;
        if (move) {
            g_ptr_array_remove(acting->moves, move);
            vg_record_free(&vg_act_move_record, move);
        }
        return acts_undo_name(record, n + 1);
    }
    return acts_undo_name(record, 1);
}

static void
acts_add_undo(const struct vg_acts_facts *facts, struct vg_acting *acting,
              const struct vg_migration *record)
{
    g_autofree char *undone = acts_why_undone(facts, record->uuid);

    if (undone || acts_has_later(facts, record))
        return;
    g_autofree char *act = acts_next_undo(facts, acting, record);
    if (!act || !acts_has_room(acting))
        return;
    struct vg_act_move *move = vg_record_new(&vg_act_move_record);
    move->act = g_steal_pointer(&act);
    move->vm = g_strdup(record->vm);
    move->uuid = g_strdup(record->uuid);
    move->from = g_strdup(record->to);
    move->to = g_strdup(record->from);
    move->undo_of = g_strdup(record->id);
    move->until_ns = facts->now_ns + VG_ACT_DAY_NS;
    g_ptr_array_add(acting->moves, move);
}

static bool
acts_has_undo(const struct vg_acting *acting, const char *id)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        if (g_strcmp0(((const struct vg_act_move *)acting->moves->pdata[i])->undo_of, id) == 0)
            return true;
    }
    return false;
}

/* Reverses moves that made things worse, and the remaining moves of groups that broke. */
static void
acts_find_undos(const struct vg_acts_facts *facts, struct vg_acting *acting)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *record = facts->moves->pdata[i];
        const struct vg_act_move *move;
        if (!record->act || record->undo_of || record->state != VG_MIGRATION_DONE ||
            record->ended_ns < facts->now_ns - VG_ACT_DAY_NS)
            continue;
        move = acts_find_act(acting, record->act);
        if (record->verdict.result == VG_VERDICT_WORSE || acts_has_undo(acting, record->id) ||
            (move && move->undo_rest && move->step == VG_ACT_DONE &&
             acts_group_is_broken(acting, move)))
            acts_add_undo(facts, acting, record);
    }
}

/* ---- a step ---- */

/* Determines whether vgpud acts now, or why not. */
static void
acts_explain(const struct vg_acts_facts *facts, struct vg_acting *acting)
{
    const char *why = NULL;

    acting->mode = facts->rules->mode;
    if (!vg_acts_is_wanted(facts->rules, facts->policy) && !facts->vms_act)
        why = "[policy] mode is not 'act'";
    else if (facts->stopped)
        why = facts->stopped;
    else if (facts->unknown)
        why = facts->unknown;
    else if (acting->spent)
        why = "the error budget is spent: moves are only proposed";
    else if (acts_window_ns(facts) == 0)
        why = "the current time is outside [policy] act_window";
    g_free(acting->why);
    acting->why = vg_act_shorten(why);
    acting->acts = !why;
}

/* Decides about the moves that reverse others, or about the other moves. */
static void
acts_decide_all(const struct vg_acts_facts *facts, struct vg_acting *acting, bool undos,
                GPtrArray *start)
{
    for (guint i = 0; i < acting->moves->len; i++) {
        struct vg_act_move *move = acting->moves->pdata[i];
        const bool lost = move->step == VG_ACT_STARTING && acting->acts &&
                          facts->now_ns > move->asked_ns && facts->now_ns < move->until_ns;
        if ((move->step != VG_ACT_WAITS && !lost) || (move->undo_of != NULL) != undos)
            continue;
        if (lost ? !g_ptr_array_find(start, move, NULL) : acts_decide(facts, acting, move))
            g_ptr_array_add(start, move);
        else if (acts_has_broken(move))
            acts_drop_rest(facts, acting);
    }
}

void
vg_acts_step(const struct vg_acts_facts *facts, struct vg_acting *acting, GPtrArray *start)
{
    if (!facts->unknown) {
        acts_reconcile(facts, acting);
        acts_count_budget(facts, acting);
        acts_find_undos(facts, acting);
    }
    acts_explain(facts, acting);
    if (!facts->unknown && facts->snapshot)
        acts_drop_unseen(facts, acting);
    acts_drop_rest(facts, acting);
    acts_decide_all(facts, acting, true, start);
    acts_decide_all(facts, acting, false, start);
    if (facts->unknown)
        return;
    /* A move that was just dropped can leave half of a group. This must be known before the next
     * plan replaces the moves. */
    acts_find_undos(facts, acting);
    acts_decide_all(facts, acting, true, start);
}
