/* SPDX-License-Identifier: Apache-2.0
 *
 * Time, requests and engines of the simulator. Every request is in one place at a time: in its
 * lane's ring, where it waits, or on its engine, which switches to it or runs it.
 */
#include "config.h"

#include "base/error.h"
#include "policy/gpusched-private.h"

/* ---- records ---- */

static void
gpusched_emit(vg_gpusched *sim, const struct vg_gpusched_record *record)
{
    if (sim->emit)
        sim->emit(sim->emit_data, record);
}

static void
emit_request(vg_gpusched *sim, enum vg_gpusched_kind kind, int vm, uint32_t engine,
             const struct vg_sim_request *request)
{
    const struct vg_gpusched_record record = {
        .ts_ns = sim->now,
        .kind = kind,
        .vm = (uint32_t)vm,
        .engine = (uint8_t)engine,
        .workload = request->id,
        .context = (uint64_t)vm * sim->n_engines + engine + 1,
        .seqno = request->seqno,
    };
    gpusched_emit(sim, &record);
}

static void
emit_vm(vg_gpusched *sim, enum vg_gpusched_kind kind, int vm)
{
    const struct vg_gpusched_record record = {
        .ts_ns = sim->now,
        .kind = kind,
        .vm = (uint32_t)vm,
        .engine = VG_GPUSCHED_ALL_ENGINES,
    };
    gpusched_emit(sim, &record);
}

static uint32_t
vgpu_id(int vm)
{
    return vm >= 0 ? (uint32_t)vm + 1 : 0;
}

void
vg_sim_emit_switch(vg_gpusched *sim, uint8_t engine, int prev, int next)
{
    const struct vg_gpusched_record record = {
        .ts_ns = sim->now,
        .kind = VG_GPUSCHED_SWITCH,
        .engine = engine,
        .prev_vgpu = vgpu_id(prev),
        .next_vgpu = vgpu_id(next),
    };
    if (record.prev_vgpu != record.next_vgpu)
        gpusched_emit(sim, &record);
}

/* ---- queues ---- */

static void
grow(struct vg_sim_lane *lane)
{
    uint32_t capacity = lane->capacity > 0 ? 2 * lane->capacity : 8;
    struct vg_sim_request *ring = g_new(struct vg_sim_request, capacity);

    for (uint32_t i = 0; i < lane->length; i++)
        ring[i] = lane->ring[(lane->head + i) & (lane->capacity - 1)];
    g_free(lane->ring);
    lane->ring = ring;
    lane->head = 0;
    lane->capacity = capacity;
}

static void
put_last(struct vg_sim_lane *lane, const struct vg_sim_request *request)
{
    if (lane->length == lane->capacity)
        grow(lane);
    lane->ring[(lane->head + lane->length++) & (lane->capacity - 1)] = *request;
}

static void
put_first(struct vg_sim_lane *lane, const struct vg_sim_request *request)
{
    if (lane->length == lane->capacity)
        grow(lane);
    lane->head = (lane->head - 1) & (lane->capacity - 1);
    lane->length++;
    lane->ring[lane->head] = *request;
}

static struct vg_sim_request
take_first(struct vg_sim_lane *lane)
{
    const struct vg_sim_request request = lane->ring[lane->head];

    lane->head = (lane->head + 1) & (lane->capacity - 1);
    lane->length--;
    return request;
}

/* ---- counting ---- */

static void
count_waiting(struct vg_sim_tally *tally)
{
    tally->waiting++;
    tally->waiting_max = MAX(tally->waiting_max, tally->waiting);
}

static void
count_run(struct vg_sim_tally *tally, int64_t from_ns, int64_t to_ns)
{
    tally->exec_ns += to_ns - from_ns;
    tally->busy_ns += MAX(0, to_ns - MAX(from_ns, tally->busy_until_ns));
    tally->busy_until_ns = MAX(tally->busy_until_ns, to_ns);
}

bool
vg_sim_has_work(const vg_gpusched *sim, int vm, uint32_t engine)
{
    const struct vg_sim_engine *on = &sim->engines[engine];

    return vg_sim_lane_of(sim, vm, engine)->length > 0 ||
           (on->phase != VG_SIM_FREE && on->vm == vm);
}

/* ---- VMs ---- */

static void
start_vm(vg_gpusched *sim, int vm)
{
    sim->vms[vm].state = VG_SIM_STARTED;
    emit_vm(sim, VG_GPUSCHED_VM_START, vm);
    sim->ops->started(sim, vm);
    vg_sim_start_sources(sim, vm);
}

static void
drop_request(vg_gpusched *sim, int vm, uint32_t engine)
{
    struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, engine);
    const struct vg_sim_request request = take_first(lane);
    int64_t wait = sim->now - request.arrival_ns - request.ran_ns;
    struct vg_sim_tally *const tallies[] = {&lane->tally, &sim->engines[engine].tally};

    for (size_t i = 0; i < G_N_ELEMENTS(tallies); i++) {
        tallies[i]->dropped++;
        tallies[i]->waiting--;
        tallies[i]->wait_ns += wait;
    }
    sim->n_waiting--;
    sim->vms[vm].pending--;
    emit_request(sim, VG_GPUSCHED_DROPPED, vm, engine, &request);
}

static void
finish_stop(vg_gpusched *sim, int vm)
{
    sim->vms[vm].state = VG_SIM_STOPPED;
    emit_vm(sim, VG_GPUSCHED_VM_STOP, vm);
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        if (sim->engines[e].owner == vm)
            sim->engines[e].owner = VG_SIM_NOBODY;
    }
    sim->ops->stopped(sim, vm);
}

/* intel_gvt_deactivate_vgpu(): accepts no new requests, and waits for running ones. */
static void
stop_vm(vg_gpusched *sim, int vm)
{
    sim->vms[vm].state = VG_SIM_STOPPING;
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        while (vg_sim_lane_of(sim, vm, e)->length > 0)
            drop_request(sim, vm, e);
    }
    if (sim->vms[vm].in_flight == 0)
        finish_stop(sim, vm);
}

static void
change_vms(vg_gpusched *sim)
{
    while (sim->next_change < sim->changes->len) {
        const struct vg_sim_change *change =
            &g_array_index(sim->changes, struct vg_sim_change, sim->next_change);
        if (change->ts_ns > sim->now)
            break;
        sim->next_change++;
        if (change->stop)
            stop_vm(sim, (int)change->vm);
        else
            start_vm(sim, (int)change->vm);
    }
}

/* ---- the life of a request ---- */

static int
queue_request(vg_gpusched *sim, uint32_t source, GError **err)
{
    int vm = (int)g_array_index(sim->sources, struct vg_sim_source, source).vm;
    uint8_t engine;

    if (sim->vms[vm].state != VG_SIM_STARTED)
        return 0;
    if (sim->n_requests >= VG_GPUSCHED_REQUESTS_MAX)
        return vg_error(err, VG_E_INVALID, "more than %" G_GUINT64_FORMAT " requests arrive",
                        VG_GPUSCHED_REQUESTS_MAX);
    if (sim->n_waiting >= VG_GPUSCHED_WAITING_MAX)
        return vg_error(err, VG_E_INVALID,
                        "more than %" G_GUINT64_FORMAT
                        " requests wait at %.6f s, the last of them from VM '%s': requests arrive "
                        "faster than they are served",
                        VG_GPUSCHED_WAITING_MAX, (double)sim->now / 1e9, sim->vms[vm].is->name);
    struct vg_sim_request request = {.arrival_ns = sim->now, .source = source};
    request.left_ns = vg_sim_take_arrival(sim, source, &engine);
    request.id = ++sim->n_requests;
    struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, engine);
    request.seqno = ++lane->seqno;
    sim->ops->queued(sim, vm, engine);
    put_last(lane, &request);
    lane->tally.arrived++;
    sim->engines[engine].tally.arrived++;
    count_waiting(&lane->tally);
    count_waiting(&sim->engines[engine].tally);
    sim->n_waiting++;
    sim->vms[vm].pending++;
    emit_request(sim, VG_GPUSCHED_QUEUED, vm, engine, &request);
    return 0;
}

static int
take_arrivals(vg_gpusched *sim, GError **err)
{
    while (sim->arrivals->len > 0 &&
           g_array_index(sim->arrivals, struct vg_sim_arrival, 0).ts_ns <= sim->now) {
        if (queue_request(sim, vg_sim_pop_arrival(sim).source, err) < 0)
            return -1;
    }
    return 0;
}

static void
run_request(vg_gpusched *sim, uint32_t e)
{
    struct vg_sim_engine *engine = &sim->engines[e];
    bool started = engine->request.started;

    engine->phase = VG_SIM_RUNNING;
    engine->started_ns = sim->now;
    engine->until_ns = sim->now + engine->request.left_ns;
    engine->request.started = true;
    vg_sim_lane_of(sim, engine->vm, e)->tally.waiting--;
    engine->tally.waiting--;
    sim->n_waiting--;
    emit_request(sim, started ? VG_GPUSCHED_RESUMED : VG_GPUSCHED_STARTED, engine->vm, e,
                 &engine->request);
}

static void
take_request(vg_gpusched *sim, int vm, uint32_t e)
{
    struct vg_sim_engine *engine = &sim->engines[e];
    int64_t cost = engine->owner == vm ? 0 : sim->scenario->switch_cost_ns;

    sim->ops->taken(sim, vm, e);
    engine->vm = vm;
    engine->owner = vm;
    engine->request = take_first(vg_sim_lane_of(sim, vm, e));
    sim->vms[vm].in_flight++;
    if (!engine->request.submitted)
        emit_request(sim, VG_GPUSCHED_SUBMITTED, vm, e, &engine->request);
    engine->request.submitted = true;
    if (cost == 0) {
        run_request(sim, e);
        return;
    }
    engine->phase = VG_SIM_SWITCHING;
    engine->until_ns = sim->now + cost;
}

/* Removes the running request from the engine, and returns how long it ran this time. */
static int64_t
leave_engine(vg_gpusched *sim, uint32_t e)
{
    struct vg_sim_engine *engine = &sim->engines[e];
    int64_t ran = engine->phase == VG_SIM_RUNNING ? sim->now - engine->started_ns : 0;

    if (ran > 0) {
        count_run(&vg_sim_lane_of(sim, engine->vm, e)->tally, engine->started_ns, sim->now);
        count_run(&engine->tally, engine->started_ns, sim->now);
    }
    engine->request.ran_ns += ran;
    engine->request.left_ns -= ran;
    engine->phase = VG_SIM_FREE;
    sim->vms[engine->vm].in_flight--;
    return ran;
}

void
vg_sim_preempt(vg_gpusched *sim, uint32_t e)
{
    struct vg_sim_engine *engine = &sim->engines[e];
    bool ran = engine->phase == VG_SIM_RUNNING;
    struct vg_sim_lane *lane = vg_sim_lane_of(sim, engine->vm, e);

    leave_engine(sim, e);
    put_first(lane, &engine->request);
    if (!ran) /* the engine was still switching to it, so it continues to wait */
        return;
    count_waiting(&lane->tally);
    count_waiting(&engine->tally);
    sim->n_waiting++;
    emit_request(sim, VG_GPUSCHED_PREEMPTED, engine->vm, e, &engine->request);
}

static void
end_request(vg_gpusched *sim, uint32_t e)
{
    struct vg_sim_engine *engine = &sim->engines[e];
    int vm = engine->vm;
    int64_t ran = leave_engine(sim, e);
    struct vg_sim_lane *lane = vg_sim_lane_of(sim, vm, e);
    int64_t latency = sim->now - engine->request.arrival_ns;

    lane->tally.done++;
    engine->tally.done++;
    lane->tally.wait_ns += latency - engine->request.ran_ns;
    engine->tally.wait_ns += latency - engine->request.ran_ns;
    g_array_append_val(lane->latencies, latency);
    sim->vms[vm].pending--;
    emit_request(sim, VG_GPUSCHED_DONE, vm, e, &engine->request);
    sim->ops->done(sim, vm, e, ran);
    vg_sim_after_end(sim, engine->request.source);
    if (sim->vms[vm].state == VG_SIM_STOPPING && sim->vms[vm].in_flight == 0)
        finish_stop(sim, vm);
}

/* ---- time ---- */

static void
advance_engines(vg_gpusched *sim)
{
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        const struct vg_sim_engine *engine = &sim->engines[e];
        if (engine->phase == VG_SIM_FREE || engine->until_ns > sim->now)
            continue;
        if (engine->phase == VG_SIM_RUNNING)
            end_request(sim, e);
        else if (sim->now < sim->scenario->duration_ns)
            run_request(sim, e);
    }
}

static void
dispatch(vg_gpusched *sim)
{
    for (uint32_t e = 0; e < sim->n_engines; e++) {
        if (sim->engines[e].phase != VG_SIM_FREE)
            continue;
        int vm = sim->ops->choose(sim, e);
        if (vm >= 0 && sim->vms[vm].state == VG_SIM_STARTED &&
            vg_sim_lane_of(sim, vm, e)->length > 0)
            take_request(sim, vm, e);
    }
}

static int64_t
next_instant(const vg_gpusched *sim)
{
    int64_t next = sim->ops->next_ns(sim);

    for (uint32_t e = 0; e < sim->n_engines; e++) {
        if (sim->engines[e].phase != VG_SIM_FREE)
            next = MIN(next, sim->engines[e].until_ns);
    }
    if (sim->arrivals->len > 0)
        next = MIN(next, g_array_index(sim->arrivals, struct vg_sim_arrival, 0).ts_ns);
    if (sim->next_change < sim->changes->len)
        next = MIN(next, g_array_index(sim->changes, struct vg_sim_change, sim->next_change).ts_ns);
    return next;
}

int
vg_gpusched_step(vg_gpusched *sim, GError **err)
{
    int64_t next = next_instant(sim);

    if (sim->failed)
        return vg_error(err, VG_E_INVALID, "an earlier step of the simulation failed");
    if (sim->ended)
        return 0;
    sim->now = MIN(next, sim->scenario->duration_ns);
    advance_engines(sim);
    if (sim->now == sim->scenario->duration_ns) {
        sim->ended = true;
        return 0;
    }
    change_vms(sim);
    if (take_arrivals(sim, err) < 0) {
        sim->failed = true;
        return -1;
    }
    sim->ops->decide(sim);
    dispatch(sim);
    return 1;
}

int
vg_gpusched_run(vg_gpusched *sim, GError **err)
{
    int status;

    do
        status = vg_gpusched_step(sim, err);
    while (status > 0);
    return status;
}
