/* SPDX-License-Identifier: Apache-2.0
 *
 * Best-first greedy: of all allowed moves off contended hosts that win enough take the one with the
 * best net gain, with it done look again, until nothing passes the gates or the plan is full.
 *
 * VMs are tried in the order of what moving them could win at most, so that the search ends where
 * no VM left could displace the runner-up: of a large cluster few are tried on all hosts.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "policy/constraints.h"
#include "policy/gates.h"
#include "policy/rule.h"

/* Net gains are compared in units of 1 us/s: within one they are equal and the names decide. */
#define TIE      1e-6
#define RANK_MAX 1e15

/* A VM that may move, and what its move wins at most. */
struct candidate {
    size_t vm;
    int64_t bound; /* rank */
};

struct search {
    vg_cluster *cluster;
    GArray *candidates; /* struct candidate, best bound first */
    size_t n_best;      /* 0..2: best, runner-up */
    struct vg_move best[2];
    size_t n_held;         /* contended hosts that passed the hold gate */
    size_t n_allowed;      /* moves that no constraint forbids */
    bool has_failed;       /* some of these did not win enough: */
    struct vg_move failed; /* the best of them */
    GPtrArray *why;        /* char *: obstacles met in this pass */
    uint64_t n_why_dropped;
};

static int64_t
rank_of(double net)
{
    return llround(CLAMP(net / TIE, -RANK_MAX, RANK_MAX));
}

/* A total order, so that the result does not depend on the order of the search: hosts and VMs are
 * numbered by name. */
static bool
is_better(const struct vg_move *a, const struct vg_move *b)
{
    int64_t more = rank_of(a->net) - rank_of(b->net);
    if (more != 0)
        return more > 0;
    return a->vm != b->vm ? a->vm < b->vm : a->to < b->to;
}

/* Best bound first. */
static int
by_bound(const void *a, const void *b)
{
    const struct candidate *x = a;
    const struct candidate *y = b;
    if (x->bound != y->bound)
        return x->bound > y->bound ? -1 : 1;
    return x->vm < y->vm ? -1 : 1;
}

static void
keep_best(struct search *search, const struct vg_move *move)
{
    if (search->n_best > 0 && !is_better(move, &search->best[0])) {
        if (search->n_best < 2 || is_better(move, &search->best[1]))
            search->best[1] = *move;
        search->n_best = 2;
        return;
    }
    search->best[1] = search->best[0];
    search->best[0] = *move;
    search->n_best = MIN(search->n_best + 1, 2);
}

/* Each sentence once; those beyond what a plan keeps are counted only: there may be one per VM and
 * host. */
static void
add_why(struct search *search, char *take_reason)
{
    for (guint i = 0; i < search->why->len; i++) {
        if (strcmp(search->why->pdata[i], take_reason) == 0) {
            g_free(take_reason);
            return;
        }
    }
    if (search->why->len < VG_PLAN_WHY_MAX) {
        g_ptr_array_add(search->why, take_reason);
        return;
    }
    g_free(take_reason);
    search->n_why_dropped++;
}

/* ret_reason may be NULL. */
static bool
wins_enough(const struct search *search, const struct vg_move *move, char **ret_reason)
{
    return vg_gate_gain(search->cluster, move, vg_move_most(search->cluster, move), ret_reason);
}

/* The gate comes before the choice: what one host loses must not decide about the moves of the
 * others. */
static void
consider(struct search *search, const struct vg_move *move)
{
    if (wins_enough(search, move, NULL)) {
        keep_best(search, move);
    } else if (!search->has_failed || is_better(move, &search->failed)) {
        search->failed = *move;
        search->has_failed = true;
    }
}

/* Cannot a move that wins no more than this change the result? The bound may be a rounding error
 * too low. */
static bool
is_beaten(const struct search *search, int64_t bound)
{
    return search->n_best == 2 && bound + 1 < rank_of(search->best[1].net);
}

static void
try_targets(struct search *search, size_t vm)
{
    vg_cluster *cluster = search->cluster;
    struct vg_move half;
    vg_move_begin(cluster, vm, &half);
    /* Where even the bound does not win enough, one move is told of as an example. */
    bool is_hopeless = !wins_enough(search, &half, NULL);
    for (size_t to = 0; to < cluster->n_hosts; to++) {
        struct vg_fit fit;
        char *reason = NULL;
        if (to == half.from || vg_constraints_moves(cluster, to, NULL) != VG_CONSTRAINT_NONE)
            continue;
        if (vg_constraints_host(cluster, vm, to, &fit, &reason) != VG_CONSTRAINT_NONE) {
            add_why(search, reason);
            continue;
        }
        search->n_allowed++;
        if (is_hopeless && search->has_failed &&
            rank_of(half.net) + 1 < rank_of(search->failed.net))
            return;
        struct vg_move move = half;
        vg_move_finish(cluster, to, &fit, &move);
        consider(search, &move);
    }
}

/* The hosts that take part in no further move. */
static void
add_limits(struct search *search)
{
    for (size_t host = 0; host < search->cluster->n_hosts; host++) {
        char *reason = NULL;
        if (vg_constraints_moves(search->cluster, host, &reason) != VG_CONSTRAINT_NONE)
            add_why(search, reason);
    }
}

/* Why the host's VMs should move, and which of them may. */
static void
look_at_host(struct search *search, size_t host)
{
    vg_cluster *cluster = search->cluster;
    struct vg_contention contention;
    vg_gate_contention(cluster, host, &contention);
    add_why(search, g_steal_pointer(&contention.what));
    if (!contention.held)
        return;
    search->n_held++;
    if (vg_constraints_moves(cluster, host, NULL) != VG_CONSTRAINT_NONE)
        return;
    const GArray *vms = cluster->hosts[host].vms;
    for (guint i = 0; i < vms->len; i++) {
        size_t vm = g_array_index(vms, size_t, i);
        char *reason = NULL;
        if (vg_constraints_vm(cluster, vm, &reason) != VG_CONSTRAINT_NONE) {
            add_why(search, reason);
            continue;
        }
        struct vg_move half;
        vg_move_begin(cluster, vm, &half);
        const struct candidate candidate = {vm, rank_of(half.net)};
        g_array_append_val(search->candidates, candidate);
    }
}

static void
search_clear(struct search *search)
{
    if (search->why)
        g_ptr_array_free(search->why, TRUE);
    if (search->candidates)
        g_array_unref(search->candidates);
    *search = (struct search){.cluster = search->cluster};
}

static void
search_run(struct search *search)
{
    search_clear(search);
    search->why = g_ptr_array_new_with_free_func(g_free);
    search->candidates = g_array_new(FALSE, FALSE, sizeof(struct candidate));
    add_limits(search);
    for (size_t host = 0; host < search->cluster->n_hosts; host++)
        look_at_host(search, host);
    g_array_sort(search->candidates, by_bound);
    for (guint i = 0; i < search->candidates->len; i++) {
        const struct candidate *candidate = &g_array_index(search->candidates, struct candidate, i);
        if (is_beaten(search, candidate->bound))
            break;
        try_targets(search, candidate->vm);
    }
}

/* What is wrong on the host that the VM leaves: its worst place, and all places together where
 * others lose something, too. */
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

/* Tells what the VMs of the host want, and where some keep to a part of its CPUs, what they leave
 * to a newcomer. */
static void
describe_target(const vg_cluster *cluster, size_t to, GString *text)
{
    const struct vg_host_state *host = &cluster->hosts[to];
    const double floating = vg_load_mean(cluster, &host->floating) - host->floating.own;
    g_autofree char *kept = vg_host_kept_text(host);
    double wanted = 0;

    g_string_append_printf(text, "host '%s' has %.0f CPUs", host->host->name,
                           host->floating.capacity);
    if (!kept) {
        g_string_append_printf(text, ", of which its VMs want %.2f", floating);
        return;
    }
    for (guint p = 0; p < host->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        wanted += vg_load_mean(cluster, pool) - pool->own;
    }
    g_string_append_printf(text, ": VMs that keep to %s want %.2f cores there and leave %.2f CPUs",
                           kept, wanted, vg_predict_left(cluster, to));
    if (floating >= VG_GATE_SHOWN)
        g_string_append_printf(text, ", of which others want %.2f", floating);
}

/* To be asked before the move is carried out. */
static char *
rule_complement_describe(const vg_cluster *cluster, const struct vg_move *move)
{
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    const double own = vg_host_own(&cluster->hosts[move->to]);
    GString *text = g_string_new("");

    describe_loss(cluster, move, text);
    g_string_append_printf(text, ". VM '%s' wants %.2f cores; ", vm->name, vg_snap_vm_demand(vm));
    describe_target(cluster, move->to, text);
    if (own >= VG_GATE_SHOWN)
        g_string_append_printf(text, " and it uses %.2f itself", own);
    g_string_append_printf(text, ", so moving it there wins %.2f cores", move->gain.cpu);
    if (move->gain.gpu > TIE || move->gain.gpu < -TIE)
        g_string_append_printf(text, " and %.2f GPU engines", move->gain.gpu);
    g_string_append_printf(text, " at a cost of %.3f.", move->cost_cores);
    return g_string_free(text, FALSE);
}

/* The second best move, or if only one passed the gate the best that did not. To be asked before
 * the move is carried out. */
static void
find_runner_up(const struct search *search, struct vg_plan_runner_up *runner_up)
{
    const vg_cluster *cluster = search->cluster;
    const struct vg_move *best = &search->best[0];
    const struct vg_move *other = search->n_best > 1 ? &search->best[1] : &search->failed;

    if (search->n_best < 2 && !search->has_failed)
        return;
    runner_up->what = vg_move_text(cluster, other);
    runner_up->gain = vg_gain_of(other->gain);
    if (search->n_best < 2)
        wins_enough(search, other, &runner_up->why);
    else if (rank_of(other->net) < rank_of(best->net))
        runner_up->why = g_strdup_printf("after its cost it wins %.3f cores less (%.3f, not %.3f)",
                                         best->net - other->net, other->net, best->net);
    else if (other->vm != best->vm)
        runner_up->why = g_strdup_printf("it wins the same; VM '%s' comes first by name",
                                         cluster->vms[best->vm].vm->name);
    else
        runner_up->why = g_strdup_printf("it wins the same; host '%s' comes first by name",
                                         cluster->hosts[best->to].host->name);
}

static void
commit(struct search *search, vg_plan *plan)
{
    vg_cluster *cluster = search->cluster;
    char *text = rule_complement_describe(cluster, &search->best[0]);
    struct vg_plan_runner_up runner_up = {0};
    find_runner_up(search, &runner_up);
    struct vg_plan_action *action =
        vg_move_commit(cluster, &search->best[0], vg_rule_names[VG_RULE_COMPLEMENT], plan);
    action->reason.text = text;
    action->runner_up = runner_up;
}

/* Why the search ended. */
static void
conclude(const struct search *search, vg_plan *plan)
{
    vg_cluster *cluster = search->cluster;

    if (plan->actions->len > 0)
        plan->verdict = VG_PLAN_CHANGES;
    else if (search->n_held > 0 && search->n_allowed == 0)
        plan->verdict = VG_PLAN_INFEASIBLE;
    else
        plan->verdict = VG_PLAN_NOTHING_TO_DO;

    if (cluster->n_hosts == 0)
        vg_plan_add_why(plan, "there is no host in the snapshot");
    if (cluster->n_hosts == 1 && search->n_held > 0)
        vg_plan_add_why(plan, "there is no other host in the snapshot");
    if (search->n_best == 0 && search->has_failed) {
        g_autofree char *move = vg_move_text(cluster, &search->failed);
        g_autofree char *reason = NULL;
        wins_enough(search, &search->failed, &reason);
        vg_plan_add_why(plan, "the best other move is to %s: %s", move, reason);
    }
    for (guint i = 0; i < search->why->len; i++)
        vg_plan_add_why(plan, "%s", (const char *)search->why->pdata[i]);
    vg_plan_drop_whys(plan, search->n_why_dropped);
}

/* CPUs that stand idle on the host itself are nearer than another host. */
static void
add_spread_notes(const vg_cluster *cluster, vg_plan *plan)
{
    for (size_t host = 0; host < cluster->n_hosts; host++) {
        double lost = vg_predict_host(cluster, host).cpu;
        double spread = vg_predict_spread(cluster, host);
        if (lost - spread >= cluster->config->contention_threshold && lost - spread > TIE)
            vg_plan_add_note(plan,
                             "on host '%s' %.2f of the %.2f cores lost could be had without a "
                             "migration: its VMs use only some of its %.0f CPUs",
                             cluster->hosts[host].host->name, lost - spread, lost,
                             cluster->hosts[host].floating.capacity);
    }
}

void
vg_rule_complement(vg_cluster *cluster, vg_plan *plan)
{
    struct search search = {.cluster = cluster};

    add_spread_notes(cluster, plan);
    search_run(&search);
    while ((int64_t)plan->actions->len < cluster->config->max_moves && search.n_best > 0) {
        commit(&search, plan);
        search_run(&search);
    }
    if (search.n_held > 0 && (int64_t)plan->actions->len >= cluster->config->max_moves)
        vg_plan_add_why(plan, "the plan has %u moves, the most it may", plan->actions->len);
    conclude(&search, plan);
    search_clear(&search);
}
