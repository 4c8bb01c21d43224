/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the hosts with lasting contention, searches for groups of moves that relieve them,
 * evaluates each group again on the cluster, and writes those that pass the gates into the plan.
 */
#include "config.h"

#include <string.h>

#include "policy/constraints.h"
#include "policy/gates.h"
#include "policy/rule.h"
#include "policy/search.h"

/* Differences below this, in cores, do not count. */
#define TIE 1e-6

/* The maximum number of obstacles checked to explain why nothing more is proposed. */
#define OBSTACLES_MAX 2000u

/* A group of moves in the order of execution. */
struct complement_group {
    size_t n;
    struct vg_move moves[VG_GROUP_MAX]; /* each after the previous ones */
    struct vg_claim claim;
};

struct complement {
    vg_cluster *cluster;
    vg_plan *plan;
    bool *held;
    size_t n_held;
    int64_t n_groups;
    struct vg_found found;
    GPtrArray *why; /* char *: obstacles */
    uint64_t n_why_dropped;
};

/* Adds a reason, unless it is a repetition. Reasons beyond the plan's limit are only counted. */
static void
complement_add_why(struct complement *state, char *take_reason)
{
    for (guint i = 0; i < state->why->len; i++) {
        if (strcmp(state->why->pdata[i], take_reason) == 0) {
            g_free(take_reason);
            return;
        }
    }
    if (state->why->len < VG_PLAN_WHY_MAX) {
        g_ptr_array_add(state->why, take_reason);
        return;
    }
    g_free(take_reason);
    state->n_why_dropped++;
}

static void
complement_find_held(struct complement *state)
{
    for (size_t host = 0; host < state->cluster->n_hosts; host++) {
        struct vg_contention contention;
        vg_gate_contention(state->cluster, host, &contention);
        state->held[host] = contention.held;
        state->n_held += contention.held;
        vg_contention_clear(&contention);
    }
}

/* ---- groups ---- */

static void
complement_undo(vg_cluster *cluster, const struct complement_group *group, size_t n)
{
    while (n-- > 0)
        vg_cluster_move_back(cluster, group->moves[n].vm, &group->moves[n].fit);
}

/* Returns the losses of the hosts that the VMs leave. Each host counts once. */
static double
complement_lost(const vg_cluster *cluster, const struct vg_group *group)
{
    double lost = 0;

    for (size_t i = 0; i < group->n; i++) {
        const size_t host = cluster->vms[group->moves[i].vm].host;
        bool again = false;
        for (size_t k = 0; k < i; k++)
            again = again || cluster->vms[group->moves[k].vm].host == host;
        if (!again)
            lost += vg_loss_weighed(cluster->config, vg_predict_host(cluster, host));
    }
    return lost;
}

static void
complement_add_claim(const vg_cluster *cluster, const struct vg_move *move, struct vg_claim *claim)
{
    const struct vg_claim one = vg_gate_claim(cluster, move);

    claim->gain += one.gain;
    claim->has_day = one.has_day;
    claim->day_gain += one.day_gain;
    claim->cost_cores += one.cost_cores;
    claim->rest = MAX(claim->rest, one.rest);
    claim->most += vg_predict_wanted(cluster, move->vm);
    if (!claim->oldest || one.oldest->age_ns > claim->oldest->age_ns)
        claim->oldest = one.oldest;
}

/* Carries a group out and reverses it. Returns false if a constraint forbids a move. */
static bool
complement_evaluate(vg_cluster *cluster, const struct vg_group *group, struct complement_group *ret)
{
    const double lost = complement_lost(cluster, group);
    bool allowed = true;

    *ret = (struct complement_group){0};
    for (size_t i = 0; i < group->n; i++)
        cluster->vms[group->moves[i].vm].together = true;
    while (allowed && ret->n < group->n) {
        struct vg_move *move = &ret->moves[ret->n];
        const size_t vm = group->moves[ret->n].vm, to = group->moves[ret->n].to;
        g_autofree char *reason = NULL;
        struct vg_fit fit;
        allowed = vg_constraints_vm(cluster, vm, &reason) == VG_CONSTRAINT_NONE &&
                  vg_constraints_host(cluster, vm, to, &fit, &reason) == VG_CONSTRAINT_NONE;
        if (!allowed)
            break;
        vg_move_evaluate(cluster, vm, to, &fit, move);
        allowed = vg_gate_return(cluster, move, NULL);
        if (!allowed)
            break;
        complement_add_claim(cluster, move, &ret->claim);
        vg_cluster_move(cluster, vm, to, &fit);
        ret->n++;
    }
    complement_undo(cluster, ret, ret->n);
    for (size_t i = 0; i < group->n; i++)
        cluster->vms[group->moves[i].vm].together = false;
    ret->claim.most = MIN(ret->claim.most, lost);
    return allowed;
}

/* ---- words ---- */

/* Describes the contention of the host that the VM leaves: its worst place, and the total if other
 * places also lose something. */
static void
describe_loss(const vg_cluster *cluster, const struct vg_move *move, GString *text)
{
    struct vg_contention contention;

    vg_gate_contention(cluster, move->from, &contention);
    g_string_append(text, contention.what);
    text->str[0] = g_ascii_toupper(text->str[0]);
    if (move->from_before.cpu >= contention.lost.cpu + VG_GATE_SHOWN)
        g_string_append_printf(text, "; all its CPUs together lose %.2f cores",
                               move->from_before.cpu);
    if (move->from_before.gpu >= contention.lost.gpu + VG_GATE_SHOWN)
        g_string_append_printf(text, "; its GPUs lose %.2f engines", move->from_before.gpu);
    vg_contention_clear(&contention);
}

/* Describes the demand of the host's VMs and, if some are pinned, what they leave to a new VM. */
static void
describe_target(const vg_cluster *cluster, size_t to, GString *text)
{
    const struct vg_host_state *host = &cluster->hosts[to];
    const double floating = vg_load_mean(cluster, &host->floating) - host->floating.own;
    g_autofree char *kept = vg_host_pools_text(host);
    double wanted = 0;

    g_string_append_printf(text, "host '%s' has %.0f CPUs", host->host->name,
                           host->floating.capacity);
    if (!kept) {
        g_string_append_printf(text, "; its VMs demand %.2f", floating);
        return;
    }
    for (guint p = 0; p < host->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        wanted += vg_load_mean(cluster, pool) - pool->own;
    }
    g_string_append_printf(text, ": VMs pinned to %s demand %.2f cores there and leave %.2f CPUs",
                           kept, wanted, vg_predict_left(cluster, to));
    if (floating >= VG_GATE_SHOWN)
        g_string_append_printf(text, "; others want %.2f", floating);
}

/* Describes a move. Must be called before the move is carried out. */
static char *
complement_describe_move(const vg_cluster *cluster, const struct vg_move *move)
{
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    const double own = vg_host_own(&cluster->hosts[move->to]);
    GString *text = g_string_new("");

    describe_loss(cluster, move, text);
    g_string_append_printf(text, ". VM '%s' demands %.2f cores; ", vm->name, vg_snap_vm_demand(vm));
    describe_target(cluster, move->to, text);
    if (own >= VG_GATE_SHOWN)
        g_string_append_printf(
            text, " and the host itself uses %s%.2f",
            vg_snap_host_knows_own(cluster->hosts[move->to].host) ? "" : "at least ", own);
    g_string_append_printf(text, ", so moving the VM there gains %.2f cores", move->gain.cpu);
    if (move->gain.gpu > TIE || move->gain.gpu < -TIE)
        g_string_append_printf(text, " and %.2f GPU engines", move->gain.gpu);
    g_string_append_printf(text, " at a cost of %.3f.", move->cost_cores);
    return g_string_free(text, FALSE);
}

/* Appends the number of a move's step in its group, and the loss if the plan stops after it. */
static char *
complement_describe_step(const struct complement_group *group, size_t step, char *take_text)
{
    g_autofree char *text = take_text;
    double so_far = 0;

    if (group->n == 1)
        return g_steal_pointer(&text);
    for (size_t i = 0; i <= step; i++)
        so_far += group->moves[i].weighed;
    return g_strdup_printf(
        "Step %zu of %zu, which together gain %.2f cores at a cost of %.3f; after this step, %.2f "
        "cores %s are lost than before the first. %s",
        step + 1, group->n, group->claim.gain, group->claim.cost_cores,
        so_far < 0 ? -so_far : so_far, so_far < 0 ? "more" : "less", text);
}

/* Returns whether a step of a group must be reversed if another one fails: the steps up to it do
 * not help alone, or VMs that belong together would be apart. */
static bool
complement_undoes(const struct complement *state, const struct complement_group *group, size_t step)
{
    double so_far = 0;

    for (size_t i = 0; i <= step; i++)
        so_far += group->moves[i].weighed;
    return group->n > 1 &&
           (so_far <= 0 || state->cluster->vms[group->moves[step].vm].vm->affinity->len > 0);
}

/* Appends the gain of a group over the last day. */
static void
complement_describe_day(const struct complement_group *group, char **text)
{
    if (!group->claim.has_day)
        return;
    char *more = g_strdup_printf("%s Over the last day, the move would have gained %.2f cores.",
                                 *text, group->claim.day_gain);
    g_free(*text);
    *text = more;
}

/* Returns the mean number of idle cores of a host. */
static double
complement_idle(const vg_cluster *cluster, size_t index)
{
    const struct vg_host_state *host = &cluster->hosts[index];
    double wanted = vg_load_mean(cluster, &host->floating);

    for (guint p = 0; p < host->pools->len; p++)
        wanted += vg_load_mean(cluster, &g_array_index(host->pools, struct vg_load, p));
    return host->floating.capacity - wanted + vg_predict_host(cluster, index).cpu;
}

/* Explains why one of two hosts with the same gain was chosen. */
static const char *
complement_describe_tie(const vg_cluster *cluster, size_t chosen, size_t other)
{
    if (cluster->hosts[chosen].moves < cluster->hosts[other].moves)
        return "takes part in fewer moves";
    return complement_idle(cluster, chosen) > complement_idle(cluster, other) + TIE
               ? "has more idle cores"
               : "comes first by name";
}

/* Describes the best other single move. Must be called before the group is carried out. */
static void
complement_describe_other(const struct complement *state, const struct vg_group *group,
                          const struct complement_group *chosen,
                          struct vg_plan_runner_up *runner_up)
{
    const vg_cluster *cluster = state->cluster;
    const double net = vg_claim_gain(&chosen->claim) - chosen->claim.cost_cores;
    struct vg_move move;
    struct vg_fit fit;
    g_autofree char *reason = NULL;

    if (!group->has_other || vg_constraints_host(cluster, group->other_vm, group->other_to, &fit,
                                                 &reason) != VG_CONSTRAINT_NONE)
        return;
    vg_move_evaluate(cluster, group->other_vm, group->other_to, &fit, &move);
    const struct vg_claim claim = vg_gate_claim(cluster, &move);
    runner_up->what = vg_move_text(cluster, &move);
    runner_up->gain = vg_gain_of(move.gain);
    if (!vg_gate_gain(cluster, &claim, &runner_up->why))
        return;
    const double other = vg_claim_gain(&claim) - claim.cost_cores;
    if (other < net - TIE)
        runner_up->why =
            g_strdup_printf("after its cost, that move gains %.3f cores less (%.3f, not %.3f)",
                            net - other, other, net);
    else if (other > net + TIE)
        runner_up->why = g_strdup_printf("that move gains more (%.3f cores after its cost, not "
                                         "%.3f), but the following moves would gain less",
                                         other, net);
    else if (move.vm == chosen->moves[0].vm)
        runner_up->why = g_strdup_printf(
            "the gain is the same; host '%s' %s", cluster->hosts[chosen->moves[0].to].host->name,
            complement_describe_tie(cluster, chosen->moves[0].to, group->other_to));
    else
        runner_up->why = g_strdup_printf("the gain is the same; VM '%s' comes first by name",
                                         cluster->vms[chosen->moves[0].vm].vm->name);
}

/* Writes a group into the plan if it also passes the gates on the cluster. */
static void
complement_commit(struct complement *state, const struct vg_group *group)
{
    struct complement_group chosen;
    struct vg_plan_runner_up runner_up = {0};

    if (!complement_evaluate(state->cluster, group, &chosen) ||
        !vg_gate_gain(state->cluster, &chosen.claim, NULL))
        return;
    complement_describe_other(state, group, &chosen, &runner_up);
    state->n_groups++;
    for (size_t i = 0; i < chosen.n; i++) {
        char *text = complement_describe_move(state->cluster, &chosen.moves[i]);
        struct vg_plan_action *action = vg_move_commit(
            state->cluster, &chosen.moves[i], vg_rule_names[VG_RULE_COMPLEMENT], state->plan);
        action->reason.text = complement_describe_step(&chosen, i, text);
        if (i == 0)
            complement_describe_day(&chosen, &action->reason.text);
        action->group = state->n_groups;
        action->undo_partial = complement_undoes(state, &chosen, i);
        if (i == 0)
            action->runner_up = runner_up;
    }
}

/* ---- why not more ---- */

/* Explains for hosts that still lose which of their VMs may not move, and why the others cannot. */
static void
complement_find_obstacles(struct complement *state)
{
    vg_cluster *cluster = state->cluster;
    unsigned looked = 0;

    for (size_t host = 0; host < cluster->n_hosts; host++) {
        const GArray *vms = cluster->hosts[host].vms;
        struct vg_contention contention;
        vg_gate_contention(cluster, host, &contention);
        complement_add_why(state, g_steal_pointer(&contention.what));
        for (guint i = 0; contention.held && i < vms->len; i++) {
            const size_t vm = g_array_index(vms, size_t, i);
            char *reason = NULL;
            if (vg_constraints_vm(cluster, vm, &reason) != VG_CONSTRAINT_NONE) {
                complement_add_why(state, reason);
                continue;
            }
            for (size_t to = 0; to < cluster->n_hosts && looked < OBSTACLES_MAX; to++, looked++) {
                struct vg_fit fit;
                if (to != host &&
                    vg_constraints_host(cluster, vm, to, &fit, &reason) != VG_CONSTRAINT_NONE)
                    complement_add_why(state, g_steal_pointer(&reason));
            }
        }
    }
}

static void
complement_describe_failed(struct complement *state)
{
    const vg_cluster *cluster = state->cluster;
    const size_t vm = state->found.failed_vm;
    struct vg_move move = {0};
    bool found = false;
    g_autofree char *reason = NULL;

    if (!state->found.has_failed || cluster->vms[vm].host != cluster->vms[vm].home)
        return;
    for (size_t to = 0; to < cluster->n_hosts; to++) {
        g_autofree char *obstacle = NULL;
        struct vg_fit fit;
        struct vg_move one;
        if (vg_constraints_host(cluster, vm, to, &fit, &obstacle) != VG_CONSTRAINT_NONE)
            continue;
        vg_move_evaluate(cluster, vm, to, &fit, &one);
        if (!found || one.net > move.net + TIE)
            move = one;
        found = true;
    }
    const struct vg_claim claim = found ? vg_gate_claim(cluster, &move) : (struct vg_claim){0};
    if (!found || vg_gate_gain(cluster, &claim, &reason))
        return;
    g_autofree char *text = vg_move_text(cluster, &move);
    vg_plan_add_why(state->plan, "the best other move is to %s: %s", text, reason);
}

/* Notes why the search ended. */
static void
complement_conclude(struct complement *state)
{
    vg_cluster *cluster = state->cluster;
    vg_plan *plan = state->plan;

    if (plan->actions->len > 0)
        plan->verdict = VG_PLAN_CHANGES;
    else if (state->n_held > 0 && !state->found.any_allowed)
        plan->verdict = VG_PLAN_INFEASIBLE;
    else
        plan->verdict = VG_PLAN_NOTHING_TO_DO;

    if (cluster->n_hosts == 0)
        vg_plan_add_why(plan, "the snapshot contains no hosts");
    if (cluster->n_hosts == 1 && state->n_held > 0)
        vg_plan_add_why(plan, "the snapshot contains no other hosts");
    if (state->n_held > 0 &&
        (int64_t)plan->actions->len >= vg_policy_max_moves(cluster->config, cluster->n_hosts)) {
        vg_plan_add_why(plan, "the plan has %u moves, which is the limit", plan->actions->len);
        if (state->found.n_more > 0)
            vg_plan_add_why(plan, "%zu further moves would gain %.2f cores after their cost",
                            state->found.n_more, state->found.more_cores);
    }
    complement_describe_failed(state);
    complement_find_obstacles(state);
    for (guint i = 0; i < state->why->len; i++)
        vg_plan_add_why(plan, "%s", (const char *)state->why->pdata[i]);
    vg_plan_drop_whys(plan, state->n_why_dropped);
}

/* Notes idle CPUs on the same host, which are nearer than another host. */
static void
add_spread_notes(const vg_cluster *cluster, vg_plan *plan)
{
    for (size_t host = 0; host < cluster->n_hosts; host++) {
        double lost = vg_predict_host(cluster, host).cpu;
        double spread = vg_predict_spread(cluster, host);
        if (lost - spread >= cluster->config->contention_threshold && lost - spread > TIE)
            vg_plan_add_note(plan,
                             "on host '%s', %.2f of the %.2f lost cores could be recovered without "
                             "a migration because the VMs use only some of the host's %.0f CPUs",
                             cluster->hosts[host].host->name, lost - spread, lost,
                             cluster->hosts[host].floating.capacity);
    }
}

void
vg_rule_complement(vg_cluster *cluster, vg_plan *plan)
{
    g_autoptr(GPtrArray) why = g_ptr_array_new_with_free_func(g_free);
    g_autofree bool *held = g_new0(bool, cluster->n_hosts + 1);
    struct complement state = {.cluster = cluster, .plan = plan, .held = held, .why = why};

    add_spread_notes(cluster, plan);
    complement_find_held(&state);
    if (state.n_held > 0)
        vg_search(cluster, held, vg_policy_max_moves(cluster->config, cluster->n_hosts),
                  &state.found);
    for (guint i = 0; state.found.groups && i < state.found.groups->len; i++)
        complement_commit(&state, &g_array_index(state.found.groups, struct vg_group, i));
    complement_conclude(&state);
    if (state.n_held > 0)
        vg_found_clear(&state.found);
}
