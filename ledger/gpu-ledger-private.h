/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the GPU ledger share.
 */
#ifndef VG_LEDGER_GPU_LEDGER_PRIVATE_H
#define VG_LEDGER_GPU_LEDGER_PRIVATE_H

#include "ledger/gpu-ledger.h"
#include "ledger/gpu-meter.h"
#include "ledger/gpu-requests.h"

/* In which order an engine works off what it was given. */
enum gpu_order {
    GPU_IN_ORDER,    /* one after the other, as given */
    GPU_ANY_ORDER,   /* one after the other; a firmware of its own says which is next */
    GPU_SIDE_BY_SIDE /* it stands for several; those of one context one after the other */
};

struct gpu_engine {
    uint16_t device;  /* VG_NAME_NONE: not told yet */
    bool device_weak; /* it is only the name of the driver */
    uint16_t name;
    bool is_nameless;     /* the name is the address of one */
    uint32_t same_as;     /* the engine that it is, as came out; GPU_NO_INDEX: itself */
    uint32_t told_ops;    /* 1 << enum vg_gpu_op: what was told of its requests so far */
    uint64_t last_global; /* the highest seqno of its own that is done; 0: none */
    int64_t last_end_ns;  /* of a request; VG_TIME_UNKNOWN: none yet */
    enum gpu_order order; /* as its requests that run tell */
    struct gpu_queue queue;
    struct gpu_list ring; /* its requests that were not passed, if it is a ring */
    uint16_t depth;       /* of the last request that the hardware was given; 0: not told */
    bool counts;          /* that is no constant */
    struct gpu_meter meter;
};

/* A VM or a process. */
struct gpu_owner {
    uint32_t process; /* id in the topology */
    char comm[VG_COMM_LEN];
    struct gpu_union active; /* its requests that waited or ran, on all engines */
};

/* An owner on an engine. */
struct gpu_user {
    uint32_t owner;
    uint32_t engine;
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
    uint64_t slices[GPU_BOOKS];
    int64_t suspended_ns[GPU_BOOKS];
    int64_t last_ns;
};

struct gpu_device {
    bool has_switches;
    uint32_t current; /* of vgpus, or GPU_NO_INDEX: none of those we know */
};

struct gpu_holding {
    uint32_t owner;
    uint16_t device;
    int64_t bytes;
    int64_t peak;
};

/* A power of 2. */
#define GPU_HINTS 128

/* The last job that a thread was told to give to a ring without a name. */
#define GPU_RING_RUNS 16
struct gpu_ring_run {
    int32_t tid;
    uint32_t engine;
    uint64_t id; /* 0: none */
};

struct vg_gpu_ledger {
    vg_topology *topology;
    const vg_names *names;
    int64_t now;
    bool begun;
    bool windows_only;
    int64_t begin_ns[GPU_BOOKS];
    /* Losses. */
    int64_t lost_ns;       /* when the recorder told of the newest; INT64_MIN: of none */
    int64_t lost_until_ns; /* records of some CPU are lost up to here */
    uint64_t losing[VG_CPU_LIMIT / 64]; /* a bit for each CPU: until it tells something again */
    uint32_t n_losing;
    uint32_t n_nameless; /* engines that may have a name */
    struct gpu_ring_run ring_runs[GPU_RING_RUNS];
    uint32_t told_ops;     /* as of vg_gpu_ledger_tells() */
    bool lacks_ends;       /* it has ended, and no record told of a request that is done */
    bool tells_workloads;  /* GVT-g does */
    bool guesses_engines;  /* of jobs that are queued */
    bool counts_from_zero; /* the scheduler tells how many the hardware has without the new one */
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
    struct gpu_kept *kept;                   /* requests of the window; NULL: nobody wants them */
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

/* Some record tells that a request is done, or the recording has such. */
static inline bool
gpu_ledger_tells_ends(const struct vg_gpu_ledger *ledger)
{
    return ledger->told_ops & (1U << VG_GPU_DONE | 1U << VG_GPU_RETIRED);
}

static inline struct gpu_engine *
gpu_engine_at(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    return g_ptr_array_index(ledger->engines, index);
}

/* The engine that this one has turned out to be. */
static inline uint32_t
gpu_engine_real(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, index);

    return engine->same_as == GPU_NO_INDEX ? index : engine->same_as;
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

/* ---- ledger/gpu-owner.c: who is who ---- */

/* The engine of a record, made if it is new and there is room; GPU_NO_INDEX: none. */
uint32_t gpu_ledger_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           bool may_make);

/* The owner of what the event's thread makes, or GPU_NO_INDEX. */
uint32_t gpu_ledger_recorder(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* That of this process, made if it is new and there is room; comm: of its thread. */
uint32_t gpu_ledger_owner(struct vg_gpu_ledger *ledger, struct vg_process *process,
                          const char *comm);

/* The vGPU of the event (its number is > 0), whose owner is found, too; NULL: no room. */
struct gpu_vgpu *gpu_ledger_vgpu(struct vg_gpu_ledger *ledger, const struct vg_event *event);
struct gpu_vgpu *gpu_ledger_find_vgpu(const struct vg_gpu_ledger *ledger, uint16_t device,
                                      int32_t number);

/* An owner on an engine, made if it is new; GPU_NO_INDEX: no owner, or no room. */
uint32_t gpu_ledger_user(struct vg_gpu_ledger *ledger, uint32_t owner, uint32_t engine);

/* Time passes for it. */
void gpu_vgpu_advance(const struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, int64_t now_ns);

/* The GPU changes hands. */
void gpu_ledger_switch(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* After a window: owners and users whose process is gone. */
void gpu_ledger_forget(struct vg_gpu_ledger *ledger);

void gpu_ledger_init_owners(struct vg_gpu_ledger *ledger);
void gpu_ledger_clear_owners(struct vg_gpu_ledger *ledger);
uint64_t gpu_ledger_owner_bytes(const struct vg_gpu_ledger *ledger);

/* ---- ledger/gpu-memory.c: memory objects come and go ---- */

void gpu_memory_init(struct vg_gpu_ledger *ledger);
void gpu_memory_clear(struct vg_gpu_ledger *ledger);
void gpu_memory_take(struct vg_gpu_ledger *ledger, const struct vg_event *event);
void gpu_memory_forget_owner(struct vg_gpu_ledger *ledger, uint32_t owner);
uint64_t gpu_memory_bytes(const struct vg_gpu_ledger *ledger);

/* ---- ledger/gpu-find.c: which request a record is of; nothing changes ---- */

/* The requests that the ids of a record, whose engine is given (or GPU_NO_INDEX), name: not always
 * one. */
struct gpu_found {
    uint32_t by_id; /* workload, job or seqno of the engine */
    uint32_t by_seqno;
    uint32_t by_fence;
};
struct gpu_found gpu_find(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* An address or a number is used again: the request is another one than that of the record. */
bool gpu_find_is_other(const struct vg_gpu_ledger *ledger, uint32_t index,
                       const struct vg_event *event, uint32_t engine);

/* The record's context; GPU_NO_INDEX: none that is known. */
uint32_t gpu_find_context(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* A request of the context that is not before the record's is done. */
bool gpu_find_is_past(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine);

/* The engine that the record's context is of; GPU_NO_INDEX: none, or that is only a guess. */
uint32_t gpu_find_context_engine(const struct vg_event *event, uint32_t engine);

/* The device, if it is more than the name of a driver. */
uint16_t gpu_find_device(const struct vg_event *event);

/* ---- ledger/gpu-learn.c: what records tell of a request beside its life ---- */

/* Finds the record's context, or makes it. */
uint32_t gpu_learn_context(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           uint32_t engine);

/* Finds who the record says that the request is for: its vGPU, or the thread that makes it. */
uint32_t gpu_learn_owner(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* Gives a request of GVT-g whose vGPU nobody told to the vGPU that has the GPU when it runs. */
void gpu_learn_vgpu(struct vg_gpu_ledger *ledger, uint32_t index);

/* Takes context and ids of the request's first record. */
void gpu_learn_take_context(struct vg_gpu_ledger *ledger, uint32_t index,
                            const struct vg_event *event, uint32_t owner);
void gpu_learn_take_ids(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* Tells who says with this record that a job is queued: enum gpu_queued_by, or 0. */
uint8_t gpu_learn_queued_by(const struct vg_event *event);

/* Takes what a further record of a request says of whose it is, and by what it can be found. */
void gpu_learn(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* Corrects the engine where it was a guess, by a ring or for want of a device. */
void gpu_learn_engine(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
                      uint32_t engine);

/* ---- ledger/gpu-life.c: what happens to a request, now ---- */

static inline bool
gpu_is_waiting(const struct gpu_request *request)
{
    return request->state <= GPU_STATE_READY;
}

/* A later one of its ring was done after its last record. */
static inline bool
gpu_is_passed(const struct gpu_request *request)
{
    return request->passed_ns != VG_TIME_UNKNOWN;
}

/* It has been made, and its times are set: it counts from now on, unless it is in doubt. */
void gpu_life_begin(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt);

/* It is in this state since then: now, as a record of its own tells, or, as one of another request
 * shows, since a time that is not before its last record. */
void gpu_life_set_state(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state,
                        int64_t t_ns);

/* The time of the last record of a request that waits. */
static inline int64_t
gpu_life_known_ns(const struct gpu_request *request)
{
    return MAX(request->state_ns, request->given_ns);
}

/* It is in that state, too, but what it did since its last record is not known. */
void gpu_life_resume(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state);

/* It counts for this user from now on; if it had none and has not run, from its beginning on. */
void gpu_life_set_user(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user);
void gpu_life_set_vgpu(struct vg_gpu_ledger *ledger, uint32_t index, int32_t vgpu);

/* Its engine was a guess: it has waited for this one. */
void gpu_life_set_engine(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t engine);

/* It was queued before its first record, which is told only now. */
void gpu_life_set_queued(struct vg_gpu_ledger *ledger, uint32_t index, int64_t queued_ns);

/* Its end, and what that tells of those before it in its context. */
void gpu_life_finish(struct vg_gpu_ledger *ledger, uint32_t index);

/* The driver forgets it: it is done by now. */
void gpu_life_retire(struct vg_gpu_ledger *ledger, uint32_t index);

/* It waited, and never will run. */
void gpu_life_cancel(struct vg_gpu_ledger *ledger, uint32_t index);

/* It was told as another one, too, since then: it was none from then on. */
void gpu_life_merge(struct vg_gpu_ledger *ledger, uint32_t index, int64_t since_ns);

/* What it does since its last record is not known. */
void gpu_life_doubt(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt);
void gpu_life_doubt_all(struct vg_gpu_ledger *ledger);
/* No further records will come that show that they were not passed. */
void gpu_life_doubt_passed(struct vg_gpu_ledger *ledger);

/* It is over, and nobody knows since when: it was partial. */
void gpu_life_close(struct vg_gpu_ledger *ledger, uint32_t index);
/* Those that have been in doubt, or passed, for long. */
void gpu_life_close_old(struct vg_gpu_ledger *ledger);

/* There is no room for it; it is in no count but that of what was dropped. */
void gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index);

struct gpu_place {
    struct gpu_meter *meters[2]; /* of the engine, of the user; or NULL */
    struct gpu_union *active;    /* of the user's owner */
};

static inline struct gpu_place
gpu_life_place(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    struct gpu_place place = {{&gpu_engine_at(ledger, request->engine)->meter, NULL}, NULL};

    if (request->user != GPU_NO_INDEX) {
        struct gpu_user *user = gpu_user_at(ledger, request->user);
        place.meters[1] = &user->meter;
        place.active = &gpu_owner_at(ledger, user->owner)->active;
    }
    return place;
}

/* ---- model/gpu-wait.c: requests that wait ---- */

/* Adds a request that waits to those that its meters count, or takes it out of them. */
void gpu_wait_count(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    bool more);
struct gpu_stage {
    enum gpu_wait wait;
    struct gpu_interval interval;
};

/* The stages of the wait that the request is in, up to then. A record ends one and names it; the
 * last one, which none has ended, is as it may be. */
int gpu_wait_stages(const struct gpu_request *request, int64_t until_ns, enum gpu_wait last,
                    struct gpu_stage ret[GPU_WAIT_MAX]);

/* The stage of the wait that the request is in: up to the next of its records that somebody tells.
 */
enum gpu_wait gpu_wait_next(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);

/* ---- model/gpu-open.c: what is under way ---- */

/* Adds what is under way to what is read of a book. */
void gpu_open_read(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind);

/* These books (1 << enum gpu_book_kind) begin now: what was passed or in doubt before is not
 * partial there. */
void gpu_open_tell_over(struct vg_gpu_ledger *ledger, unsigned int books);

/* The request, which is in doubt, is closed: adds it as partial, and to the window up to when it
 * was passed. */
void gpu_open_close(struct vg_gpu_ledger *ledger, const struct gpu_request *request);

/* ---- model/gpu-pass.c: requests of a ring that later ones have passed ---- */

/* The request has its engine, or another one. */
void gpu_pass_enter(struct vg_gpu_ledger *ledger, uint32_t index);
/* It leaves its engine, or is no longer among those that are passed. */
void gpu_pass_leave(struct vg_gpu_ledger *ledger, uint32_t index);
/* It is done. */
void gpu_pass_earlier(struct vg_gpu_ledger *ledger, uint32_t index);
/* A further record of it has come, which is not its end. */
void gpu_pass_take_back(struct vg_gpu_ledger *ledger, uint32_t index);

/* ---- model/gpu-hardware.c: what the hardware was given, of which it runs one ---- */

/* A record tells that the hardware is given the request. */
void gpu_hardware_give(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* A request of this record would run at once. */
bool gpu_hardware_is_free(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* A request that was given, and is in no queue, comes last in that of its engine, or of its
 * context, and runs if it is the first there. */
void gpu_hardware_enter(struct vg_gpu_ledger *ledger, uint32_t index);

/* The queue of the engine is in the order in which it was given its requests, after some have come
 * from another one. */
void gpu_hardware_sort(struct vg_gpu_ledger *ledger, uint32_t engine);

/* A record tells that the request is taken off the hardware, uncompleted. */
void gpu_hardware_take_off(struct vg_gpu_ledger *ledger, uint32_t index);

/* A record tells that a request is done that is not the first in its queue. */
void gpu_hardware_overtake(struct vg_gpu_ledger *ledger, uint32_t index);

/* The request leaves the queue that it is in. */
void gpu_hardware_pass_on(struct vg_gpu_ledger *ledger, uint32_t index, bool is_told);

/* The hardware has the request no longer, if it had: since now, as is told, or since whenever. What
 * is behind it runs. */
static inline void
gpu_hardware_leave(struct vg_gpu_ledger *ledger, uint32_t index, bool is_told)
{
    if (gpu_request_at(&ledger->requests, index)->given != GPU_NOT_GIVEN)
        gpu_hardware_pass_on(ledger, index, is_told);
}

/* ---- ledger/gpu-ring.c: rings that are told by the address of their name ---- */

bool gpu_ring_is_nameless(const char *name);

/* A job runs, on the engine that is given (or GPU_NO_INDEX): is that one of the rings whose name
 * was not told? Returns the engine that it runs on, by its name where that is known now. */
uint32_t gpu_ring_learn(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                        uint32_t engine);

/* ---- ledger/gpu-tell.c: what is told as it happens ---- */

static inline enum vg_gpu_stage
gpu_life_stage_of(const struct gpu_request *request)
{
    static const enum vg_gpu_stage stages[] = {
        [GPU_STATE_QUEUED] = VG_GPU_STAGE_QUEUED, [GPU_STATE_SUBMITTED] = VG_GPU_STAGE_SUBMITTED,
        [GPU_STATE_READY] = VG_GPU_STAGE_READY,   [GPU_STATE_RUNNING] = VG_GPU_STAGE_RUNNING,
        [GPU_STATE_MERGED] = VG_GPU_STAGE_NONE,
    };

    return stages[request->state];
}

static inline enum vg_gpu_stage
gpu_life_stage(const struct gpu_request *request)
{
    return request->doubt == GPU_DOUBT_NONE ? gpu_life_stage_of(request) : VG_GPU_STAGE_NONE;
}

/* To an observer, who must be there. */
void gpu_life_tell_observer(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                            enum vg_gpu_stage stage, int64_t t_ns, bool in_hindsight);

static inline void
gpu_life_tell_stage(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    enum vg_gpu_stage stage, int64_t t_ns)
{
    if (ledger->watch_stages)
        gpu_life_tell_observer(ledger, request, stage, t_ns, false);
}

/* What the request does now. */
void gpu_life_tell_now(const struct vg_gpu_ledger *ledger, uint32_t index);

/* No further records will come: what is open does nothing that is known. */
void gpu_life_tell_open(const struct vg_gpu_ledger *ledger);

/* The request had another user or engine, or none. It has the new one either from its beginning on,
 * or since its last record. */
void gpu_life_tell_place(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                         bool in_hindsight);

/* The request was another user's, for whom nothing of it is counted yet: for the observer it begins
 * anew. */
void gpu_life_tell_anew(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);

struct vg_gpu_life gpu_life_tell(const struct vg_gpu_ledger *ledger,
                                 const struct gpu_request *request, int64_t end_ns);

/* ---- ledger/gpu-kept.c: the requests of the open window ---- */

struct gpu_kept *gpu_kept_new(void);
void gpu_kept_free(struct gpu_kept *kept);
void gpu_kept_add(struct gpu_kept *kept, const struct vg_gpu_life *life);
void gpu_kept_begin_window(struct gpu_kept *kept);

/* Calls fn for each, with the number of those before it that are not kept; returns that of those
 * after the last one. */
typedef void gpu_kept_fn(void *data, const struct vg_gpu_life *life, uint32_t left_out);
uint32_t gpu_kept_each(const struct gpu_kept *kept, gpu_kept_fn *fn, void *data);

#endif
