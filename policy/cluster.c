/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "model/gpu-profile.h"
#include "model/window.h"
#include "policy/cluster-private.h"
#include "policy/host-groups.h"

static bool
is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

/* Returns why the VM's data cannot be used, or NULL. The reader has checked snapshots from JSON,
 * but not those created in memory. */
static char *
find_problem(const struct vg_snap_vm *vm)
{
    if (vm->problem)
        return g_strdup(vm->problem);
    bool ok = is_amount(vm->run_share) && is_amount(vm->preempt_share) &&
              is_amount(vm->wake_wait_share) && is_amount(vm->cpu_limit) &&
              is_amount(vm->preemptions_per_s) && is_amount(vm->gpu_intensity) &&
              vm->memory_bytes >= 0;
    ok = ok && cluster_has_amounts(vm->profile.cpu) && cluster_has_amounts(vm->profile.gpu) &&
         cluster_has_amounts(vm->day.cpu) && cluster_has_amounts(vm->day.gpu);
    for (guint i = 0; ok && i < vm->gpu->len; i++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        ok = is_amount(use->share) && is_amount(use->wait_share) && use->memory_bytes >= 0;
    }
    return ok ? NULL : g_strdup("a value is negative or not a number");
}

/* Returns whether a GPU is a MIG slice, which has its own engines. */
static bool
is_slice(const struct vg_snap_host *host, const struct vg_snap_gpu_use *use)
{
    if (vg_gpu_profile_is_mig(use->vgpu_type))
        return true;
    for (guint g = 0; use->vgpu_type && g < host->gpus->len; g++) {
        const struct vg_snap_gpu *gpu = host->gpus->pdata[g];
        for (guint t = 0; t < gpu->vgpu_types->len; t++) {
            const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[t];
            if (type->mig && strcmp(type->type, use->vgpu_type) == 0)
                return true;
        }
    }
    return false;
}

static void
init_gpu_uses(const vg_cluster *cluster, const struct vg_snap_host *host, struct vg_vm_state *state)
{
    const struct vg_snap_vm *vm = state->vm;
    const GArray *profile = cluster_profile(cluster, vm)->gpu;

    state->uses = g_array_new(FALSE, FALSE, sizeof(struct vg_engine_use));
    for (guint i = 0; i < vm->gpu->len; i++) {
        const struct vg_snap_gpu_use *from = vm->gpu->pdata[i];
        double level = from->share + from->wait_share;
        if (vm->gpu_known)
            level = MIN(level, MAX(from->share, vm->gpu_intensity));
        struct vg_engine_use use = {
            .device = from->device,
            .engine = from->engine,
            .level = is_slice(host, from) ? 0 : MIN(level, 1.0),
        };
        g_array_append_val(state->uses, use);
    }
    for (guint i = 0; i < profile->len; i++)
        state->gpu_mean += g_array_index(profile, double, i) / profile->len;
}

static void
init_vms(vg_cluster *cluster)
{
    for (size_t h = 0; h < cluster->n_hosts; h++)
        cluster->n_vms += cluster->hosts[h].host->vms->len;
    cluster->vms = g_new0(struct vg_vm_state, cluster->n_vms);
    size_t next = 0;
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const GPtrArray *vms = cluster->hosts[h].host->vms;
        for (guint v = 0; v < vms->len; v++, next++) {
            struct vg_vm_state *state = &cluster->vms[next];
            state->vm = vms->pdata[v];
            state->home = h;
            state->host = h;
            state->pool = VG_POOL_FLOATING;
            state->problem = find_problem(state->vm);
            state->no_demand = vg_snap_vm_lacks(state->vm, "run_share");
            state->no_gpu_use = state->vm->gpu->len > 0 && vg_snap_vm_lacks(state->vm, "gpu");
            if (state->no_demand)
                cluster->hosts[h].no_demand = state->vm->name;
            state->cpu_demand = vg_snap_vm_demand(state->vm);
            init_gpu_uses(cluster, cluster->hosts[h].host, state);
            g_array_append_val(cluster->hosts[h].vms, next);
        }
    }
}

static struct vg_load
load_new(const vg_cluster *cluster, double capacity, char *take_name)
{
    return (struct vg_load){
        .capacity = capacity,
        .demand = g_new0(double, cluster->n_windows),
        .name = take_name,
    };
}

static void
load_clear(void *data)
{
    struct vg_load *load = data;
    g_free(load->demand);
    g_free(load->name);
}

/* Formats "CPU 0" or "CPUs 0-2,5" from ascending numbers. */
static char *
pool_name(const GArray *cpus)
{
    GString *name = g_string_new(cpus->len == 1 ? "CPU " : "CPUs ");
    for (guint i = 0; i < cpus->len;) {
        guint end = i;
        while (end + 1 < cpus->len &&
               g_array_index(cpus, int32_t, end + 1) == g_array_index(cpus, int32_t, end) + 1)
            end++;
        g_string_append_printf(name, "%s%d", i > 0 ? "," : "", g_array_index(cpus, int32_t, i));
        if (end > i)
            g_string_append_printf(name, "-%d", g_array_index(cpus, int32_t, end));
        i = end + 1;
    }
    return g_string_free(name, FALSE);
}

static size_t
find_root(const size_t *parents, size_t i)
{
    while (parents[i] != i)
        i = parents[i];
    return i;
}

/* A VM with bad data has no load on any host, and its CPUs must not join other VMs' pools. */
static bool
floats(const struct vg_host_state *host, const struct vg_vm_state *vm)
{
    return vm->problem || vm->vm->cpus->len == 0 || vm->vm->cpus->len >= (guint)host->host->cpus;
}

static int
by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a;
    int32_t y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Creates the pool of the VMs whose root is `root`, with all of their CPUs. */
static void
make_pool(vg_cluster *cluster, struct vg_host_state *host, const size_t *parents, size_t root,
          const GHashTable *owners)
{
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(int32_t));
    GHashTableIter iter;
    void *cpu = NULL;
    void *owner = NULL;
    g_hash_table_iter_init(&iter, (GHashTable *)owners);
    while (g_hash_table_iter_next(&iter, &cpu, &owner)) {
        int32_t number = GPOINTER_TO_INT(cpu);
        if (find_root(parents, GPOINTER_TO_SIZE(owner)) == root)
            g_array_append_val(cpus, number);
    }
    g_array_sort(cpus, by_number);
    for (guint v = 0; v < host->vms->len; v++) {
        struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
        if (!floats(host, vm) && find_root(parents, v) == root)
            vm->pool = (int)host->pools->len;
    }
    struct vg_load pool = load_new(cluster, cpus->len, pool_name(cpus));
    g_array_append_val(host->pools, pool);
}

/* Finds the connected components of VMs that share CPUs, by union-find. */
static void
init_pools(vg_cluster *cluster, struct vg_host_state *host)
{
    host->floating = load_new(cluster, (double)host->host->cpus, g_strdup("CPUs"));

    g_autofree size_t *parents = g_new(size_t, host->vms->len + 1);
    g_autoptr(GHashTable) owners = g_hash_table_new(NULL, NULL);
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
        parents[v] = v;
        for (guint i = 0; !floats(host, vm) && i < vm->vm->cpus->len; i++) {
            void *cpu = GINT_TO_POINTER(g_array_index(vm->vm->cpus, int32_t, i));
            void *owner = NULL;
            if (!g_hash_table_lookup_extended(owners, cpu, NULL, &owner)) {
                g_hash_table_insert(owners, cpu, GSIZE_TO_POINTER((size_t)v));
                continue;
            }
            size_t a = find_root(parents, GPOINTER_TO_SIZE(owner));
            size_t b = find_root(parents, v);
            parents[MAX(a, b)] = MIN(a, b);
        }
    }
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
        if (!floats(host, vm) && parents[v] == v)
            make_pool(cluster, host, parents, v, owners);
    }
}

struct vg_load *
vg_host_find_engine(const struct vg_host_state *host, const char *device, const char *engine)
{
    for (guint i = 0; i < host->engines->len; i++) {
        struct vg_load *load = &g_array_index(host->engines, struct vg_load, i);
        if (strcmp(load->device, device) == 0 && strcmp(load->engine, engine) == 0)
            return load;
    }
    return NULL;
}

struct vg_load *
cluster_need_engine(const vg_cluster *cluster, struct vg_host_state *host, const char *device,
                    const char *engine)
{
    struct vg_load *found = vg_host_find_engine(host, device, engine);
    if (found)
        return found;
    struct vg_load load =
        load_new(cluster, 1, g_strdup_printf("engine '%s' of GPU '%s'", engine, device));
    load.device = device;
    load.engine = engine;
    g_array_append_val(host->engines, load);
    return &g_array_index(host->engines, struct vg_load, host->engines->len - 1);
}

static void
add_cpu(const vg_cluster *cluster, struct vg_host_state *host, const struct vg_vm_state *vm,
        double sign)
{
    struct vg_load *load = vm->pool == VG_POOL_FLOATING
                               ? &host->floating
                               : &g_array_index(host->pools, struct vg_load, vm->pool);
    for (size_t w = 0; w < cluster->n_windows; w++)
        load->demand[w] = MAX(load->demand[w] + sign * vg_vm_cpu_demand(cluster, vm, w), 0);
}

static void
add_gpu(const vg_cluster *cluster, struct vg_host_state *host, const struct vg_vm_state *vm,
        double sign)
{
    for (guint u = 0; u < vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(vm->uses, struct vg_engine_use, u);
        struct vg_load *load = cluster_need_engine(cluster, host, use->device, use->engine);
        for (size_t w = 0; w < cluster->n_windows; w++)
            load->demand[w] =
                MAX(load->demand[w] + sign * vg_vm_gpu_demand(cluster, vm, use, w), 0);
    }
}

void
cluster_add_load(const vg_cluster *cluster, struct vg_host_state *host,
                 const struct vg_vm_state *vm, double sign)
{
    add_cpu(cluster, host, vm, sign);
    add_gpu(cluster, host, vm, sign);
}

/* Returns the cores that the VM lost to its host. */
static double
cluster_lost_to_host(const struct vg_snap_vm *vm)
{
    double sum = 0;

    for (guint i = 0; i < vm->lost_to->len; i++) {
        const struct vg_snap_loss *loss = vm->lost_to->pdata[i];
        if (strcmp(loss->aggressor, vg_aggressor_name(VG_AGGRESSOR_HOST_USER)) == 0 ||
            strcmp(loss->aggressor, vg_aggressor_name(VG_AGGRESSOR_HOST_KERNEL)) == 0)
            sum += loss->share;
    }
    return isfinite(sum) ? MAX(sum, 0) : 0;
}

/* Returns the host's use of a pool, which is at most the capacity that VMs left. VMs that wait at
 * the same time for one program lose more than the program used. */
static double
cluster_own_of_pool(const vg_cluster *cluster, const struct vg_host_state *host, int pool,
                    double capacity)
{
    double lost = 0, run = 0;

    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
        if (vm->problem || vm->pool != pool)
            continue;
        lost += cluster_lost_to_host(vm->vm);
        run += vm->vm->run_share;
    }
    return CLAMP(capacity - run, 0, lost);
}

/* Returns the cores that the host itself used in a window. */
static double
cluster_own_in(const vg_cluster *cluster, const struct vg_snap_host *host, size_t w)
{
    const struct vg_snap_profile *profile = &host->own_profile;
    const size_t ago = cluster->n_windows - 1 - w;
    const double mean = is_amount(host->own_share) ? host->own_share : 0;

    if (cluster->of_day || profile->window_ns != cluster->window_ns || ago >= profile->cpu->len)
        return mean;
    const double cores = g_array_index(profile->cpu, double, profile->cpu->len - 1 - ago);
    return is_amount(cores) ? cores : mean;
}

/* Adds the host's own use in one window to its loads. The `own` of a load is what VMs lost to the
 * host there, as a mean. It varies from window to window in proportion to the whole use. */
static void
cluster_add_own_in(const vg_cluster *cluster, struct vg_host_state *host, size_t w)
{
    const double own = cluster_own_in(cluster, host->host, w);
    const double part = host->host->own_share > 0 ? own / host->host->own_share : 1;
    double rest = own;

    for (guint p = 0; p < host->pools->len; p++) {
        struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        pool->demand[w] = MIN(pool->own * part, pool->capacity);
        rest -= pool->demand[w];
    }
    host->floating.demand[w] = MAX(rest, MIN(host->floating.own * part, host->floating.capacity));
}

/* Reduces what VMs lost to the host, in total, to the CPU time that it used. Several of them may
 * have waited for the same program at the same time. */
static void
cluster_limit_own(struct vg_host_state *host, double lost)
{
    if (!vg_snap_host_knows_own(host->host) || lost <= host->host->own_share)
        return;
    const double part = host->host->own_share / lost;
    for (guint p = 0; p < host->pools->len; p++)
        g_array_index(host->pools, struct vg_load, p).own *= part;
    host->floating.own *= part;
}

/* Adds the host's own use of its CPUs to loads that are still empty. */
static void
cluster_add_own(const vg_cluster *cluster, struct vg_host_state *host)
{
    double bound = 0, run = 0;

    for (guint p = 0; p < host->pools->len; p++) {
        struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        pool->own = cluster_own_of_pool(cluster, host, (int)p, pool->capacity);
        bound += pool->own;
    }
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
        run += vm->problem || vm->pool == VG_POOL_FLOATING ? 0 : vm->vm->run_share;
    }
    const double left = MAX(host->floating.capacity - run - bound, 0);
    host->floating.own = cluster_own_of_pool(cluster, host, VG_POOL_FLOATING, left);
    cluster_limit_own(host, bound + host->floating.own);
    for (size_t w = 0; w < cluster->n_windows; w++)
        cluster_add_own_in(cluster, host, w);
    for (guint p = 0; p < host->pools->len; p++) {
        struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        pool->own = vg_load_mean(cluster, pool);
    }
    host->floating.own = vg_load_mean(cluster, &host->floating);
}

/* Adds the load of engines beyond the shares of the host's VMs. */
static void
add_background(const vg_cluster *cluster, struct vg_host_state *host)
{
    for (guint g = 0; g < host->host->gpus->len; g++) {
        const struct vg_snap_gpu *gpu = host->host->gpus->pdata[g];
        for (guint e = 0; e < gpu->engines->len && !vg_card_has_slices(gpu); e++) {
            const struct vg_snap_engine *engine = gpu->engines->pdata[e];
            double rest = engine->share;
            for (guint v = 0; v < host->host->vms->len; v++) {
                const struct vg_snap_vm *vm = host->host->vms->pdata[v];
                for (guint u = 0; u < vm->gpu->len; u++) {
                    const struct vg_snap_gpu_use *use = vm->gpu->pdata[u];
                    if (strcmp(use->device, gpu->device) == 0 &&
                        strcmp(use->engine, engine->engine) == 0)
                        rest -= use->share;
                }
            }
            struct vg_load *load = cluster_need_engine(cluster, host, gpu->device, engine->engine);
            for (size_t w = 0; rest > 0 && w < cluster->n_windows; w++)
                load->demand[w] += rest;
        }
    }
}

static void
init_loads(vg_cluster *cluster)
{
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        struct vg_host_state *host = &cluster->hosts[h];
        init_pools(cluster, host);
        cluster_add_own(cluster, host);
        add_background(cluster, host);
        for (guint v = 0; v < host->vms->len; v++) {
            const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, v)];
            cluster_add_load(cluster, host, vm, 1);
        }
    }
}

static void
free_array(void *array)
{
    g_array_free(array, TRUE);
}

static void
index_groups(GHashTable *groups, const GPtrArray *names, size_t vm)
{
    for (guint i = 0; i < names->len; i++) {
        GArray *members = g_hash_table_lookup(groups, names->pdata[i]);
        if (!members) {
            members = g_array_new(FALSE, FALSE, sizeof(size_t));
            g_hash_table_insert(groups, names->pdata[i], members);
        }
        g_array_append_val(members, vm);
    }
}

/* Assigns a number, from 1, to a type that has none. */
static void
number_type(GHashTable *types, const char *type)
{
    if (type && !g_hash_table_contains(types, type))
        g_hash_table_insert(types, (char *)type, GUINT_TO_POINTER(g_hash_table_size(types) + 1));
}

/* Assigns numbers to the types of VMs. */
static void
number_types(GHashTable *types, const struct vg_snap_host *host)
{
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        for (guint u = 0; u < vm->gpu->len; u++)
            number_type(types, ((const struct vg_snap_gpu_use *)vm->gpu->pdata[u])->vgpu_type);
    }
}

static vg_cluster *
cluster_new(const vg_snapshot *snapshot, const struct vg_policy_config *config, const char *type,
            bool of_day)
{
    vg_cluster *cluster = g_new0(vg_cluster, 1);
    cluster->of_day = of_day;
    cluster->snapshot = snapshot;
    cluster->config = config;
    cluster->n_hosts = snapshot->hosts->len;
    cluster->hosts = g_new0(struct vg_host_state, cluster->n_hosts);
    cluster->types = g_hash_table_new(g_str_hash, g_str_equal);
    cluster->affinity = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_array);
    cluster->anti_affinity = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, free_array);
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        struct vg_host_state *state = &cluster->hosts[h];
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        state->host = host;
        state->pools = g_array_new(FALSE, FALSE, sizeof(struct vg_load));
        state->engines = g_array_new(FALSE, FALSE, sizeof(struct vg_load));
        g_array_set_clear_func(state->pools, load_clear);
        g_array_set_clear_func(state->engines, load_clear);
        state->vms = g_array_new(FALSE, FALSE, sizeof(size_t));
        state->memory_free = host->memory_free_bytes;
        state->packs_gpus =
            vg_host_groups_gpu_placement(config, host->name) == VG_GPU_PLACEMENT_PACK;
        state->cards = g_new0(struct vg_card, host->gpus->len);
        number_types(cluster->types, host);
    }
    number_type(cluster->types, type);
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        for (guint g = 0; g < host->gpus->len; g++)
            vg_card_init(&cluster->hosts[h].cards[g], host, host->gpus->pdata[g], cluster->types);
    }
    init_vms(cluster);
    cluster_number_names(cluster);
    cluster_find_departed(cluster);
    cluster_choose_windows(cluster);
    init_loads(cluster);
    for (size_t i = 0; i < cluster->n_vms; i++) {
        index_groups(cluster->affinity, cluster->vms[i].vm->affinity, i);
        index_groups(cluster->anti_affinity, cluster->vms[i].vm->anti_affinity, i);
    }
    if (!of_day && cluster_has_day(cluster))
        cluster->day = cluster_new(snapshot, config, type, true);
    return cluster;
}

vg_cluster *
vg_cluster_new(const vg_snapshot *snapshot, const struct vg_policy_config *config)
{
    return cluster_new(snapshot, config, NULL, false);
}

vg_cluster *
vg_cluster_new_with_type(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                         const char *type)
{
    return cluster_new(snapshot, config, type, false);
}

void
vg_cluster_free(vg_cluster *cluster)
{
    if (!cluster)
        return;
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        struct vg_host_state *state = &cluster->hosts[h];
        g_array_free(state->pools, TRUE);
        g_array_free(state->engines, TRUE);
        g_array_free(state->vms, TRUE);
        load_clear(&state->floating);
        for (guint g = 0; g < state->host->gpus->len; g++)
            vg_card_clear(&state->cards[g]);
        g_free(state->cards);
    }
    for (size_t i = 0; i < cluster->n_vms; i++) {
        g_array_free(cluster->vms[i].uses, TRUE);
        g_free(cluster->vms[i].problem);
        g_clear_pointer(&cluster->vms[i].departed, g_ptr_array_unref);
    }
    vg_cluster_free(cluster->day);
    g_hash_table_destroy(cluster->types);
    g_hash_table_destroy(cluster->affinity);
    g_hash_table_destroy(cluster->anti_affinity);
    g_free(cluster->hosts);
    g_free(cluster->vms);
    g_free(cluster);
}

double
vg_load_mean(const vg_cluster *cluster, const struct vg_load *load)
{
    double sum = 0;
    for (size_t w = 0; w < cluster->n_windows; w++)
        sum += load->demand[w];
    return sum / (double)cluster->n_windows;
}

double
vg_host_own(const struct vg_host_state *host)
{
    double own = host->floating.own;

    for (guint p = 0; p < host->pools->len; p++)
        own += g_array_index(host->pools, struct vg_load, p).own;
    return own;
}
