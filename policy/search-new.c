/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "policy/constraints.h"
#include "policy/gates.h"
#include "policy/rule.h"
#include "policy/search-private.h"

/* Windows in the search: whole ones with up to ROWS_EXACT_MAX rows, otherwise means. */
#define WINDOWS_MEAN   30u
#define ROWS_EXACT_MAX 200000u
#define DAY_MEAN       48u /* for the day */

/* Number of floats computed together. Rows are padded to a multiple of this. */
#define LANES 8u

#define NEW_NO_USE G_MAXUINT

/* ---- numbers for names ---- */

/* Returns the number of a name, starting with 1. */
static int
new_number(GHashTable *numbers, const char *name)
{
    int number = GPOINTER_TO_INT(g_hash_table_lookup(numbers, name));

    if (number == 0) {
        number = (int)g_hash_table_size(numbers) + 1;
        g_hash_table_insert(numbers, (void *)name, GINT_TO_POINTER(number));
    }
    return number;
}

static size_t
new_slot(struct search_host *host, const char *device)
{
    for (guint i = 0; i < host->slots->len; i++) {
        if (strcmp(host->slots->pdata[i], device) == 0)
            return i;
    }
    g_ptr_array_add(host->slots, (void *)device);
    return host->slots->len - 1;
}

/* ---- VMs ---- */

/* Fills n floats, each with the mean of the windows that it represents. */
static void
new_fill(const double *windows, size_t n_windows, float *row, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const size_t from = i * n_windows / n, to = (i + 1) * n_windows / n;
        double sum = 0;
        for (size_t w = from; w < to; w++)
            sum += windows[w];
        row[i] = (float)(sum / (double)(to - from));
    }
}

/* Fills a row from the loads of the cluster and of its day. */
static void
new_fill_load(const struct search *search, const struct vg_load *load, const struct vg_load *day,
              float *row)
{
    new_fill(load->demand, search->cluster->n_windows, row, search->n_live);
    if (day)
        new_fill(day->demand, search->cluster->day->n_windows, row + search->n_live,
                 search->n_windows - search->n_live);
}

static double
new_mean(const struct search *search, const float *row)
{
    double mean = 0;

    for (size_t i = 0; i < search->n_windows; i++)
        mean += (double)row[i] * (double)search->weights[i];
    return mean;
}

/* Fills a row with the demand of a VM on an engine, or on CPUs (NEW_NO_USE). */
static void
new_fill_demand(const struct search *search, size_t vm, guint use, double *windows, float *row)
{
    const vg_cluster *clusters[] = {search->cluster, search->cluster->day};
    size_t first = 0;

    for (size_t c = 0; c < G_N_ELEMENTS(clusters) && clusters[c]; c++) {
        const vg_cluster *cluster = clusters[c];
        const struct vg_vm_state *state = &cluster->vms[vm];
        const size_t n = c == 0 ? search->n_live : search->n_windows - search->n_live;
        for (size_t w = 0; w < cluster->n_windows; w++)
            windows[w] =
                use == NEW_NO_USE
                    ? vg_vm_cpu_demand(cluster, state, w)
                    : vg_vm_gpu_demand(cluster, state,
                                       &g_array_index(state->uses, struct vg_engine_use, use), w);
        new_fill(windows, cluster->n_windows, row + first, n);
        first += n;
    }
}

static void
new_devices(struct search *search, size_t index, double *windows)
{
    const vg_cluster *cluster = search->cluster;
    const struct vg_vm_state *state = &cluster->vms[index];
    struct search_vm *vm = &search->vms[index];

    vm->first_device = search->n_devices;
    for (guint u = 0; u < state->vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *snap = state->vm->gpu->pdata[u];
        const struct vg_engine_use *use = &g_array_index(state->uses, struct vg_engine_use, u);
        const struct vg_snap_gpu_use *last = u > 0 ? state->vm->gpu->pdata[u - 1] : NULL;
        if (!last || strcmp(last->device, snap->device) != 0) {
            struct search_device *device = &search->devices[search->n_devices++];
            device->memory_bytes = snap->memory_bytes;
            device->type = vg_card_type_of(cluster->types, snap->vgpu_type);
            device->home = device->slot = new_slot(&search->hosts[vm->home], use->device);
            device->first_use = search->n_uses;
            vm->n_devices++;
        }
        struct search_device *device = &search->devices[search->n_devices - 1];
        const size_t row = search->n_uses++;
        search->uses[row].row = row;
        search->uses[row].engine = (size_t)new_number(search->engines, use->engine);
        device->n_uses++;
        float *demand = search->use_demands + row * search->width;
        new_fill_demand(search, index, u, windows, demand);
        search->uses[row].mean = new_mean(search, demand);
        device->mean += search->uses[row].mean;
    }
}

static void
new_vm(struct search *search, size_t index, double *windows)
{
    const vg_cluster *cluster = search->cluster;
    const struct vg_vm_state *state = &cluster->vms[index];
    const struct vg_snap_host *home = cluster->hosts[state->home].host;
    struct search_vm *vm = &search->vms[index];
    struct vg_plan_cost cost;
    g_autofree char *reason = NULL;

    *vm = (struct search_vm){.home = state->home, .host = state->home, .pool = state->pool};
    vm->movable = vg_constraints_vm(cluster, index, &reason) == VG_CONSTRAINT_NONE;
    vm->names_gpus = !state->vm->display_name && vg_snap_host_names_gpus(home);
    vm->freed_bytes = state->vm->memory_bytes;
    vm->memory_bytes = state->vm->memory_bytes > 0 ? state->vm->memory_bytes
                                                   : cluster->config->assumed_memory_bytes;
    vm->model = state->vm->cpu_model ? new_number(search->models, state->vm->cpu_model) : 0;
    vm->home_model = home->cpu_model ? new_number(search->models, home->cpu_model) : 0;
    vg_predict_cost(cluster, index, &cost);
    vm->cost = vg_cost_cores(cluster->config, &cost);
    vm->wanted = vg_predict_wanted(cluster, index);
    vm->rest = state->rest;
    vm->name_number = state->name_number;
    float *demand = search->vm_demands + index * search->width;
    new_fill_demand(search, index, NEW_NO_USE, windows, demand);
    vm->mean = new_mean(search, demand);
    new_devices(search, index, windows);
    g_array_append_val(search->hosts[vm->home].vms, index);
}

/* ---- hosts ---- */

static void
new_gpus(struct search *search, size_t index)
{
    const struct vg_host_state *state = &search->cluster->hosts[index];
    struct search_host *host = &search->hosts[index];

    host->packs_gpus = state->packs_gpus;
    host->cards = g_new0(struct vg_card, host->n_gpus);
    for (size_t g = 0; g < host->n_gpus; g++)
        vg_card_copy(&state->cards[g], &host->cards[g]);
}

/* Sets the loads of a host from the cluster. */
static void
new_loads(struct search *search, size_t index)
{
    const vg_cluster *cluster = search->cluster;
    const struct vg_host_state *state = &cluster->hosts[index];
    const struct vg_host_state *day = cluster->day ? &cluster->day->hosts[index] : NULL;
    struct search_host *host = &search->hosts[index];

    new_fill_load(search, &state->floating, day ? &day->floating : NULL,
                  search->loads + host->row * search->width);
    host->mean = new_mean(search, search->loads + host->row * search->width);
    for (guint p = 0; p < state->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(state->pools, struct vg_load, p);
        const size_t row = host->row + 1 + p;
        search->capacities[row] = (float)pool->capacity;
        new_fill_load(search, pool, day ? &g_array_index(day->pools, struct vg_load, p) : NULL,
                      search->loads + row * search->width);
        host->mean += new_mean(search, search->loads + row * search->width);
    }
    for (guint e = 0; e < host->engines->len; e++) {
        const struct vg_load *load = &g_array_index(state->engines, struct vg_load, e);
        struct search_engine *engine = &g_array_index(host->engines, struct search_engine, e);
        new_fill_load(search, load,
                      day ? vg_host_find_engine(day, load->device, load->engine) : NULL,
                      search->loads + engine->row * search->width);
    }
}

static void
new_host(struct search *search, size_t index)
{
    const struct vg_host_state *state = &search->cluster->hosts[index];
    struct search_host *host = &search->hosts[index];

    host->cpus = (float)state->floating.capacity;
    host->n_pools = state->pools->len;
    host->n_gpus = state->host->gpus->len;
    host->accepts = !state->host->maintenance;
    host->names_gpus = vg_snap_host_names_gpus(state->host);
    host->model = state->host->cpu_model ? new_number(search->models, state->host->cpu_model) : 0;
    host->memory_known =
        vg_memory_is_known(state->host->memory_bytes, state->host->memory_free_bytes);
    host->memory_free = state->memory_free;
    host->slots = g_ptr_array_new();
    for (size_t g = 0; g < host->n_gpus; g++)
        g_ptr_array_add(host->slots, ((struct vg_snap_gpu *)state->host->gpus->pdata[g])->device);
    host->vms = g_array_new(FALSE, FALSE, sizeof(size_t));
    host->engines = g_array_new(FALSE, FALSE, sizeof(struct search_engine));
    host->row = search->n_rows;
    search->n_rows += 1 + host->n_pools;
    for (guint e = 0; e < state->engines->len; e++) {
        const struct vg_load *load = &g_array_index(state->engines, struct vg_load, e);
        const struct search_engine engine = {new_slot(host, load->device),
                                             (size_t)new_number(search->engines, load->engine),
                                             search->n_rows++, 0, 0};
        g_array_append_val(host->engines, engine);
    }
}

/* ---- what moves together ---- */

/* Appends the VMs that belong with a queue's VMs, directly or through others: only VMs of `host`,
 * unless it is SEARCH_NOWHERE. is_taken marks the VMs in a queue. */
static void
new_follow_affinity(const struct search *search, GArray *queue, size_t host, bool *is_taken)
{
    const vg_cluster *cluster = search->cluster;

    for (guint i = 0; i < queue->len; i++) {
        const GPtrArray *groups = cluster->vms[g_array_index(queue, size_t, i)].vm->affinity;
        for (guint g = 0; g < groups->len; g++) {
            const GArray *members = g_hash_table_lookup(cluster->affinity, groups->pdata[g]);
            for (guint m = 0; m < members->len; m++) {
                const size_t other = g_array_index(members, size_t, m);
                if (is_taken[other] || (host != SEARCH_NOWHERE && search->vms[other].home != host))
                    continue;
                is_taken[other] = true;
                g_array_append_val(queue, other);
            }
        }
    }
}

/* Adds a VM, and its host's VMs that belong with it, to a bundle. */
static void
new_take_together(struct search *search, struct search_bundle *bundle, size_t vm, bool *is_taken)
{
    g_autoptr(GArray) queue = g_array_new(FALSE, FALSE, sizeof(size_t));

    is_taken[vm] = true;
    g_array_append_val(queue, vm);
    new_follow_affinity(search, queue, search->vms[vm].home, is_taken);
    for (guint i = 0; i < queue->len; i++) {
        const size_t one = g_array_index(queue, size_t, i);
        search->vms[one].bundle = search->n_bundles;
        search->bundle_vms[bundle->first + bundle->n++] = one;
        bundle->movable = bundle->movable && search->vms[one].movable;
        bundle->cost += search->vms[one].cost;
    }
}

/* Finds the VMs that belong together and are on several hosts. */
static void
new_aparts(struct search *search)
{
    const size_t n = search->cluster->n_vms;
    g_autofree bool *is_taken = g_new0(bool, n + 1);
    size_t next = 0;

    search->aparts = g_new0(struct search_apart, n);
    search->apart_vms = g_new0(size_t, n);
    for (size_t v = 0; v < n; v++) {
        g_autoptr(GArray) queue = NULL;
        bool several = false;
        if (is_taken[v] || search->cluster->vms[v].vm->affinity->len == 0)
            continue;
        queue = g_array_new(FALSE, FALSE, sizeof(size_t));
        is_taken[v] = true;
        g_array_append_val(queue, v);
        new_follow_affinity(search, queue, SEARCH_NOWHERE, is_taken);
        for (guint i = 0; i < queue->len; i++) {
            search->apart_vms[next + i] = g_array_index(queue, size_t, i);
            several =
                several || search->vms[search->apart_vms[next + i]].home != search->vms[v].home;
        }
        if (!several)
            continue;
        search->aparts[search->n_aparts++] = (struct search_apart){next, queue->len};
        next += queue->len;
    }
}

static void
new_bundles(struct search *search)
{
    const size_t n = search->cluster->n_vms;
    g_autofree bool *is_taken = g_new0(bool, n + 1);
    size_t next = 0;

    search->bundles = g_new0(struct search_bundle, n);
    search->bundle_vms = g_new0(size_t, n);
    for (size_t v = 0; v < n; v++) {
        if (is_taken[v])
            continue;
        struct search_bundle *bundle = &search->bundles[search->n_bundles];
        bundle->first = next;
        bundle->movable = true;
        new_take_together(search, bundle, v, is_taken);
        bundle->movable = bundle->movable && bundle->n <= VG_GROUP_MAX;
        next += bundle->n;
        search->n_bundles++;
    }
}

/* Adds floats for the windows of a cluster. Their weights add up to `weight`. */
static void
new_add_windows(struct search *search, const vg_cluster *cluster, size_t means, double weight)
{
    const size_t n = cluster->n_windows, first = search->n_windows;
    const bool exact = n <= means || cluster->n_vms * n <= ROWS_EXACT_MAX;

    search->n_windows += exact ? n : means;
    search->width = (search->n_windows + LANES - 1) / LANES * LANES;
    search->weights = g_renew(float, search->weights, search->width);
    for (size_t i = first; i < search->width; i++) {
        const size_t k = i - first, floats = search->n_windows - first;
        search->weights[i] =
            i < search->n_windows
                ? (float)(weight * (double)((k + 1) * n / floats - k * n / floats) / (double)n)
                : 0;
    }
}

static void
new_windows(struct search *search)
{
    const vg_cluster *cluster = search->cluster;

    new_add_windows(search, cluster, WINDOWS_MEAN, cluster->day ? 1 - VG_DAY_WEIGHT : 1);
    search->n_live = search->n_windows;
    if (cluster->day)
        new_add_windows(search, cluster->day, DAY_MEAN, VG_DAY_WEIGHT);
}

/* Finds the hosts to which VMs may not return. Few VMs have moved from one host to another. */
static void
new_returns(struct search *search)
{
    const vg_cluster *cluster = search->cluster;

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        for (size_t v = 0; cluster->hosts[h].host->departed->len > 0 && v < cluster->n_vms; v++) {
            const struct search_return one = {v, h};
            g_autofree char *reason = NULL;
            struct vg_fit fit;
            struct vg_move move;
            if (!vg_snap_host_find_departed(cluster->hosts[h].host, cluster->vms[v].vm->uuid) ||
                vg_constraints_host(cluster, v, h, &fit, &reason) != VG_CONSTRAINT_NONE)
                continue;
            vg_move_evaluate(cluster, v, h, &fit, &move);
            if (!vg_gate_return(cluster, &move, NULL))
                g_array_append_val(search->returns, one);
        }
    }
}

struct search *
search_new(const vg_cluster *cluster, const bool *held)
{
    struct search *search = g_new0(struct search, 1);
    size_t n_uses = 0;

    search->cluster = cluster;
    search->held = held;
    search->engines = g_hash_table_new(g_str_hash, g_str_equal);
    search->models = g_hash_table_new(g_str_hash, g_str_equal);
    search->moved = g_array_new(FALSE, FALSE, sizeof(size_t));
    search->returns = g_array_new(FALSE, FALSE, sizeof(struct search_return));
    new_windows(search);
    new_returns(search);
    for (size_t v = 0; v < cluster->n_vms; v++)
        n_uses += cluster->vms[v].uses->len;
    search->hosts = g_new0(struct search_host, cluster->n_hosts);
    search->vms = g_new0(struct search_vm, cluster->n_vms);
    search->devices = g_new0(struct search_device, n_uses);
    search->uses = g_new0(struct search_use, n_uses);
    search->vm_demands = g_new0(float, cluster->n_vms * search->width);
    search->use_demands = g_new0(float, n_uses * search->width);
    for (size_t h = 0; h < cluster->n_hosts; h++)
        new_host(search, h);
    search->loads = g_new0(float, search->n_rows * search->width);
    search->capacities = g_new0(float, search->n_rows);
    search->scratch = g_new0(float, search->width);
    for (size_t h = 0; h < cluster->n_hosts; h++)
        new_loads(search, h);
    g_autofree double *windows =
        g_new0(double, MAX(cluster->n_windows, cluster->day ? cluster->day->n_windows : 0));
    for (size_t v = 0; v < cluster->n_vms; v++)
        new_vm(search, v, windows);
    new_bundles(search);
    new_aparts(search);
    for (size_t h = 0; h < cluster->n_hosts; h++)
        new_gpus(search, h);
    search_measure(search);
    search->ranks = g_new0(struct search_rank, cluster->n_hosts);
    for (size_t h = 0; h < cluster->n_hosts; h++)
        search->ranks[h].host = h;
    if (cluster->n_hosts <= SEARCH_MANY_HOSTS)
        search->penalties = g_new0(double, cluster->n_hosts);
    search->n_engines = g_hash_table_size(search->engines);
    search->engines_left = g_new0(double, (search->n_engines + 1) * cluster->n_hosts);
    search->ranks_are_old = true;
    return search;
}

void
search_free(struct search *search)
{
    for (size_t h = 0; h < search->cluster->n_hosts; h++) {
        struct search_host *host = &search->hosts[h];
        for (size_t g = 0; g < host->n_gpus; g++)
            vg_card_clear(&host->cards[g]);
        g_free(host->cards);
        g_free(host->slot_load);
        g_ptr_array_free(host->slots, TRUE);
        g_array_free(host->engines, TRUE);
        g_array_free(host->vms, TRUE);
    }
    g_hash_table_destroy(search->engines);
    g_hash_table_destroy(search->models);
    g_array_free(search->moved, TRUE);
    g_array_free(search->returns, TRUE);
    g_free(search->weights);
    g_free(search->loads);
    g_free(search->capacities);
    g_free(search->scratch);
    g_free(search->vm_demands);
    g_free(search->use_demands);
    g_free(search->vms);
    g_free(search->devices);
    g_free(search->uses);
    g_free(search->hosts);
    g_free(search->penalties);
    g_free(search->ranks);
    g_free(search->engines_left);
    g_free(search->bundles);
    g_free(search->bundle_vms);
    g_free(search->aparts);
    g_free(search->apart_vms);
    g_free(search);
}
