/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a simulation, from its own counters.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "policy/gpusched-private.h"

/* Counts remaining requests, which wait or run until the end. */
static void
add_open_request(struct vg_sim_tally *tally, const struct vg_sim_request *request, int64_t ran_ns,
                 int64_t end_ns)
{
    tally->wait_ns += end_ns - request->arrival_ns - request->ran_ns - ran_ns;
}

static void
add_open_lane(const vg_gpusched *sim, const struct vg_sim_lane *lane, struct vg_sim_tally *tally)
{
    for (uint32_t i = 0; i < lane->length; i++)
        add_open_request(tally, &lane->ring[(lane->head + i) & (lane->capacity - 1)], 0, sim->now);
}

static void
add_in_flight(const vg_gpusched *sim, const struct vg_sim_engine *engine,
              struct vg_sim_tally *tally)
{
    int64_t ran = engine->phase == VG_SIM_RUNNING ? sim->now - engine->started_ns : 0;

    add_open_request(tally, &engine->request, ran, sim->now);
    tally->exec_ns += ran;
    if (ran > 0)
        tally->busy_ns += MAX(0, sim->now - MAX(engine->started_ns, tally->busy_until_ns));
}

static int
compare_latencies(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Returns the nearest rank: the value at ceil(n * percent / 100), counted from 1. */
static int64_t
percentile(const GArray *sorted, uint64_t percent)
{
    uint64_t rank = (sorted->len * percent + 99) / 100;

    return g_array_index(sorted, int64_t, rank - 1);
}

static void
set_latencies(struct vg_gpusched_figures *figures, GArray *latencies)
{
    double sum = 0;

    if (latencies->len == 0)
        return;
    g_array_sort(latencies, compare_latencies);
    for (unsigned int i = 0; i < latencies->len; i++)
        sum += (double)g_array_index(latencies, int64_t, i);
    figures->latency_mean_ns = (int64_t)(sum / latencies->len + 0.5);
    figures->latency_p50_ns = percentile(latencies, 50);
    figures->latency_p95_ns = percentile(latencies, 95);
    figures->latency_p99_ns = percentile(latencies, 99);
    figures->latency_max_ns = percentile(latencies, 100);
}

static struct vg_gpusched_figures
gpusched_result_figures_of(const vg_gpusched *sim, uint32_t engine,
                           const struct vg_sim_tally *tally, GArray *latencies)
{
    double duration = (double)sim->scenario->duration_ns;
    struct vg_gpusched_figures figures = {
        .engine = (uint8_t)engine,
        .requests = tally->done,
        .partial = tally->arrived - tally->done - tally->dropped,
        .dropped = tally->dropped,
        .busy_ns = tally->busy_ns,
        .exec_ns = tally->exec_ns,
        .wait_ns = tally->wait_ns,
        .share = (double)tally->busy_ns / duration,
        .queue_len_avg = (double)tally->wait_ns / duration,
        .queue_len_max = tally->waiting_max,
    };

    set_latencies(&figures, latencies);
    return figures;
}

static struct vg_gpusched_figures
lane_figures(const vg_gpusched *sim, int vm, uint32_t e)
{
    const struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, e);
    const struct vg_sim_engine *engine = &sim->engines[e];
    struct vg_sim_tally tally = lane->tally;

    add_open_lane(sim, lane, &tally);
    if (engine->phase != VG_SIM_FREE && engine->vm == vm)
        add_in_flight(sim, engine, &tally);
    return gpusched_result_figures_of(sim, e, &tally, lane->latencies);
}

static struct vg_gpusched_figures
engine_figures(const vg_gpusched *sim, uint32_t e)
{
    const struct vg_sim_engine *engine = &sim->engines[e];
    struct vg_sim_tally tally = engine->tally;
    g_autoptr(GArray) latencies = g_array_new(FALSE, FALSE, sizeof(int64_t));

    if (engine->phase != VG_SIM_FREE)
        add_in_flight(sim, engine, &tally);
    for (int vm = 0; vm < (int)sim->n_vms; vm++) {
        const struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, e);
        add_open_lane(sim, lane, &tally);
        g_array_append_vals(latencies, lane->latencies->data, lane->latencies->len);
    }
    return gpusched_result_figures_of(sim, e, &tally, latencies);
}

static void
free_vm_result(void *data)
{
    struct vg_gpusched_vm_result *vm = data;

    g_free(vm->name);
    g_array_unref(vm->gpu);
    g_free(vm);
}

static struct vg_gpusched_vm_result *
vm_result(const vg_gpusched *sim, int vm)
{
    struct vg_gpusched_vm_result *result = g_new0(struct vg_gpusched_vm_result, 1);

    result->name = g_strdup(sim->vms[vm].is->name);
    result->gpu = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_figures));
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        if (!vg_sim_lane_of(sim, vm, e)->used)
            continue;
        const struct vg_gpusched_figures figures = lane_figures(sim, vm, e);
        g_array_append_val(result->gpu, figures);
    }
    return result;
}

struct vg_gpusched_result *
vg_gpusched_get_result(vg_gpusched *sim)
{
    const struct vg_gpusched_scenario *scenario = sim->scenario;
    struct vg_gpusched_result *result = g_new0(struct vg_gpusched_result, 1);

    result->mode = scenario->mode;
    result->generation = scenario->generation;
    result->seed = scenario->seed;
    result->duration_ns = scenario->duration_ns;
    memcpy(result->engines, scenario->engines, sizeof(result->engines));
    result->vms = g_ptr_array_new_with_free_func(free_vm_result);
    result->gpus = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_figures));
    for (int vm = 0; vm < (int)sim->n_vms; vm++)
        g_ptr_array_add(result->vms, vm_result(sim, vm));
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        const struct vg_gpusched_figures figures = engine_figures(sim, e);
        g_array_append_val(result->gpus, figures);
    }
    return result;
}

void
vg_gpusched_result_free(struct vg_gpusched_result *result)
{
    if (!result)
        return;
    g_ptr_array_unref(result->vms);
    g_array_unref(result->gpus);
    g_free(result);
}
