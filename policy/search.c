/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/search.h"

#include <math.h>
#include <string.h>

#include "policy/gates.h"
#include "policy/search-private.h"

/* The maximum number of floats that chains, and all rounds, may read. */
#define WORK_CHAINS 200e6
#define WORK_ROUNDS 60e6

#define ROUNDS_MAX 500u

/* Up to this many VMs, the result is searched repeatedly. */
#define ROUNDS_VMS_MAX 2000u

/* The fraction by which a round changes gains at random. */
#define NOISE 0.3

/* The maximum penalty of a host in a round, as a multiple of the average gain of a move. */
#define PENALTY 2.0

/* One pass: adds groups until nothing gains enough or the plan is full. */
struct pass {
    struct search *search;
    GArray *groups; /* struct vg_group */
    double net;
    double average; /* the average gain of a move in the best result */
    size_t n_moves, max_moves;
    uint64_t random; /* 0: nothing random */
    uint64_t work_max;
    struct vg_found *failed; /* where to store the best failed group, or NULL */
    int64_t failed_rank;
    bool tries_all; /* also groups without a gain */
};

/* ---- the heap ---- */

struct entry {
    int64_t rank; /* of the net gain, or of its upper limit */
    size_t bundle;
    double factor;
    size_t to;  /* the target with this gain */
    bool exact; /* the gain was computed when the two hosts had this many changes: */
    uint64_t home_changes, to_changes;
    size_t moves; /* of its host at that time */
};

static int64_t
search_rank(double net)
{
    return llround(CLAMP(net / SEARCH_SAME, -1e15, 1e15));
}

static bool
search_is_before(const struct entry *a, const struct entry *b)
{
    if (a->rank != b->rank)
        return a->rank > b->rank;
    return a->moves != b->moves ? a->moves < b->moves : a->bundle < b->bundle;
}

static void
search_push(GArray *heap, struct entry entry)
{
    g_array_append_val(heap, entry);
    struct entry *entries = (struct entry *)(void *)heap->data;
    for (guint i = heap->len - 1; i > 0 && search_is_before(&entries[i], &entries[(i - 1) / 2]);
         i = (i - 1) / 2) {
        struct entry other = entries[i];
        entries[i] = entries[(i - 1) / 2];
        entries[(i - 1) / 2] = other;
    }
}

static struct entry
search_pop(GArray *heap)
{
    struct entry *entries = (struct entry *)(void *)heap->data;
    const struct entry top = entries[0];

    entries[0] = entries[heap->len - 1];
    g_array_set_size(heap, heap->len - 1);
    for (guint i = 0;;) {
        guint first = i;
        for (guint k = 2 * i + 1; k <= 2 * i + 2 && k < heap->len; k++)
            first = search_is_before(&entries[k], &entries[first]) ? k : first;
        if (first == i)
            return top;
        struct entry other = entries[i];
        entries[i] = entries[first];
        entries[first] = other;
        i = first;
    }
}

/* ---- single moves ---- */

/* Returns a random number in [0, 1). */
static double
search_random(struct pass *pass)
{
    pass->random ^= pass->random << 13;
    pass->random ^= pass->random >> 7;
    pass->random ^= pass->random << 17;
    return (double)(pass->random >> 11) / (double)(UINT64_C(1) << 53);
}

static void
search_fill_heap(struct pass *pass, GArray *heap)
{
    struct search *search = pass->search;
    struct search_most most;

    search_find_most(search, &most);
    for (size_t b = 0; b < search->n_bundles; b++) {
        const struct search_bundle *bundle = &search->bundles[b];
        const size_t vm = search->bundle_vms[bundle->first], home = search->vms[vm].home;
        if (!bundle->movable || !search->held[home] || search->vms[vm].host != home ||
            bundle->n > pass->max_moves - pass->n_moves)
            continue;
        struct entry entry = {.bundle = b, .factor = 1, .to = SEARCH_NOWHERE};
        if (pass->random != 0)
            entry.factor = 1 - NOISE + 2 * NOISE * search_random(pass);
        entry.rank = search_rank(entry.factor * search_bound(search, b, &most));
        search_push(heap, entry);
    }
    g_free(most.engines);
}

static void
search_make_group(const struct search *search, size_t bundle, size_t to, struct vg_group *ret)
{
    const struct search_bundle *one = &search->bundles[bundle];

    ret->n = one->n;
    for (size_t i = 0; i < one->n; i++) {
        ret->moves[i].vm = search->bundle_vms[one->first + i];
        ret->moves[i].to = to;
    }
}

static void
search_note_failed(struct pass *pass, const struct entry *entry)
{
    const struct search_bundle *bundle = &pass->search->bundles[entry->bundle];

    if (!pass->failed || bundle->n > 1 ||
        (pass->failed->has_failed && entry->rank <= pass->failed_rank))
        return;
    pass->failed->has_failed = true;
    pass->failed->failed_vm = pass->search->bundle_vms[bundle->first];
    pass->failed_rank = entry->rank;
}

static bool
search_commit(struct pass *pass, const struct vg_group *group)
{
    double net = 0;

    if (group->n > pass->max_moves - pass->n_moves || !search_apply(pass->search, group, &net))
        return false;
    g_array_append_vals(pass->groups, group, 1);
    pass->n_moves += group->n;
    pass->net += net;
    return true;
}

/* Finds the gain of a bundle on all hosts except one. Returns false if it may not go anywhere. */
static bool
search_evaluate(struct pass *pass, size_t avoid, struct entry *entry)
{
    struct search *search = pass->search;
    const size_t home = search_home(search, entry->bundle);
    const double before = search->hosts[home].lost;
    struct search_choice choice = {.bundle = entry->bundle, .avoid = avoid};

    search_rank_hosts(search);
    search_bundle_out(search, entry->bundle);
    const double most = before - search->hosts[home].lost - search->bundles[entry->bundle].cost;
    search_choose(search, entry->to, &choice);
    search_bundle_in(search, entry->bundle, home);
    if (!choice.found)
        return false;
    entry->to = choice.to;
    entry->rank = search_rank(entry->factor * (most - choice.rise));
    entry->exact = true;
    entry->home_changes = search->hosts[home].changes;
    entry->to_changes = search->hosts[entry->to].changes;
    entry->moves = search->hosts[home].moves;
    return true;
}

/* Returns whether the bundle's gain is still exact with respect to its two hosts. Gains that
 * others' departures make possible are ignored. */
static bool
search_is_exact(const struct search *search, const struct entry *entry)
{
    return entry->exact &&
           entry->home_changes == search->hosts[search_home(search, entry->bundle)].changes &&
           entry->to_changes == search->hosts[entry->to].changes;
}

/* Ensures that the gain of the heap's first entry is exact. Returns false if none is left. */
static bool
search_settle(struct pass *pass, GArray *heap)
{
    /* Noise may have reduced a rank. */
    const int64_t needed =
        pass->random != 0 ? 0 : search_rank(pass->search->cluster->config->min_gain) - 2;

    while (heap->len > 0 && !search_is_exact(pass->search, &g_array_index(heap, struct entry, 0))) {
        struct entry entry = search_pop(heap);
        /* An entry without a gain is only useful as an example. */
        if (entry.rank <= needed && pass->search->any_allowed && !pass->tries_all &&
            (!pass->failed || pass->failed->has_failed))
            continue;
        if (search_evaluate(pass, SEARCH_NOWHERE, &entry))
            search_push(heap, entry);
    }
    return heap->len > 0;
}

/* Carries out the best move, or drops it. */
static void
search_step(struct pass *pass, GArray *heap)
{
    if (!search_settle(pass, heap))
        return;
    const struct entry entry = search_pop(heap);
    struct vg_group group = {0};
    search_make_group(pass->search, entry.bundle, entry.to, &group);
    if (!search_commit(pass, &group))
        search_note_failed(pass, &entry);
}

static void
search_singles(struct pass *pass)
{
    g_autoptr(GArray) heap = g_array_new(FALSE, FALSE, sizeof(struct entry));

    if (pass->n_moves < pass->max_moves)
        search_fill_heap(pass, heap);
    while (heap->len > 0 && pass->n_moves < pass->max_moves)
        search_step(pass, heap);
}

/* ---- chains ---- */

/* The best group of several moves so far. */
struct several {
    bool all; /* take only the best; otherwise, every one */
    bool took;
    struct vg_group best;
    double net;
};

static void
search_offer(struct pass *pass, struct several *several, const struct vg_group *group, double net)
{
    if (pass->random != 0)
        net *= 1 - NOISE + 2 * NOISE * search_random(pass);
    if (!several->all) {
        several->took = search_commit(pass, group) || several->took;
    } else if (net > several->net + SEARCH_SAME) {
        several->best = *group;
        several->net = net;
    }
}

static bool
search_is_full(const struct pass *pass)
{
    return pass->n_moves >= pass->max_moves || pass->search->work > pass->work_max;
}

/* Takes the best chain or meeting or, with many VMs, the first one with a gain. Returns false if
 * there is none. */
static bool
search_chains(struct pass *pass)
{
    struct search *search = pass->search;
    struct several several = {.all = search->n_bundles <= ROUNDS_VMS_MAX};
    struct vg_group group;
    double net = 0;

    for (size_t b = 0; b < search->n_bundles && !search_is_full(pass); b++) {
        const size_t home = search_home(search, b);
        if ((!search->held[home] && !search->penalties) ||
            search->hosts[home].lost <= SEARCH_SAME ||
            !search_find_chain(search, b, pass->max_moves - pass->n_moves, pass->work_max, &group,
                               &net))
            continue;
        search_offer(pass, &several, &group, net);
    }
    for (size_t i = 0; i < search->n_aparts && !search_is_full(pass); i++) {
        if (search_find_meeting(search, i, pass->max_moves - pass->n_moves, &group, &net))
            search_offer(pass, &several, &group, net);
    }
    return several.best.n > 0 ? search_commit(pass, &several.best) : several.took;
}

static void
search_pass(struct pass *pass, bool chains_first)
{
    if (chains_first)
        search_chains(pass);
    search_singles(pass);
    while (pass->n_moves < pass->max_moves && search_chains(pass))
        search_singles(pass);
}

/* ---- again and again ---- */

/* Adds a random part of the average gain of a move to each host's loss. Small parts are likely:
 * they only decide between hosts that are otherwise equal. */
static void
search_draw_penalties(struct pass *pass)
{
    struct search *search = pass->search;
    const double random = search_random(pass);
    const double most = PENALTY * random * random * random * random * pass->average;

    for (size_t h = 0; search->penalties && h < search->cluster->n_hosts; h++)
        search->penalties[h] = most * search_random(pass);
}

/* Moves any VM if that gains enough. */
static void
search_begin(struct pass *pass)
{
    struct search *search = pass->search;
    struct entry entry = {.bundle = (size_t)(search_random(pass) * (double)search->n_bundles),
                          .factor = 1,
                          .to = SEARCH_NOWHERE};
    const struct search_bundle *bundle = &search->bundles[entry.bundle];
    struct vg_group group = {0};

    if (!bundle->movable || bundle->n > VG_GROUP_MAX ||
        !search_evaluate(pass, SEARCH_NOWHERE, &entry))
        return;
    search_make_group(search, entry.bundle, entry.to, &group);
    search_commit(pass, &group);
}

/* Drops some groups, keeps the others that are still valid, and fills up. In half of the rounds,
 * any VM moves first, because a small move may only gain enough before a large one. */
static void
search_round(struct pass *pass, const GArray *best)
{
    const bool chains_first = search_random(pass) < 0.5;
    const double keep = search_random(pass);
    const bool begin = search_random(pass) < 0.5;

    search_draw_penalties(pass);

    search_reset(pass->search);
    g_array_set_size(pass->groups, 0);
    pass->n_moves = 0;
    pass->net = 0;
    if (begin)
        search_begin(pass);
    for (guint i = 0; i < best->len; i++) {
        if (search_random(pass) < keep)
            search_commit(pass, &g_array_index(best, struct vg_group, i));
    }
    search_pass(pass, chains_first);
}

static void
search_improve(struct pass *pass)
{
    struct search *search = pass->search;
    const uint64_t end = search->work + (uint64_t)(WORK_ROUNDS / (double)search->width);
    struct pass round = *pass;
    double best = pass->net;

    if (search->n_bundles == 0 || search->n_bundles > ROUNDS_VMS_MAX || pass->max_moves == 0)
        return;
    round.groups = g_array_new(FALSE, FALSE, sizeof(struct vg_group));
    round.random = UINT64_C(88172645463325252);
    round.failed = NULL;
    round.work_max = end;
    for (unsigned i = 0; i < ROUNDS_MAX && search->work < end; i++) {
        round.average = best / (double)MAX(pass->n_moves, 1);
        search_round(&round, pass->groups);
        if (round.net <= best + SEARCH_SAME)
            continue;
        best = round.net;
        pass->net = round.net;
        pass->n_moves = round.n_moves;
        g_array_set_size(pass->groups, 0);
        g_array_append_vals(pass->groups, round.groups->data, round.groups->len);
    }
    for (size_t h = 0; search->penalties && h < search->cluster->n_hosts; h++)
        search->penalties[h] = 0;
    g_array_free(round.groups, TRUE);
}

/* Takes the groups with only some moves of one of them. mask: these moves. Returns what the groups
 * that pass gain, less what each of their moves must add. */
static double
search_try_part(struct pass *part, const GArray *groups, guint index, unsigned mask)
{
    search_reset(part->search);
    g_array_set_size(part->groups, 0);
    part->n_moves = 0;
    part->net = 0;
    for (guint i = 0; i < groups->len; i++) {
        const struct vg_group *whole = &g_array_index(groups, struct vg_group, i);
        struct vg_group group = {0};
        for (size_t k = 0; k < whole->n; k++) {
            if (i != index || (mask >> k & 1))
                group.moves[group.n++] = whole->moves[k];
        }
        search_commit(part, &group);
    }
    return part->net - (double)part->n_moves * vg_gate_further(part->search->cluster);
}

/* Drops the moves of groups that add too little to the whole plan. */
static void
search_drop_useless(struct pass *pass)
{
    const uint64_t end = pass->search->work + (uint64_t)(WORK_ROUNDS / (double)pass->search->width);
    const double further = vg_gate_further(pass->search->cluster);
    struct pass part = *pass;

    part.groups = g_array_new(FALSE, FALSE, sizeof(struct vg_group));
    part.failed = NULL;
    for (guint i = 0; i < pass->groups->len && pass->search->work < end; i++) {
        const size_t n = g_array_index(pass->groups, struct vg_group, i).n;
        double best = pass->net - (double)pass->n_moves * further;
        unsigned best_mask = 0;
        for (unsigned mask = 1; n <= SEARCH_PARTS_OF_MAX && mask + 1 < 1u << n; mask++) {
            const double worth = search_try_part(&part, pass->groups, i, mask);
            best_mask = worth > best + SEARCH_SAME ? mask : best_mask;
            best = best_mask == mask ? worth : best;
        }
        if (best_mask == 0)
            continue;
        search_try_part(&part, pass->groups, i, best_mask);
        pass->net = part.net;
        pass->n_moves = part.n_moves;
        g_array_set_size(pass->groups, 0);
        g_array_append_vals(pass->groups, part.groups->data, part.groups->len);
    }
    g_array_free(part.groups, TRUE);
}

/* Orders the moves of each group, unless a later group then gains less. */
static void
search_order_groups(struct pass *pass)
{
    struct pass again = *pass;

    search_reset(pass->search);
    again.groups = g_array_new(FALSE, FALSE, sizeof(struct vg_group));
    again.n_moves = 0;
    again.net = 0;
    for (guint i = 0; i < pass->groups->len; i++) {
        struct vg_group group = g_array_index(pass->groups, struct vg_group, i);
        search_order(pass->search, &group);
        search_commit(&again, &group);
    }
    if (again.groups->len > 0 && again.groups->len == pass->groups->len &&
        again.net >= pass->net - SEARCH_SAME)
        memcpy(pass->groups->data, again.groups->data, again.groups->len * sizeof(struct vg_group));
    g_array_free(again.groups, TRUE);
}

/* Returns whether a group moves a VM of the bundle. */
static bool
search_moves(const struct search *search, const struct vg_group *group, size_t bundle)
{
    for (size_t i = 0; i < group->n; i++) {
        if (search->vms[group->moves[i].vm].bundle == bundle)
            return true;
    }
    return false;
}

/* Returns whether a move alone gains enough. */
static bool
search_would_do(struct search *search, const struct entry *entry)
{
    struct vg_group group = {0};
    double net;

    search_make_group(search, entry->bundle, entry->to, &group);
    if (!search_apply(search, &group, &net))
        return false;
    search_take_back(search, &group);
    return true;
}

/* Finds the best single move that a group displaces, preferring those that gain enough. */
static void
search_find_other(struct pass *pass, GArray *heap, struct vg_group *group)
{
    struct search *search = pass->search;
    struct entry other = {
        .bundle = search->vms[group->moves[0].vm].bundle, .factor = 1, .to = SEARCH_NOWHERE};

    bool would_do = false;

    pass->tries_all = true;
    group->has_other = group->n == 1 && search_evaluate(pass, group->moves[0].to, &other);
    would_do = group->has_other && search_would_do(search, &other);
    while (search_settle(pass, heap)) {
        const struct entry *first = &g_array_index(heap, struct entry, 0);
        if (search_moves(search, group, first->bundle) || search->bundles[first->bundle].n > 1) {
            search_pop(heap);
            continue;
        }
        const bool does = search_would_do(search, first);
        if (!group->has_other || does > would_do ||
            (does == would_do && search_is_before(first, &other)))
            other = *first;
        group->has_other = true;
        would_do = would_do || does;
        if (would_do)
            break;
        search_pop(heap);
    }
    group->other_vm = search->bundle_vms[search->bundles[other.bundle].first];
    group->other_to = other.to;
    pass->tries_all = false;
}

/* Carries out all groups again from the start, to determine what each one displaces and what else
 * would be possible. */
static void
search_finish(struct pass *pass, struct vg_found *ret)
{
    struct pass again = *pass;
    g_autoptr(GArray) heap = g_array_new(FALSE, FALSE, sizeof(struct entry));

    search_reset(pass->search);
    again.groups = g_array_new(FALSE, FALSE, sizeof(struct vg_group));
    again.n_moves = 0;
    again.max_moves = SIZE_MAX;
    search_fill_heap(&again, heap);
    for (guint i = 0; i < pass->groups->len; i++) {
        struct vg_group *group = &g_array_index(pass->groups, struct vg_group, i);
        search_find_other(&again, heap, group);
        search_commit(&again, group);
    }
    if (pass->n_moves >= pass->max_moves) {
        again.n_moves = 0;
        again.net = 0;
        search_singles(&again);
        ret->n_more = again.n_moves;
        ret->more_cores = again.net;
    }
    g_array_free(again.groups, TRUE);
}

void
vg_search(const vg_cluster *cluster, const bool *held, int64_t max_moves, struct vg_found *ret)
{
    struct search *search = search_new(cluster, held);

    *ret = (struct vg_found){.groups = g_array_new(FALSE, FALSE, sizeof(struct vg_group))};
    struct pass pass = {
        .search = search,
        .groups = ret->groups,
        .max_moves = (size_t)max_moves,
        .work_max = (uint64_t)(WORK_CHAINS / (double)search->width),
        .failed = ret,
    };
    search_pass(&pass, false);
    search_improve(&pass);
    search_drop_useless(&pass);
    search_order_groups(&pass);
    search_finish(&pass, ret);
    ret->any_allowed = search->any_allowed;
    search_free(search);
}

void
vg_found_clear(struct vg_found *found)
{
    g_array_free(found->groups, TRUE);
    *found = (struct vg_found){0};
}
