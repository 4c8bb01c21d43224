/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "policy/cluster-private.h"
#include "policy/constraints.h"
#include "policy/free-up.h"

/* Prices in cores that differ by less are equal. */
#define SAME 1e-9

/* The maximum number of targets tried for one VM. In small clusters, this is all of them. */
#define TARGETS_MAX 6u

/* The maximum number of VMs of one host that make space for another VM. */
#define PUSHED_MAX 3u

/* The maximum number of checked constraints and tried sets of VMs. */
#define WORK_MAX 200000u

/* A VM that may leave the host. */
struct free_up_candidate {
    size_t vm;
    double cost;
};

/* A host, and the lowest cost at which enough VMs leave it. */
struct free_up_bound {
    size_t host;
    double cost;
};

struct free_up_finder {
    vg_cluster *cluster;
    const struct free_up_want *want;
    size_t host;
    GArray *candidates;    /* struct free_up_candidate, the cheapest first */
    struct vg_card *cards; /* the host's, without the chosen VMs */
    size_t n_chosen;
    size_t chosen[VG_GROUP_MAX];
    double chosen_cost, pushed_cost;
    size_t n_moves; /* number of moves carried out in the cluster */
    struct vg_move moves[VG_GROUP_MAX];
    bool bound_only; /* compute only the bound */
    double bound;
    bool found;
    double price;
    struct free_up_group *ret;
    size_t work;
};

int64_t
free_up_count(const struct vg_card *cards, size_t n_gpus, const struct free_up_want *want)
{
    int64_t n = 0;

    for (size_t g = 0; g < n_gpus && n < want->n; g++) {
        struct vg_card card;
        vg_card_copy(&cards[g], &card);
        while (n < want->n && vg_card_room(&card, want->type, want->bytes) > 0 &&
               vg_card_has_memory(&card, want->type, want->bytes)) {
            vg_card_put(&card, want->type, want->bytes, 1);
            n++;
        }
        vg_card_clear(&card);
    }
    return n;
}

bool
free_up_is_offered(const struct vg_host_state *host, const struct free_up_want *want)
{
    for (guint g = 0; g < host->host->gpus->len; g++) {
        if (vg_card_room(&host->cards[g], want->type, want->bytes) >= 0)
            return true;
    }
    return false;
}

bool
free_up_concerns(const vg_cluster *cluster, size_t vm, const struct free_up_want *want)
{
    const struct vg_vm_state *state = &cluster->vms[vm];
    const struct vg_host_state *host = &cluster->hosts[state->home];

    for (guint u = 0; u < state->vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = state->vm->gpu->pdata[u];
        for (guint g = 0; g < host->host->gpus->len; g++) {
            const struct vg_snap_gpu *gpu = host->host->gpus->pdata[g];
            if (strcmp(gpu->device, use->device) == 0 &&
                vg_card_room(&host->cards[g], want->type, want->bytes) >= 0)
                return true;
        }
    }
    return false;
}

/* ---- moves ---- */

static double
free_up_limit(const struct free_up_finder *finder)
{
    if (finder->bound_only)
        return finder->bound - SAME;
    return finder->found ? finder->price - SAME : HUGE_VAL;
}

static void
free_up_apply(struct free_up_finder *finder, const struct vg_move *move)
{
    finder->moves[finder->n_moves++] = *move;
    vg_cluster_move(finder->cluster, move->vm, move->to, &move->fit);
}

static void
free_up_take_back(struct free_up_finder *finder)
{
    const struct vg_move *move = &finder->moves[--finder->n_moves];

    vg_cluster_move_back(finder->cluster, move->vm, &move->fit);
}

/* Finds the targets with the smallest losses, the best first. `avoid` is not a target. Returns
 * their number. */
static size_t
free_up_find_targets(struct free_up_finder *finder, size_t vm, size_t avoid,
                     struct vg_move ret[TARGETS_MAX])
{
    const vg_cluster *cluster = finder->cluster;
    struct vg_move half;
    size_t n = 0;

    vg_move_begin(cluster, vm, &half);
    for (size_t to = 0; to < cluster->n_hosts && finder->work < WORK_MAX; to++) {
        g_autofree char *reason = NULL;
        struct vg_move move = half;
        struct vg_fit fit;
        finder->work++;
        if (to == avoid ||
            vg_constraints_host(cluster, vm, to, &fit, &reason) != VG_CONSTRAINT_NONE)
            continue;
        vg_move_finish(cluster, to, &fit, &move);
        size_t at = MIN(n, TARGETS_MAX - 1);
        if (n == TARGETS_MAX && ret[at].net >= move.net - SAME)
            continue;
        for (; at > 0 && ret[at - 1].net < move.net - SAME; at--)
            ret[at] = ret[at - 1];
        ret[at] = move;
        n = MIN(n + 1, TARGETS_MAX);
    }
    return n;
}

/* Keeps the group if it is the cheapest so far. All chosen VMs have targets. */
static void
free_up_keep(struct free_up_finder *finder)
{
    const struct vg_host_state *host = &finder->cluster->hosts[finder->host];
    struct free_up_group group = {.host = finder->host, .n = finder->n_moves};

    if (free_up_count(host->cards, host->host->gpus->len, finder->want) < finder->want->n)
        return;
    for (size_t i = 0; i < finder->n_moves; i++) {
        group.moves[i] = finder->moves[i];
        group.gain += finder->moves[i].weighed;
        group.cost += finder->moves[i].cost_cores;
    }
    const double price = group.cost + MAX(-group.gain, 0);
    if (finder->found && price >= finder->price - SAME)
        return;
    finder->found = true;
    finder->price = price;
    *finder->ret = group;
}

static bool
free_up_share_name(const vg_cluster *cluster, size_t a, size_t b)
{
    return cluster->vms[a].name_number != 0 &&
           cluster->vms[a].name_number == cluster->vms[b].name_number;
}

static void free_up_place(struct free_up_finder *finder, size_t index);
static void free_up_push(struct free_up_finder *finder, size_t index, size_t to, guint first,
                         size_t n_left);

/* Tries a chosen VM on a host from which other VMs were moved for it. If it still does not fit,
 * moves more of them. */
static void
free_up_enter(struct free_up_finder *finder, size_t index, size_t to, guint next, size_t n_left)
{
    const size_t vm = finder->chosen[index];
    g_autofree char *reason = NULL;
    struct vg_move move;
    struct vg_fit fit;

    if (vg_constraints_host(finder->cluster, vm, to, &fit, &reason) == VG_CONSTRAINT_NONE) {
        vg_move_evaluate(finder->cluster, vm, to, &fit, &move);
        free_up_apply(finder, &move);
        free_up_place(finder, index + 1);
        free_up_take_back(finder);
    } else if (n_left > 0) {
        free_up_push(finder, index, to, next, n_left);
    }
}

/* Moves VMs off a host, starting at index `first`, until a chosen VM fits there. */
static void
free_up_push(struct free_up_finder *finder, size_t index, size_t to, guint first, size_t n_left)
{
    const vg_cluster *cluster = finder->cluster;
    const GArray *vms = cluster->hosts[to].vms;
    const size_t chosen = finder->chosen[index];

    for (guint i = first; i < vms->len && finder->work < WORK_MAX; i++) {
        const size_t vm = g_array_index(vms, size_t, i);
        struct vg_move targets[TARGETS_MAX];
        g_autofree char *reason = NULL;
        if ((cluster->vms[vm].vm->gpu->len == 0 && !free_up_share_name(cluster, vm, chosen)) ||
            finder->n_moves + finder->n_chosen - index + 1 > VG_GROUP_MAX ||
            vg_constraints_vm(cluster, vm, &reason) != VG_CONSTRAINT_NONE)
            continue;
        const size_t n = free_up_find_targets(finder, vm, to, targets);
        for (size_t k = 0; k < n; k++) {
            const double cost = targets[k].cost_cores;
            if (finder->chosen_cost + finder->pushed_cost + cost >= free_up_limit(finder))
                break;
            free_up_apply(finder, &targets[k]);
            finder->pushed_cost += cost;
            /* The VM has left the list, so the next one has its index. */
            free_up_enter(finder, index, to, i, n_left - 1);
            finder->pushed_cost -= cost;
            free_up_take_back(finder);
        }
    }
}

/* Tries the targets of the chosen VMs from `index` on. */
static void
free_up_place(struct free_up_finder *finder, size_t index)
{
    struct vg_move targets[TARGETS_MAX];

    if (index == finder->n_chosen) {
        free_up_keep(finder);
        return;
    }
    if (finder->n_moves == VG_GROUP_MAX ||
        finder->chosen_cost + finder->pushed_cost >= free_up_limit(finder))
        return;
    const size_t vm = finder->chosen[index];
    const size_t n = free_up_find_targets(finder, vm, finder->host, targets);
    for (size_t i = 0; i < n; i++) {
        free_up_apply(finder, &targets[i]);
        free_up_place(finder, index + 1);
        free_up_take_back(finder);
    }
    for (size_t to = 0; n == 0 && to < finder->cluster->n_hosts; to++) {
        if (to != finder->host && !finder->cluster->hosts[to].host->maintenance)
            free_up_push(finder, index, to, 0, PUSHED_MAX);
    }
}

/* ---- sets of VMs ---- */

/* Removes a candidate from the cards (sign 1), or puts it back (sign -1). */
static void
free_up_leave(struct free_up_finder *finder, guint index, int sign)
{
    const vg_cluster *cluster = finder->cluster;
    const size_t vm = g_array_index(finder->candidates, struct free_up_candidate, index).vm;

    cluster_leave_gpus(cluster, &cluster->hosts[finder->host], cluster->vms[vm].vm, finder->cards,
                       sign);
}

static bool
free_up_is_enough(const struct free_up_finder *finder)
{
    const size_t n_gpus = finder->cluster->hosts[finder->host].host->gpus->len;

    return free_up_count(finder->cards, n_gpus, finder->want) >= finder->want->n;
}

/* Returns whether it is enough if all candidates from `first` on also leave. */
static bool
free_up_can_be_enough(struct free_up_finder *finder, guint first)
{
    for (guint i = first; i < finder->candidates->len; i++)
        free_up_leave(finder, i, 1);
    const bool enough = free_up_is_enough(finder);
    for (guint i = first; i < finder->candidates->len; i++)
        free_up_leave(finder, i, -1);
    return enough;
}

/* Tries the sets of candidates with the chosen VMs and any later candidates, from `index` on. */
static void
free_up_choose(struct free_up_finder *finder, guint index)
{
    if (free_up_is_enough(finder)) {
        if (finder->bound_only)
            finder->bound = MIN(finder->bound, finder->chosen_cost);
        else
            free_up_place(finder, 0);
        return;
    }
    if (finder->n_chosen == VG_GROUP_MAX || index == finder->candidates->len ||
        ++finder->work > WORK_MAX || !free_up_can_be_enough(finder, index))
        return;
    const struct free_up_candidate candidate =
        g_array_index(finder->candidates, struct free_up_candidate, index);
    if (finder->chosen_cost + candidate.cost < free_up_limit(finder)) {
        finder->chosen[finder->n_chosen++] = candidate.vm;
        finder->chosen_cost += candidate.cost;
        free_up_leave(finder, index, 1);
        free_up_choose(finder, index + 1);
        free_up_leave(finder, index, -1);
        finder->chosen_cost -= candidate.cost;
        finder->n_chosen--;
    }
    free_up_choose(finder, index + 1);
}

static int
free_up_compare_candidates(const void *a, const void *b)
{
    const struct free_up_candidate *x = a, *y = b;

    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->vm < y->vm ? -1 : 1;
}

static int
free_up_compare_bounds(const void *a, const void *b)
{
    const struct free_up_bound *x = a, *y = b;

    if (x->cost < y->cost || x->cost > y->cost)
        return x->cost < y->cost ? -1 : 1;
    return x->host < y->host ? -1 : 1;
}

/* Tries all sets of VMs of a host. */
static void
free_up_try_host(struct free_up_finder *finder, size_t host, bool bound_only)
{
    const vg_cluster *cluster = finder->cluster;
    const struct vg_host_state *state = &cluster->hosts[host];
    const size_t n_gpus = state->host->gpus->len;
    g_autoptr(GArray) candidates = g_array_new(FALSE, FALSE, sizeof(struct free_up_candidate));
    g_autofree struct vg_card *cards = g_new0(struct vg_card, n_gpus);

    for (guint i = 0; i < state->vms->len; i++) {
        g_autofree char *reason = NULL;
        struct free_up_candidate candidate = {.vm = g_array_index(state->vms, size_t, i)};
        struct vg_plan_cost cost;
        if (!free_up_concerns(cluster, candidate.vm, finder->want) ||
            vg_constraints_vm(cluster, candidate.vm, &reason) != VG_CONSTRAINT_NONE)
            continue;
        vg_predict_cost(cluster, candidate.vm, &cost);
        candidate.cost = vg_cost_cores(cluster->config, &cost);
        g_array_append_val(candidates, candidate);
    }
    g_array_sort(candidates, free_up_compare_candidates);
    for (size_t g = 0; g < n_gpus; g++)
        vg_card_copy(&state->cards[g], &cards[g]);
    finder->host = host;
    finder->candidates = candidates;
    finder->cards = cards;
    finder->bound_only = bound_only;
    finder->bound = HUGE_VAL;
    free_up_choose(finder, 0);
    for (size_t g = 0; g < n_gpus; g++)
        vg_card_clear(&cards[g]);
}

bool
free_up_search(vg_cluster *cluster, const struct free_up_want *want, struct free_up_group *ret,
               bool *ret_cut)
{
    struct free_up_finder finder = {.cluster = cluster, .want = want, .ret = ret};
    g_autoptr(GArray) bounds = g_array_new(FALSE, FALSE, sizeof(struct free_up_bound));

    for (size_t host = 0; host < cluster->n_hosts; host++) {
        if (cluster->hosts[host].host->maintenance ||
            !free_up_is_offered(&cluster->hosts[host], want))
            continue;
        free_up_try_host(&finder, host, true);
        const struct free_up_bound bound = {host, finder.bound};
        if (isfinite(bound.cost))
            g_array_append_val(bounds, bound);
    }
    g_array_sort(bounds, free_up_compare_bounds);
    finder.work = 0;
    for (guint i = 0; i < bounds->len && finder.work < WORK_MAX; i++) {
        const struct free_up_bound *bound = &g_array_index(bounds, struct free_up_bound, i);
        if (finder.found && bound->cost >= finder.price - SAME)
            break;
        free_up_try_host(&finder, bound->host, false);
    }
    *ret_cut = finder.work >= WORK_MAX;
    return finder.found;
}
