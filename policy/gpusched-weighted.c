/* SPDX-License-Identifier: Apache-2.0
 *
 * Weighted fair sharing, request by request, of each engine separately.
 */
#include "config.h"

#include "policy/gpusched-private.h"

/* Fair time is ns * FINE / weight. This leaves space for two hours at weight 1. */
#define FINE INT64_C(1048576)

struct weighted {
    int64_t *fair_now; /* per engine: the fair time at which it last took a VM */
};

static void
weighted_init(vg_gpusched *sim)
{
    struct weighted *weighted = g_new0(struct weighted, 1);

    weighted->fair_now = g_new0(int64_t, sim->n_engines);
    sim->policy = weighted;
}

static void
weighted_clear(vg_gpusched *sim)
{
    struct weighted *weighted = sim->policy;

    g_free(weighted->fair_now);
    g_free(weighted);
}

static void
weighted_started(vg_gpusched *sim, int vm)
{
    (void)sim;
    (void)vm;
}

static void
weighted_stopped(vg_gpusched *sim, int vm)
{
    (void)sim;
    (void)vm;
}

static void
weighted_queued(vg_gpusched *sim, int vm, uint32_t engine)
{
    const struct weighted *weighted = sim->policy;
    struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, engine);

    if (!vg_sim_has_work(sim, vm, engine))
        lane->fair_time = MAX(lane->fair_time, weighted->fair_now[engine]);
}

static void
weighted_done(vg_gpusched *sim, int vm, uint32_t engine, int64_t ran_ns)
{
    vg_sim_lane_of(sim, vm, engine)->fair_time += ran_ns * FINE / sim->vms[vm].is->weight;
}

static int64_t
weighted_next_ns(const vg_gpusched *sim)
{
    (void)sim;
    return INT64_MAX;
}

static void
weighted_decide(vg_gpusched *sim)
{
    (void)sim;
}

static int
weighted_choose(vg_gpusched *sim, uint32_t engine)
{
    int best = VG_SIM_NOBODY;

    for (int vm = 0; vm < (int)sim->n_vms; vm++) {
        const struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, engine);
        if (lane->length == 0)
            continue;
        if (best < 0 || lane->fair_time < vg_sim_lane_of(sim, best, engine)->fair_time)
            best = vm;
    }
    return best;
}

static void
weighted_taken(vg_gpusched *sim, int vm, uint32_t engine)
{
    struct weighted *weighted = sim->policy;

    weighted->fair_now[engine] = vg_sim_lane_of(sim, vm, engine)->fair_time;
    vg_sim_emit_switch(sim, (uint8_t)engine, sim->engines[engine].owner, vm);
}

const struct vg_gpusched_ops vg_gpusched_weighted_ops = {
    .init = weighted_init,
    .clear = weighted_clear,
    .started = weighted_started,
    .stopped = weighted_stopped,
    .queued = weighted_queued,
    .done = weighted_done,
    .next_ns = weighted_next_ns,
    .decide = weighted_decide,
    .choose = weighted_choose,
    .taken = weighted_taken,
};
