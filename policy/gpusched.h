/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulator of GPU schedulers: vGPUs with generators of requests in, the life of every request
 * and exact figures out. Pure: no I/O, no clock, no global state; a simulator belongs to one thread
 * at a time. Time is integer nanoseconds from the start of the simulation. The same scenario gives
 * the same records, always.
 *
 * An engine runs one request at a time. What happens at one instant happens in this order: requests
 * end, VMs stop, VMs start, requests arrive (also those that an end at this instant brings), the
 * scheduler decides, engines take requests. At the very end of the simulation requests end, and
 * nothing else happens.
 *
 * Modes of mainline GVT-g (drivers/gpu/drm/i915/gvt/sched_policy.c and scheduler.c). All engines
 * serve the current vGPU only and requests are never preempted, so that a switch waits for all that
 * is in flight, while engines that are done idle.
 * gvtg: every 100 ms a vGPU is given weight / (all weights) of 100 ms; what is left over or
 * overdrawn carries on, but every 1 s (stage 0 of 10), when the shares are computed anew, it is
 * forgotten. The current vGPU pays wall time, whether it has work or not. At each tick of 1 ms, the
 *     arrival of a request, and the end of one that a switch waits for, the first of the list of
 *     started vGPUs (least recently chosen first) that has work and something left is chosen, or
 *     else the idle vGPU, which runs nothing. What is chosen stays so until the switch is made.
 *     A vGPU that starts is put first in the list and is chosen, whatever it has left, for 2 s.
 *     In the old generation (2017) there is no such priority, the list is joined at its end, an
 *     arrival chooses nothing, the vGPU pays only when switched, every 100th tick gives time, and
 *     the current vGPU is switched to itself, too: engines drain even without a competitor.
 * no-carry: gvtg, but what is left or overdrawn is forgotten every 100 ms.
 * work-conserving: gvtg, but where nobody with work has anything left, the first of the list that
 *     has work is chosen instead of the idle vGPU.
 *
 * Other modes. Each engine has a schedule of its own, but for quantum, where all have one. Turns
 * are timeslices. Where `preemptible` is false, a request that runs at the end of a turn runs to
 * its end and the next turn begins then; nothing new starts meanwhile. Else it is cut and goes on
 * in a later turn of its vGPU. best-effort: turns go round the started vGPUs that have work; a turn
 * ends early when its vGPU has none left, and begins anew when nobody else has any. (NVIDIA vGPU,
 * policy 1: "work-conserving round robin", the default there.) Overrunning a turn costs nothing
 * later. equal-share: turns go round all started vGPUs and are not cut short: what its owner does
 * not use is idle. (NVIDIA vGPU, policy 2: 1/N of the running vGPUs.) What a turn was overrun by is
 * taken off the next ones of that vGPU, as in NVIDIA's adaptive round robin with the factor 1.
 * fixed-share: as equal-share, but with a turn for each vGPU of the scenario, started or not, of
 *     share * timeslice * (number of vGPUs), and one without an owner for what the shares leave.
 *     (NVIDIA vGPU, policy 3.) Without "share", a VM has an equal part of what the others leave.
 * quantum: as best-effort, but turns are quantum_ns of the VM (default the timeslice; 0 without
 * end) and cover all engines at once. (Xe and i915 SR-IOV: exec_quantum of a VF, a switch is of the
 *     whole GT; a VF of low priority without work is skipped.)
 * weighted: an engine that is free takes the vGPU with work that has least time / weight, ties by
 * the order of the scenario; no turns, no preemption. A vGPU whose work comes back after a pause
 *     starts from the time / weight at which the engine last took somebody: start-time fair
 * queueing (Goyal, Vin, Cheng 1996). It is what GVT-g's weights would mean without budgets.
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
#define VG_GPUSCHED_ENGINES_MAX   12 /* names that there are */
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

extern const char *const vg_gpusched_mode_names[]; /* ends with NULL; the same holds below */
extern const char *const vg_gpusched_generation_names[];
extern const char *const vg_gpusched_engine_names[];

enum vg_gpusched_dist_kind {
    VG_GPUSCHED_FIXED,       /* a */
    VG_GPUSCHED_UNIFORM,     /* a to b */
    VG_GPUSCHED_EXPONENTIAL, /* mean a */
    VG_GPUSCHED_LOGNORMAL,   /* mean a (of the value), standard deviation b (of its logarithm) */
    VG_GPUSCHED_DIST_MAX
};

/* Times in ns. Drawn values are rounded to whole ns and kept within 0 (gaps and sizes: 1) and
 * VG_GPUSCHED_TIME_MAX. */
struct vg_gpusched_dist {
    enum vg_gpusched_dist_kind kind;
    double a, b;
};

enum vg_gpusched_loop {
    VG_GPUSCHED_CLOSED, /* depth requests are in the system or thought about; the first come at once
                         */
    VG_GPUSCHED_OPEN,   /* one comes each gap, the first after one gap */
    VG_GPUSCHED_LOOP_MAX
};

/* A generator of requests. It has random numbers of its own, from the seed, the name of the VM and
 * the place among its jobs, so that other VMs, and the mode, do not change what it draws. */
struct vg_gpusched_job {
    uint8_t engine; /* index into the engines of the scenario */
    enum vg_gpusched_loop loop;
    uint32_t depth; /* closed */
    struct vg_gpusched_dist size;
    struct vg_gpusched_dist gap; /* closed: thinking after an end; open: between arrivals */
};

/* A request that is given, not generated: one of a recorded stream. */
struct vg_gpusched_request {
    /* not before that of the previous one; if before the VM's start, then at its start */
    int64_t arrival_ns;
    int64_t size_ns;
    int64_t think_ns; /* for closed replay, the time from what it waits for to its arrival */
    /* for closed replay, the number of its engine's requests that may be there when it comes */
    uint32_t ahead;
    uint8_t engine; /* index into the engines of the scenario */
};

struct vg_gpusched_vm {
    char *name; /* owned */
    uint32_t weight;
    int64_t start_ns;
    int64_t stop_ns; /* later than start_ns: waiting requests are dropped, running ones end first */
    bool start_priority;
    double share;       /* for fixed-share; 0 if it is not given */
    int64_t quantum_ns; /* for quantum; -1 for the timeslice, 0 for no end */
    GArray *jobs;       /* struct vg_gpusched_job */
    GArray *stream;     /* struct vg_gpusched_request */
    /* Closed: the stream of each engine is a chain, in which the first request comes at arrival_ns,
     * and each later one think_ns after the one before has come and all before it but `ahead` have
     * ended: with 0, after the end of the one before. Open: all come at arrival_ns. */
    enum vg_gpusched_loop replay;
    bool repeat; /* closed: a chain that is through begins anew, think_ns after what it waits for */
};

/* Plain data, which the caller may change until a simulator is made of it. */
struct vg_gpusched_scenario {
    uint64_t seed;
    int64_t duration_ns;
    enum vg_gpusched_mode mode;
    enum vg_gpusched_generation generation;
    uint32_t n_engines;
    uint8_t engines[VG_GPUSCHED_ENGINES_MAX]; /* indices into vg_gpusched_engine_names */
    int64_t timeslice_ns;                     /* not for the modes of GVT-g, which have 1 ms */
    /* The time for which an engine is occupied before a request of another owner than the last
     * begins. */
    int64_t switch_cost_ns;
    bool preemptible; /* not for weighted and the modes of GVT-g */
    GPtrArray *vms;   /* struct vg_gpusched_vm */
};

/* Makes a scenario with no VM, one engine (rcs0), 10 s, and the defaults of the JSON form
 * (vgpuctl-json(5)). */
struct vg_gpusched_scenario *vg_gpusched_scenario_new(void);
void vg_gpusched_scenario_free(struct vg_gpusched_scenario *scenario);

/* Adds a VM with defaults and without jobs; owned by the scenario. */
struct vg_gpusched_vm *vg_gpusched_scenario_add_vm(struct vg_gpusched_scenario *scenario,
                                                   const char *name);

/* Reads the JSON form, strictly. Fails with VG_E_INVALID, which names the path of a member that is
 * missing, unknown, of the wrong type or out of range. */
struct vg_gpusched_scenario *vg_gpusched_scenario_from_json(const char *text, size_t size,
                                                            GError **err);

/* Checks what every simulator needs of a scenario, wherever it is from. Fails with VG_E_INVALID,
 * which names the VM. */
int vg_gpusched_scenario_check(const struct vg_gpusched_scenario *scenario,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

int vg_gpusched_mode_from_name(const char *name, enum vg_gpusched_mode *ret,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

enum vg_gpusched_kind {
    VG_GPUSCHED_QUEUED,
    VG_GPUSCHED_SUBMITTED, /* handed to an engine; once for a request */
    VG_GPUSCHED_STARTED,   /* runs, after the switch cost; once for a request */
    VG_GPUSCHED_PREEMPTED, /* cut, waits again */
    VG_GPUSCHED_RESUMED,
    VG_GPUSCHED_DONE,
    VG_GPUSCHED_SWITCH, /* another vGPU has the engine, or all of them */
    VG_GPUSCHED_VM_START,
    VG_GPUSCHED_VM_STOP, /* nothing of it runs any more */
    VG_GPUSCHED_DROPPED, /* it waited when its VM stopped */
    VG_GPUSCHED_KIND_MAX
};

struct vg_gpusched_record {
    int64_t ts_ns;
    enum vg_gpusched_kind kind;
    uint32_t vm;    /* index into the scenario; undefined for a SWITCH */
    uint8_t engine; /* index into the engines of the scenario, or VG_GPUSCHED_ALL_ENGINES */
    /* For a request. Ids count up from 1 over all. There is one context for each VM and engine, and
     * seqno counts up from 1 within it: different contexts have equal seqnos. */
    uint64_t workload;
    uint64_t context;
    uint32_t seqno;
    /* For a SWITCH, the index of the VM + 1; 0 is the idle vGPU, or none. */
    uint32_t prev_vgpu, next_vgpu;
};

/* Receives records in the order of time; must not call the simulator. */
typedef void (*vg_gpusched_emit)(void *data, const struct vg_gpusched_record *record);

typedef struct vg_gpusched vg_gpusched;

/* Makes a simulator. emit may be NULL. The scenario is borrowed and must neither change nor go
 * before the simulator. Fails with VG_E_INVALID if the scenario does not pass
 * vg_gpusched_scenario_check(). */
vg_gpusched *vg_gpusched_new(const struct vg_gpusched_scenario *scenario, vg_gpusched_emit emit,
                             void *emit_data, GError **err);
void vg_gpusched_free(vg_gpusched *sim);

/* Goes on to the next instant at which something happens. Returns 1, or 0 at the end of the
 * simulation. Returns -1 with VG_E_INVALID for more requests than VG_GPUSCHED_REQUESTS_MAX or
 * VG_GPUSCHED_WAITING_MAX; it cannot go on then. */
int vg_gpusched_step(vg_gpusched *sim, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Steps to the end. */
int vg_gpusched_run(vg_gpusched *sim, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Figures of a VM on an engine, or of an engine. Latency is the time from arrival to end, of
 * requests that are done; percentiles are exact: the value at ceil(p * n) of the sorted ones. 0
 * without any. */
struct vg_gpusched_figures {
    uint8_t engine;    /* index into the engines of the scenario */
    uint64_t requests; /* those that are done */
    uint64_t partial;  /* those that wait or run at the end */
    /* those that waited when their VM stopped; requests + partial + dropped have arrived */
    uint64_t dropped;
    int64_t busy_ns; /* the union of running intervals, up to the end */
    int64_t exec_ns; /* the sum of these intervals */
    /* the time in which requests were there and did not run, up to their end or the end */
    int64_t wait_ns;
    double share; /* busy_ns / duration */
    int64_t latency_mean_ns;
    int64_t latency_p50_ns, latency_p95_ns, latency_p99_ns, latency_max_ns;
    double queue_len_avg; /* wait_ns / duration */
    /* The maximum of requests that are there and do not run; one that runs at once counts for that
     * instant. */
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

/* Returns the result of a simulation that is at its end; the caller frees it. */
struct vg_gpusched_result *vg_gpusched_get_result(vg_gpusched *sim);
void vg_gpusched_result_free(struct vg_gpusched_result *result);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched, vg_gpusched_free)
typedef struct vg_gpusched_scenario vg_gpusched_scenario;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched_scenario, vg_gpusched_scenario_free)
typedef struct vg_gpusched_result vg_gpusched_result;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpusched_result, vg_gpusched_result_free)

#endif
