/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "policy/search-private.h"

/* Number of floats computed together. */
#define LANES 8u

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef int lane_bits __attribute__((vector_size(32), aligned(4), may_alias));

/* ---- losses ---- */

static float *
state_load(const struct search *search, size_t row)
{
    return search->loads + row * search->width;
}

static const float *
state_demand(const struct search *search, size_t vm)
{
    return search->vm_demands + vm * search->width;
}

/* Returns the loss of a row with another one (or NULL) added, beyond `capacity`. */
static double
state_beyond(struct search *search, const float *row, const float *more, float capacity)
{
    lanes lost = {0};
    double sum = 0;

    search->work++;
    for (size_t i = 0; i < search->width; i += LANES) {
        lanes beyond = *(const lanes *)(const void *)(row + i) - capacity;
        if (more)
            beyond += *(const lanes *)(const void *)(more + i);
        /* If the comparison is true, all its bits are 1. */
        const lanes kept = (lanes)((lane_bits)beyond & (beyond > 0));
        lost += kept * *(const lanes *)(const void *)(search->weights + i);
    }
    for (size_t k = 0; k < LANES; k++)
        sum += (double)lost[k];
    return sum;
}

/* Returns the cores that a host loses with one more floating VM (or NULL). */
static double
state_cpu_lost(struct search *search, const struct search_host *host, const float *more)
{
    const float *floating = state_load(search, host->row);
    double sum = 0;

    if (host->n_pools == 0)
        return state_beyond(search, floating, more, host->cpus);
    search->work += host->n_pools + 1;
    for (size_t w = 0; w < search->n_windows; w++) {
        float served = 0, lost = 0;
        for (size_t p = 0; p < host->n_pools; p++) {
            const float demand = MAX(state_load(search, host->row + 1 + p)[w], 0);
            const float capacity = search->capacities[host->row + 1 + p];
            lost += MAX(demand - capacity, 0);
            served += MIN(demand, capacity);
        }
        const float wanted = MAX(floating[w] + (more ? more[w] : 0), 0);
        lost += MAX(wanted - MAX(host->cpus - served, 0), 0);
        sum += (double)(lost * search->weights[w]);
    }
    return sum;
}

static double
state_weigh(const struct search *search, const struct search_host *host)
{
    return host->cpu_lost + search->cluster->config->gpu_weight * host->gpu_lost;
}

static struct search_engine *
state_need_engine(struct search *search, struct search_host *host, size_t slot, size_t engine)
{
    for (guint i = 0; i < host->engines->len; i++) {
        struct search_engine *one = &g_array_index(host->engines, struct search_engine, i);
        if (one->slot == slot && one->engine == engine)
            return one;
    }
    const struct search_engine one = {slot, engine, search->n_rows++, 0, 0};
    search->loads = g_renew(float, search->loads, search->n_rows * search->width);
    memset(state_load(search, one.row), 0, search->width * sizeof(float));
    g_array_append_val(host->engines, one);
    return &g_array_index(host->engines, struct search_engine, host->engines->len - 1);
}

static void
state_add(const struct search *search, float *row, const float *more, float sign)
{
    for (size_t i = 0; i < search->width; i++)
        row[i] += sign * more[i];
}

/* Adds a device's load to the engines of its slot, or removes it. */
static void
state_add_device(struct search *search, struct search_host *host,
                 const struct search_device *device, size_t slot, float sign)
{
    for (size_t u = device->first_use; u < device->first_use + device->n_uses; u++) {
        const float *demand = search->use_demands + search->uses[u].row * search->width;
        struct search_engine *engine =
            state_need_engine(search, host, slot, search->uses[u].engine);
        float *row = state_load(search, engine->row);
        state_add(search, row, demand, sign);
        host->gpu_lost -= engine->lost;
        engine->lost = state_beyond(search, row, NULL, 1);
        engine->mean += (double)sign * search->uses[u].mean;
        host->gpu_lost += engine->lost;
    }
    host->slot_load[slot] += (double)sign * device->mean;
}

/* Sets the losses and means of all loads. */
void
search_measure(struct search *search)
{
    for (size_t h = 0; h < search->cluster->n_hosts; h++) {
        struct search_host *host = &search->hosts[h];
        host->slot_load = g_renew(double, host->slot_load, host->slots->len);
        for (guint s = 0; s < host->slots->len; s++)
            host->slot_load[s] = 0;
        host->gpu_lost = 0;
        for (guint e = 0; e < host->engines->len; e++) {
            struct search_engine *engine = &g_array_index(host->engines, struct search_engine, e);
            const float *row = state_load(search, engine->row);
            engine->mean = 0;
            for (size_t w = 0; w < search->n_windows; w++)
                engine->mean += (double)(row[w] * search->weights[w]);
            host->slot_load[engine->slot] += engine->mean;
            engine->lost = state_beyond(search, row, NULL, 1);
            host->gpu_lost += engine->lost;
        }
        host->cpu_lost = state_cpu_lost(search, host, NULL);
        host->lost = state_weigh(search, host);
    }
}

/* ---- places ---- */

static void
state_add_vm(struct search *search, size_t index, size_t host_index, float sign)
{
    struct search_vm *vm = &search->vms[index];
    struct search_host *host = &search->hosts[host_index];
    const bool home = host_index == vm->home;
    const size_t row =
        home && vm->pool != VG_POOL_FLOATING ? host->row + 1 + (size_t)vm->pool : host->row;

    state_add(search, state_load(search, row), state_demand(search, index), sign);
    host->cpu_lost = state_cpu_lost(search, host, NULL);
    host->mean += (double)sign * vm->mean;
    for (size_t d = vm->first_device; d < vm->first_device + vm->n_devices; d++)
        state_add_device(search, host, &search->devices[d], search->devices[d].slot, sign);
    host->lost = state_weigh(search, host);
    if (host->memory_known)
        host->memory_free -= (int64_t)sign * (home ? vm->freed_bytes : vm->memory_bytes);
    for (size_t d = vm->first_device; d < vm->first_device + vm->n_devices; d++) {
        const struct search_device *device = &search->devices[d];
        if (device->slot < host->n_gpus)
            vg_card_put(&host->cards[device->slot], device->type, device->memory_bytes, (int)sign);
    }
}

void
search_out(struct search *search, size_t vm)
{
    struct search_vm *state = &search->vms[vm];
    GArray *vms = search->hosts[state->host].vms;

    state_add_vm(search, vm, state->host, -1);
    for (guint i = 0; i < vms->len; i++) {
        if (g_array_index(vms, size_t, i) == vm) {
            g_array_remove_index(vms, i);
            break;
        }
    }
    state->host = SEARCH_NOWHERE;
}

void
search_in(struct search *search, size_t vm, size_t host)
{
    struct search_vm *state = &search->vms[vm];
    GArray *vms = search->hosts[host].vms;
    guint at = 0;

    for (size_t d = state->first_device; d < state->first_device + state->n_devices; d++)
        search->devices[d].slot =
            host == state->home ? search->devices[d].home : search->devices[d].next;
    state_add_vm(search, vm, host, 1);
    while (at < vms->len && g_array_index(vms, size_t, at) < vm)
        at++;
    g_array_insert_val(vms, at, vm);
    state->host = host;
}

/* Returns whether a VM on the host has the same name. */
static bool
state_has_name(const struct search *search, int name_number, const struct search_host *host)
{
    for (guint i = 0; name_number != 0 && i < host->vms->len; i++) {
        if (search->vms[g_array_index(host->vms, size_t, i)].name_number == name_number)
            return true;
    }
    return false;
}

/* Returns whether a group of VMs excludes this one. */
static bool
state_is_kept_away(const struct search *search, size_t vm, size_t host)
{
    const vg_cluster *cluster = search->cluster;
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;

    for (guint i = 0; i < snap->affinity->len; i++) {
        const GArray *members = g_hash_table_lookup(cluster->affinity, snap->affinity->pdata[i]);
        for (guint m = 0; m < members->len; m++) {
            const struct search_vm *other = &search->vms[g_array_index(members, size_t, m)];
            if (other->bundle != search->vms[vm].bundle && !other->together && other->host != host)
                return true;
        }
    }
    for (guint i = 0; i < snap->anti_affinity->len; i++) {
        const GArray *members =
            g_hash_table_lookup(cluster->anti_affinity, snap->anti_affinity->pdata[i]);
        for (guint m = 0; m < members->len; m++) {
            const size_t other = g_array_index(members, size_t, m);
            if (other != vm && search->vms[other].host == host)
                return true;
        }
    }
    return false;
}

/* Adds the demand on an engine of a VM's devices before this one that are placed on a slot. Returns
 * whether there are any. */
static bool
state_add_earlier(const struct search *search, const struct search_vm *vm, size_t index,
                  size_t slot, size_t engine, float *row)
{
    bool any = false;

    for (size_t d = vm->first_device; d < index; d++) {
        const struct search_device *device = &search->devices[d];
        for (size_t u = 0; device->next == slot && u < device->n_uses; u++) {
            const struct search_use *use = &search->uses[device->first_use + u];
            if (use->engine != engine)
                continue;
            state_add(search, row, search->use_demands + use->row * search->width, 1);
            any = true;
        }
    }
    return any;
}

/* Returns the engines that a slot of a host loses when a device is added. */
static double
state_device_rise(struct search *search, const struct search_vm *vm, size_t index,
                  const struct search_host *host, size_t slot)
{
    const struct search_device *device = &search->devices[index];
    double rise = 0;

    for (size_t u = device->first_use; u < device->first_use + device->n_uses; u++) {
        const struct search_use *use = &search->uses[u];
        const float *demand = search->use_demands + use->row * search->width;
        const struct search_engine *engine = NULL;
        float *row = search->scratch;
        for (guint e = 0; e < host->engines->len && !engine; e++) {
            const struct search_engine *one =
                &g_array_index(host->engines, struct search_engine, e);
            engine = one->slot == slot && one->engine == use->engine ? one : NULL;
        }
        memset(row, 0, search->width * sizeof(*row));
        if (engine)
            memcpy(row, state_load(search, engine->row), search->width * sizeof(*row));
        double before = engine ? engine->lost : 0;
        if (state_add_earlier(search, vm, index, slot, use->engine, row))
            before = state_beyond(search, row, NULL, 1);
        else if (!engine)
            continue;
        rise += state_beyond(search, row, demand, 1) - before;
    }
    return rise;
}

/* Finds a GPU for a device. The VM's earlier devices are placed and counted in the cards. */
static bool
state_place_device(struct search *search, const struct search_vm *vm, size_t index,
                   const struct search_host *host)
{
    struct search_device *device = &search->devices[index];
    const enum vg_card_choice how = !(vm->names_gpus && host->names_gpus) ? VG_CARD_WORST
                                    : host->packs_gpus                    ? VG_CARD_PACK
                                                                          : VG_CARD_SPREAD;
    struct vg_card_offer chosen = {0};

    device->next = SEARCH_NOWHERE;
    for (size_t g = 0; g < host->n_gpus; g++) {
        struct vg_card_offer offer = {.gpu = g, .load = host->slot_load[g]};
        offer.room = vg_card_room(&host->cards[g], device->type, device->memory_bytes);
        if (offer.room <= 0 ||
            !vg_card_has_memory(&host->cards[g], device->type, device->memory_bytes))
            continue;
        for (size_t d = vm->first_device; d < index; d++)
            offer.load += search->devices[d].next == g ? search->devices[d].mean : 0;
        offer.used = how == VG_CARD_PACK && vg_card_is_used(&host->cards[g]);
        offer.rise = host->n_gpus > 1 ? state_device_rise(search, vm, index, host, g) : 0;
        if (device->next == SEARCH_NOWHERE || vg_card_offer_is_better(&offer, &chosen, how)) {
            device->next = g;
            chosen = offer;
        }
    }
    return device->next != SEARCH_NOWHERE;
}

/* Places all devices of a VM. */
static bool
state_place_devices(struct search *search, const struct search_vm *vm, struct search_host *host)
{
    const size_t end = vm->first_device + vm->n_devices;
    size_t d = vm->first_device;

    for (; d < end && state_place_device(search, vm, d, host); d++) {
        const struct search_device *device = &search->devices[d];
        if (d + 1 < end)
            vg_card_put(&host->cards[device->next], device->type, device->memory_bytes, 1);
    }
    const bool all = d == end;
    for (d = MIN(d, end - 1); vm->n_devices > 1 && d-- > vm->first_device;) {
        const struct search_device *device = &search->devices[d];
        vg_card_put(&host->cards[device->next], device->type, device->memory_bytes, -1);
    }
    return all;
}

bool
search_fits(struct search *search, size_t vm, size_t host_index)
{
    const struct search_vm *state = &search->vms[vm];
    const struct search_host *host = &search->hosts[host_index];

    if (host_index == state->home || !host->accepts)
        return false;
    for (guint i = 0; i < search->returns->len; i++) {
        const struct search_return *one = &g_array_index(search->returns, struct search_return, i);
        if (one->vm == vm && one->host == host_index)
            return false;
    }
    if (state->model != 0 &&
        (host->model == 0 || (state->model != host->model && state->home_model != host->model)))
        return false;
    if (host->memory_known && host->memory_free < state->memory_bytes)
        return false;
    if (state_has_name(search, state->name_number, host))
        return false;
    if (state->n_devices > 0 && !state_place_devices(search, state, &search->hosts[host_index]))
        return false;
    return !state_is_kept_away(search, vm, host_index);
}

double
search_left(const struct search_host *host)
{
    return (double)host->cpus - host->mean + host->cpu_lost;
}

double
search_rise(struct search *search, size_t vm, size_t host_index)
{
    struct search_vm *state = &search->vms[vm];
    struct search_host *host = &search->hosts[host_index];
    double rise = state_cpu_lost(search, host, state_demand(search, vm)) - host->cpu_lost;

    if (state->n_devices == 1) {
        const struct search_device *device = &search->devices[state->first_device];
        for (size_t u = device->first_use; u < device->first_use + device->n_uses; u++) {
            const float *demand = search->use_demands + search->uses[u].row * search->width;
            const struct search_engine *engine =
                state_need_engine(search, host, device->next, search->uses[u].engine);
            rise +=
                search->cluster->config->gpu_weight *
                (state_beyond(search, state_load(search, engine->row), demand, 1) - engine->lost);
        }
    } else if (state->n_devices > 1) {
        const double before = host->lost;
        search_in(search, vm, host_index);
        rise = host->lost - before;
        search_out(search, vm);
    }
    return rise;
}

void
search_bundle_out(struct search *search, size_t bundle)
{
    const struct search_bundle *one = &search->bundles[bundle];

    for (size_t i = 0; i < one->n; i++)
        search_out(search, search->bundle_vms[one->first + i]);
}

bool
search_bundle_in(struct search *search, size_t bundle, size_t host)
{
    const struct search_bundle *one = &search->bundles[bundle];

    for (size_t i = 0; i < one->n; i++) {
        const size_t vm = search->bundle_vms[one->first + i];
        if (host != search->vms[vm].home && !search_fits(search, vm, host)) {
            while (i-- > 0)
                search_out(search, search->bundle_vms[one->first + i]);
            return false;
        }
        search_in(search, vm, host);
    }
    return true;
}
