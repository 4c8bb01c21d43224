/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU ledger: how long each request waited and ran, and for which VM or process. It receives
 * events in time order (VG_EVENT_GPU and VG_EVENT_LOST; others are ignored). It keeps the figures
 * of struct vg_gpu_sample for every engine, and for every VM and process on it.
 *
 * A request is queued, submitted, ready, running, done; if an event is missing, the time of its
 * stage is added to the stage of the next event. Records of one request are matched by any ids they
 * have: workload of its vGPU, job of its ring, (device, engine, context, seqno), address of its
 * fence; never by a seqno alone. If no record of an engine says when requests run, a completed
 * request ran since it was submitted or since the engine completed the previous request, whichever
 * is later.
 *
 * The hardware holds several requests of an engine and runs one (ledger/gpu-hardware.c). A request
 * runs from its own record, or from the end of the previous request, whichever is later.
 *
 * Anything not recorded was not observed. In sums of the period, a request counts up to the last
 * record that proves its state. A request whose end is missing is partial if it is over, otherwise
 * open. It is over in these cases:
 *
 * - a later request of its ring or context is done, as both process requests in order;
 * - its records may be lost, because it was open when a CPU lost records, or started during the
 *   loss;
 * - its first records are missing;
 * - the recording is cut.
 *
 * Only i915 gives the hardware several requests of a context together, and they are then done
 * together. So each request with a record that has its engine is counted once: in requests, in
 * partial, or in open.
 *
 * A window counts a waiting or running request until it turns out to be over or the window ends.
 *
 * A vGPU belongs to the VM whose thread queues its work. Until that is seen, there is a VM named
 * after the vGPU. Requests without a vGPU belong to the process that creates them; kernel threads
 * have no process.
 *
 * Memory: open requests are limited (see the constants); the oldest is dropped and counted. The
 * total is at most VG_GPU_LEDGER_BYTES_MAX, excluding the topology's threads. One thread at a time;
 * no I/O, no clock.
 */
#ifndef VG_LEDGER_GPU_LEDGER_H
#define VG_LEDGER_GPU_LEDGER_H

#include "model/event.h"
#include "model/names.h"
#include "model/topology.h"
#include "model/window.h"

#define VG_GPU_OPEN_REQUESTS_MAX 131072
#define VG_GPU_CONTEXTS_MAX      65536
#define VG_GPU_ENGINES_MAX       512
#define VG_GPU_VGPUS_MAX         1024
#define VG_GPU_OWNERS_MAX        1024  /* VMs and processes */
#define VG_GPU_USERS_MAX         2048  /* of an engine: a VM or process on that engine */
#define VG_GPU_OBJECTS_MAX       65536 /* memory objects */
#define VG_GPU_LEDGER_BYTES_MAX  (96 * 1024 * 1024)

/* Device name for engines whose records contain no device, such as DRM scheduler events before
 * Linux 6.17. The kernel uses this name for the scheduler's fences. */
#define VG_GPU_DEVICE_UNNAMED "drm_sched"

typedef struct vg_gpu_ledger vg_gpu_ledger;

/* Both are borrowed. Events must use names from `names`. The events also update the topology, as
 * the CPU ledger's do. */
vg_gpu_ledger *vg_gpu_ledger_new(vg_topology *topology, const vg_names *names);
void vg_gpu_ledger_free(vg_gpu_ledger *ledger);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_ledger, vg_gpu_ledger_free)

/* Takes one event. If its time is before the previous event's, it counts as a discontinuity and
 * the previous time is used. */
void vg_gpu_ledger_feed(vg_gpu_ledger *ledger, const struct vg_event *event);

/* As the CPU ledger's functions. The CPU ledger must already have filled the window for the same
 * time: GPU use is added to its VMs, and missing VMs are added. If no GPU event ever arrived, the
 * window is unchanged, and GPU use is unknown. */
void vg_gpu_ledger_begin(vg_gpu_ledger *ledger, int64_t t_ns);
void vg_gpu_ledger_close_window(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window);
void vg_gpu_ledger_read_period(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window);

/* Declares that only windows will be read: VMs and processes that have ended are forgotten. */
void vg_gpu_ledger_windows_only(vg_gpu_ledger *ledger, bool windows_only);

/* Declares which operations of requests are recorded (1 << enum vg_gpu_op; QUEUED only if recorded
 * for more than workloads), to detect missing records. Operations that the ledger sees itself need
 * not be declared. */
void vg_gpu_ledger_declare_ops(vg_gpu_ledger *ledger, uint32_t ops);

/* Ends the recording, or the part that is read. Unfinished requests are open if the recording is
 * complete up to there and ends of requests are recorded; otherwise they are partial. If ends are
 * not recorded, figures that depend on them are unknown from then on. */
void vg_gpu_ledger_end(vg_gpu_ledger *ledger, int64_t t_ns, bool is_whole);

/* A completed request. */
struct vg_gpu_life {
    uint16_t device;
    uint16_t engine;
    uint32_t process; /* id in the topology; VG_PROCESS_NO_ID for the host itself or if not known */
    int32_t vgpu;     /* or VG_NONE */
    uint64_t context; /* 0 if not known */
    uint64_t seqno;
    int64_t
        queued_ns; /* these are VG_TIME_UNKNOWN if the step did not happen or was not recorded */
    int64_t submitted_ns;
    int64_t ready_ns;
    int64_t run_ns; /* start of its first run */
    int64_t end_ns;
    int64_t exec_ns;
    bool coalesced;
};

/* Called from within the feed for each completed request, in order of their ends. */
typedef void vg_gpu_life_fn(void *data, const struct vg_gpu_life *life);
void vg_gpu_ledger_watch(vg_gpu_ledger *ledger, vg_gpu_life_fn *fn, void *data);

/* Makes windows include the requests that ended in them (struct vg_gpu_request_sample). */
void vg_gpu_ledger_keep_requests(vg_gpu_ledger *ledger, bool keep);

/* ---- live observation ---- */

/* A request's activity, as counted in its figures. */
enum vg_gpu_stage {
    VG_GPU_STAGE_NONE, /* it runs as part of a later request, is presumably done, or is open
                        */
    VG_GPU_STAGE_QUEUED,
    VG_GPU_STAGE_SUBMITTED,
    VG_GPU_STAGE_READY,
    VG_GPU_STAGE_RUNNING,
    VG_GPU_STAGE_OVER /* the last change reported for it */
};

struct vg_gpu_change {
    uint32_t request; /* below VG_GPU_OPEN_REQUESTS_MAX; reused after OVER */
    enum vg_gpu_stage stage;
    int64_t t_ns;
    /* applies to all earlier reports for the request: its engine, and its owner if not yet known.
     * With OVER: the request was a duplicate of another request. */
    bool in_hindsight;
    uint16_t device; /* these are as in struct vg_gpu_life, from now on */
    uint16_t engine;
    uint32_t process;
    char comm[VG_COMM_LEN]; /* of the first thread seen of the process; "" without a process */
    int32_t vgpu;
    uint64_t context;
    uint64_t seqno;
};

/* Called from within the feed whenever a request changes its activity, owner or engine. A
 * request's changes come in time order, often several for the same time. If it becomes known late
 * that a request ran, t_ns may be earlier than times already reported. After the recording has
 * ended, and with changes in_hindsight applied, the changes of a VM's requests on an engine add up
 * to its waits and runs exactly, to the nanosecond. The callback must not change the topology. */
typedef void vg_gpu_change_fn(void *data, const struct vg_gpu_change *change);

/* Sets the only observer. It first receives each open request's current activity. NULL removes
 * it. */
void vg_gpu_ledger_watch_stages(vg_gpu_ledger *ledger, vg_gpu_change_fn *fn, void *data);

struct vg_gpu_ledger_stats {
    uint64_t events;
    uint64_t dropped;         /* dropped open requests, contexts and objects */
    uint64_t unattributed;    /* requests whose engine or user did not fit: not in any figure */
    uint64_t discontinuities; /* records that contradict the known state */
    uint64_t begun, done;     /* requests */
    uint32_t open;            /* requests */
    bool lacks_ends;          /* no record has reported a completed request until now */
    uint32_t contexts;
    uint64_t bytes; /* memory used by the ledger */
};

void vg_gpu_ledger_read_stats(const vg_gpu_ledger *ledger, struct vg_gpu_ledger_stats *ret);

#endif
