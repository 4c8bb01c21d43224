/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/acts-past.h"

#include <string.h>

#include "policy/host-groups.h"

/* The maximum number of times that the cooldown doubles. */
#define DOUBLINGS_MAX 16

/* ---- VMs and their modes ---- */

const struct vg_snap_vm *
acts_find_on(const struct vg_snap_host *host, const char *uuid)
{
    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_snap_vm *vm = host->vms->pdata[i];
        if (vm->uuid && g_ascii_strcasecmp(vm->uuid, uuid) == 0)
            return vm;
    }
    return NULL;
}

const struct vg_snap_vm *
acts_find_vm(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    const struct vg_snap_host *from =
        facts->snapshot ? vg_snapshot_find_host(facts->snapshot, move->from) : NULL;

    return from ? acts_find_on(from, move->uuid) : NULL;
}

/* Returns the mode for a VM that moves: its own, or the more cautious one of both hosts. */
static enum vg_policy_mode
past_mode(const struct vg_acts_facts *facts, const struct vg_snap_vm *vm, const char *from,
          const char *to)
{
    const enum vg_policy_mode mode = facts->rules->mode;
    const enum vg_policy_mode a = vg_host_groups_mode(facts->policy, from, mode);
    const enum vg_policy_mode b = vg_host_groups_mode(facts->policy, to, mode);

    /* The mode of the VM does not override an observed host. */
    if (vm && vm->policy != VG_POLICY_UNSET && MIN(a, b) > VG_POLICY_OBSERVE)
        return vm->policy;
    return MIN(a, b);
}

char *
acts_why_mode(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    const struct vg_snap_vm *vm = acts_find_vm(facts, move);
    const enum vg_policy_mode mode = past_mode(facts, vm, move->from, move->to);

    if (mode == VG_POLICY_ACT)
        return NULL;
    return g_strdup_printf("the policy mode for a move of '%s' from '%s' to '%s' is '%s'", move->vm,
                           move->from, move->to, vg_policy_mode_names[mode]);
}

/* ---- moves ---- */

static bool
past_is_vm(const struct vg_migration *move, const char *uuid)
{
    return g_ascii_strcasecmp(move->uuid, uuid) == 0;
}

const struct vg_migration *
acts_find(const struct vg_acts_facts *facts, const char *act)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *move = facts->moves->pdata[i];
        if (g_strcmp0(move->act, act) == 0)
            return move;
    }
    return NULL;
}

char *
acts_why_moving(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *other = facts->moves->pdata[i];
        if (!vg_migration_has_ended(other->state) && past_is_vm(other, move->uuid))
            return g_strdup_printf("'%s' is being moved by '%s'", move->vm, other->id);
    }
    return NULL;
}

/* Finds the end of the newest move of a VM, and counts its moves. */
static int64_t
past_last_end(const struct vg_acts_facts *facts, const char *uuid, unsigned *ret_moves)
{
    int64_t last_ns = 0;

    *ret_moves = 0;
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *move = facts->moves->pdata[i];
        if (!past_is_vm(move, uuid) || move->not_started ||
            move->made_ns < facts->now_ns - VG_ACT_PAST_NS)
            continue;
        last_ns = MAX(last_ns, MAX(move->ended_ns, move->made_ns));
        ++*ret_moves;
    }
    return last_ns;
}

int64_t
vg_acts_cooldown(const struct vg_acts_facts *facts, const char *uuid, unsigned *ret_moves)
{
    int64_t cooldown_ns = facts->rules->cooldown_ns;

    past_last_end(facts, uuid, ret_moves);
    for (unsigned i = 1; i < MIN(*ret_moves, DOUBLINGS_MAX) && cooldown_ns < VG_ACT_COOLDOWN_MAX_NS;
         i++)
        cooldown_ns *= 2;
    return MIN(cooldown_ns, MAX(VG_ACT_COOLDOWN_MAX_NS, facts->rules->cooldown_ns));
}

char *
acts_why_rests(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    unsigned n = 0;
    const int64_t cooldown_ns = vg_acts_cooldown(facts, move->uuid, &n);
    const int64_t since_ns = facts->now_ns - past_last_end(facts, move->uuid, &n);

    /* A move that ended in the future belongs to a host whose clock is wrong. */
    if (n == 0 || since_ns >= cooldown_ns)
        return NULL;
    return g_strdup_printf("'%s' was moved %.0f s ago, and %u %s in the last 7 days; the next "
                           "automatic move is possible %.0f s after the last move",
                           move->vm, (double)since_ns / VG_ACT_S, n, n == 1 ? "time" : "times",
                           (double)cooldown_ns / VG_ACT_S);
}

char *
acts_why_cycle(const struct vg_acts_facts *facts, const struct vg_act_move *move)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *other = facts->moves->pdata[i];
        if (other->state == VG_MIGRATION_DONE && past_is_vm(other, move->uuid) &&
            strcmp(other->from, move->to) == 0 && other->ended_ns > facts->now_ns - VG_ACT_CYCLE_NS)
            return g_strdup_printf("'%s' left host '%s' in move '%s' within the last 3 days, so "
                                   "this move would return it",
                                   move->vm, move->to, other->id);
    }
    return NULL;
}

char *
acts_why_undone(const struct vg_acts_facts *facts, const char *uuid)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *other = facts->moves->pdata[i];
        if (other->undo_of && !other->not_started && past_is_vm(other, uuid) &&
            MAX(other->made_ns, other->ended_ns) > facts->now_ns - VG_ACT_DAY_NS)
            return g_strdup_printf("a move of '%s' was reversed within the last day, by move '%s'",
                                   other->vm, other->id);
    }
    return NULL;
}

/* Returns whether a move has left its VM on its source. In etcd's short form of a move, the place
 * of the VM is unknown. */
static bool
past_left_vm(const struct vg_migration *move)
{
    if (move->not_started)
        return true;
    if (move->vm_on == VG_PLACE_UNKNOWN)
        return move->state == VG_MIGRATION_ABORTED || move->state == VG_MIGRATION_ROLLED_BACK;
    return vg_migration_has_ended(move->state) && move->state != VG_MIGRATION_DONE &&
           move->vm_on == VG_PLACE_SOURCE;
}

bool
acts_has_later(const struct vg_acts_facts *facts, const struct vg_migration *move)
{
    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *other = facts->moves->pdata[i];
        if (past_is_vm(other, move->uuid) && strcmp(other->id, move->id) != 0 &&
            !past_left_vm(other) && MAX(other->made_ns, other->ended_ns) > move->ended_ns)
            return true;
    }
    return false;
}

/* ---- errors ---- */

static bool
past_is_error(const struct vg_acts_facts *facts, const struct vg_migration *move)
{
    const int64_t since_ns = MAX(facts->now_ns - VG_ACT_DAY_NS,
                                 facts->resumed_ns > facts->now_ns ? 0 : facts->resumed_ns);

    if (!move->act || move->not_started)
        return false;
    if (!vg_migration_has_ended(move->state))
        return move->made_ns < facts->now_ns - VG_ACT_STUCK_NS &&
               move->made_ns + VG_ACT_STUCK_NS > since_ns;
    if (move->state == VG_MIGRATION_FAILED || move->state == VG_MIGRATION_ROLLED_BACK)
        return move->ended_ns > since_ns;
    return move->verdict.result == VG_VERDICT_WORSE &&
           MAX(move->verdict.judged_ns, move->ended_ns) > since_ns;
}

void
vg_acts_note_resume(vg_acting *acting, const struct vg_act_mark *resume, int64_t revision,
                    int64_t now_ns)
{
    if (!resume || acting->resume_revision == revision)
        return;
    /* An earlier version has not stored the revision. */
    const bool is_old = acting->resume_revision == 0 && resume->at_ns < now_ns - VG_ACT_STUCK_NS;
    acting->resumed_ns = is_old ? resume->at_ns : now_ns;
    acting->resume_revision = revision;
}

void
acts_count_budget(const struct vg_acts_facts *facts, vg_acting *acting)
{
    acting->errors = 0;
    for (guint i = 0; i < facts->moves->len; i++)
        acting->errors += past_is_error(facts, facts->moves->pdata[i]);
    acting->budget = facts->rules->error_budget;
    const bool is_over = acting->errors >= acting->budget;
    if (is_over && !acting->spent)
        acting->spent_ns = facts->now_ns;
    acting->spent = is_over || (acting->spent && acting->spent_ns > facts->resumed_ns &&
                                facts->now_ns - acting->spent_ns < VG_ACT_DAY_NS);
}

/* ---- limits ---- */

/* Moves in progress, as far as they affect one that may start. */
struct past_load {
    int64_t total;
    int64_t from, to; /* moves that involve the respective host */
    int64_t target;   /* moves to the same host */
    int64_t from_group, to_group;
};

/* The hosts of a move, and their groups. */
struct past_route {
    const char *from, *to;
    const struct vg_host_group *from_group, *to_group; /* NULL if a host is in no group */
};

static struct past_route
past_route_of(const struct vg_acts_facts *facts, const char *from, const char *to)
{
    return (struct past_route){from, to, vg_host_groups_find(facts->policy, from),
                               vg_host_groups_find(facts->policy, to)};
}

static bool
past_has_host(const struct past_route *route, const char *host)
{
    return strcmp(route->from, host) == 0 || strcmp(route->to, host) == 0;
}

static bool
past_has_group(const struct past_route *route, const struct vg_host_group *group)
{
    return group && (route->from_group == group || route->to_group == group);
}

static void
past_add(struct past_load *load, const struct past_route *of, const struct past_route *other)
{
    load->total++;
    load->from += past_has_host(other, of->from);
    load->to += past_has_host(other, of->to);
    load->target += strcmp(other->to, of->to) == 0;
    load->from_group += past_has_group(other, of->from_group);
    load->to_group += past_has_group(other, of->to_group);
}

static struct past_load
past_load_of(const struct vg_acts_facts *facts, const struct vg_acting *acting,
             const struct past_route *of)
{
    struct past_load load = {0};

    for (guint i = 0; i < facts->moves->len; i++) {
        const struct vg_migration *other = facts->moves->pdata[i];
        const struct past_route route = past_route_of(facts, other->from, other->to);
        if (!vg_migration_has_ended(other->state))
            past_add(&load, of, &route);
    }
    /* Their sources may have no record of them yet. */
    for (guint i = 0; i < acting->moves->len; i++) {
        const struct vg_act_move *other = acting->moves->pdata[i];
        const struct past_route route = past_route_of(facts, other->from, other->to);
        if ((other->step == VG_ACT_STARTING || other->step == VG_ACT_MOVING) &&
            !acts_find(facts, other->act))
            past_add(&load, of, &route);
    }
    return load;
}

static char *
past_why_group(const struct vg_host_group *group, int64_t n)
{
    if (!group || group->act_moves == 0 || n < group->act_moves)
        return NULL;
    return g_strdup_printf("%" G_GINT64_FORMAT " moves of hosts in [hosts %s] are in progress, "
                           "which is the maximum that act_moves of this group allows",
                           n, group->name);
}

char *
acts_why_limit(const struct vg_acts_facts *facts, const struct vg_acting *acting,
               const struct vg_act_move *move)
{
    const struct vg_act_rules *rules = facts->rules;
    const struct past_route of = past_route_of(facts, move->from, move->to);
    const struct past_load load = past_load_of(facts, acting, &of);

    if (load.total >= rules->moves)
        return g_strdup_printf("%" G_GINT64_FORMAT " moves are in progress in the cluster, "
                               "which is the maximum that [policy] act_moves allows",
                               load.total);
    if (MAX(load.from, load.to) >= rules->moves_per_host)
        return g_strdup_printf(
            "host '%s' already takes part in %" G_GINT64_FORMAT " moves, which is the maximum "
            "that [policy] act_moves_per_host allows",
            load.from >= rules->moves_per_host ? of.from : of.to, MAX(load.from, load.to));
    if (load.target >= rules->moves_per_target)
        return g_strdup_printf("%" G_GINT64_FORMAT " moves to host '%s' are in progress, which "
                               "is the maximum that [policy] act_moves_per_target allows",
                               load.target, of.to);
    char *why = past_why_group(of.from_group, load.from_group);
    return why ? why : past_why_group(of.to_group, load.to_group);
}
