/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files of the GPU ledger.
 */
#ifndef VG_LEDGER_GPU_LEDGER_PRIVATE_H
#define VG_LEDGER_GPU_LEDGER_PRIVATE_H

#include "ledger/gpu-ledger.h"
#include "ledger/gpu-meter.h"
#include "ledger/gpu-requests.h"

/* How an engine orders its requests. */
enum gpu_order {
    GPU_IN_ORDER,    /* one by one, in submission order */
    GPU_ANY_ORDER,   /* one by one; firmware chooses the next */
    GPU_SIDE_BY_SIDE /* a group of engines; requests of one context run one by one */
};

struct gpu_engine {
    uint16_t device;  /* VG_NAME_NONE if not known yet */
    bool device_weak; /* it is only the driver's name */
    uint16_t name;
    bool is_nameless;     /* the name is the address of a name */
    uint32_t same_as;     /* the engine that this was found to be; GPU_NO_INDEX if it is unique */
    uint32_t told_ops;    /* 1 << enum vg_gpu_op: operations of its requests recorded until now */
    uint64_t last_global; /* the highest completed seqno of the engine itself; 0 if none */
    int64_t last_end_ns;  /* of a request; VG_TIME_UNKNOWN if none yet */
    enum gpu_order order; /* as shown by its running requests */
    struct gpu_queue queue;
    struct gpu_list ring; /* if it is a ring, its requests that were not passed */
    uint16_t depth;       /* of the request that the hardware got last; 0 if unknown */
    bool counts;          /* depth is not constant */
    struct gpu_meter meter;
};

/* A VM or a process. */
struct gpu_owner {
    uint32_t process; /* id in the topology */
    char comm[VG_COMM_LEN];
    struct gpu_union active; /* its waiting and running requests on all engines */
};

/* An owner on an engine. */
struct gpu_user {
    uint32_t owner;
    uint32_t engine;
    struct gpu_meter meter;
    struct gpu_list open;
};

/* An owner's vGPU on a device. */
struct gpu_vgpu {
    uint16_t device;
    int32_t number; /* of the vGPU */
    int64_t key;    /* of these two, for by_vgpu */
    uint32_t owner;
    bool bound; /* to a process that was seen; otherwise to a placeholder process for the vGPU */
    uint32_t waiting; /* its waiting requests on all engines */
    uint64_t slices[GPU_BOOKS];
    int64_t suspended_ns[GPU_BOOKS];
    int64_t last_ns;
};

struct gpu_device {
    bool has_switches;
    uint32_t current; /* index in vgpus; GPU_NO_INDEX if it is not a known vGPU */
};

struct gpu_holding {
    uint32_t owner;
    uint16_t device;
    int64_t bytes;
    int64_t peak;
};

/* A power of 2. */
#define GPU_HINTS 128

/* The last job that a thread was reported to submit to a ring without a name. */
#define GPU_RING_RUNS 16
struct gpu_ring_run {
    int32_t tid;
    uint32_t engine;
    uint64_t id; /* 0 if none */
};

struct vg_gpu_ledger {
    vg_topology *topology;
    const vg_names *names;
    int64_t now;
    bool begun;
    bool windows_only;
    int64_t begin_ns[GPU_BOOKS];
    /* Losses. */
    int64_t lost_ns;                    /* time of the newest loss report; INT64_MIN without one */
    int64_t lost_until_ns;              /* some CPU's records are lost up to here */
    uint64_t losing[VG_CPU_LIMIT / 64]; /* one bit per CPU, set until its next record */
    uint32_t n_losing;
    uint32_t n_nameless; /* engines that may yet get a name */
    struct gpu_ring_run ring_runs[GPU_RING_RUNS];
    uint32_t told_ops;     /* as of vg_gpu_ledger_declare_ops() */
    bool lacks_ends;       /* the recording has ended without any record of a completed request */
    bool tells_workloads;  /* GVT-g does */
    bool guesses_engines;  /* of queued jobs */
    bool counts_from_zero; /* the scheduler reports how many requests the hardware has without the
                              new one */
    struct gpu_requests requests;
    GPtrArray *engines; /* struct gpu_engine, owned */
    GPtrArray *owners;  /* struct gpu_owner; NULL if forgotten */
    GPtrArray *users;   /* struct gpu_user; NULL if forgotten */
    GPtrArray *vgpus;   /* struct gpu_vgpu; NULL if forgotten */
    /* Caches of the last lookups: by device and number, device and name, process, owner and
     * engine. Only hints. */
    uint32_t vgpu_hints[GPU_HINTS];
    uint32_t engine_hints[GPU_HINTS];
    uint32_t owner_hints[GPU_HINTS];
    uint32_t user_hints[GPU_HINTS];
    GHashTable *by_process;                  /* process id -> index of owner + 1 */
    GHashTable *by_user;                     /* owner and engine -> index of user + 1 */
    GHashTable *by_vgpu;                     /* key of a vGPU -> index of vGPU + 1 */
    GHashTable *objects;                     /* struct gpu_object, owned: memory */
    GArray *holdings;                        /* struct gpu_holding */
    struct gpu_device devices[VG_NAMES_MAX]; /* by name */
    struct gpu_kept *kept;                   /* requests of the window; NULL if not wanted */
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

/* Returns whether the recording has records of completed requests. */
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

/* Returns the engine that is identical to this engine. */
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

/* ---- ledger/gpu-owner.c: engines and owners ---- */

/* Returns the engine of a record, created if it is new and there is space. Returns GPU_NO_INDEX if
 * there is no such engine. */
uint32_t gpu_ledger_engine(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           bool may_make);

/* Returns the owner of requests created by the event's thread, or GPU_NO_INDEX. */
uint32_t gpu_ledger_recorder(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* Returns the owner for this process, created if it is new and there is space. comm: of its
 * thread. */
uint32_t gpu_ledger_owner(struct vg_gpu_ledger *ledger, struct vg_process *process,
                          const char *comm);

/* Returns the event's vGPU (its number is > 0) and finds its owner. Returns NULL if there is no
 * space. */
struct gpu_vgpu *gpu_ledger_vgpu(struct vg_gpu_ledger *ledger, const struct vg_event *event);
struct gpu_vgpu *gpu_ledger_find_vgpu(const struct vg_gpu_ledger *ledger, uint16_t device,
                                      int32_t number);

/* Returns the user for an owner and an engine, created if new. Returns GPU_NO_INDEX without an
 * owner or space. */
uint32_t gpu_ledger_user(struct vg_gpu_ledger *ledger, uint32_t owner, uint32_t engine);

/* Advances the time of the vGPU. */
void gpu_vgpu_advance(const struct vg_gpu_ledger *ledger, struct gpu_vgpu *vgpu, int64_t now_ns);

/* Handles a switch of the GPU to another vGPU. */
void gpu_ledger_switch(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* After a window: forgets owners and users whose process has ended. */
void gpu_ledger_forget(struct vg_gpu_ledger *ledger);

void gpu_ledger_init_owners(struct vg_gpu_ledger *ledger);
void gpu_ledger_clear_owners(struct vg_gpu_ledger *ledger);
uint64_t gpu_ledger_owner_bytes(const struct vg_gpu_ledger *ledger);

/* ---- ledger/gpu-memory.c: memory objects ---- */

void gpu_memory_init(struct vg_gpu_ledger *ledger);
void gpu_memory_clear(struct vg_gpu_ledger *ledger);
void gpu_memory_take(struct vg_gpu_ledger *ledger, const struct vg_event *event);
void gpu_memory_forget_owner(struct vg_gpu_ledger *ledger, uint32_t owner);
uint64_t gpu_memory_bytes(const struct vg_gpu_ledger *ledger);

/* ---- ledger/gpu-find.c: finds the request of a record, without changes ---- */

/* The requests that match the ids in a record, whose engine is given (or GPU_NO_INDEX). They may
 * differ. */
struct gpu_found {
    uint32_t by_id; /* workload, job or seqno of the engine */
    uint32_t by_seqno;
    uint32_t by_fence;
};
struct gpu_found gpu_find(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* Returns whether an address or a number was reused, so that the record belongs to another
 * request. */
bool gpu_find_is_other(const struct vg_gpu_ledger *ledger, uint32_t index,
                       const struct vg_event *event, uint32_t engine);

/* Returns the record's context, or GPU_NO_INDEX if not known. */
uint32_t gpu_find_context(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* Returns whether the record's request, or a later request of its context, is done. */
bool gpu_find_is_past(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine);

/* Returns the engine that the record's context belongs to, or GPU_NO_INDEX if unknown or only a
 * guess. */
uint32_t gpu_find_context_engine(const struct vg_event *event, uint32_t engine);

/* Returns the device if it is more than a driver's name. */
uint16_t gpu_find_device(const struct vg_event *event);

/* ---- ledger/gpu-learn.c: attributes of a request from its records ---- */

/* Finds or creates the record's context. */
uint32_t gpu_learn_context(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                           uint32_t engine);

/* Finds the request's owner: its vGPU, or the thread that creates it. */
uint32_t gpu_learn_owner(struct vg_gpu_ledger *ledger, const struct vg_event *event);

/* Assigns a GVT-g request without a reported vGPU to the vGPU that has the GPU when it runs. */
void gpu_learn_vgpu(struct vg_gpu_ledger *ledger, uint32_t index);

/* Stores context and ids of the request's first record. */
void gpu_learn_take_context(struct vg_gpu_ledger *ledger, uint32_t index,
                            const struct vg_event *event, uint32_t owner);
void gpu_learn_take_ids(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* Returns the source that reports with this record that a job is queued: enum gpu_queued_by, or
 * 0. */
uint8_t gpu_learn_queued_by(const struct vg_event *event);

/* Stores the owner and ids that a further record of a request reveals. */
void gpu_learn(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* Corrects the engine if it was a guess from a ring or a missing device. */
void gpu_learn_engine(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
                      uint32_t engine);

/* ---- ledger/gpu-life.c: changes of a request, now ---- */

static inline bool
gpu_is_waiting(const struct gpu_request *request)
{
    return request->state <= GPU_STATE_READY;
}

/* Returns whether a later request of its ring was done after its last record. */
static inline bool
gpu_is_passed(const struct gpu_request *request)
{
    return request->passed_ns != VG_TIME_UNKNOWN;
}

/* Starts to count a new request, whose times are set, unless it is in doubt. */
void gpu_life_begin(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt);

/* Sets its state since a time: now, if its own record shows it, or an earlier time not before its
 * last record, if another request shows it. */
void gpu_life_set_state(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state,
                        int64_t t_ns);

/* Returns the time of the last record of a waiting request. */
static inline int64_t
gpu_life_known_ns(const struct gpu_request *request)
{
    return MAX(request->state_ns, request->given_ns);
}

/* Returns the request to that state; its activity since its last record is unknown. */
void gpu_life_resume(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state);

/* Counts it for this user from now on, or from its start if it had no user and has not run. */
void gpu_life_set_user(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t user);
void gpu_life_set_vgpu(struct vg_gpu_ledger *ledger, uint32_t index, int32_t vgpu);

/* Replaces a guessed engine: the request has been waiting for the new engine. */
void gpu_life_set_engine(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t engine);

/* Sets the time when the request was queued, if this was before its first record and was reported
 * only now. */
void gpu_life_set_queued(struct vg_gpu_ledger *ledger, uint32_t index, int64_t queued_ns);

/* Handles its end and the consequences for earlier requests of its context. */
void gpu_life_finish(struct vg_gpu_ledger *ledger, uint32_t index);

/* The driver releases the request, so it must be done. */
void gpu_life_retire(struct vg_gpu_ledger *ledger, uint32_t index);

/* The request waited and will never run. */
void gpu_life_cancel(struct vg_gpu_ledger *ledger, uint32_t index);

/* The request was also recorded as another request since then, and is merged into that request. */
void gpu_life_merge(struct vg_gpu_ledger *ledger, uint32_t index, int64_t since_ns);

/* Marks the request's activity since its last record as unknown. */
void gpu_life_doubt(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt);
void gpu_life_doubt_all(struct vg_gpu_ledger *ledger);
/* No further records will come that could show that they were not passed. */
void gpu_life_doubt_passed(struct vg_gpu_ledger *ledger);

/* The request ended at an unknown time, so it counts as partial. */
void gpu_life_close(struct vg_gpu_ledger *ledger, uint32_t index);
/* Closes requests that have been in doubt, or passed, for a long time. */
void gpu_life_close_old(struct vg_gpu_ledger *ledger);

/* Drops the request because there is no space. It is counted only as dropped. */
void gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index);

struct gpu_place {
    struct gpu_meter *meters[2]; /* of the engine and the user; may be NULL */
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

/* ---- model/gpu-wait.c: waiting requests ---- */

/* Adds a waiting request to its meters, or removes it. */
void gpu_wait_count(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    bool more);
struct gpu_stage {
    enum gpu_wait wait;
    struct gpu_interval interval;
};

/* Returns the stages of the request's current wait up to a time. Each is named after the record
 * that ended it. The last stage has not ended and is named by `last`. */
int gpu_wait_stages(const struct gpu_request *request, int64_t until_ns, enum gpu_wait last,
                    struct gpu_stage ret[GPU_WAIT_MAX]);

/* Returns the current stage of the request's wait: until its next record that is known to be
 * recorded. */
enum gpu_wait gpu_wait_next(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);

/* ---- model/gpu-open.c: open requests ---- */

/* Adds open requests to the results of a book. */
void gpu_open_read(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind);

/* Starts these books (1 << enum gpu_book_kind): requests that were passed or in doubt before do
 * not count as partial there. */
void gpu_open_tell_over(struct vg_gpu_ledger *ledger, unsigned int books);

/* Closes a request in doubt: adds it as partial, and to the window up to when it was passed. */
void gpu_open_close(struct vg_gpu_ledger *ledger, const struct gpu_request *request);

/* ---- model/gpu-pass.c: requests of a ring passed by later ones ---- */

/* The request got its engine or a new engine. */
void gpu_pass_enter(struct vg_gpu_ledger *ledger, uint32_t index);
/* The request leaves its engine or the list of passed requests. */
void gpu_pass_leave(struct vg_gpu_ledger *ledger, uint32_t index);
/* The request is done: marks earlier ones as passed. */
void gpu_pass_earlier(struct vg_gpu_ledger *ledger, uint32_t index);
/* The request has a further record that is not its end. */
void gpu_pass_take_back(struct vg_gpu_ledger *ledger, uint32_t index);

/* ---- model/gpu-hardware.c: requests at the hardware, one of them running ---- */

/* A record says that the hardware gets the request. */
void gpu_hardware_give(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event);

/* Returns whether a request of this record would run immediately. */
bool gpu_hardware_is_free(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                          uint32_t engine);

/* Appends a request that the hardware has to the queue of its engine or context, if it is in no
 * queue. It runs if it is first. */
void gpu_hardware_enter(struct vg_gpu_ledger *ledger, uint32_t index);

/* Sorts the engine's queue by submission, after requests moved here from another engine. */
void gpu_hardware_sort(struct vg_gpu_ledger *ledger, uint32_t engine);

/* A record says that the request was removed from the hardware before it completed. */
void gpu_hardware_take_off(struct vg_gpu_ledger *ledger, uint32_t index);

/* A record says that a request is done that is not first in its queue. */
void gpu_hardware_overtake(struct vg_gpu_ledger *ledger, uint32_t index);

/* The request leaves its queue. */
void gpu_hardware_pass_on(struct vg_gpu_ledger *ledger, uint32_t index, bool is_told);

/* The hardware no longer has the request, if it had: since now if that is reported, otherwise
 * since an unknown time. The next request runs. */
static inline void
gpu_hardware_leave(struct vg_gpu_ledger *ledger, uint32_t index, bool is_told)
{
    if (gpu_request_at(&ledger->requests, index)->given != GPU_NOT_GIVEN)
        gpu_hardware_pass_on(ledger, index, is_told);
}

/* ---- ledger/gpu-ring.c: rings identified by the address of their name ---- */

bool gpu_ring_is_nameless(const char *name);

/* A job runs on the given engine (or GPU_NO_INDEX). If that is a ring whose name was not known,
 * returns the engine that it runs on, by name if known now. */
uint32_t gpu_ring_learn(struct vg_gpu_ledger *ledger, const struct vg_event *event,
                        uint32_t engine);

/* ---- ledger/gpu-tell.c: live observation ---- */

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

/* Reports to an observer, which must exist. */
void gpu_life_tell_observer(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                            enum vg_gpu_stage stage, int64_t t_ns, bool in_hindsight);

static inline void
gpu_life_tell_stage(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    enum vg_gpu_stage stage, int64_t t_ns)
{
    if (ledger->watch_stages)
        gpu_life_tell_observer(ledger, request, stage, t_ns, false);
}

/* Reports the request's current activity. */
void gpu_life_tell_now(const struct vg_gpu_ledger *ledger, uint32_t index);

/* At the end of the records: reports that the activity of open requests is unknown. */
void gpu_life_tell_open(const struct vg_gpu_ledger *ledger);

/* Reports that the request's user or engine has changed, either from its start or since its last
 * record. */
void gpu_life_tell_place(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                         bool in_hindsight);

/* Reports a request that belonged to another user, without counts for the new user yet, as if it
 * started now. */
void gpu_life_tell_anew(const struct vg_gpu_ledger *ledger, const struct gpu_request *request);

struct vg_gpu_life gpu_life_tell(const struct vg_gpu_ledger *ledger,
                                 const struct gpu_request *request, int64_t end_ns);

/* ---- ledger/gpu-kept.c: requests of the open window ---- */

struct gpu_kept *gpu_kept_new(void);
void gpu_kept_free(struct gpu_kept *kept);
void gpu_kept_add(struct gpu_kept *kept, const struct vg_gpu_life *life);
void gpu_kept_begin_window(struct gpu_kept *kept);

/* Calls fn for each, with the number of requests dropped since the previous kept one. Returns the
 * number dropped after the last. */
typedef void gpu_kept_fn(void *data, const struct vg_gpu_life *life, uint32_t left_out);
uint32_t gpu_kept_each(const struct gpu_kept *kept, gpu_kept_fn *fn, void *data);

#endif
