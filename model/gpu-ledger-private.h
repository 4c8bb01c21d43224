/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the GPU ledger share.
 */
#ifndef VG_MODEL_GPU_LEDGER_PRIVATE_H
#define VG_MODEL_GPU_LEDGER_PRIVATE_H

#include "model/gpu-ledger.h"
#include "model/gpu-meter.h"
#include "model/gpu-requests.h"

struct gpu_engine {
    uint16_t device;  /* VG_NAME_NONE: not told yet */
    bool device_weak; /* it is only the name of the driver */
    uint16_t name;
    uint32_t told_ops;    /* 1 << enum vg_gpu_op: what was told of its requests so far */
    uint64_t last_global; /* the highest seqno of its own that is done; 0: none */
    int64_t last_end_ns;  /* of a request; VG_TIME_UNKNOWN: none yet */
    struct gpu_meter meter;
};

/* A VM or a process. */
struct gpu_owner {
    uint32_t process; /* id in the topology */
    char comm[VG_COMM_LEN];
    struct gpu_union active; /* its requests that waited or ran, on all engines */
    int64_t oldest_open_ns;  /* while it is read: since when one waits or runs; VG_TIME_MAX: none */
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
    uint32_t told_ops;    /* as of vg_gpu_ledger_tells() */
    bool tells_workloads; /* GVT-g does */
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

/* ---- model/gpu-memory.c: memory objects come and go ---- */

void gpu_memory_init(struct vg_gpu_ledger *ledger);
void gpu_memory_clear(struct vg_gpu_ledger *ledger);
void gpu_memory_take(struct vg_gpu_ledger *ledger, const struct vg_event *event);
void gpu_memory_forget_owner(struct vg_gpu_ledger *ledger, uint32_t owner);
uint64_t gpu_memory_bytes(const struct vg_gpu_ledger *ledger);

/* ---- model/gpu-find.c: which request a record is of; nothing changes ---- */

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

/* ---- model/gpu-life.c: what happens to a request, now ---- */

static inline bool
gpu_is_waiting(const struct gpu_request *request)
{
    return request->state <= GPU_STATE_READY;
}

/* It has been made, and its times are set: it counts from now on, unless it is in doubt. */
void gpu_life_begin(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_doubt doubt);

/* A record of its own tells that it is in this state now. */
void gpu_life_set_state(struct vg_gpu_ledger *ledger, uint32_t index, enum gpu_state state);

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

/* It is over, and nobody knows since when: it was partial. */
void gpu_life_close(struct vg_gpu_ledger *ledger, uint32_t index);
/* Those that have been in doubt for long. */
void gpu_life_close_old(struct vg_gpu_ledger *ledger);

/* There is no room for it; it is in no count but that of what was dropped. */
void gpu_life_drop(struct vg_gpu_ledger *ledger, uint32_t index);

/* What is open is added to what is read of a book. */
void gpu_life_read_open(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind);

/* Tells the observer of stages what it does now. */
void gpu_life_tell_now(const struct vg_gpu_ledger *ledger, uint32_t index);

/* ---- model/gpu-kept.c: the requests of the open window ---- */

struct gpu_kept *gpu_kept_new(void);
void gpu_kept_free(struct gpu_kept *kept);
void gpu_kept_add(struct gpu_kept *kept, const struct vg_gpu_life *life);
void gpu_kept_begin_window(struct gpu_kept *kept);

/* Calls fn for each, with the number of those before it that are not kept; returns that of those
 * after the last one. */
typedef void gpu_kept_fn(void *data, const struct vg_gpu_life *life, uint32_t left_out);
uint32_t gpu_kept_each(const struct gpu_kept *kept, gpu_kept_fn *fn, void *data);

#endif
