/* SPDX-License-Identifier: Apache-2.0
 *
 * The open requests of all GPUs, indexed by all ids that records have, and the contexts (timelines
 * of fences) that they belong to. Both are limited: if there is no space for a new one, it replaces
 * the oldest. Requests and contexts are referred to by index, which is valid until they are freed.
 * Private to the GPU ledger.
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

/* Why the state of an open request is unknown. Such a request counts only as partial. */
enum gpu_doubt {
    GPU_DOUBT_NONE,
    GPU_DOUBT_PASSED, /* it is done, because a later request of its context is; its own end may
                         follow */
    GPU_DOUBT_LOST    /* records of it may be lost */
};

/* The search keys of a request. */
enum gpu_key { GPU_KEY_SEQNO, GPU_KEY_ID, GPU_KEY_GLOBAL, GPU_KEY_FENCE, GPU_KEY_MAX };

/* Both the DRM scheduler and its driver report jobs. */
enum gpu_queued_by { GPU_QUEUED_BY_SCHEDULER = 1, GPU_QUEUED_BY_DRIVER = 2 };

struct gpu_list {
    uint32_t first, last; /* request, or GPU_NO_INDEX */
};

struct gpu_link {
    uint32_t prev, next;
};

/* Lists that contain a request, in order of arrival; its context's list is by seqno. AGE: a list
 * of struct gpu_requests. HARDWARE: a list of struct gpu_queue. RING: its engine's list or, after
 * it was passed, the list of passed requests. */
enum gpu_list_kind {
    GPU_LIST_AGE,
    GPU_LIST_CONTEXT,
    GPU_LIST_USER,
    GPU_LIST_HARDWARE,
    GPU_LIST_RING,
    GPU_LIST_MAX
};

/* Requests at the hardware that it processes one by one (ledger/gpu-hardware.c). */
struct gpu_queue {
    struct gpu_list given; /* ordered by turn */
    uint32_t n_given;
    uint32_t last_turn;
    int64_t last_end_ns; /* of a request that left it; VG_TIME_UNKNOWN if none has */
};

/* The queue that holds a request. */
enum gpu_place_given { GPU_NOT_GIVEN, GPU_GIVEN_TO_ENGINE, GPU_GIVEN_TO_CONTEXT };

struct gpu_request {
    /* The search keys, in one cache line. */
    uint64_t seqno;
    uint64_t id;
    uint64_t global;             /* 0 if none */
    uint64_t fence;              /* 0 if none */
    uint32_t chain[GPU_KEY_MAX]; /* next request in the same cell of the index */
    uint32_t context;            /* or GPU_NO_INDEX */
    uint32_t engine;             /* of the ledger's engines */
    int32_t vgpu;
    uint16_t device;
    uint8_t id_space; /* of id; VG_GPU_ID_NONE if none */
    uint8_t state;    /* enum gpu_state */
    uint32_t user;    /* of the ledger's users; GPU_NO_INDEX for the host itself or if not known */
    struct gpu_link lists[GPU_LIST_MAX];
    uint32_t turn;      /* in the hardware's queue */
    uint32_t next_turn; /* turn of a resubmission, used when this turn is over; 0 if it was not
                           resubmitted */
    uint8_t given;      /* enum gpu_place_given */
    uint8_t queued_by;  /* enum gpu_queued_by: the sources that reported it */
    uint8_t doubt;      /* enum gpu_doubt */
    bool engine_weak : 1;
    bool has_waited : 1; /* its first wait is over and counted */
    bool has_gap : 1;    /* its known history has a gap */
    bool in_use : 1;
    bool is_of_ring : 1; /* its engine is a ring, which processes requests in order */
    bool in_ring : 1;    /* it is in the ring's list */
    uint8_t
        told_books; /* 1 << enum gpu_book_kind: books that start after it was reported as partial */
    uint32_t order; /* position of its first record among all requests; wraps */
    int64_t begun_ns;  /* time of its first record */
    int64_t passed_ns; /* when a later request of its ring was done, after its own last record;
                          VG_TIME_UNKNOWN if none was */
    int64_t queued_ns; /* VG_TIME_UNKNOWN if its start was not seen */
    int64_t
        submitted_ns; /* these are VG_TIME_UNKNOWN until it happens, or if it was not recorded */
    int64_t ready_ns;
    int64_t given_ns; /* when the hardware last received it */
    int64_t run_ns;   /* when it ran first */
    int64_t state_ns; /* start of its state: the last record with new information */
    int64_t exec_ns;  /* of finished runs */
    int64_t doubt_ns; /* start of the doubt */
};

struct gpu_context {
    uint64_t number;
    uint64_t last_done; /* highest completed seqno */
    bool any_done;
    bool in_use;
    bool of_gvt;    /* a GVT-g thread submits its requests, so it belongs to a vGPU */
    bool coalesces; /* its driver gives the hardware only the newest request, which includes earlier
                       ones */
    /* Some of its requests start with a queued record; some start without one although nothing was
     * lost. */
    bool is_queued, is_not_queued;
    uint32_t engine; /* of the ledger's engines; GPU_NO_INDEX if none or unknown */
    uint32_t owner;  /* of the ledger's owners, or GPU_NO_INDEX */
    int32_t vgpu;
    uint16_t device; /* or VG_NAME_NONE */
    struct gpu_list open;
    struct gpu_queue queue; /* for engines that run several contexts concurrently */
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
    struct gpu_list age;   /* ordered by first record */
    struct gpu_list doubt; /* requests in doubt, ordered by start of the doubt */
    struct gpu_list
        passed; /* requests passed in their ring but not in doubt, ordered by that time */
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

/* Creates a request, in no list except AGE. There must be space: check with is_full(). */
uint32_t gpu_request_new(struct gpu_requests *all);
bool gpu_requests_is_full(const struct gpu_requests *all);
/* Removes it from the index and all lists except the user's, which the caller handles. */
void gpu_request_free(struct gpu_requests *all, uint32_t index);
/* Moves it into the list of requests in doubt, or back. */
void gpu_request_set_doubt(struct gpu_requests *all, uint32_t index, enum gpu_doubt doubt);

/* Compares seqnos. Seqnos of old kernels have 32 bits and wrap around. */
bool gpu_seqno_is_before(uint64_t a, uint64_t b);

/* Set a key of the request, which must have none of this kind. */
void gpu_request_set_seqno(struct gpu_requests *all, uint32_t index, uint32_t context,
                           uint64_t seqno);
void gpu_request_set_id(struct gpu_requests *all, uint32_t index, uint8_t id_space, uint64_t id);
void gpu_request_set_global(struct gpu_requests *all, uint32_t index, uint64_t global);
void gpu_request_set_fence(struct gpu_requests *all, uint32_t index, uint64_t fence);
/* Changes its engine, including the keys that are relative to the engine. */
void gpu_request_set_engine(struct gpu_requests *all, uint32_t index, uint32_t engine);
/* Removes a key of the request. */
void gpu_request_drop_key(struct gpu_requests *all, uint32_t index, enum gpu_key key);

/* Return the newest matching request, or GPU_NO_INDEX. */
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
/* Inserts a request that is in no queue, after those whose turn is not later. */
void gpu_queue_insert(struct gpu_requests *all, struct gpu_queue *queue, uint32_t index);
/* Inserts the request by seqno, almost always at the end. Only requests that were unfinished at
 * the start of the recording, or whose first records were lost, are recorded after their
 * successors. */
void gpu_list_insert_by_seqno(struct gpu_requests *all, struct gpu_list *list, uint32_t index);
/* Inserts the request into a ring's list, ordered by first record. */
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

/* The same by context number. VG_NAME_NONE and GPU_NO_INDEX match any device and engine. */
uint32_t gpu_requests_by_number(struct gpu_requests *all, uint64_t number, uint16_t device,
                                uint32_t engine, uint64_t seqno);

/* Returns the context with this number, with the same wildcards, or GPU_NO_INDEX. Marks it as
 * used. */
uint32_t gpu_context_find(struct gpu_requests *all, uint64_t number, uint16_t device,
                          uint32_t engine);
/* Creates a context; there must be space. */
uint32_t gpu_context_new(struct gpu_requests *all, uint64_t number, uint16_t device,
                         uint32_t engine);
bool gpu_contexts_are_full(const struct gpu_requests *all);
/* The context must have no open requests. */
void gpu_context_free(struct gpu_requests *all, uint32_t index);

#endif
