/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulator of GPU schedulers: its input is vGPUs with generators of requests, its output the
 * life of every request and exact figures. Pure: no I/O, no clock, no global state; one thread at a
 * time per simulator. Time is integer nanoseconds from the start of the simulation. The same
 * scenario always gives the same records.
 *
 * An engine runs one request at a time. Events of one instant have this order: requests end, VMs
 * stop, VMs start, requests arrive (also requests caused by an end at this instant), the scheduler
 * decides, engines accept requests. At the very end of the simulation requests end, and nothing
 * else happens.
 *
 * Modes of mainline GVT-g (drivers/gpu/drm/i915/gvt/sched_policy.c and scheduler.c). All engines
 * serve only the current vGPU, and requests are never preempted. A switch therefore waits for all
 * requests in flight, while engines that are done idle.
 *
 *   - gvtg: every 100 ms a vGPU receives weight / (all weights) of 100 ms. The rest or overdraft
 *     is carried over, except every 1 s (stage 0 of 10), when the shares are computed again and it
 *     is dropped. The current vGPU pays wall time, whether it has work or not. A choice is made at
 *     each tick of 1 ms, at the arrival of a request, and at the end of a request that a switch
 *     waits for. It takes the first vGPU with work and time left in the list of started vGPUs
 *     (least recently chosen first), or otherwise the idle vGPU, which runs nothing. The choice
 *     stays until the switch is made. A starting vGPU is put first in the list and is chosen for 2
 *     s, whatever time it has left. The old generation (2017) differs: there is no such priority,
 *     a starting vGPU joins the list at its end, an arrival causes no choice, the vGPU pays only
 *     when it is switched, every 100th tick gives time, and the current vGPU is also switched to
 *     itself, so that engines drain even without a competitor.
 *   - no-carry: as gvtg, but the rest or overdraft is dropped every 100 ms.
 *   - work-conserving: as gvtg, but if no vGPU with work has time left, the first in the list with
 *     work is chosen instead of the idle vGPU.
 *
 * Other modes. Each engine has its own schedule, except with quantum, where all engines share one.
 * Turns are timeslices. If `preemptible` is false, a request that runs at the end of a turn runs to
 * its end, and the next turn starts then; no other request starts in between. Otherwise it is cut,
 * and continues in a later turn of its vGPU.
 *
 *   - best-effort: turns rotate among the started vGPUs that have work. A turn ends early when its
 *     vGPU has none left, and starts again when no other vGPU has any. (NVIDIA vGPU, policy 1:
 *     "work-conserving round robin", the default there.) Overrunning a turn has no later cost.
 *   - equal-share: turns rotate among all started vGPUs and are not cut short; time that the owner
 *     does not use is idle. (NVIDIA vGPU, policy 2: 1/N of the running vGPUs.) An overrun is
 *     subtracted from the vGPU's next turns, as in NVIDIA's adaptive round robin with the factor
 *     1.
 *   - fixed-share: as equal-share, but each vGPU of the scenario, started or not, has a turn of
 *     share * timeslice * (number of vGPUs). The remaining share is a turn without an owner.
 *     (NVIDIA vGPU, policy 3.) A VM without "share" has an equal part of what the others leave.
 *   - quantum: as best-effort, but turns have the VM's quantum_ns (default: the timeslice; 0 for
 *     unlimited) and cover all engines together. (Xe and i915 SR-IOV: exec_quantum of a VF; a
 *     switch concerns the whole GT; a VF of low priority without work is skipped.)
 *   - weighted: a free engine takes the vGPU with work that has the least time / weight, ties by
 *     the order of the scenario; no turns, no preemption. A vGPU whose work returns after a pause
 *     starts from the time / weight of the engine's last choice: start-time fair queueing (Goyal,
 *     Vin, Cheng 1996). This is what GVT-g's weights would mean without budgets.
 */
#ifndef VG_POLICY_GPUSCHED_H
#define VG_POLICY_GPUSCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define VG_GPUSCHED_VMS_MAX       256
#define VG_GPUSCHED_JOBS_MAX      16 /* generators of a VM */
#define VG_GPUSCHED_DEPTH_MAX     256
#define VG_GPUSCHED_ENGINES_MAX   12 /* the number of engine names */
#define VG_GPUSCHED_NAME_MAX      255
#define VG_GPUSCHED_WEIGHT_MAX    1024
#define VG_GPUSCHED_SIGMA_MAX     10
#define VG_GPUSCHED_SHARE_MIN     0.001
#define VG_GPUSCHED_JSON_MAX      (1 << 20)              /* bytes */
#define VG_GPUSCHED_DURATION_MAX  INT64_C(3600000000000) /* ns: an hour */
#define VG_GPUSCHED_TIME_MAX      INT64_C(60000000000)   /* ns: of a size, a think time, a gap */
#define VG_GPUSCHED_TIMESLICE_MIN INT64_C(100000)        /* ns: AMD GIM has the shortest, 100 us */
#define VG_GPUSCHED_TIMESLICE_MAX INT64_C(1000000000)    /* ns */
#define VG_GPUSCHED_SWITCH_MAX    INT64_C(1000000000)    /* ns */
#define VG_GPUSCHED_REQUESTS_MAX  (UINT64_C(20) * 1000000) /* that arrive in a simulation */
#define VG_GPUSCHED_WAITING_MAX   (UINT64_C(1) * 1000000)  /* that wait at the same time */

#define VG_GPUSCHED_NEVER       INT64_MAX /* a stop_ns */
#define VG_GPUSCHED_ALL_ENGINES UINT8_C(0xff)
#define VG_GPUSCHED_DEVICE      "card0"

enum vg_gpusched_mode {
    VG_GPUSCHED_GVTG,
    VG_GPUSCHED_NO_CARRY,
    VG_GPUSCHED_WORK_CONSERVING,
    VG_GPUSCHED_WEIGHTED,
    VG_GPUSCHED_BEST_EFFORT,
    VG_GPUSCHED_EQUAL_SHARE,
    VG_GPUSCHED_FIXED_SHARE,
    VG_GPUSCHED_QUANTUM,
    VG_GPUSCHED_MODE_MAX
};

enum vg_gpusched_generation { VG_GPUSCHED_NEW, VG_GPUSCHED_OLD, VG_GPUSCHED_GENERATION_MAX };

extern const char *const vg_gpusched_mode_names[]; /* ends with NULL; same for the arrays below */
extern const char *const vg_gpusched_generation_names[];
extern const char *const vg_gpusched_engine_names[];

enum vg_gpusched_dist_kind {
    VG_GPUSCHED_FIXED,       /* a */
    VG_GPUSCHED_UNIFORM,     /* a to b */
    VG_GPUSCHED_EXPONENTIAL, /* mean a */
    VG_GPUSCHED_LOGNORMAL,   /* mean a (of the value), standard deviation b (of its logarithm) */
    VG_GPUSCHED_DIST_MAX
};

/* Times in ns. Drawn values are rounded to whole ns and limited to the range from 0 (gaps and
 * sizes: 1) to VG_GPUSCHED_TIME_MAX. */
struct vg_gpusched_dist {
    enum vg_gpusched_dist_kind kind;
    double a, b;
};

enum vg_gpusched_loop {
    VG_GPUSCHED_CLOSED, /* depth requests are in the system or in think time; the first arrive
                           immediately */
    VG_GPUSCHED_OPEN,   /* one request arrives after each gap, also the first */
    VG_GPUSCHED_LOOP_MAX
};

/* A generator of requests. It has its own random numbers, derived from the seed, the VM's name and
 * its position among the VM's jobs, so that other VMs and the mode do not change what it draws. */
struct vg_gpusched_job {
    uint8_t engine; /* index into the engines of the scenario */
    enum vg_gpusched_loop loop;
    uint32_t depth; /* closed */
    struct vg_gpusched_dist size;
    struct vg_gpusched_dist gap; /* closed: think time after an end; open: time between arrivals */
};

/* A request that is not generated, from a recorded stream. */
struct vg_gpusched_request {
    /* not before the previous request's; if before the VM's start, then at its start */
    int64_t arrival_ns;
    int64_t size_ns;
    int64_t think_ns; /* closed replay: time from the awaited event to its arrival */
    /* for closed replay, the maximum number of its engine's requests present at its arrival */
    uint32_t ahead;
    uint8_t engine; /* index into the engines of the scenario */
};

struct vg_gpusched_vm {
    char *name; /* owned */
    uint32_t weight;
    int64_t start_ns;
    int64_t stop_ns; /* later than start_ns; waiting requests are dropped, running ones end first */
    bool start_priority;
    double share;       /* for fixed-share; 0 if not specified */
    int64_t quantum_ns; /* for quantum; -1 for the timeslice, 0 for unlimited */
    GArray *jobs;       /* struct vg_gpusched_job */
    GArray *stream;     /* struct vg_gpusched_request */
    /* Closed: each engine's stream is a chain. The first request arrives at arrival_ns. Each later
     * one arrives think_ns after the previous one has arrived and all before it except `ahead` have
     * ended; with 0, after the end of the previous one. Open: all arrive at arrival_ns. */
    enum vg_gpusched_loop replay;
    bool repeat; /* closed: a finished chain starts again, think_ns after the event that it waits
                    for */
};

/* Plain data, which the caller may change until a simulator is created from it. */
struct vg_gpusched_scenario {
    uint64_t seed;
    int64_t duration_ns;
    enum vg_gpusched_mode mode;
    enum vg_gpusched_generation generation;
    uint32_t n_engines;
    uint8_t engines[VG_GPUSCHED_ENGINES_MAX]; /* indices into vg_gpusched_engine_names */
    int64_t timeslice_ns;                     /* not for GVT-g's modes, which have 1 ms */
    /* Time for which an engine is occupied before a request starts whose owner differs from the
     * last one. */
    int64_t switch_cost_ns;
    bool preemptible; /* not for weighted and GVT-g's modes */
    GPtrArray *vms;   /* struct vg_gpusched_vm */
};

/* Creates a scenario with no VM, one engine (rcs0), 10 s, and the defaults of the JSON form
 * (vgpuctl-json(5)). */
struct vg_gpusched_scenario *vg_gpusched_scenario_new(void);
void vg_gpusched_scenario_free(struct vg_gpusched_scenario *scenario);

/* Adds a VM with defaults and without jobs; owned by the scenario. */
struct vg_gpusched_vm *vg_gpusched_scenario_add_vm(struct vg_gpusched_scenario *scenario,
                                                   const char *name);

/* Reads the JSON form strictly. Fails with VG_E_INVALID and the path of a member that is missing,
 * unknown, of the wrong type or out of range. */
struct vg_gpusched_scenario *vg_gpusched_scenario_from_json(const char *text, size_t size,
                                                            GError **err);

/* Checks the conditions of every simulator for a scenario from any source. Fails with VG_E_INVALID
 * and the name of the VM. */
int vg_gpusched_scenario_check(const struct vg_gpusched_scenario *scenario,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

int vg_gpusched_mode_from_name(const char *name, enum vg_gpusched_mode *ret,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

enum vg_gpusched_kind {
    VG_GPUSCHED_QUEUED,
    VG_GPUSCHED_SUBMITTED, /* passed to an engine; once per request */
    VG_GPUSCHED_STARTED,   /* runs, after the switch cost; once per request */
    VG_GPUSCHED_PREEMPTED, /* cut, waits again */
    VG_GPUSCHED_RESUMED,
    VG_GPUSCHED_DONE,
    VG_GPUSCHED_SWITCH, /* another vGPU has the engine, or all engines */
    VG_GPUSCHED_VM_START,
    VG_GPUSCHED_VM_STOP, /* none of its requests runs any more */
    VG_GPUSCHED_DROPPED, /* it waited when its VM stopped */
    VG_GPUSCHED_KIND_MAX
};

struct vg_gpusched_record {
    int64_t ts_ns;
    enum vg_gpusched_kind kind;
    uint32_t vm;    /* index into the scenario; undefined for a SWITCH */
    uint8_t engine; /* index into the engines of the scenario, or VG_GPUSCHED_ALL_ENGINES */
    /* For a request. Ids count from 1 over all requests. Each VM and engine has one context, in
     * which seqno counts from 1; so different contexts have equal seqnos. */
    uint64_t workload;
    uint64_t context;
    uint32_t seqno;
    /* For a SWITCH, the index of the VM + 1; 0 is the idle vGPU, or none. */
    uint32_t prev_vgpu, next_vgpu;
};

/* Receives records in the order of time; must not call the simulator. */
typedef void (*vg_gpusched_emit)(void *data, const struct vg_gpusched_record *record);

typedef struct vg_gpusched vg_gpusched;

/* Creates a simulator. emit may be NULL. The scenario is borrowed, and must neither change nor be
 * freed before the simulator. Fails with VG_E_INVALID if the scenario does not pass
 * vg_gpusched_scenario_check(). */
vg_gpusched *vg_gpusched_new(const struct vg_gpusched_scenario *scenario, vg_gpusched_emit emit,
                             void *emit_data, GError **err);
void vg_gpusched_free(vg_gpusched *sim);

/* Advances to the next instant with an event. Returns 1, or 0 at the end of the simulation. Returns
 * -1 with VG_E_INVALID for more requests than VG_GPUSCHED_REQUESTS_MAX or VG_GPUSCHED_WAITING_MAX;
 * it cannot continue then. */
int vg_gpusched_step(vg_gpusched *sim, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Steps to the end. */
int vg_gpusched_run(vg_gpusched *sim, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Figures of a VM on an engine, or of an engine. Latency is the time from arrival to end of
 * finished requests. Percentiles are exact: the value at ceil(p * n) of the sorted ones, or 0
 * without any. */
struct vg_gpusched_figures {
    uint8_t engine;    /* index into the engines of the scenario */
    uint64_t requests; /* finished requests */
    uint64_t partial;  /* requests that wait or run at the end */
    /* requests that waited when their VM stopped; requests + partial + dropped have arrived */
    uint64_t dropped;
    int64_t busy_ns; /* the union of running intervals, up to the end */
    int64_t exec_ns; /* the sum of these intervals */
    /* time in which requests were present and did not run, up to their end or the end */
    int64_t wait_ns;
    double share; /* busy_ns / duration */
    int64_t latency_mean_ns;
    int64_t latency_p50_ns, latency_p95_ns, latency_p99_ns, latency_max_ns;
    double queue_len_avg; /* wait_ns / duration */
    /* Maximum number of requests that are present and do not run; a request that runs immediately
     * counts for that instant. */
    uint64_t queue_len_max;
};

struct vg_gpusched_vm_result {
    char *name;
    GArray *gpu; /* struct vg_gpusched_figures of engines for which it has jobs or requests */
};

struct vg_gpusched_result {
    enum vg_gpusched_mode mode;
    enum vg_gpusched_generation generation;
    uint64_t seed;
    int64_t duration_ns;
    uint8_t engines[VG_GPUSCHED_ENGINES_MAX]; /* as in the scenario */
    GPtrArray *vms;                           /* struct vg_gpusched_vm_result, as in the scenario */
    GArray *gpus;                             /* struct vg_gpusched_figures of every engine */
};

/* Returns the result of a finished simulation; the caller frees it. */
struct vg_gpusched_result *vg_gpusched_get_result(vg_gpusched *sim);
void vg_gpusched_result_free(struct vg_gpusched_result *result);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched, vg_gpusched_free)
typedef struct vg_gpusched_scenario vg_gpusched_scenario;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched_scenario, vg_gpusched_scenario_free)
typedef struct vg_gpusched_result vg_gpusched_result;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched_result, vg_gpusched_result_free)

#endif
