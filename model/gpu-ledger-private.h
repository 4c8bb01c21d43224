/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the GPU ledger share.
 */
#ifndef VG_MODEL_GPU_LEDGER_PRIVATE_H
#define VG_MODEL_GPU_LEDGER_PRIVATE_H

#include "model/gpu-ledger.h"
#include "model/gpu-meter.h"
#include "model/gpu-requests.h"
#include "model/gpu-spread.h"

struct gpu_engine {
    uint16_t device;  /* VG_NAME_NONE: not told yet */
    bool device_weak; /* it is only the name of the driver */
    uint16_t name;
    uint64_t last_global; /* the highest seqno of its own that is done; 0: none */
    struct gpu_meter meter;
    int64_t last_end_ns;      /* of a request; VG_TIME_UNKNOWN: none yet */
    int64_t last_off_ns;      /* when a workload was taken off; VG_TIME_UNKNOWN: none yet */
    uint32_t workload;        /* request of a vGPU that ran here last; may be over */
    struct gpu_spread pauses; /* from when a workload was taken off until the next one ran */
    uint32_t held; /* request that is done and that GVT-g may name yet, or GPU_NO_INDEX */
};

/* A VM or a process. */
struct gpu_owner {
    uint32_t process; /* id in the topology */
    char comm[VG_COMM_LEN];
    uint32_t open;     /* its requests that wait or run, on all engines */
    int64_t active_ns; /* with any of them, since the period began, up to last_ns */
    int64_t told_active_ns;
    int64_t last_ns;
};

/* That of a workload that was known to be in the queue of its vGPU. */
struct gpu_submission {
    int32_t vgpu;
    int64_t queued_ns; /* VG_TIME_UNKNOWN: there was none */
    int64_t wait_ns;
};

/* An owner on an engine. */
struct gpu_user {
    uint32_t owner;
    uint32_t engine;
    /* Of its workloads: their runs that ended with them being taken off, and those after which they
     * were done; and how long after they could have begun to run they did. */
    struct gpu_spread turns, last_runs, begins;
    struct gpu_spread lone_waits; /* in the queue, of those submitted when none was on the engine */
    int64_t last_end_ns;          /* of a request; VG_TIME_UNKNOWN: none yet */
    struct gpu_submission last, before; /* of its workloads: the last one, and the one before */
    uint64_t dropped; /* workloads that are in its queue and not among those that are known */
    struct gpu_meter meter;
    struct gpu_list open;
};

/* What an owner has of a device as a whole. */
struct gpu_vgpu {
    uint16_t device;
    int32_t number; /* of the vGPU */
    int64_t key;    /* of these two, in by_vgpu */
    uint32_t owner;
    bool bound;       /* to a process that was seen; else to one that stands for the vGPU */
    uint32_t waiting; /* its requests, on all engines */
    uint64_t slices, told_slices;
    int64_t suspended_ns, told_suspended_ns;
    int64_t last_ns;
};

struct gpu_device {
    bool has_switches;
    uint32_t current;      /* of vgpus, or GPU_NO_INDEX: none of those we know */
    uint32_t last_context; /* whose vGPU is not known and that had a request done last */
    uint64_t last_number;  /* of that context */
};

struct gpu_holding {
    uint32_t owner;
    uint16_t device;
    int64_t bytes;
    int64_t peak;
};

/* A power of 2. */
#define GPU_HINTS 128

/* A request that is kept for the window. */
struct gpu_ended {
    struct vg_gpu_life life;
    uint64_t number;   /* how many of the window ended before it */
    uint32_t left_out; /* those between the one before and this one */
};

struct vg_gpu_ledger {
    vg_topology *topology;
    const vg_names *names;
    int64_t now;
    bool begun;
    bool windows_only;
    bool has_workloads; /* GVT-g tells of them */
    int64_t period_begin, window_begin;
    struct gpu_requests requests;
    GPtrArray *engines; /* struct gpu_engine, owned */
    GPtrArray *owners;  /* struct gpu_owner; NULL: forgotten */
    GPtrArray *users;   /* struct gpu_user; NULL: forgotten */
    GPtrArray *vgpus;   /* struct gpu_vgpu; NULL: forgotten */
    /* Where they were last found: by device and number, device and name, process, owner and engine.
     * Only hints. */
    uint32_t vgpu_hints[GPU_HINTS];
    uint32_t engine_hints[GPU_HINTS];
    uint32_t owner_hints[GPU_HINTS];
    uint32_t user_hints[GPU_HINTS];
    GHashTable *by_process;                  /* process id -> index of owner + 1 */
    GHashTable *by_user;                     /* owner and engine -> index of user + 1 */
    GHashTable *by_vgpu;                     /* key of vGPU, its own -> index of vGPU + 1 */
    GHashTable *objects;                     /* struct gpu_object, owned: memory */
    GArray *holdings;                        /* struct gpu_holding */
    struct gpu_device devices[VG_NAMES_MAX]; /* by name */
    GArray *ended;           /* struct gpu_ended: in the open window; NULL: nobody wants them */
    uint32_t ended_left_out; /* after the last of these */
    uint64_t n_ended;        /* in the open window */
    uint64_t ended_every;    /* of so many one is kept, by and large; a power of 2 */
    vg_gpu_life_fn *watch;
    void *watch_data;
    vg_gpu_change_fn *watch_stages;
    void *watch_stages_data;
    uint64_t discontinuities_told;
    struct vg_gpu_ledger_stats stats;
};

static inline bool
gpu_ledger_has_all_owners(const struct vg_gpu_ledger *ledger)
{
    return g_hash_table_size(ledger->by_process) >= VG_GPU_OWNERS_MAX;
}

static inline struct gpu_engine *
gpu_engine_at(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_ptr_array_index(ledger->engines, index);
}

static inline struct gpu_owner *
gpu_owner_at(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_ptr_array_index(ledger->owners, index);
}

static inline struct gpu_user *
gpu_user_at(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_ptr_array_index(ledger->users, index);
}

static inline struct gpu_vgpu *
gpu_vgpu_at(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_ptr_array_index(ledger->vgpus, index);
}

/* ---- model/gpu-owner.c: who is who ---- */

/* The engine of a record, made if it is new and there is room; GPU_NO_INDEX: none. */
uint32_t gpu_ledger_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           bool may_make);

/* The owner of what the event's thread makes, or GPU_NO_INDEX. */
uint32_t gpu_ledger_recorder(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* The vGPU of the event (its number is > 0), whose owner is found, too; NULL: no room. */
struct gpu_vgpu *gpu_ledger_vgpu(struct vg_gpu_ledger *ledger, const struct vg_event *event);
struct gpu_vgpu *gpu_ledger_find_vgpu(const struct vg_gpu_ledger *ledger, uint16_t device,
                                      int32_t number);

/* An owner on an engine, made if it is new; GPU_NO_INDEX: no owner, or no room. */
uint32_t gpu_ledger_user(struct vg_gpu_ledger *ledger, uint32_t owner, uint32_t engine);

/* Time passes for them. */
void gpu_owner_advance(struct gpu_owner *owner, int64_t now_ns);
void gpu_vgpu_advance(const struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, int64_t now_ns);

/* The other events: the GPU changes hands, memory comes and goes. */
void gpu_ledger_switch(struct vg_gpu_ledger *ledger, const struct vg_event *event);
void gpu_ledger_memory(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* After a window: owners and users whose process is gone. */
void gpu_ledger_forget(struct vg_gpu_ledger *ledger);

void gpu_ledger_init_owners(struct vg_gpu_ledger *ledger);
void gpu_ledger_clear_owners(struct vg_gpu_ledger *ledger);
uint64_t gpu_ledger_owner_bytes(const struct vg_gpu_ledger *ledger);

/* ---- model/gpu-find.c: which request a record is of ---- */

/* The request of a record, whose engine is given (or GPU_NO_INDEX). What the record shows to be
 * over is ended. GPU_NO_INDEX: none that is known. */
uint32_t gpu_ledger_find(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                         uint32_t engine);

/* The engine that the record's context is of; GPU_NO_INDEX: none, or that is only a guess. */
uint32_t gpu_context_engine(const struct vg_event *event, uint32_t engine);

/* The device, if it is more than the name of a driver. */
uint16_t gpu_sure_device(const struct vg_event *event);

/* enum gpu_queued_by of a record, or 0. */
uint8_t gpu_queued_by(const struct vg_event *event);

/* The end of a request was missed: what is told now shows that it is over. */
void gpu_ledger_end_missed(struct vg_gpu_ledger *ledger, uint32_t index);

/* What the driver said was taken to be of the workload that was first in the queue of its vGPU; now
 * GVT-g says that it was of the other one, which is taken for the first one from now on. Both have
 * waited as long together as before. false: that cannot be, and nothing was done. */
bool gpu_ledger_exchange(struct vg_gpu_ledger *ledger, uint32_t adopted, uint32_t other);

/* ---- model/gpu-life.c: what happens to a request, now ---- */

static inline bool
gpu_is_waiting(const struct gpu_request *request)
{
    return request->state <= GPU_STATE_READY;
}

/* The wait that a request in a waiting state is taken to be in, until an event shows which. */
static inline enum gpu_wait
gpu_wait_of(const struct gpu_request *request)
{
    return (enum gpu_wait)request->state;
}

/* Its meters: of its engine, and of its user there; the second one is NULL without a user. */
void gpu_life_meters(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                     struct gpu_meter *ret[2]);

/* Since when that meter (0 or 1) has counted the request in its state, as far as the period goes.
 */
int64_t gpu_life_counted_since(const struct vg_gpu_ledger *ledger,
                               const struct gpu_request *request, int which);

/* What it has waited in its state, up to then, is the wait that ends with the next one. */
void gpu_life_name_wait(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                        enum gpu_state next, int64_t until_ns);

/* A request enters its meters and the count of its vGPU as it is, or leaves them. */
void gpu_life_count_in(struct vg_gpu_ledger *ledger, const struct gpu_request *request);
void gpu_life_count_out(struct vg_gpu_ledger *ledger, const struct gpu_request *request);

void gpu_life_set_state(struct vg_gpu_ledger *ledger, struct gpu_request *request,
                        enum gpu_state state);

/* It has been submitted, and was taken to be queued at that time: it was queued before. */
void gpu_life_queued_before(struct vg_gpu_ledger *ledger, struct gpu_request *request,
                            int64_t queued_ns);

/* Tells the observer of stages that the request has this one since then. */
void gpu_life_tell_stage(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                         enum vg_gpu_stage stage, int64_t t_ns);

/* The same of the stage that it began with, and of the one that it counts as having now. */
void gpu_life_tell_begin(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);
void gpu_life_tell_now(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);

/* It must not have an id yet, which is found by the vGPU. */
void gpu_life_set_vgpu(struct vg_gpu_ledger *ledger, struct gpu_request *request, int32_t vgpu);

/* The request counts for this user, or from now on for nobody. The first user that it has gets what
 * it has waited and run so far. */
void gpu_life_set_user(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user);

/* Its engine was a guess; what it has waited so far was for this one. */
void gpu_life_set_engine(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t engine);

/* It is done, and so are those before it in its context. */
void gpu_life_finish(struct vg_gpu_ledger *ledger, uint32_t index);

/* A request that is done and nobody's is kept as it may be a workload of which GVT-g says only
 * after that that it was submitted, or done; gpu_life_finish() looks for that. This is for when it
 * says that it is that one: false if it cannot be. Else both are over. */
bool gpu_life_name_held(struct vg_gpu_ledger *ledger, uint32_t workload, uint32_t held);

/* Does not wait for that any more. */
void gpu_life_let_go(struct vg_gpu_ledger *ledger);

/* The driver forgets it: if its end is known, nothing more will be told. */
void gpu_life_retire(struct vg_gpu_ledger *ledger, uint32_t index);

/* It will never run; and neither will workloads of the same user that are in the queue before it:
 * that was missed. */
void gpu_life_cancel(struct vg_gpu_ledger *ledger, uint32_t index);

/* A request of which nothing more will be told; if it is not done, that is counted. */
void gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index);

/* It was none: nothing of it counts. */
void gpu_life_undo(struct vg_gpu_ledger *ledger, uint32_t index);

/* One that is in no meter any more. */
void gpu_life_forget(struct vg_gpu_ledger *ledger, uint32_t index);

struct vg_gpu_life gpu_life_tell(const struct vg_gpu_ledger *ledger,
                                 const struct gpu_request *request, int64_t end_ns);

/* ---- model/gpu-missed.c: what records would have told that are missed ---- */

/* Workloads of vGPUs. That it was queued: of a user's workloads one was submitted then, and the
 * next one in the queue was queued at next_ns; of the one before it that is known. Returns when it
 * was queued, about. */
int64_t gpu_missed_queued_ns(const struct vg_gpu_ledger *ledger, const struct gpu_user *user,
                             const struct gpu_submission *before, int64_t submitted_ns,
                             int64_t next_ns);
/* When the first of those in the queue was queued; now if there is none. */
int64_t gpu_missed_next_queued_ns(const struct vg_gpu_ledger *ledger, const struct gpu_user *user);
void gpu_missed_learn_submission(const struct vg_gpu_ledger *ledger, struct gpu_user *user,
                                 int32_t vgpu, int64_t queued_ns, int64_t now_ns);

/* Its end is missed, as it runs and another one begins to; or it runs and begins to, again. */
void gpu_missed_off(struct vg_gpu_ledger *ledger, struct gpu_request *request);
void gpu_missed_off_and_on(struct vg_gpu_ledger *ledger, struct gpu_request *request);

/* Its begin is missed, as it waits and is taken off; or as it is done, and in no meter any more:
 * any request. */
void gpu_missed_begin_of_turn(struct vg_gpu_ledger *ledger, struct gpu_request *request);
void gpu_missed_begin(struct vg_gpu_ledger *ledger, struct gpu_request *request);

/* A request that waits begins to run; one that runs is taken off, or done. */
void gpu_missed_learn_begin(struct vg_gpu_ledger *ledger, const struct gpu_request *request);
void gpu_missed_learn_off(struct vg_gpu_ledger *ledger, const struct gpu_request *request);
void gpu_missed_learn_last_run(struct vg_gpu_ledger *ledger, const struct gpu_request *request);

#endif
