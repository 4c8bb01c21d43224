/* SPDX-License-Identifier: Apache-2.0
 *
 * The open requests of all GPUs, found by any of the ids that records give them, and the contexts
 * (timelines of fences) that they belong to. Both have a limit: one more drops the oldest. Requests
 * and contexts are named by index; an index is good until its owner is freed. Private to the GPU
 * ledger.
 */
#ifndef VG_LEDGER_GPU_REQUESTS_H
#define VG_LEDGER_GPU_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"

#define GPU_NO_INDEX UINT32_MAX

enum gpu_state {
    GPU_STATE_QUEUED,
    GPU_STATE_SUBMITTED,
    GPU_STATE_READY,
    GPU_STATE_RUNNING,
    GPU_STATE_MERGED /* runs as part of a later request of its context */
};

/* What is not known of a request that is open; nothing of it counts but that it is partial. */
enum gpu_doubt {
    GPU_DOUBT_NONE,
    GPU_DOUBT_PASSED, /* it is done, as a later request of its context is; its own end may follow */
    GPU_DOUBT_LOST    /* records of it may be lost */
};

/* By what a request can be found. */
enum gpu_key { GPU_KEY_SEQNO, GPU_KEY_ID, GPU_KEY_GLOBAL, GPU_KEY_FENCE, GPU_KEY_MAX };

/* Jobs of the DRM scheduler are told by it and by their driver. */
enum gpu_queued_by { GPU_QUEUED_BY_SCHEDULER = 1, GPU_QUEUED_BY_DRIVER = 2 };

struct gpu_list {
    uint32_t first, last; /* request, or GPU_NO_INDEX */
};

struct gpu_link {
    uint32_t prev, next;
};

/* Lists that a request is in, in the order of coming; that of its context by seqno. AGE: one of
 * struct gpu_requests. HARDWARE: one of struct gpu_queue. RING: that of its engine, or, from when
 * it is passed on, that of the passed ones. */
enum gpu_list_kind {
    GPU_LIST_AGE,
    GPU_LIST_CONTEXT,
    GPU_LIST_USER,
    GPU_LIST_HARDWARE,
    GPU_LIST_RING,
    GPU_LIST_MAX
};

/* What the hardware was given and works off one after the other (ledger/gpu-hardware.c). */
struct gpu_queue {
    struct gpu_list given; /* by their turns */
    uint32_t n_given;
    uint32_t last_turn;
    int64_t last_end_ns; /* of one that left it; VG_TIME_UNKNOWN: none yet */
};

/* The queue that a request is in. */
enum gpu_place_given { GPU_NOT_GIVEN, GPU_GIVEN_TO_ENGINE, GPU_GIVEN_TO_CONTEXT };

struct gpu_request {
    /* By what it is found, in one line of the cache. */
    uint64_t seqno;
    uint64_t id;
    uint64_t global;             /* 0: none */
    uint64_t fence;              /* 0: none */
    uint32_t chain[GPU_KEY_MAX]; /* next request in the same cell of the index */
    uint32_t context;            /* or GPU_NO_INDEX */
    uint32_t engine;             /* of the ledger's engines */
    int32_t vgpu;
    uint16_t device;
    uint8_t id_space; /* of id; VG_GPU_ID_NONE: none */
    uint8_t state;    /* enum gpu_state */
    uint32_t user;    /* of the ledger's users, or GPU_NO_INDEX: the host itself, or not known */
    struct gpu_link lists[GPU_LIST_MAX];
    uint32_t turn;      /* in the queue of the hardware */
    uint32_t next_turn; /* it was given once more, for when this one is over; 0: it was not */
    uint8_t given;      /* enum gpu_place_given */
    uint8_t queued_by;  /* enum gpu_queued_by: who told so */
    uint8_t doubt;      /* enum gpu_doubt */
    bool engine_weak : 1;
    bool has_waited : 1; /* its first wait is over, and counted */
    bool has_gap : 1;    /* in what is known of it */
    bool in_use : 1;
    bool is_of_ring : 1; /* its engine is a ring, which works off its requests in order */
    bool in_ring : 1;    /* in that one's list */
    uint8_t told_books;  /* 1 << enum gpu_book_kind: that begin after it was told as partial */
    uint32_t order;      /* of its first record among those of all requests; wraps */
    int64_t begun_ns;    /* when its first record came */
    int64_t passed_ns; /* when a later one of its ring was done, after the last record of this one;
                        * VG_TIME_UNKNOWN: none was */
    int64_t queued_ns; /* VG_TIME_UNKNOWN: its beginning was not seen */
    int64_t submitted_ns; /* these: VG_TIME_UNKNOWN until it happens, or if nobody told */
    int64_t ready_ns;
    int64_t given_ns; /* when the hardware was given it last */
    int64_t run_ns;   /* when it first ran */
    int64_t state_ns; /* since when it is in its state: the last record that told something new */
    int64_t exec_ns;  /* of runs that are over */
    int64_t doubt_ns; /* since when it is in doubt */
};

struct gpu_context {
    uint64_t number;
    uint64_t last_done; /* highest seqno that is done */
    bool any_done;
    bool in_use;
    bool of_gvt;    /* a thread of GVT-g submits its requests: it is a vGPU's */
    bool coalesces; /* its driver gives the hardware the newest request for those before it */
    /* Of its requests some begin with being queued; some, of which nothing is lost, do not. */
    bool is_queued, is_not_queued;
    uint32_t engine; /* of the ledger's engines, or GPU_NO_INDEX: of none, or not told */
    uint32_t owner;  /* of the ledger's owners, or GPU_NO_INDEX */
    int32_t vgpu;
    uint16_t device; /* or VG_NAME_NONE */
    struct gpu_list open;
    struct gpu_queue queue; /* where the engine runs several contexts side by side */
    uint32_t prev, next;    /* by last use */
    uint32_t chain;         /* next context in the same cell of the index */
};

struct gpu_requests {
    struct gpu_request *requests;
    uint32_t n_requests, requests_room, requests_max, free_request, open;
    struct gpu_context *contexts;
    uint32_t n_contexts, contexts_room, contexts_max, free_context;
    uint32_t newest_context, oldest_context;
    uint32_t *request_cells, *context_cells;
    uint32_t request_mask, context_mask;
    struct gpu_list age;    /* by their first record */
    struct gpu_list doubt;  /* those that are in doubt: since when */
    struct gpu_list passed; /* by a later one of their ring, and not in doubt: since when */
    uint32_t next_order;
};

void gpu_requests_init(struct gpu_requests *all, uint32_t requests_max, uint32_t contexts_max);
void gpu_requests_clear(struct gpu_requests *all);

static inline struct gpu_request *
gpu_request_at(const struct gpu_requests *all, uint32_t index)
{
    return &all->requests[index];
}

static inline struct gpu_context *
gpu_context_at(const struct gpu_requests *all, uint32_t index)
{
    return &all->contexts[index];
}

/* A new request, in the list of age and in no other. There must be room: is_full() says so. */
uint32_t gpu_request_new(struct gpu_requests *all);
bool gpu_requests_is_full(const struct gpu_requests *all);
/* Leaves all lists but the user's, which is the caller's, and the index. */
void gpu_request_free(struct gpu_requests *all, uint32_t index);
/* Into the list of those in doubt, or back. */
void gpu_request_set_doubt(struct gpu_requests *all, uint32_t index, enum gpu_doubt doubt);

/* Seqnos of old kernels have 32 bits and begin anew. */
bool gpu_seqno_is_before(uint64_t a, uint64_t b);

/* Gives the request a key; it must not have one of this kind. */
void gpu_request_set_seqno(struct gpu_requests *all, uint32_t index, uint32_t context,
                           uint64_t seqno);
void gpu_request_set_id(struct gpu_requests *all, uint32_t index, uint8_t id_space, uint64_t id);
void gpu_request_set_global(struct gpu_requests *all, uint32_t index, uint64_t global);
void gpu_request_set_fence(struct gpu_requests *all, uint32_t index, uint64_t fence);
/* Changes its engine, in whose scope some keys are. */
void gpu_request_set_engine(struct gpu_requests *all, uint32_t index, uint32_t engine);
/* Takes the key away again. */
void gpu_request_drop_key(struct gpu_requests *all, uint32_t index, enum gpu_key key);

/* The request, or GPU_NO_INDEX. Of several the newest. */
uint32_t gpu_requests_by_workload(const struct gpu_requests *all, uint16_t device, int32_t vgpu,
                                  uint64_t id);
uint32_t gpu_requests_by_job(const struct gpu_requests *all, uint32_t engine, uint64_t id);
uint32_t gpu_requests_by_global(const struct gpu_requests *all, uint32_t engine, uint64_t global);
uint32_t gpu_requests_by_fence(const struct gpu_requests *all, uint64_t fence);

static inline void
gpu_list_append(struct gpu_requests *all, struct gpu_list *list, enum gpu_list_kind kind,
                uint32_t index)
{
    struct gpu_link *link = &all->requests[index].lists[kind];

    link->prev = list->last;
    link->next = GPU_NO_INDEX;
    if (list->last == GPU_NO_INDEX)
        list->first = index;
    else
        all->requests[list->last].lists[kind].next = index;
    list->last = index;
}

static inline void
gpu_list_remove(struct gpu_requests *all, struct gpu_list *list, enum gpu_list_kind kind,
                uint32_t index)
{
    const struct gpu_link *link = &all->requests[index].lists[kind];

    if (link->prev == GPU_NO_INDEX)
        list->first = link->next;
    else
        all->requests[link->prev].lists[kind].next = link->next;
    if (link->next == GPU_NO_INDEX)
        list->last = link->prev;
    else
        all->requests[link->next].lists[kind].prev = link->prev;
}

void gpu_queue_init(struct gpu_queue *queue);
/* Puts the request, which is in no queue, behind those whose turn is not after its own. */
void gpu_queue_insert(struct gpu_requests *all, struct gpu_queue *queue, uint32_t index);
/* Puts the request at its place by seqno, which is almost always the end: only what was under way
 * when the recording began, or whose first records were lost, is told after those that follow it.
 */
void gpu_list_insert_by_seqno(struct gpu_requests *all, struct gpu_list *list, uint32_t index);
/* Puts the request into the list of a ring, by the order of first records. */
void gpu_list_insert_by_order(struct gpu_requests *all, struct gpu_list *list, uint32_t index);

static inline bool
gpu_order_is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static inline void
gpu_queue_append(struct gpu_requests *all, struct gpu_queue *queue, uint32_t index)
{
    queue->n_given++;
    gpu_list_append(all, &queue->given, GPU_LIST_HARDWARE, index);
}

static inline void
gpu_queue_remove(struct gpu_requests *all, struct gpu_queue *queue, uint32_t index)
{
    queue->n_given--;
    gpu_list_remove(all, &queue->given, GPU_LIST_HARDWARE, index);
}

/* The same by the number of its context, of any device and engine if they are not given
 * (VG_NAME_NONE, GPU_NO_INDEX). */
uint32_t gpu_requests_by_number(struct gpu_requests *all, uint64_t number, uint16_t device,
                                uint32_t engine, uint64_t seqno);

/* The context of this number, likewise; GPU_NO_INDEX: none. Marks it as used. */
uint32_t gpu_context_find(struct gpu_requests *all, uint64_t number, uint16_t device,
                          uint32_t engine);
/* A new one; there must be room. */
uint32_t gpu_context_new(struct gpu_requests *all, uint64_t number, uint16_t device,
                         uint32_t engine);
bool gpu_contexts_are_full(const struct gpu_requests *all);
/* It must have no open requests. */
void gpu_context_free(struct gpu_requests *all, uint32_t index);

#endif
