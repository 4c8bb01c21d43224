/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates a simulator with the scheduler for its mode, and frees it.
 */
#include "config.h"

#include "policy/gpusched-private.h"

static int
gpusched_compare_changes(const void *a, const void *b)
{
    const struct vg_sim_change *x = a;
    const struct vg_sim_change *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    if (x->stop != y->stop)
        return x->stop ? -1 : 1;
    return x->vm < y->vm ? -1 : x->vm > y->vm;
}

static void
gpusched_add_changes(vg_gpusched *sim)
{
    for (uint32_t i = 0; i < sim->n_vms; i++) {
        const struct vg_gpusched_vm *vm = sim->vms[i].is;
        const struct vg_sim_change start = {vm->start_ns, i, false};
        const struct vg_sim_change stop = {vm->stop_ns, i, true};
        g_array_append_val(sim->changes, start);
        g_array_append_val(sim->changes, stop);
    }
    g_array_sort(sim->changes, gpusched_compare_changes);
}

static const struct vg_gpusched_ops *
gpusched_ops_of(enum vg_gpusched_mode mode)
{
    switch (mode) {
    case VG_GPUSCHED_GVTG:
    case VG_GPUSCHED_NO_CARRY:
    case VG_GPUSCHED_WORK_CONSERVING:
        return &vg_gpusched_gvtg_ops;
    case VG_GPUSCHED_WEIGHTED:
        return &vg_gpusched_weighted_ops;
    case VG_GPUSCHED_BEST_EFFORT:
    case VG_GPUSCHED_EQUAL_SHARE:
    case VG_GPUSCHED_FIXED_SHARE:
    case VG_GPUSCHED_QUANTUM:
    case VG_GPUSCHED_MODE_MAX:
        break;
    }
    return &vg_gpusched_turns_ops;
}

vg_gpusched *
vg_gpusched_new(const struct vg_gpusched_scenario *scenario, vg_gpusched_emit emit_record,
                void *emit_data, GError **err)
{
    if (vg_gpusched_scenario_check(scenario, err) < 0)
        return NULL;
    vg_gpusched *sim = g_new0(vg_gpusched, 1);
    sim->scenario = scenario;
    sim->ops = gpusched_ops_of(scenario->mode);
    sim->emit = emit_record;
    sim->emit_data = emit_data;
    sim->n_vms = scenario->vms->len;
    sim->n_engines = scenario->n_engines;
    sim->vms = g_new0(struct vg_sim_vm, sim->n_vms);
    sim->engines = g_new0(struct vg_sim_engine, sim->n_engines);
    sim->lanes = g_new0(struct vg_sim_lane, (size_t)sim->n_vms * sim->n_engines);
    sim->sources = g_array_new(FALSE, FALSE, sizeof(struct vg_sim_source));
    sim->arrivals = g_array_new(FALSE, FALSE, sizeof(struct vg_sim_arrival));
    sim->changes = g_array_new(FALSE, FALSE, sizeof(struct vg_sim_change));
    for (uint32_t i = 0; i < sim->n_vms; i++)
        sim->vms[i].is = scenario->vms->pdata[i];
    for (uint32_t e = 0; e < sim->n_engines; e++)
        sim->engines[e].owner = VG_SIM_NOBODY;
    for (size_t i = 0; i < (size_t)sim->n_vms * sim->n_engines; i++)
        sim->lanes[i].latencies = g_array_new(FALSE, FALSE, sizeof(int64_t));
    vg_sim_add_sources(sim);
    gpusched_add_changes(sim);
    sim->ops->init(sim);
    return sim;
}

void
vg_gpusched_free(vg_gpusched *sim)
{
    if (!sim)
        return;
    sim->ops->clear(sim);
    for (size_t i = 0; i < (size_t)sim->n_vms * sim->n_engines; i++) {
        g_free(sim->lanes[i].ring);
        g_array_unref(sim->lanes[i].latencies);
    }
    g_array_unref(sim->sources);
    g_array_unref(sim->arrivals);
    g_array_unref(sim->changes);
    g_free(sim->lanes);
    g_free(sim->engines);
    g_free(sim->vms);
    g_free(sim);
}
