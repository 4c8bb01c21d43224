/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule of Belkhiri & Dagenais 2024. "Largest majority" is read as in a vote: the number of
 * GPU-intensive VMs of a host minus the number of its others, which must be positive.
 */
#include "config.h"

#include <string.h>

#include "policy/constraints.h"
#include "policy/gates.h"
#include "policy/rule.h"

/* VMs with bad data are in neither number, because their class is unknown. */
struct majority {
    int64_t gpu;
    int64_t all;
};

static struct majority
majority_of(const vg_cluster *cluster, size_t host)
{
    struct majority majority = {0};
    const GArray *vms = cluster->hosts[host].vms;
    for (guint i = 0; i < vms->len; i++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(vms, size_t, i)];
        majority.gpu += !vm->problem && vm->vm->vm_class == VG_CLASS_GPU;
        majority.all += !vm->problem;
    }
    return majority;
}

/* Returns the number of GPU-intensive VMs minus the rest. */
static int64_t
margin(struct majority majority)
{
    return majority.gpu - (majority.all - majority.gpu);
}

static bool
is_over_threshold(const vg_cluster *cluster, const struct vg_vm_state *vm)
{
    return !vm->problem && vm->vm->vm_class == VG_CLASS_CPU &&
           vg_snap_vm_preemptions(vm->vm) > cluster->config->preempt_threshold;
}

static char *
describe_preemptions(const vg_cluster *cluster, const struct vg_snap_vm *vm, bool over)
{
    g_autofree char *often = NULL;
    g_autofree char *threshold = NULL;
    vg_gate_figures(vg_snap_vm_preemptions(vm), cluster->config->preempt_threshold, 1, &often,
                    &threshold);
    return g_strdup_printf("VM '%s' is CPU-intensive (%.2f) and is preempted %s times per second, "
                           "%smore than %s",
                           vm->name, vm->cpu_intensity, often, over ? "" : "not ", threshold);
}

bool
vg_paper_judge_vm(const vg_cluster *cluster, size_t vm, char **ret_reason)
{
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;
    bool over = is_over_threshold(cluster, &cluster->vms[vm]);
    if (snap->vm_class != VG_CLASS_CPU)
        *ret_reason = g_strdup_printf("VM '%s' has class %s; the rule moves only class cpu",
                                      snap->name, vg_vm_class_names[snap->vm_class]);
    else
        *ret_reason = describe_preemptions(cluster, snap, over);
    return over;
}

int64_t
vg_paper_judge_host(const vg_cluster *cluster, size_t host, char **ret_reason)
{
    struct majority majority = majority_of(cluster, host);
    *ret_reason = g_strdup_printf(
        "host '%s' has %s majority of GPU-intensive VMs: %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT,
        cluster->hosts[host].host->name, margin(majority) > 0 ? "a" : "no", majority.gpu,
        majority.all);
    return margin(majority);
}

/* Reasons why no VM, or no further one, is moved. */
struct obstacles {
    GPtrArray *why; /* char *, each sentence once */
    bool forbidden; /* a host had a majority, but the move is forbidden */
};

static void
add_obstacle(GPtrArray *why, const char *reason)
{
    for (guint i = 0; i < why->len; i++) {
        if (strcmp(why->pdata[i], reason) == 0)
            return;
    }
    g_ptr_array_add(why, g_strdup(reason));
}

static bool
has_majority_elsewhere(const vg_cluster *cluster, size_t vm)
{
    for (size_t host = 0; host < cluster->n_hosts; host++) {
        if (host != cluster->vms[vm].host && margin(majority_of(cluster, host)) > 0)
            return true;
    }
    return false;
}

/* Finds the allowed host with the largest majority, or n_hosts if there is none. *ret_second is the
 * next best one. Adds obstacles and hosts without a majority to why. */
static size_t
choose_target(const vg_cluster *cluster, size_t vm, struct vg_fit *ret_fit, size_t *ret_second,
              GPtrArray *why)
{
    size_t best = cluster->n_hosts;
    size_t second = cluster->n_hosts;
    char *reason = NULL;
    *ret_second = second;
    if (vg_constraints_moves(cluster, cluster->vms[vm].host, &reason) != VG_CONSTRAINT_NONE) {
        g_ptr_array_add(why, reason);
        return best;
    }
    for (size_t host = 0; host < cluster->n_hosts; host++) {
        struct majority majority = majority_of(cluster, host);
        struct vg_fit fit;
        if (host == cluster->vms[vm].host)
            continue;
        if (vg_paper_judge_host(cluster, host, &reason) <= 0) {
            g_ptr_array_add(why, reason);
            continue;
        }
        g_clear_pointer(&reason, g_free);
        if (vg_constraints_host(cluster, vm, host, &fit, &reason) != VG_CONSTRAINT_NONE ||
            vg_constraints_moves(cluster, host, &reason) != VG_CONSTRAINT_NONE) {
            g_ptr_array_add(why, reason);
            continue;
        }
        if (best == cluster->n_hosts || margin(majority) > margin(majority_of(cluster, best))) {
            second = best;
            best = host;
            *ret_fit = fit;
        } else if (second == cluster->n_hosts ||
                   margin(majority) > margin(majority_of(cluster, second))) {
            second = host;
        }
    }
    *ret_second = second;
    return best;
}

/* Compares two VMs over the threshold: the one with more preemptions first, then by name. */
static int
by_preemptions(const void *a, const void *b, void *data)
{
    const vg_cluster *cluster = data;
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;
    double left = vg_snap_vm_preemptions(cluster->vms[x].vm);
    double right = vg_snap_vm_preemptions(cluster->vms[y].vm);
    if (left > right || left < right)
        return left > right ? -1 : 1;
    return (x > y) - (x < y);
}

static GArray *
find_victims(vg_cluster *cluster)
{
    GArray *victims = g_array_new(FALSE, FALSE, sizeof(size_t));
    for (size_t i = 0; i < cluster->n_vms; i++) {
        if (is_over_threshold(cluster, &cluster->vms[i]))
            g_array_append_val(victims, i);
    }
    g_array_sort_with_data(victims, by_preemptions, cluster);
    return victims;
}

static void
add_runner_up(const vg_cluster *cluster, size_t vm, size_t second, struct majority winner,
              struct vg_plan_runner_up *ret)
{
    struct vg_fit fit;
    struct vg_move move;
    char *reason = NULL;
    if (second == cluster->n_hosts ||
        vg_constraints_host(cluster, vm, second, &fit, &reason) != VG_CONSTRAINT_NONE) {
        g_free(reason);
        return;
    }
    struct majority majority = majority_of(cluster, second);
    vg_move_evaluate(cluster, vm, second, &fit, &move);
    ret->what = vg_move_text(cluster, &move);
    ret->gain = vg_gain_of(move.gain);
    ret->why = g_strdup_printf("its majority of GPU-intensive VMs is %s: %" G_GINT64_FORMAT
                               " of %" G_GINT64_FORMAT ", against %" G_GINT64_FORMAT
                               " of %" G_GINT64_FORMAT,
                               margin(majority) < margin(winner)
                                   ? "smaller"
                                   : "the majority is the same, and the host's name comes later",
                               majority.gpu, majority.all, winner.gpu, winner.all);
}

static void
commit(vg_cluster *cluster, size_t vm, size_t target, const struct vg_fit *fit, size_t second,
       vg_plan *plan)
{
    struct majority majority = majority_of(cluster, target);
    struct vg_plan_runner_up runner_up = {0};
    g_autofree char *because = NULL;
    vg_paper_judge_vm(cluster, vm, &because);
    add_runner_up(cluster, vm, second, majority, &runner_up);
    struct vg_move move;
    vg_move_evaluate(cluster, vm, target, fit, &move);
    struct vg_plan_action *action =
        vg_move_commit(cluster, &move, vg_rule_names[VG_RULE_PAPER_THRESHOLD], plan);
    action->runner_up = runner_up;
    action->reason.text = g_strdup_printf(
        "%s. Host '%s' has the largest majority of GPU-intensive VMs: %" G_GINT64_FORMAT
        " of %" G_GINT64_FORMAT ".%s",
        because, cluster->hosts[target].host->name, majority.gpu, majority.all,
        move.net > 0 ? "" : " The contention model does not expect the move to pay off.");
    if (!(move.net > 0))
        vg_plan_add_note(plan,
                         "the contention model does not expect the move of VM '%s' to pay off: the "
                         "move gains %.3f cores, %.3f after its cost",
                         cluster->vms[vm].vm->name, move.weighed, move.net);
    vg_plan_reason_add_input(&action->reason, "vm_cpu_intensity",
                             cluster->vms[vm].vm->cpu_intensity);
    vg_plan_reason_add_input(&action->reason, "preempt_threshold_per_s",
                             cluster->config->preempt_threshold);
    vg_plan_reason_add_input(&action->reason, "to_gpu_intensive_vms", (double)majority.gpu);
    vg_plan_reason_add_input(&action->reason, "to_vms", (double)majority.all);
}

static void
try_victim(vg_cluster *cluster, size_t vm, vg_plan *plan, struct obstacles *obstacles)
{
    g_autoptr(GPtrArray) why = g_ptr_array_new_with_free_func(g_free);
    char *reason = NULL;
    struct vg_fit fit;
    size_t second = 0;
    size_t target = cluster->n_hosts;
    bool wanted = has_majority_elsewhere(cluster, vm);
    if (vg_constraints_vm(cluster, vm, &reason) != VG_CONSTRAINT_NONE)
        g_ptr_array_add(why, reason);
    else
        target = choose_target(cluster, vm, &fit, &second, why);
    if (target < cluster->n_hosts) {
        commit(cluster, vm, target, &fit, second, plan);
        return;
    }
    obstacles->forbidden = obstacles->forbidden || wanted;
    for (guint i = 0; i < why->len; i++)
        add_obstacle(obstacles->why, why->pdata[i]);
}

static void
conclude(const vg_cluster *cluster, const GArray *victims, int64_t limit,
         const struct obstacles *obstacles, vg_plan *plan)
{
    guint n_moves = plan->actions->len;
    plan->verdict = n_moves > 0            ? VG_PLAN_CHANGES
                    : obstacles->forbidden ? VG_PLAN_INFEASIBLE
                                           : VG_PLAN_NOTHING_TO_DO;
    if (cluster->n_hosts == 0)
        vg_plan_add_why(plan, "the snapshot contains no hosts");
    else if (victims->len == 0)
        vg_plan_add_why(plan, "no CPU-intensive VM is preempted more than %.1f times per second",
                        cluster->config->preempt_threshold);
    else if (limit == 0)
        vg_plan_add_why(plan, "the configuration does not allow any moves in a plan");
    else if (cluster->n_hosts == 1)
        vg_plan_add_why(plan, "the snapshot contains no other hosts");
    if (n_moves > 0 && victims->len > n_moves && (int64_t)n_moves >= limit)
        vg_plan_add_why(plan,
                        "%u VMs exceed the threshold, but a plan can have at most %" G_GINT64_FORMAT
                        " move%s",
                        victims->len, limit, limit == 1 ? "" : "s");
    if (n_moves > 0)
        vg_plan_add_note(plan, "paper-threshold does not remember moves: a later plan may move "
                               "these VMs back");
    for (guint i = 0; i < obstacles->why->len; i++)
        vg_plan_add_why(plan, "%s", (const char *)obstacles->why->pdata[i]);
}

void
vg_rule_paper_threshold(vg_cluster *cluster, vg_plan *plan)
{
    g_autoptr(GArray) victims = find_victims(cluster);
    g_autoptr(GPtrArray) why = g_ptr_array_new_with_free_func(g_free);
    struct obstacles obstacles = {.why = why};
    int64_t limit = MIN(cluster->config->paper_max_moves,
                        vg_policy_max_moves(cluster->config, cluster->n_hosts));

    for (guint i = 0; i < victims->len && (int64_t)plan->actions->len < limit; i++)
        try_victim(cluster, g_array_index(victims, size_t, i), plan, &obstacles);
    conclude(cluster, victims, limit, &obstacles, plan);
}
