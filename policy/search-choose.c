/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of a host in the search. A VM loses its demand beyond the host's free capacity. This
 * bound excludes most hosts without a computation over all windows.
 */
#include "config.h"

#include "policy/search-private.h"

double
search_penalty(const struct search *search, size_t host)
{
    return search->penalties ? search->penalties[host] : 0;
}

size_t
search_home(const struct search *search, size_t bundle)
{
    return search->vms[search->bundle_vms[search->bundles[bundle].first]].home;
}

/* Returns the maximum free part of an engine on any of a host's GPUs. An engine without a load is
 * idle. */
static double
choose_engine_left(const struct search_host *host, size_t number)
{
    double most = 0;
    size_t n = 0;

    for (guint i = 0; i < host->engines->len; i++) {
        const struct search_engine *engine = &g_array_index(host->engines, struct search_engine, i);
        if (engine->engine != number || engine->slot >= host->n_gpus)
            continue;
        most = MAX(most, 1 - engine->mean + engine->lost);
        n++;
    }
    return n < host->n_gpus ? 1 : most;
}

void
search_rank_hosts(struct search *search)
{
    const size_t n_hosts = search->cluster->n_hosts;
    struct search_rank *ranks = search->ranks;

    if (!search->ranks_are_old)
        return;
    /* Few hosts have changed since the last time. */
    for (size_t i = 0; i < n_hosts; i++) {
        const struct search_rank rank = {ranks[i].host, search_left(&search->hosts[ranks[i].host])};
        size_t at = i;
        for (; at > 0 && (ranks[at - 1].left < rank.left ||
                          (ranks[at - 1].left <= rank.left && ranks[at - 1].host > rank.host));
             at--)
            ranks[at] = ranks[at - 1];
        ranks[at] = rank;
    }
    for (size_t e = 1; e <= search->n_engines; e++) {
        for (size_t h = 0; h < n_hosts; h++)
            search->engines_left[e * n_hosts + h] = choose_engine_left(&search->hosts[h], e);
    }
    search->ranks_are_old = false;
}

/* Returns the demand of a bundle's VMs in cores. */
static double
choose_wanted(const struct search *search, size_t bundle)
{
    const struct search_bundle *one = &search->bundles[bundle];
    double wanted = 0;

    for (size_t i = 0; i < one->n; i++)
        wanted += search->vms[search->bundle_vms[one->first + i]].mean;
    return wanted;
}

/* Finds the demand of a bundle on engines, up to `room` of them. Returns their number. */
static size_t
choose_find_parts(const struct search *search, size_t bundle, struct search_part *ret, size_t room)
{
    const struct search_bundle *one = &search->bundles[bundle];
    size_t n = 0;

    for (size_t i = 0; i < one->n; i++) {
        const struct search_vm *vm = &search->vms[search->bundle_vms[one->first + i]];
        for (size_t d = vm->first_device; d < vm->first_device + vm->n_devices; d++) {
            const struct search_device *device = &search->devices[d];
            for (size_t u = device->first_use; u < device->first_use + device->n_uses; u++) {
                if (n < room)
                    ret[n++] = (struct search_part){search->uses[u].engine, search->uses[u].mean};
            }
        }
    }
    return n;
}

/* Returns the minimum increase of the weighted loss of a host with `left` idle cores. */
static double
choose_least_rise(const struct search *search, const struct search_choice *choice, size_t host,
                  double left)
{
    const double *engines = search->engines_left + host;
    double lost = 0;

    for (size_t i = 0; i < choice->n_parts; i++)
        lost += MAX(choice->parts[i].wanted -
                        engines[choice->parts[i].engine * search->cluster->n_hosts],
                    0);
    return MAX(choice->wanted - left, 0) + search->cluster->config->gpu_weight * lost;
}

static void
choose_try(struct search *search, struct search_choice *choice, size_t to, double left)
{
    const struct search_bundle *one = &search->bundles[choice->bundle];
    const size_t vm = search->bundle_vms[one->first];
    const struct search_host *host = &search->hosts[to];
    const double before = host->lost, penalty = search_penalty(search, to);
    double rise;

    if (to == search->vms[vm].home || to == choice->avoid ||
        (choice->found &&
         choose_least_rise(search, choice, to, left) + penalty > choice->penalized + SEARCH_SAME))
        return;
    if (one->n == 1) {
        if (!search_fits(search, vm, to))
            return;
        rise = search_rise(search, vm, to);
    } else {
        if (!search_bundle_in(search, choice->bundle, to))
            return;
        rise = host->lost - before;
        search_bundle_out(search, choice->bundle);
    }
    search->any_allowed = true;
    if (choice->found && (rise + penalty > choice->penalized + SEARCH_SAME ||
                          (rise + penalty > choice->penalized - SEARCH_SAME &&
                           host->moves >= search->hosts[choice->to].moves)))
        return;
    choice->found = true;
    choice->to = to;
    choice->rise = rise;
    choice->penalized = rise + penalty;
}

void
search_choose(struct search *search, size_t hint, struct search_choice *choice)
{
    const size_t n = search->cluster->n_hosts;
    const bool many = n > SEARCH_MANY_HOSTS;

    choice->wanted = choose_wanted(search, choice->bundle);
    choice->n_parts =
        choose_find_parts(search, choice->bundle, choice->parts, G_N_ELEMENTS(choice->parts));
    if (many && hint != SEARCH_NOWHERE)
        choose_try(search, choice, hint, search_left(&search->hosts[hint]));
    for (size_t i = 0; i < n; i++) {
        const struct search_rank *rank = &search->ranks[i];
        if (choice->found && choice->penalized < SEARCH_SAME &&
            (many || search->hosts[choice->to].moves == 0))
            break;
        if (many && choice->found && choice->wanted - rank->left > choice->rise + SEARCH_SAME)
            break;
        choose_try(search, choice, rank->host, rank->left);
    }
}

void
search_find_most(struct search *search, struct search_most *ret)
{
    const size_t n_hosts = search->cluster->n_hosts;

    search_rank_hosts(search);
    *ret = (struct search_most){.cores = n_hosts > 0 ? MAX(search->ranks[0].left, 0) : 0,
                                .engines = g_new0(double, search->n_engines + 1)};
    for (size_t e = 1; e <= search->n_engines; e++) {
        for (size_t h = 0; h < n_hosts; h++)
            ret->engines[e] = MAX(ret->engines[e], search->engines_left[e * n_hosts + h]);
    }
}

double
search_bound(struct search *search, size_t bundle, const struct search_most *most)
{
    const struct search_bundle *one = &search->bundles[bundle];
    const size_t home = search_home(search, bundle);
    const double before = search->hosts[home].lost;
    struct search_part parts[SEARCH_PARTS_MAX];
    const size_t n_parts = choose_find_parts(search, bundle, parts, G_N_ELEMENTS(parts));
    double lost = 0;

    search_bundle_out(search, bundle);
    const double after = search->hosts[home].lost;
    search_bundle_in(search, bundle, home);
    for (size_t i = 0; i < n_parts; i++)
        lost += MAX(parts[i].wanted - most->engines[parts[i].engine], 0);
    return before - after - one->cost - MAX(choose_wanted(search, bundle) - most->cores, 0) -
           search->cluster->config->gpu_weight * lost;
}
