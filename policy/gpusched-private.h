/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the simulator's files. gpusched.c manages time, requests and engines. A
 * scheduler (struct vg_gpusched_ops) decides which vGPU an engine may serve, and has its own
 * timers.
 */
#ifndef VG_POLICY_GPUSCHED_PRIVATE_H
#define VG_POLICY_GPUSCHED_PRIVATE_H

#include "policy/gpusched.h"

#define VG_SIM_NOBODY (-1)
#define VG_SIM_IDLE   (-2) /* GVT-g's idle vGPU */

/* xoshiro256** (Blackman, Vigna 2018). */
struct vg_sim_random {
    uint64_t s[4];
};

/* Returns whether a name is valid: not empty, not too long, and without characters that would
 * corrupt a line of text. */
bool vg_gpusched_is_name(const char *name);

void vg_sim_random_seed(struct vg_sim_random *random, uint64_t seed);

/* Draws a value of the distribution in whole ns, from min to VG_GPUSCHED_TIME_MAX. */
int64_t vg_sim_draw(struct vg_sim_random *random, const struct vg_gpusched_dist *dist, int64_t min);

struct vg_sim_request {
    int64_t arrival_ns;
    int64_t left_ns; /* remaining run time */
    int64_t ran_ns;
    uint64_t id;
    uint32_t seqno;
    uint32_t source;
    bool submitted, started;
};

/* Counters of a VM on an engine, and of an engine. */
struct vg_sim_tally {
    uint64_t arrived, done, dropped;
    uint64_t waiting, waiting_max;
    int64_t busy_ns, busy_until_ns;
    int64_t exec_ns;
    int64_t wait_ns;
};

/* A VM on an engine: its queue, a ring that grows. */
struct vg_sim_lane {
    struct vg_sim_request *ring;
    uint32_t head, length, capacity; /* capacity is a power of two, or 0 */
    uint32_t seqno;
    bool used;         /* it has a source */
    int64_t fair_time; /* for weighted: time / weight */
    struct vg_sim_tally tally;
    GArray *latencies; /* int64_t */
};

enum vg_sim_phase { VG_SIM_FREE, VG_SIM_SWITCHING, VG_SIM_RUNNING };

struct vg_sim_engine {
    enum vg_sim_phase phase;
    int vm; /* the VM whose request is in flight */
    int owner;
    int64_t until_ns; /* end of the phase */
    int64_t started_ns;
    struct vg_sim_request request;
    struct vg_sim_tally tally;
};

enum vg_sim_vm_state { VG_SIM_ABSENT, VG_SIM_STARTED, VG_SIM_STOPPING, VG_SIM_STOPPED };

struct vg_sim_vm {
    const struct vg_gpusched_vm *is;
    enum vg_sim_vm_state state;
    uint32_t pending; /* requests waiting or in flight, on all engines */
    uint32_t in_flight;
    uint32_t first_source, n_sources;
};

/* A source of requests: a job, a stream (open), or the stream of one engine (closed). */
struct vg_sim_source {
    uint32_t vm;
    const struct vg_gpusched_job *job; /* NULL for the stream */
    bool chain;                        /* it is a closed replay of `engine` */
    uint8_t engine;
    uint32_t next;               /* index of the stream's next request */
    bool due;                    /* for a chain: the next request is due */
    uint64_t n_arrived, n_ended; /* for a chain */
    struct vg_sim_random sizes, gaps;
};

struct vg_sim_arrival {
    int64_t ts_ns;
    uint64_t order; /* first come, first served for equal times */
    uint32_t source;
};

/* The start or the end of a VM. */
struct vg_sim_change {
    int64_t ts_ns;
    uint32_t vm;
    bool stop;
};

struct vg_gpusched_ops {
    void (*init)(vg_gpusched *sim);
    void (*clear)(vg_gpusched *sim);
    void (*started)(vg_gpusched *sim, int vm);
    void (*stopped)(vg_gpusched *sim, int vm);
    /* queued is called before the request is in the queue, done after it has left the engine. */
    void (*queued)(vg_gpusched *sim, int vm, uint32_t engine);
    void (*done)(vg_gpusched *sim, int vm, uint32_t engine, int64_t ran_ns);
    int64_t (*next_ns)(const vg_gpusched *sim); /* the time of its next timer, or INT64_MAX */
    void (*decide)(vg_gpusched *sim);           /* called after all events of this instant */
    /* Chooses the VM that a free engine may serve. That VM may have no work there. */
    int (*choose)(vg_gpusched *sim, uint32_t engine);
    /* called when a free engine has taken a request */
    void (*taken)(vg_gpusched *sim, int vm, uint32_t engine);
};

extern const struct vg_gpusched_ops vg_gpusched_gvtg_ops;
extern const struct vg_gpusched_ops vg_gpusched_turns_ops;
extern const struct vg_gpusched_ops vg_gpusched_weighted_ops;

struct vg_gpusched {
    const struct vg_gpusched_scenario *scenario;
    const struct vg_gpusched_ops *ops;
    void *policy; /* owned by the ops */
    vg_gpusched_emit emit;
    void *emit_data;

    int64_t now;
    bool ended, failed;
    uint32_t n_vms, n_engines;
    struct vg_sim_vm *vms;
    struct vg_sim_engine *engines;
    struct vg_sim_lane *lanes; /* by VM and engine: vm * n_engines + engine */
    GArray *sources;           /* struct vg_sim_source */
    GArray *arrivals;          /* struct vg_sim_arrival, a heap */
    GArray *changes;           /* struct vg_sim_change, sorted by time */
    uint32_t next_change;
    uint64_t n_arrivals;
    uint64_t n_requests;
    uint64_t n_waiting;
};

static inline struct vg_sim_lane *
vg_sim_lane_of(const vg_gpusched *sim, int vm, uint32_t engine)
{
    return &sim->lanes[(size_t)vm * sim->n_engines + engine];
}

/* Returns whether a VM has work on an engine, waiting or in flight. */
bool vg_sim_has_work(const vg_gpusched *sim, int vm, uint32_t engine);

/* Emits the switch of an engine, or of all, to another vGPU (a VM, VG_SIM_IDLE, VG_SIM_NOBODY). */
void vg_sim_emit_switch(vg_gpusched *sim, uint8_t engine, int prev, int next);

/* Preempts the request in flight, which returns to the head of its queue. */
void vg_sim_preempt(vg_gpusched *sim, uint32_t engine);

/* Removes and returns the earliest arrival. */
struct vg_sim_arrival vg_sim_pop_arrival(vg_gpusched *sim);

/* _add_sources adds the sources of all VMs. _start_sources creates the first arrivals when a VM
 * starts. _take_arrival takes the current arrival of `source`, and returns its size (0 for none)
 * and engine. _after_end creates the arrival that the end of a request at this instant triggers. */
void vg_sim_add_sources(vg_gpusched *sim);
void vg_sim_start_sources(vg_gpusched *sim, int vm);
int64_t vg_sim_take_arrival(vg_gpusched *sim, uint32_t source, uint8_t *ret_engine);
void vg_sim_after_end(vg_gpusched *sim, uint32_t source);

#endif
