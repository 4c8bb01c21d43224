/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU ledger: how long which request waited and ran, for whom. It is fed events in time order
 * (VG_EVENT_GPU and VG_EVENT_LOST; others are ignored) and keeps, for every engine, and for every
 * VM and process on it, the figures of struct vg_gpu_sample.
 *
 * A request is queued, submitted, ready, running, done; an event that does not come gives its stage
 * to the next one. Records of one request are brought together by whatever ids they have: workload
 * of its vGPU, job of its ring, (device, engine, context, seqno), address of its fence; never by a
 * seqno alone. Where no record ever tells that a request of the engine runs, one that is done ran
 * since it was submitted or since the engine was done with the one before, whichever is later.
 *
 * The hardware is given several requests of an engine, and runs one (ledger/gpu-hardware.c): a
 * request runs from its own record on, or from the end of the one in front of it, whichever is
 * later.
 *
 * What was not recorded was not observed. In all sums of the period a request counts up to the last
 * record that proves its state. One whose end is not told is partial if it is over: a later one of
 * its ring or context is done (both work off their requests in order), or records of it may be
 * lost, as it was open when a CPU lost records, or began meanwhile, or what it began with is
 * missing, or the recording is cut. Only i915 gives the hardware several of a context at once,
 * which are done together. Else it is open. So each request that left a record with its engine is
 * counted once: in requests, in partial, or in open.
 *
 * A window counts a request that waits or runs in it until it turns out that it is over, or the
 * window ends.
 *
 * A vGPU belongs to the VM whose thread queues its work; until that is seen there is a VM named
 * after the vGPU. Requests of no vGPU belong to the process that makes them; kernel threads have
 * none.
 *
 * Memory: what is open is limited (see the constants), the oldest is dropped and counted; all in
 * all at most VG_GPU_LEDGER_BYTES_MAX, what the topology keeps of threads not counted.
 * One thread at a time; no I/O, no clock.
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
#define VG_GPU_USERS_MAX         2048  /* of an engine: VM or process, and engine */
#define VG_GPU_OBJECTS_MAX       65536 /* memory objects */
#define VG_GPU_LEDGER_BYTES_MAX  (96 * 1024 * 1024)

/* The device of engines whose device no record named. Events of the DRM scheduler do not, before
 * Linux 6.17; so the kernel calls its fences. */
#define VG_GPU_DEVICE_UNTOLD "drm_sched"

typedef struct vg_gpu_ledger vg_gpu_ledger;

/* Both are borrowed; events must have their names from names. The topology learns from the events,
 * as it does from those that the CPU ledger is fed. */
vg_gpu_ledger *vg_gpu_ledger_new(vg_topology *topology, const vg_names *names);
void vg_gpu_ledger_free(vg_gpu_ledger *ledger);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_ledger, vg_gpu_ledger_free)

/* Its time must not be before that of the last one; if it is, it counts as a discontinuity and is
 * taken at the last one's time. */
void vg_gpu_ledger_feed(vg_gpu_ledger *ledger, const struct vg_event *event);

/* As those of the CPU ledger. The window is filled already with what that one measured of the same
 * time: the uses of GPUs are added to its VMs, VMs that it does not have are added to it. If no GPU
 * event ever came, it is left alone, and nobody's GPU side is known. */
void vg_gpu_ledger_begin(vg_gpu_ledger *ledger, int64_t t_ns);
void vg_gpu_ledger_close_window(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window);
void vg_gpu_ledger_read_period(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window);

/* Only windows will be read: VMs and processes that are gone are forgotten. */
void vg_gpu_ledger_windows_only(vg_gpu_ledger *ledger, bool windows_only);

/* What is recorded of requests (1 << enum vg_gpu_op; QUEUED: not if it is only of workloads), so
 * that it shows which records of a request are missing. What the ledger sees itself need not be
 * told. */
void vg_gpu_ledger_tells(vg_gpu_ledger *ledger, uint32_t ops);

/* The recording, or the part of it that is read, ends then. What is under way is open, if the
 * recording is whole up to there and ends of requests are recorded at all; else it is partial.
 * Where they are not, figures that need them are unknown from then on. */
void vg_gpu_ledger_end(vg_gpu_ledger *ledger, int64_t t_ns, bool is_whole);

/* A request that is done. */
struct vg_gpu_life {
    uint16_t device;
    uint16_t engine;
    uint32_t process; /* id in the topology, VG_PROCESS_NO_ID: the host itself, or not known */
    int32_t vgpu;     /* or VG_NONE */
    uint64_t context; /* 0: not known */
    uint64_t seqno;
    int64_t queued_ns; /* these: VG_TIME_UNKNOWN if it did not happen or nobody told */
    int64_t submitted_ns;
    int64_t ready_ns;
    int64_t run_ns; /* when it first ran */
    int64_t end_ns;
    int64_t exec_ns;
    bool coalesced;
};

/* Called from within the feed for each request that is done, in the order of their ends. */
typedef void vg_gpu_life_fn(void *data, const struct vg_gpu_life *life);
void vg_gpu_ledger_watch(vg_gpu_ledger *ledger, vg_gpu_life_fn *fn, void *data);

/* Windows are to have the requests that ended in them (struct vg_gpu_request_sample). */
void vg_gpu_ledger_keep_requests(vg_gpu_ledger *ledger, bool keep);

/* ---- as it happens ---- */

/* What a request does, as its figures count it. */
enum vg_gpu_stage {
    VG_GPU_STAGE_NONE, /* it runs as part of a later one, is done as far as is known, or open */
    VG_GPU_STAGE_QUEUED,
    VG_GPU_STAGE_SUBMITTED,
    VG_GPU_STAGE_READY,
    VG_GPU_STAGE_RUNNING,
    VG_GPU_STAGE_OVER /* the last that is told of it */
};

struct vg_gpu_change {
    uint32_t request; /* below VG_GPU_OPEN_REQUESTS_MAX; again another's when it is over */
    enum vg_gpu_stage stage;
    int64_t t_ns;
    /* It is found out only now, and counts for all that was told of the request: whose it is, if it
     * was nobody's so far, and its engine. OVER: that it is told as another one, and was none. */
    bool in_hindsight;
    uint16_t device; /* these as of a life, from then on */
    uint16_t engine;
    uint32_t process;
    char comm[VG_COMM_LEN]; /* of the process's thread that was first seen; "" without a process */
    int32_t vgpu;
    uint64_t context;
    uint64_t seqno;
};

/* Called from within the feed whenever a request begins to do something else, or does it for
 * somebody else or on another engine; of each request in the order of time, often more than once
 * for the same time. Where it is found out late that a request ran, t_ns is earlier, also than what
 * was told before. In hindsight, what was told of the requests of a VM on an engine adds up to its
 * waits and runs, to the nanosecond, once the recording has ended. It must not change the topology.
 */
typedef void vg_gpu_change_fn(void *data, const struct vg_gpu_change *change);

/* From now on, one for all; at first what each open request does now. NULL: nobody any more. */
void vg_gpu_ledger_watch_stages(vg_gpu_ledger *ledger, vg_gpu_change_fn *fn, void *data);

struct vg_gpu_ledger_stats {
    uint64_t events;
    uint64_t dropped;         /* requests that were open, contexts and objects that were known */
    uint64_t unattributed;    /* requests whose engine or user had no room: not in any figure */
    uint64_t discontinuities; /* records that contradict what is known */
    uint64_t begun, done;     /* requests */
    uint32_t open;            /* requests */
    bool lacks_ends;          /* no record has told so far that a request is done */
    uint32_t contexts;
    uint64_t bytes; /* that the ledger holds */
};

void vg_gpu_ledger_read_stats(const vg_gpu_ledger *ledger, struct vg_gpu_ledger_stats *ret);

#endif
