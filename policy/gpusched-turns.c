/* SPDX-License-Identifier: Apache-2.0
 *
 * The modes in which vGPUs take turns. best-effort and quantum cycle through the vGPUs that have
 * work. equal-share and fixed-share cycle through all of them, and deduct the time by which a turn
 * was exceeded. A table is a sequence of turns on one or more engines.
 */
#include "config.h"

#include "policy/gpusched-private.h"

struct table {
    uint32_t first, end; /* engines */
    bool on;             /* a turn is in progress */
    bool draining;       /* the turn is over except for running requests */
    int owner;           /* the turn's owner; VG_SIM_NOBODY: the part that no share covers */
    int place;           /* the owner of the last turn: where to continue */
    int64_t since_ns, until_ns;
    int64_t *credit_ns; /* of each vGPU; negative: the time by which it exceeded its turns */
};

struct turns {
    bool strict; /* turns are not cut short */
    bool every;  /* also VMs that are not started have turns */
    bool preemptible;
    int64_t *turn_ns; /* of each vGPU, and of VG_SIM_NOBODY; 0: never */
    uint32_t n_tables;
    struct table *tables;
};

/* ---- how long turns are ---- */

/* Divides what the configured shares leave of 1 equally among the others. */
static double
share_left(const vg_gpusched *sim, uint32_t *ret_others)
{
    double left = 1;

    *ret_others = 0;
    for (uint32_t i = 0; i < sim->n_vms; i++) {
        left -= sim->vms[i].is->share;
        *ret_others += sim->vms[i].is->share <= 0;
    }
    return left;
}

static void
set_shares(const vg_gpusched *sim, struct turns *turns)
{
    double round = (double)sim->scenario->timeslice_ns * sim->n_vms;
    uint32_t others;
    double left = share_left(sim, &others);
    int64_t rest = (int64_t)round;

    for (uint32_t i = 0; i < sim->n_vms; i++) {
        double share = sim->vms[i].is->share;
        turns->turn_ns[i] = (int64_t)(round * (share > 0 ? share : left / others));
        rest -= turns->turn_ns[i];
    }
    /* Less than 1 ns for each is a rounding error. */
    turns->turn_ns[sim->n_vms] = rest > (int64_t)sim->n_vms ? rest : 0;
}

static void
set_quanta(const vg_gpusched *sim, struct turns *turns)
{
    for (uint32_t i = 0; i < sim->n_vms; i++) {
        int64_t quantum = sim->vms[i].is->quantum_ns;
        bool own = sim->scenario->mode == VG_GPUSCHED_QUANTUM && quantum >= 0;
        turns->turn_ns[i] = own ? quantum : sim->scenario->timeslice_ns;
        if (turns->turn_ns[i] == 0)
            turns->turn_ns[i] = VG_GPUSCHED_DURATION_MAX; /* unlimited */
    }
}

/* ---- who is next ---- */

static bool
has_work(const vg_gpusched *sim, const struct table *table, int vm)
{
    if (sim->vms[vm].pending == 0)
        return false;
    for (uint32_t e = table->first; e < table->end; e++) {
        if (vg_sim_has_work(sim, vm, e))
            return true;
    }
    return false;
}

static bool
is_in_flight(const vg_gpusched *sim, const struct table *table)
{
    for (uint32_t e = table->first; e < table->end; e++) {
        if (sim->engines[e].phase != VG_SIM_FREE)
            return true;
    }
    return false;
}

static int
next_with_work(const vg_gpusched *sim, const struct table *table)
{
    for (uint32_t i = 1; i <= sim->n_vms; i++) {
        int vm = (int)(((uint32_t)table->place + i) % sim->n_vms);
        if (has_work(sim, table, vm))
            return vm;
    }
    return VG_SIM_NOBODY;
}

static bool
has_turns(const vg_gpusched *sim, const struct turns *turns, int place)
{
    if (turns->every)
        return turns->turn_ns[place] > 0;
    return place < (int)sim->n_vms &&
           (sim->vms[place].state == VG_SIM_STARTED || sim->vms[place].state == VG_SIM_STOPPING);
}

/* Skips the rounds in which all owners only pay their debts. */
static void
skip_rounds(const vg_gpusched *sim, const struct turns *turns, struct table *table)
{
    int64_t rounds = INT64_MAX;

    for (int place = 0; place <= (int)sim->n_vms; place++) {
        if (has_turns(sim, turns, place))
            rounds = MIN(rounds, -table->credit_ns[place] / turns->turn_ns[place]);
    }
    for (int place = 0; place <= (int)sim->n_vms; place++) {
        if (has_turns(sim, turns, place))
            table->credit_ns[place] += rounds * turns->turn_ns[place];
    }
}

/* Returns the next place whose turn is longer than its debt, or -1 if there are no turns. */
static int
next_place(vg_gpusched *sim, const struct turns *turns, struct table *table)
{
    int places = (int)sim->n_vms + 1;
    int passed_by = 0, steps = 0;

    for (int place = (table->place + 1) % places; passed_by < places;
         place = (place + 1) % places) {
        if (steps++ == places)
            skip_rounds(sim, turns, table);
        if (!has_turns(sim, turns, place)) {
            passed_by++;
            continue;
        }
        passed_by = 0;
        table->credit_ns[place] += turns->turn_ns[place];
        if (table->credit_ns[place] > 0)
            return place;
    }
    return -1;
}

/* ---- turns ---- */

static void
preempt_all(vg_gpusched *sim, const struct table *table)
{
    for (uint32_t e = table->first; e < table->end; e++) {
        if (sim->engines[e].phase != VG_SIM_FREE)
            vg_sim_preempt(sim, e);
    }
}

static void
begin_turn(vg_gpusched *sim, struct table *table, int owner, int64_t length_ns)
{
    bool one = table->end - table->first == 1 && sim->scenario->mode != VG_GPUSCHED_QUANTUM;

    if (owner != table->owner) {
        preempt_all(sim, table);
        vg_sim_emit_switch(sim, one ? (uint8_t)table->first : VG_GPUSCHED_ALL_ENGINES, table->owner,
                           owner);
    }
    table->on = length_ns > 0;
    table->draining = false;
    table->owner = owner;
    table->since_ns = sim->now;
    table->until_ns = length_ns > 0 ? sim->now + length_ns : INT64_MAX;
}

/* Returns whether running requests keep the turn from ending. The last requests of a stopping VM
 * are never cut, because it would not get another turn. */
static bool
must_drain(const vg_gpusched *sim, const struct turns *turns, struct table *table)
{
    bool stopping = table->owner >= 0 && sim->vms[table->owner].state == VG_SIM_STOPPING;

    if ((turns->preemptible && !stopping) || !is_in_flight(sim, table))
        return false;
    table->draining = true;
    return true;
}

static void
decide_strict(vg_gpusched *sim, const struct turns *turns, struct table *table)
{
    if (table->on) {
        if (sim->now < table->until_ns || must_drain(sim, turns, table))
            return;
        table->credit_ns[table->place] -= sim->now - table->since_ns;
    }
    int place = next_place(sim, turns, table);
    if (place < 0) {
        begin_turn(sim, table, VG_SIM_NOBODY, 0);
        return;
    }
    table->place = place;
    begin_turn(sim, table, place < (int)sim->n_vms ? place : VG_SIM_NOBODY,
               table->credit_ns[place]);
}

static void
decide_working(vg_gpusched *sim, const struct turns *turns, struct table *table)
{
    bool over = table->on && sim->now >= table->until_ns;

    if (table->on && !over && has_work(sim, table, table->owner))
        return;
    int next = next_with_work(sim, table);
    if (next == VG_SIM_NOBODY) {
        if (table->on)
            begin_turn(sim, table, VG_SIM_NOBODY, 0);
        return;
    }
    if (next != table->owner && must_drain(sim, turns, table))
        return;
    table->place = next;
    begin_turn(sim, table, next, turns->turn_ns[next]);
}

/* ---- the scheduler as the simulator sees it ---- */

static void
turns_init(vg_gpusched *sim)
{
    struct turns *turns = g_new0(struct turns, 1);
    enum vg_gpusched_mode mode = sim->scenario->mode;

    turns->strict = mode == VG_GPUSCHED_EQUAL_SHARE || mode == VG_GPUSCHED_FIXED_SHARE;
    turns->every = mode == VG_GPUSCHED_FIXED_SHARE;
    turns->preemptible = sim->scenario->preemptible;
    turns->turn_ns = g_new0(int64_t, (size_t)sim->n_vms + 1);
    if (turns->every)
        set_shares(sim, turns);
    else
        set_quanta(sim, turns);
    turns->n_tables = mode == VG_GPUSCHED_QUANTUM ? 1 : sim->n_engines;
    turns->tables = g_new0(struct table, turns->n_tables);
    for (uint32_t i = 0; i < turns->n_tables; i++) {
        turns->tables[i] = (struct table){
            .first = i,
            .end = mode == VG_GPUSCHED_QUANTUM ? sim->n_engines : i + 1,
            .owner = VG_SIM_NOBODY,
            .place = turns->strict ? (int)sim->n_vms : (int)sim->n_vms - 1,
            .until_ns = INT64_MAX,
            .credit_ns = g_new0(int64_t, (size_t)sim->n_vms + 1),
        };
    }
    sim->policy = turns;
}

static void
turns_clear(vg_gpusched *sim)
{
    struct turns *turns = sim->policy;

    for (uint32_t i = 0; i < turns->n_tables; i++)
        g_free(turns->tables[i].credit_ns);
    g_free(turns->tables);
    g_free(turns->turn_ns);
    g_free(turns);
}

static void
turns_started(vg_gpusched *sim, int vm)
{
    (void)sim;
    (void)vm;
}

/* Ends the turn of a VM that was removed. It keeps its share. */
static void
turns_stopped(vg_gpusched *sim, int vm)
{
    const struct turns *turns = sim->policy;

    for (uint32_t i = 0; i < turns->n_tables; i++) {
        struct table *table = &turns->tables[i];
        if (table->on && table->owner == vm && !turns->every)
            table->until_ns = sim->now;
    }
}

static void
turns_queued(vg_gpusched *sim, int vm, uint32_t engine)
{
    (void)sim;
    (void)vm;
    (void)engine;
}

static void
turns_done(vg_gpusched *sim, int vm, uint32_t engine, int64_t ran_ns)
{
    (void)sim;
    (void)vm;
    (void)engine;
    (void)ran_ns;
}

static int64_t
turns_next_ns(const vg_gpusched *sim)
{
    const struct turns *turns = sim->policy;
    int64_t next = INT64_MAX;

    for (uint32_t i = 0; i < turns->n_tables; i++) {
        if (!turns->tables[i].draining)
            next = MIN(next, turns->tables[i].until_ns);
    }
    return next;
}

static void
turns_decide(vg_gpusched *sim)
{
    const struct turns *turns = sim->policy;

    for (uint32_t i = 0; i < turns->n_tables; i++) {
        if (turns->strict)
            decide_strict(sim, turns, &turns->tables[i]);
        else
            decide_working(sim, turns, &turns->tables[i]);
    }
}

static int
turns_choose(vg_gpusched *sim, uint32_t engine)
{
    const struct turns *turns = sim->policy;
    const struct table *table = &turns->tables[turns->n_tables == 1 ? 0 : engine];

    return table->draining ? VG_SIM_NOBODY : table->owner;
}

static void
turns_taken(vg_gpusched *sim, int vm, uint32_t engine)
{
    (void)sim;
    (void)vm;
    (void)engine;
}

const struct vg_gpusched_ops vg_gpusched_turns_ops = {
    .init = turns_init,
    .clear = turns_clear,
    .started = turns_started,
    .stopped = turns_stopped,
    .queued = turns_queued,
    .done = turns_done,
    .next_ns = turns_next_ns,
    .decide = turns_decide,
    .choose = turns_choose,
    .taken = turns_taken,
};
