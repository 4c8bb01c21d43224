/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups: carrying one out in the search, chains, and meetings. A chain starts with a bundle that
 * leaves a host. It goes to a host that another VM leaves for it, and so on, until the last one
 * fits. In a meeting, VMs of several hosts that belong together move to one host.
 */
#include "config.h"

#include <math.h>

#include "policy/gates.h"
#include "policy/search-private.h"

#define CHAIN_MAX 3u

/* The number of hosts that a meeting tries in addition to its VMs' hosts: the most idle ones. */
#define MEETING_HOSTS_MAX 64u

struct chain {
    struct search *search;
    size_t n;
    struct {
        size_t bundle, to;
    } links[CHAIN_MAX]; /* all but the last have a place */
    size_t room;        /* maximum number of moves of the chain */
    uint64_t work_max;
    double best; /* net gain, without the penalties of its hosts */
    double more; /* the maximum loss of a host */
    struct vg_group *ret;
    bool found;
};

/* The gain of a group according to the search. */
struct chain_claim {
    double gain, cost, most, rest;
    int64_t age_ns;
};

static bool
chain_is_worth(const struct search *search, const struct chain_claim *claim)
{
    const struct vg_policy_config *config = search->cluster->config;
    const double net = claim->gain - claim->cost;
    const double margin =
        config->stale_ns > 0 ? 1 + (double)claim->age_ns / (double)config->stale_ns : 1;

    return net > 0 &&
           net >= config->min_gain * margin * vg_gate_rest_margin(claim->rest) - SEARCH_SAME &&
           claim->gain >= MIN(config->min_gain_fraction * margin, 1) * claim->most - SEARCH_SAME;
}

/* ---- groups ---- */

/* Reverses the first n moves of a group. */
static void
chain_undo(struct search *search, const struct vg_group *group, size_t n)
{
    while (n-- > 0) {
        search_out(search, group->moves[n].vm);
        search_in(search, group->moves[n].vm, search->vms[group->moves[n].vm].home);
    }
}

/* Lists the hosts of a group, each once. */
static size_t
chain_hosts(const struct search *search, const struct vg_group *group, size_t *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < 2 * group->n; i++) {
        const size_t host =
            i < group->n ? search->vms[group->moves[i].vm].home : group->moves[i - group->n].to;
        size_t k = 0;
        while (k < n && ret[k] != host)
            k++;
        if (k == n)
            ret[n++] = host;
    }
    return n;
}

static void
chain_claim(const struct search *search, const struct vg_group *group, struct chain_claim *ret,
            bool *ret_held)
{
    size_t hosts[2 * VG_GROUP_MAX];
    const size_t n = chain_hosts(search, group, hosts);
    double lost = 0;

    *ret = (struct chain_claim){0};
    *ret_held = false;
    for (size_t i = 0; i < n; i++) {
        bool left = false;
        for (size_t k = 0; k < group->n; k++)
            left = left || search->vms[group->moves[k].vm].home == hosts[i];
        ret->gain += search->hosts[hosts[i]].lost;
        lost += left ? search->hosts[hosts[i]].lost : 0;
        *ret_held = *ret_held || (left && search->held[hosts[i]]);
        ret->age_ns = MAX(ret->age_ns, search->cluster->hosts[hosts[i]].host->age_ns);
    }
    for (size_t i = 0; i < group->n; i++) {
        ret->cost += search->vms[group->moves[i].vm].cost;
        ret->most += search->vms[group->moves[i].vm].wanted;
        ret->rest = MAX(ret->rest, search->vms[group->moves[i].vm].rest);
    }
    ret->most = MIN(ret->most, lost);
}

/* Sets or clears that the VMs of a group move together. */
static void
chain_set_together(struct search *search, const struct vg_group *group, bool together)
{
    for (size_t i = 0; i < group->n; i++)
        search->vms[group->moves[i].vm].together = together;
}

/* Carries out the moves of a group until one does not fit. Returns the number of moves done.
 * ret_gains receives the gain of each; it may be NULL. */
static size_t
chain_carry_out(struct search *search, const struct vg_group *group, double *ret_gains)
{
    size_t done = 0;

    chain_set_together(search, group, true);
    for (; done < group->n; done++) {
        const size_t vm = group->moves[done].vm, to = group->moves[done].to;
        const struct search_host *hosts = search->hosts;
        const double before = hosts[search->vms[vm].home].lost + hosts[to].lost;
        search_out(search, vm);
        if (!search_fits(search, vm, to)) {
            search_in(search, vm, search->vms[vm].home);
            break;
        }
        search_in(search, vm, to);
        if (ret_gains)
            ret_gains[done] = before - hosts[search->vms[vm].home].lost - hosts[to].lost;
    }
    chain_set_together(search, group, false);
    return done;
}

bool
search_apply(struct search *search, const struct vg_group *group, double *ret_net)
{
    size_t hosts[2 * VG_GROUP_MAX];
    struct chain_claim claim;
    bool held;
    const size_t n = chain_hosts(search, group, hosts);

    for (size_t i = 0; i < group->n; i++) {
        if (search->vms[group->moves[i].vm].host != search->vms[group->moves[i].vm].home)
            return false;
    }
    chain_claim(search, group, &claim, &held);
    const size_t done = held ? chain_carry_out(search, group, NULL) : 0;
    for (size_t i = 0; i < n; i++)
        claim.gain -= search->hosts[hosts[i]].lost;
    if (done < group->n || !chain_is_worth(search, &claim)) {
        chain_undo(search, group, done);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        search->hosts[hosts[i]].moves++;
        search->hosts[hosts[i]].changes++;
    }
    for (size_t i = 0; i < group->n; i++)
        g_array_append_val(search->moved, group->moves[i].vm);
    search->ranks_are_old = true;
    *ret_net = claim.gain - claim.cost;
    return true;
}

void
search_take_back(struct search *search, const struct vg_group *group)
{
    size_t hosts[2 * VG_GROUP_MAX];
    const size_t n = chain_hosts(search, group, hosts);

    chain_undo(search, group, group->n);
    for (size_t i = 0; i < n; i++) {
        search->hosts[hosts[i]].moves--;
        search->hosts[hosts[i]].changes--;
    }
    g_array_set_size(search->moved, search->moved->len - (guint)group->n);
    search->ranks_are_old = true;
}

void
search_reset(struct search *search)
{
    for (guint i = search->moved->len; i-- > 0;) {
        const size_t vm = g_array_index(search->moved, size_t, i);
        search_out(search, vm);
        search_in(search, vm, search->vms[vm].home);
    }
    g_array_set_size(search->moved, 0);
    for (size_t h = 0; h < search->cluster->n_hosts; h++)
        search->hosts[h].moves = search->hosts[h].changes = 0;
    search->ranks_are_old = true;
}

/* ---- the order of moves ---- */

/* The orders of up to CHAIN_MAX parts. */
static const unsigned char chain_orders[][CHAIN_MAX] = {{2, 1, 0}, {1, 0, 2}, {0, 2, 1},
                                                        {1, 2, 0}, {2, 0, 1}, {0, 1, 2}};

/* What a group gains move by move, in one order. */
struct chain_course {
    double gains[VG_GROUP_MAX];
    double total;
    double worst; /* the total after the worst move; at most 0, the state before the first one */
};

/* Finds the course of a group. Returns false if a move does not fit at its turn. */
static bool
chain_find_course(struct search *search, const struct vg_group *group, struct chain_course *ret)
{
    const size_t done = chain_carry_out(search, group, ret->gains);

    chain_undo(search, group, done);
    ret->total = ret->worst = 0;
    for (size_t i = 0; i < done; i++) {
        ret->total += ret->gains[i];
        ret->worst = MIN(ret->worst, ret->total);
    }
    return done == group->n;
}

/* An order is better if it never loses as much, or if its first moves gain more. */
static bool
chain_is_better(const struct chain_course *a, const struct chain_course *b, size_t n)
{
    double lead = 0;

    if (a->total < b->total - SEARCH_SAME)
        return false;
    if (fabs(a->worst - b->worst) > SEARCH_SAME)
        return a->worst > b->worst;
    for (size_t i = 0; i < n; i++) {
        lead += a->gains[i] - b->gains[i];
        if (fabs(lead) > SEARCH_SAME)
            return lead > 0;
    }
    return false;
}

/* Divides a group into single moves or, if these are too many, into the VMs of each bundle. Returns
 * the number of parts, or 0 if these are too many, too. starts[i] is the first move of part i. */
static size_t
chain_divide(const struct search *search, const struct vg_group *group, size_t *starts)
{
    size_t n = 0;

    for (size_t i = 0; i < group->n; i++) {
        if (i > 0 && group->n > CHAIN_MAX &&
            search->vms[group->moves[i].vm].bundle == search->vms[group->moves[i - 1].vm].bundle)
            continue;
        if (n == CHAIN_MAX)
            return 0;
        starts[n++] = i;
    }
    starts[n] = group->n;
    return n;
}

void
search_order(struct search *search, struct vg_group *group)
{
    const struct vg_group given = *group;
    size_t starts[CHAIN_MAX + 1];
    const size_t n = chain_divide(search, group, starts);
    struct chain_course best, course;

    if (n < 2 || !chain_find_course(search, group, &best))
        return;
    for (size_t o = 0; o < G_N_ELEMENTS(chain_orders); o++) {
        struct vg_group other = given;
        other.n = 0;
        for (size_t i = 0; i < CHAIN_MAX; i++) {
            const size_t part = chain_orders[o][i];
            for (size_t k = part < n ? starts[part] : 0; part < n && k < starts[part + 1]; k++)
                other.moves[other.n++] = given.moves[k];
        }
        if (!chain_find_course(search, &other, &course) ||
            !chain_is_better(&course, &best, other.n))
            continue;
        best = course;
        *group = other;
    }
}

/* ---- chains ---- */

static void
chain_append(const struct chain *chain, size_t link, struct vg_group *group)
{
    const struct search_bundle *bundle = &chain->search->bundles[chain->links[link].bundle];

    for (size_t i = 0; i < bundle->n; i++) {
        group->moves[group->n].vm = chain->search->bundle_vms[bundle->first + i];
        group->moves[group->n++].to = chain->links[link].to;
    }
}

/* Tries the orders of the links until each move fits at its turn. All VMs are at home. The best
 * order is found when the plan is complete. */
static bool
chain_order(const struct chain *chain, struct vg_group *ret, double *ret_net)
{
    for (size_t o = 0; o < G_N_ELEMENTS(chain_orders); o++) {
        struct vg_group group = {0};
        for (size_t i = 0; i < CHAIN_MAX; i++) {
            if (chain_orders[o][i] < chain->n)
                chain_append(chain, chain_orders[o][i], &group);
        }
        if (search_apply(chain->search, &group, ret_net)) {
            search_take_back(chain->search, &group);
            *ret = group;
            return true;
        }
    }
    return false;
}

/* Handles a chain whose last link has a place. It counts if it can be carried out. */
static void
chain_check(struct chain *chain)
{
    struct search *search = chain->search;
    struct vg_group group;
    double net, penalty = 0;

    for (size_t i = 0; i < chain->n; i++)
        penalty += search_penalty(search, chain->links[i].to);
    for (size_t i = 0; i + 1 < chain->n; i++)
        search_bundle_out(search, chain->links[i].bundle);
    for (size_t i = 0; i < chain->n; i++) {
        const size_t bundle = chain->links[i].bundle;
        search_bundle_in(search, bundle,
                         search->vms[search->bundle_vms[search->bundles[bundle].first]].home);
    }
    if (chain_order(chain, &group, &net) && net - penalty > chain->best) {
        chain->best = net - penalty;
        *chain->ret = group;
        chain->found = true;
    }
    for (size_t i = 0; i < chain->n; i++)
        search_bundle_out(search, chain->links[i].bundle);
    for (size_t i = 0; i + 1 < chain->n; i++)
        search_bundle_in(search, chain->links[i].bundle, chain->links[i].to);
}

/* Tries to place the last link without further moves. gain is the net gain without its arrival. */
static void
chain_place(struct chain *chain, size_t from, double gain)
{
    struct search *search = chain->search;
    const struct search_bundle *bundle = &search->bundles[chain->links[chain->n - 1].bundle];

    for (size_t i = 0; i < search->cluster->n_hosts; i++) {
        const size_t to = search->ranks[i].host;
        const double before = search->hosts[to].lost;
        double rise = 0;
        if (to == from)
            continue;
        if (bundle->n == 1) {
            const size_t vm = search->bundle_vms[bundle->first];
            if (!search_fits(search, vm, to))
                continue;
            rise = search_rise(search, vm, to);
        } else {
            if (!search_bundle_in(search, chain->links[chain->n - 1].bundle, to))
                continue;
            rise = search->hosts[to].lost - before;
            search_bundle_out(search, chain->links[chain->n - 1].bundle);
        }
        if (gain - rise - search_penalty(search, to) <= chain->best + SEARCH_SAME)
            continue;
        chain->links[chain->n - 1].to = to;
        chain_check(chain);
    }
}

static void chain_extend(struct chain *chain, size_t from, double gain, size_t n_moves);

/* Returns whether a chain may move a VM off its host. */
static bool
chain_may_push(const struct chain *chain, size_t vm)
{
    const struct search *search = chain->search;
    const struct search_bundle *bundle = &search->bundles[search->vms[vm].bundle];

    return search->vms[vm].host == search->vms[vm].home && bundle->movable && bundle->n == 1;
}

/* Puts the first of two displaced VMs on each host in turn, and the second one where it fits. The
 * last link is on `from`. */
static void
chain_place_two(struct chain *chain, size_t from, size_t first, size_t second, double gain)
{
    struct search *search = chain->search;
    const size_t n = chain->n;

    chain->n += 2;
    chain->links[n].bundle = search->vms[first].bundle;
    chain->links[n + 1].bundle = search->vms[second].bundle;
    for (size_t i = 0; i < search->cluster->n_hosts; i++) {
        const size_t to = search->ranks[i].host;
        if (to == from || !search_fits(search, first, to))
            continue;
        const double rise = search_rise(search, first, to);
        if (gain - rise - search_penalty(search, to) <= chain->best + SEARCH_SAME)
            continue;
        search_in(search, first, to);
        chain->links[n].to = to;
        chain_place(chain, from, gain - rise);
        search_out(search, first);
    }
    chain->n = n;
}

/* Moves a second VM off a host for the last link. */
static void
chain_push_two(struct chain *chain, size_t to, guint index, size_t first, double before,
               double gain)
{
    struct search *search = chain->search;
    GArray *vms = search->hosts[to].vms;
    const size_t last = chain->links[chain->n - 1].bundle;

    /* The first VM has left the list, so the next one has its index. */
    for (guint i = index; i < vms->len; i++) {
        const size_t vm = g_array_index(vms, size_t, i);
        if (!chain_may_push(chain, vm) || search->work > chain->work_max)
            continue;
        search_out(search, vm);
        if (search_bundle_in(search, last, to)) {
            const double now = gain + before - search->hosts[to].lost -
                               search->bundles[search->vms[vm].bundle].cost;
            chain->links[chain->n - 1].to = to;
            if (now > chain->best + SEARCH_SAME)
                chain_place_two(chain, to, first, vm, now);
            search_bundle_out(search, last);
        }
        search_in(search, vm, to);
    }
}

/* Returns the maximum gain of a link after the next one at its target. With many hosts, such chains
 * are too rare to be worth the work. */
static double
chain_more(const struct chain *chain)
{
    return chain->search->penalties && chain->n + 1 < CHAIN_MAX ? chain->more : 0;
}

/* Moves one VM of a host off it for the last link, and continues with this VM. */
static void
chain_push(struct chain *chain, size_t to, guint index, double gain, size_t n_moves)
{
    struct search *search = chain->search;
    const size_t vm = g_array_index(search->hosts[to].vms, size_t, index);
    const size_t pushed = search->vms[vm].bundle, last = chain->links[chain->n - 1].bundle;
    const double before = search->hosts[to].lost;
    const double without = gain - search->bundles[pushed].cost;

    if (!chain_may_push(chain, vm) || n_moves + 1 > chain->room || search->work > chain->work_max)
        return;
    search_out(search, vm);
    if (search_bundle_in(search, last, to)) {
        const double now = without + before - search->hosts[to].lost;
        if (now + chain_more(chain) > chain->best + SEARCH_SAME) {
            chain->links[chain->n - 1].to = to;
            chain->links[chain->n++].bundle = pushed;
            chain_extend(chain, to, now, n_moves + 1);
            chain->n--;
        }
        search_bundle_out(search, last);
    }
    if (chain->n + 2 <= CHAIN_MAX && n_moves + 2 <= chain->room)
        chain_push_two(chain, to, index, vm, before, without);
    search_in(search, vm, to);
}

static void
chain_extend(struct chain *chain, size_t from, double gain, size_t n_moves)
{
    struct search *search = chain->search;
    const size_t depth = chain->n;

    chain_place(chain, from, gain);
    for (size_t to = 0; depth < CHAIN_MAX && to < search->cluster->n_hosts; to++) {
        const GArray *vms = search->hosts[to].vms;
        for (guint i = 0; to != from && i < vms->len; i++)
            chain_push(chain, to, i, gain, n_moves);
    }
}

bool
search_find_chain(struct search *search, size_t bundle, size_t room, uint64_t work_max,
                  struct vg_group *ret, double *ret_net)
{
    const struct search_bundle *one = &search->bundles[bundle];
    const size_t vm = search->bundle_vms[one->first], from = search->vms[vm].host;
    const double before = search->hosts[from].lost;
    struct chain chain = {.search = search,
                          .n = 1,
                          .room = MIN(room, VG_GROUP_MAX),
                          .work_max = work_max,
                          .ret = ret};

    if (from != search->vms[vm].home || !one->movable || one->n > chain.room)
        return false;
    search_rank_hosts(search);
    for (size_t h = 0; h < search->cluster->n_hosts; h++)
        chain.more = MAX(chain.more, search->hosts[h].lost);
    chain.links[0].bundle = bundle;
    search_bundle_out(search, bundle);
    chain_extend(&chain, from, before - search->hosts[from].lost - one->cost, one->n);
    search_bundle_in(search, bundle, from);
    *ret_net = chain.best;
    return chain.found;
}

/* ---- meetings ---- */

/* Makes a group of the moves that bring all VMs to a host. Returns false if a VM may not move. */
static bool
meeting_make(const struct search *search, const struct search_apart *apart, size_t to, size_t room,
             struct vg_group *ret)
{
    *ret = (struct vg_group){0};
    for (size_t i = 0; i < apart->n; i++) {
        const size_t vm = search->apart_vms[apart->first + i];
        if (search->vms[vm].host == to)
            continue;
        if (!search->vms[vm].movable || ret->n == MIN(room, VG_GROUP_MAX))
            return false;
        ret->moves[ret->n].vm = vm;
        ret->moves[ret->n++].to = to;
    }
    return ret->n > 0;
}

static void
meeting_try(struct search *search, const struct search_apart *apart, size_t to, size_t room,
            struct vg_group *best, double *best_net)
{
    struct vg_group group;
    double net;

    if (!meeting_make(search, apart, to, room, &group) || !search_apply(search, &group, &net))
        return;
    search_take_back(search, &group);
    net -= search_penalty(search, to);
    if (net <= *best_net + SEARCH_SAME)
        return;
    *best = group;
    *best_net = net;
}

bool
search_find_meeting(struct search *search, size_t index, size_t room, struct vg_group *ret,
                    double *ret_net)
{
    const struct search_apart *apart = &search->aparts[index];
    const size_t n_hosts = MIN(search->cluster->n_hosts, MEETING_HOSTS_MAX);
    struct vg_group best = {0};
    double best_net = 0;

    search_rank_hosts(search);
    for (size_t i = 0; i < apart->n; i++)
        meeting_try(search, apart, search->vms[search->apart_vms[apart->first + i]].host, room,
                    &best, &best_net);
    for (size_t i = 0; i < n_hosts; i++)
        meeting_try(search, apart, search->ranks[i].host, room, &best, &best_net);
    *ret = best;
    *ret_net = best_net;
    return best.n > 0;
}
