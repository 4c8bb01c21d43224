/* SPDX-License-Identifier: Apache-2.0
 *
 * The time-based scheduler of GVT-g and its two variants. Functions are named after those of
 * drivers/gpu/drm/i915/gvt/sched_policy.c that they follow.
 */
#include "config.h"

#include "policy/gpusched-private.h"

#define TICK_NS       INT64_C(1000000)    /* GVT_DEFAULT_TIME_SLICE */
#define BALANCE_NS    INT64_C(100000000)  /* GVT_TS_BALANCE_PERIOD_MS */
#define BALANCE_TICKS 100                 /* counted by the old generation */
#define STAGES        10                  /* GVT_TS_BALANCE_STAGE_NUM */
#define PRIORITY_NS   INT64_C(2000000000) /* GVT_SCHED_VGPU_PRI_TIME */

struct gvtg_vgpu {
    int prev, next; /* in the list, whose head is the entry after the last vGPU */
    bool listed;
    bool priority;
    int64_t priority_until_ns;
    int64_t left_ns;
    int64_t allocated_ns;
    int64_t sched_in_ns;
};

struct gvtg {
    bool old;
    bool carry;           /* the rest is kept at a balance */
    bool work_conserving; /* budgets never make the GPU idle */
    int current, next;    /* VM, VG_SIM_IDLE or VG_SIM_NOBODY */
    bool need_reschedule;
    bool event; /* REQUEST_EVENT_SCHED */
    int64_t tick_ns;
    int64_t expire_ns;
    uint32_t stage;
    uint32_t ticks;
    int head;
    struct gvtg_vgpu *vgpus; /* one more than the number of vGPUs, for the head */
};

/* ---- the list of started vGPUs, least recently chosen first ---- */

static void
insert_after(struct gvtg *gvtg, int at, int vm)
{
    struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];

    vgpu->prev = at;
    vgpu->next = gvtg->vgpus[at].next;
    gvtg->vgpus[vgpu->next].prev = vm;
    gvtg->vgpus[at].next = vm;
    vgpu->listed = true;
}

static void
take_out(struct gvtg *gvtg, int vm)
{
    struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];

    gvtg->vgpus[vgpu->prev].next = vgpu->next;
    gvtg->vgpus[vgpu->next].prev = vgpu->prev;
    vgpu->listed = false;
}

/* ---- time ---- */

static void
update_timeslice(struct gvtg *gvtg, int vm, int64_t now)
{
    if (vm < 0)
        return;
    struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];
    vgpu->left_ns -= now - vgpu->sched_in_ns;
    vgpu->sched_in_ns = now;
}

static void
balance_timeslice(vg_gpusched *sim, struct gvtg *gvtg)
{
    bool anew = gvtg->stage++ % STAGES == 0;
    int64_t weights = 0;

    for (int vm = gvtg->vgpus[gvtg->head].next; anew && vm != gvtg->head; vm = gvtg->vgpus[vm].next)
        weights += sim->vms[vm].is->weight;
    for (int vm = gvtg->vgpus[gvtg->head].next; vm != gvtg->head; vm = gvtg->vgpus[vm].next) {
        struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];
        if (anew)
            vgpu->allocated_ns = BALANCE_NS / weights * sim->vms[vm].is->weight;
        if (anew || !gvtg->carry)
            vgpu->left_ns = vgpu->allocated_ns;
        else
            vgpu->left_ns += vgpu->allocated_ns;
    }
}

/* ---- choosing ---- */

/* Returns whether a request waits or runs: it leaves the kernel's queue when complete. */
static bool
has_pending_workload(const vg_gpusched *sim, int vm)
{
    return sim->vms[vm].pending > 0;
}

static int
find_busy_vgpu(const vg_gpusched *sim, struct gvtg *gvtg)
{
    int first_busy = VG_SIM_IDLE;

    for (int vm = gvtg->vgpus[gvtg->head].next; vm != gvtg->head; vm = gvtg->vgpus[vm].next) {
        struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];
        if (!has_pending_workload(sim, vm))
            continue;
        if (vgpu->priority && sim->now >= vgpu->priority_until_ns)
            vgpu->priority = false;
        if (vgpu->priority || vgpu->left_ns > 0)
            return vm;
        if (first_busy == VG_SIM_IDLE)
            first_busy = vm;
    }
    return gvtg->work_conserving ? first_busy : VG_SIM_IDLE;
}

static bool
is_any_in_flight(const vg_gpusched *sim)
{
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        if (sim->engines[e].phase != VG_SIM_FREE)
            return true;
    }
    return false;
}

static void
try_to_schedule_next(vg_gpusched *sim, struct gvtg *gvtg)
{
    if (!gvtg->old && gvtg->next == gvtg->current) {
        gvtg->next = VG_SIM_NOBODY;
        return;
    }
    gvtg->need_reschedule = true;
    if (is_any_in_flight(sim))
        return;
    update_timeslice(gvtg, gvtg->current, sim->now);
    if (gvtg->next >= 0)
        gvtg->vgpus[gvtg->next].sched_in_ns = sim->now;
    vg_sim_emit_switch(sim, VG_GPUSCHED_ALL_ENGINES, gvtg->current, gvtg->next);
    gvtg->current = gvtg->next;
    gvtg->next = VG_SIM_NOBODY;
    gvtg->need_reschedule = false;
}

static void
sched_func(vg_gpusched *sim, struct gvtg *gvtg)
{
    if (gvtg->next == VG_SIM_NOBODY && gvtg->vgpus[gvtg->head].next != gvtg->head) {
        int vm = find_busy_vgpu(sim, gvtg);
        gvtg->next = vm;
        if (vm >= 0 && !gvtg->vgpus[vm].priority) {
            take_out(gvtg, vm);
            insert_after(gvtg, gvtg->vgpus[gvtg->head].prev, vm);
        }
    }
    if (gvtg->next != VG_SIM_NOBODY)
        try_to_schedule_next(sim, gvtg);
}

static void
gpusched_gvtg_on_tick(vg_gpusched *sim, struct gvtg *gvtg)
{
    gvtg->tick_ns += TICK_NS;
    if (gvtg->old) {
        if (gvtg->ticks++ % BALANCE_TICKS == 0)
            balance_timeslice(sim, gvtg);
    } else if (sim->now >= gvtg->expire_ns) {
        balance_timeslice(sim, gvtg);
        gvtg->expire_ns = sim->now + BALANCE_NS;
    }
}

/* ---- the scheduler as the simulator sees it ---- */

static void
gvtg_init(vg_gpusched *sim)
{
    struct gvtg *gvtg = g_new0(struct gvtg, 1);

    gvtg->old = sim->scenario->generation == VG_GPUSCHED_OLD;
    gvtg->carry = sim->scenario->mode != VG_GPUSCHED_NO_CARRY;
    gvtg->work_conserving = sim->scenario->mode == VG_GPUSCHED_WORK_CONSERVING;
    gvtg->current = VG_SIM_NOBODY;
    gvtg->next = VG_SIM_NOBODY;
    gvtg->tick_ns = INT64_MAX;
    gvtg->head = (int)sim->n_vms;
    gvtg->vgpus = g_new0(struct gvtg_vgpu, (size_t)sim->n_vms + 1);
    gvtg->vgpus[gvtg->head] = (struct gvtg_vgpu){.prev = gvtg->head, .next = gvtg->head};
    sim->policy = gvtg;
}

static void
gvtg_clear(vg_gpusched *sim)
{
    struct gvtg *gvtg = sim->policy;

    g_free(gvtg->vgpus);
    g_free(gvtg);
}

static void
gvtg_started(vg_gpusched *sim, int vm)
{
    struct gvtg *gvtg = sim->policy;
    struct gvtg_vgpu *vgpu = &gvtg->vgpus[vm];

    vgpu->priority = !gvtg->old && sim->vms[vm].is->start_priority;
    vgpu->priority_until_ns = sim->now + PRIORITY_NS;
    insert_after(gvtg, gvtg->old ? gvtg->vgpus[gvtg->head].prev : gvtg->head, vm);
    if (gvtg->tick_ns == INT64_MAX)
        gvtg->tick_ns = sim->now + TICK_NS;
}

static void
gvtg_stopped(vg_gpusched *sim, int vm)
{
    struct gvtg *gvtg = sim->policy;

    take_out(gvtg, vm);
    if (gvtg->next == vm)
        gvtg->next = VG_SIM_NOBODY;
    if (gvtg->current == vm) {
        vg_sim_emit_switch(sim, VG_GPUSCHED_ALL_ENGINES, vm, VG_SIM_NOBODY);
        gvtg->need_reschedule = true;
        gvtg->current = VG_SIM_NOBODY;
    }
}

static void
gvtg_queued(vg_gpusched *sim, int vm, uint32_t engine)
{
    struct gvtg *gvtg = sim->policy;

    (void)vm;
    (void)engine;
    if (!gvtg->old)
        gvtg->event = true;
}

static void
gvtg_done(vg_gpusched *sim, int vm, uint32_t engine, int64_t ran_ns)
{
    struct gvtg *gvtg = sim->policy;

    (void)vm;
    (void)engine;
    (void)ran_ns;
    if (gvtg->need_reschedule)
        gvtg->event = true;
}

static int64_t
gvtg_next_ns(const vg_gpusched *sim)
{
    const struct gvtg *gvtg = sim->policy;

    return gvtg->tick_ns;
}

/* intel_gvt_schedule(). Several requests at the same time count once. */
static void
gvtg_decide(vg_gpusched *sim)
{
    struct gvtg *gvtg = sim->policy;
    bool tick = sim->now >= gvtg->tick_ns;

    if (!tick && !gvtg->event)
        return;
    if (tick)
        gpusched_gvtg_on_tick(sim, gvtg);
    gvtg->event = false;
    if (!gvtg->old)
        update_timeslice(gvtg, gvtg->current, sim->now);
    sched_func(sim, gvtg);
}

/* pick_next_workload() */
static int
gvtg_choose(vg_gpusched *sim, uint32_t engine)
{
    const struct gvtg *gvtg = sim->policy;

    (void)engine;
    return gvtg->need_reschedule ? VG_SIM_NOBODY : gvtg->current;
}

static void
gvtg_taken(vg_gpusched *sim, int vm, uint32_t engine)
{
    (void)sim;
    (void)vm;
    (void)engine;
}

const struct vg_gpusched_ops vg_gpusched_gvtg_ops = {
    .init = gvtg_init,
    .clear = gvtg_clear,
    .started = gvtg_started,
    .stopped = gvtg_stopped,
    .queued = gvtg_queued,
    .done = gvtg_done,
    .next_ns = gvtg_next_ns,
    .decide = gvtg_decide,
    .choose = gvtg_choose,
    .taken = gvtg_taken,
};
