/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/predict.h"

#include <math.h>
#include <string.h>

#define NS_PER_S 1e9

/* The maximum number of pools that a text names. */
#define POOLS_NAMED 3u

/* A VM that is added to a host (sign 1) or removed from it (sign -1) for one forecast. */
struct change {
    const struct vg_vm_state *vm;
    int pool;
    double sign;
    const struct vg_fit *fit; /* sign 1 */
};

double
vg_loss_weighed(const struct vg_policy_config *config, struct vg_loss loss)
{
    return loss.cpu + config->gpu_weight * loss.gpu;
}

/* Limits a duration to what a plan can hold: the largest valid copy at 1 MB/s takes longer. */
static int64_t
ns_of(double seconds)
{
    const double limit = (double)VG_JSON_INT_MAX;
    return llround(CLAMP(seconds * NS_PER_S, -limit, limit));
}

struct vg_plan_gain
vg_gain_of(struct vg_loss won)
{
    return (struct vg_plan_gain){
        .lost_cpu_ns_per_s = ns_of(won.cpu),
        .gpu_wait_ns_per_s = ns_of(won.gpu),
    };
}

static double
cpu_lost_in(const struct vg_host_state *host, size_t w, double delta, int pool_of_delta)
{
    double served = 0;
    double lost = 0;
    for (guint p = 0; p < host->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(host->pools, struct vg_load, p);
        double demand = MAX(pool->demand[w] + ((int)p == pool_of_delta ? delta : 0), 0);
        lost += MAX(demand - pool->capacity, 0);
        served += MIN(demand, pool->capacity);
    }
    double floating = host->floating.demand[w];
    if (pool_of_delta == VG_POOL_FLOATING)
        floating = MAX(floating + delta, 0);
    return lost + MAX(floating - MAX(host->floating.capacity - served, 0), 0);
}

/* Returns the CPUs that the pools do not use in a window. */
static double
cpu_left_in(const struct vg_host_state *state, size_t w)
{
    double served = 0;

    for (guint p = 0; p < state->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(state->pools, struct vg_load, p);
        served += MIN(pool->demand[w], pool->capacity);
    }
    return MAX(state->floating.capacity - served, 0);
}

double
vg_predict_left(const vg_cluster *cluster, size_t host)
{
    double sum = 0;

    for (size_t w = 0; w < cluster->n_windows; w++)
        sum += cpu_left_in(&cluster->hosts[host], w);
    return sum / (double)cluster->n_windows;
}

static double
cpu_lost(const vg_cluster *cluster, const struct vg_host_state *host, const struct change *change)
{
    double sum = 0;
    for (size_t w = 0; w < cluster->n_windows; w++) {
        double delta = change ? change->sign * vg_vm_cpu_demand(cluster, change->vm, w) : 0;
        sum += cpu_lost_in(host, w, delta, change ? change->pool : VG_POOL_FLOATING);
    }
    return sum / (double)cluster->n_windows;
}

/* Returns the host's device that the change affects. */
static const char *
device_of(const struct vg_host_state *host, const struct change *change,
          const struct vg_engine_use *use)
{
    return change->sign > 0 ? vg_fit_device(change->fit, host->host, use->device) : use->device;
}

/* Returns the effect of the change on one engine in one window. */
static double
gpu_delta(const vg_cluster *cluster, const struct vg_host_state *host, const char *device,
          const char *engine, const struct change *change, size_t w)
{
    double delta = 0;
    for (guint u = 0; change && u < change->vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(change->vm->uses, struct vg_engine_use, u);
        if (strcmp(device_of(host, change, use), device) == 0 && strcmp(use->engine, engine) == 0)
            delta += change->sign * vg_vm_gpu_demand(cluster, change->vm, use, w);
    }
    return delta;
}

/* Returns whether an earlier use of the new VM goes to the same engine: two of its devices may be
 * on one GPU. */
static bool
repeats(const struct vg_host_state *host, const struct change *change, guint u)
{
    const struct vg_engine_use *use = &g_array_index(change->vm->uses, struct vg_engine_use, u);
    for (guint i = 0; i < u; i++) {
        const struct vg_engine_use *other =
            &g_array_index(change->vm->uses, struct vg_engine_use, i);
        if (strcmp(device_of(host, change, other), device_of(host, change, use)) == 0 &&
            strcmp(other->engine, use->engine) == 0)
            return true;
    }
    return false;
}

/* Sums up the loss on engines that only the new VM uses, over the windows. */
static double
gpu_lost_alone(const vg_cluster *cluster, const struct vg_host_state *host,
               const struct change *change)
{
    double sum = 0;
    for (guint u = 0; change && change->sign > 0 && u < change->vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(change->vm->uses, struct vg_engine_use, u);
        const char *device = device_of(host, change, use);
        if (vg_host_find_engine(host, device, use->engine) || repeats(host, change, u))
            continue;
        for (size_t w = 0; w < cluster->n_windows; w++)
            sum += MAX(gpu_delta(cluster, host, device, use->engine, change, w) - 1, 0);
    }
    return sum;
}

static double
gpu_lost(const vg_cluster *cluster, const struct vg_host_state *host, const struct change *change)
{
    double sum = gpu_lost_alone(cluster, host, change);
    for (guint e = 0; e < host->engines->len; e++) {
        const struct vg_load *engine = &g_array_index(host->engines, struct vg_load, e);
        for (size_t w = 0; w < cluster->n_windows; w++) {
            double demand = engine->demand[w] +
                            gpu_delta(cluster, host, engine->device, engine->engine, change, w);
            sum += MAX(demand - engine->capacity, 0);
        }
    }
    return sum / (double)cluster->n_windows;
}

static struct vg_loss
predict(const vg_cluster *cluster, size_t host, const struct change *change)
{
    const struct vg_host_state *state = &cluster->hosts[host];
    return (struct vg_loss){
        .cpu = cpu_lost(cluster, state, change),
        .gpu = gpu_lost(cluster, state, change),
    };
}

struct vg_loss
vg_predict_host(const vg_cluster *cluster, size_t host)
{
    return predict(cluster, host, NULL);
}

struct vg_loss
vg_predict_without(const vg_cluster *cluster, size_t host, size_t vm)
{
    struct change change = {
        .vm = &cluster->vms[vm],
        .pool = cluster->vms[vm].pool,
        .sign = -1,
    };
    return predict(cluster, host, &change);
}

struct vg_loss
vg_predict_with(const vg_cluster *cluster, size_t host, size_t vm, const struct vg_fit *fit)
{
    struct change change = {
        .vm = &cluster->vms[vm],
        .pool = VG_POOL_FLOATING,
        .sign = 1,
        .fit = fit,
    };
    return predict(cluster, host, &change);
}

double
vg_predict_free(const vg_cluster *cluster, size_t host, size_t w)
{
    const struct vg_host_state *state = &cluster->hosts[host];

    return MAX(cpu_left_in(state, w) - state->floating.demand[w], 0);
}

char *
vg_host_pools_text(const struct vg_host_state *host)
{
    GString *text = g_string_new(NULL);

    for (guint p = 0; p < MIN(host->pools->len, POOLS_NAMED); p++)
        g_string_append_printf(text, "%s%s", p > 0 ? ", " : "",
                               g_array_index(host->pools, struct vg_load, p).name);
    if (host->pools->len > POOLS_NAMED)
        g_string_append(text, ", ...");
    return g_string_free(text, host->pools->len == 0);
}

double
vg_predict_spread(const vg_cluster *cluster, size_t host)
{
    const struct vg_host_state *state = &cluster->hosts[host];
    double sum = 0;
    for (size_t w = 0; w < cluster->n_windows; w++) {
        double demand = state->floating.demand[w];
        for (guint p = 0; p < state->pools->len; p++)
            demand += g_array_index(state->pools, struct vg_load, p).demand[w];
        sum += MAX(demand - state->floating.capacity, 0);
    }
    return sum / (double)cluster->n_windows;
}

size_t
vg_host_n_places(const struct vg_host_state *host)
{
    return (size_t)host->pools->len + 1 + host->engines->len;
}

const struct vg_load *
vg_host_place(const struct vg_host_state *host, size_t place, bool *ret_is_gpu)
{
    *ret_is_gpu = place > host->pools->len;
    if (place < host->pools->len)
        return &g_array_index(host->pools, struct vg_load, place);
    if (place == host->pools->len)
        return &host->floating;
    return &g_array_index(host->engines, struct vg_load, place - host->pools->len - 1);
}

double
vg_predict_place(const vg_cluster *cluster, size_t host, size_t place, size_t w)
{
    const struct vg_host_state *state = &cluster->hosts[host];
    bool is_gpu = false;
    const struct vg_load *load = vg_host_place(state, place, &is_gpu);
    if (load != &state->floating)
        return MAX(load->demand[w] - load->capacity, 0);

    double lost = cpu_lost_in(state, w, 0, VG_POOL_FLOATING);
    for (guint p = 0; p < state->pools->len; p++) {
        const struct vg_load *pool = &g_array_index(state->pools, struct vg_load, p);
        lost -= MAX(pool->demand[w] - pool->capacity, 0);
    }
    return MAX(lost, 0);
}

double
vg_predict_wanted(const vg_cluster *cluster, size_t vm)
{
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;
    double wanted = vg_snap_vm_demand(snap);

    for (guint i = 0; i < snap->gpu->len; i++) {
        const struct vg_snap_gpu_use *use = snap->gpu->pdata[i];
        wanted += cluster->config->gpu_weight * MIN(use->share + use->wait_share, 1.0);
    }
    return wanted;
}

/* Returns the bytes of video memory. Each device counts once, however many engines it has. */
static int64_t
gpu_memory(const struct vg_snap_vm *vm)
{
    int64_t sum = 0;
    for (guint i = 0; i < vm->gpu->len; i++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        const struct vg_snap_gpu_use *last = i > 0 ? vm->gpu->pdata[i - 1] : NULL;
        if (!last || strcmp(last->device, use->device) != 0)
            sum += use->memory_bytes;
    }
    return sum;
}

void
vg_predict_cost(const vg_cluster *cluster, size_t vm, struct vg_plan_cost *ret)
{
    const struct vg_policy_config *config = cluster->config;
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;
    bool assumed = snap->memory_bytes == 0;
    int64_t memory = assumed ? config->assumed_memory_bytes : snap->memory_bytes;
    int64_t video = gpu_memory(snap);
    double bandwidth = (double)config->bandwidth;
    double stun_s = (double)config->stun_ns / NS_PER_S + (double)video / bandwidth;
    double migration_s = ((double)memory + (double)video) / bandwidth;

    *ret = (struct vg_plan_cost){
        .migration_s = migration_s,
        .stun_s = stun_s,
        .lost_cpu_ns = ns_of(vg_snap_vm_demand(snap) * stun_s + config->copy_cores * migration_s),
        .memory_bytes = memory + video,
        .memory_assumed = assumed,
    };
}

double
vg_cost_cores(const struct vg_policy_config *config, const struct vg_plan_cost *cost)
{
    return (double)cost->lost_cpu_ns / (double)config->horizon_ns;
}
