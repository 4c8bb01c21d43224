/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over the requests of one engine, or of one VM or process on one engine. Only completed waits
 * and runs, which are enclosed by two records of a request, are added. Unfinished ones are added
 * when the sums are read, so that nothing has to be subtracted later. Private to the GPU ledger.
 */
#ifndef VG_LEDGER_GPU_METER_H
#define VG_LEDGER_GPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"
#include "model/histogram.h"
#include "model/window.h"

/* Limit for each kind of wait, so that the sum of all is still a valid time. */
#define GPU_METER_WAIT_MAX (VG_TIME_MAX / 4)

/* The stages of a wait, named after the event that ends them. */
enum gpu_wait {
    GPU_WAIT_VGPU,       /* until it is submitted */
    GPU_WAIT_DEPENDENCY, /* until it is ready */
    GPU_WAIT_DRIVER,     /* until it runs */
    GPU_WAIT_MAX
};

/* Everything is counted in two books, which start at different times and end now. */
enum gpu_book_kind { GPU_BOOK_PERIOD, GPU_BOOK_WINDOW, GPU_BOOKS };
#define GPU_BOOKS_ALL (1U << GPU_BOOK_PERIOD | 1U << GPU_BOOK_WINDOW)

struct gpu_interval {
    int64_t begin_ns;
    int64_t end_ns;
};

/* The length of a union of intervals, which arrive in order of their ends. For an interval that
 * arrives late, the last GPU_UNION_GAPS gaps between earlier intervals are known; older gaps are
 * not found. If empty, all members except until_ns are zero. */
#define GPU_UNION_GAPS 256
struct gpu_union {
    int64_t until_ns; /* the latest end; INT64_MIN if empty */
    int64_t sum_ns[GPU_BOOKS];
    int64_t more_ns;           /* during reading: the length of unfinished intervals */
    struct gpu_interval *gaps; /* a ring buffer; NULL if empty */
    uint32_t newest;           /* index of the newest gap */
};

void gpu_union_clear(struct gpu_union *set);
void gpu_union_add(struct gpu_union *set, struct gpu_interval interval,
                   const int64_t begin_ns[GPU_BOOKS]);
/* Returns how much longer the union would be with this interval, counting only time after
 * from_ns. */
int64_t gpu_union_more(const struct gpu_union *set, struct gpu_interval interval, int64_t from_ns);

/* The maximum number of requests with proven waits at the same time. A request counts from the
 * start of its wait. If its wait proves to have ended earlier, later counts are corrected. For
 * this, the time at which each number was first reached is stored, for at most GPU_PEAK_MAX
 * numbers. Older numbers count as proven. */
#define GPU_PEAK_MAX 1024
struct gpu_peak {
    uint32_t most;    /* maximum of earlier times, where all waits are proven */
    uint32_t settled; /* numbers reached before the oldest of times_ns */
    uint32_t n, room;
    int64_t *times_ns; /* NULL if empty */
};

void gpu_peak_clear(struct gpu_peak *peak);
/* Sets the number of waiting requests from now on. */
void gpu_peak_add(struct gpu_peak *peak, uint32_t waiting, int64_t now_ns);
/* Corrects the counts for a request that had been counted as waiting, but whose wait is proven only
 * up to a time. */
void gpu_peak_take(struct gpu_peak *peak, int64_t proven_ns);

struct gpu_book {
    uint64_t requests;
    uint64_t partial;
    uint64_t coalesced;
    int64_t exec_ns;
    int64_t wait_ns[GPU_WAIT_MAX];
    uint32_t queue_max;
};

/* Unfinished requests at the time of reading. */
struct gpu_open {
    uint64_t partial; /* ended at an unknown time */
    uint64_t open;
    int64_t oldest_ns; /* start of the oldest open request; VG_TIME_MAX if none */
    int64_t exec_ns;
    int64_t wait_ns[GPU_WAIT_MAX];
    struct gpu_peak peak; /* of the period */
};

struct gpu_meter {
    struct gpu_book books[GPU_BOOKS];
    struct gpu_union busy;
    struct gpu_peak peak; /* of the period */
    uint32_t waiting;     /* including passed requests, which may still get another record */
    uint32_t passed;
    struct vg_histogram latency;        /* of closed windows */
    struct vg_histogram window_latency; /* of the open one */
    struct gpu_open open;               /* during reading */
};

void gpu_meter_init(struct gpu_meter *meter);
void gpu_meter_clear(struct gpu_meter *meter);

/* Returns the part of an interval after from_ns. */
static inline int64_t
gpu_interval_after(struct gpu_interval interval, int64_t from_ns)
{
    int64_t begin_ns = MAX(interval.begin_ns, from_ns);

    return interval.end_ns > begin_ns ? interval.end_ns - begin_ns : 0;
}

/* Adds to a sum of times, limited to most. */
static inline void
gpu_meter_grow(int64_t *sum, int64_t ns, int64_t most)
{
    *sum = ns > most - *sum ? most : *sum + ns;
}

static inline void
gpu_meter_waited(struct gpu_meter *meter, enum gpu_wait wait, struct gpu_interval interval,
                 const int64_t begin_ns[GPU_BOOKS])
{
    for (int i = 0; i < GPU_BOOKS; i++)
        gpu_meter_grow(&meter->books[i].wait_ns[wait], gpu_interval_after(interval, begin_ns[i]),
                       GPU_METER_WAIT_MAX);
}

static inline void
gpu_meter_ran(struct gpu_meter *meter, struct gpu_interval interval,
              const int64_t begin_ns[GPU_BOOKS])
{
    for (int i = 0; i < GPU_BOOKS; i++)
        gpu_meter_grow(&meter->books[i].exec_ns, gpu_interval_after(interval, begin_ns[i]),
                       VG_TIME_MAX);
    gpu_union_add(&meter->busy, interval, begin_ns);
}

/* Counts one waiting request more or less from now on. The request may be a passed one. */
static inline void
gpu_meter_wait(struct gpu_meter *meter, bool passed, int64_t now_ns)
{
    struct gpu_book *window = &meter->books[GPU_BOOK_WINDOW];

    meter->waiting++;
    meter->passed += passed;
    window->queue_max = MAX(window->queue_max, meter->waiting - meter->passed);
    gpu_peak_add(&meter->peak, meter->waiting, now_ns);
}

static inline void
gpu_meter_wait_over(struct gpu_meter *meter, bool passed)
{
    meter->waiting--;
    meter->passed -= passed;
}

static inline void
gpu_meter_partial(struct gpu_meter *meter)
{
    for (int i = 0; i < GPU_BOOKS; i++)
        meter->books[i].partial++;
}

/* Counts a completed request that was queued at a given or an unknown time. */
void gpu_meter_done(struct gpu_meter *meter, int64_t queued_ns, int64_t now_ns, bool coalesced,
                    const int64_t begin_ns[GPU_BOOKS]);

/* Starts the period, or the next window. */
void gpu_meter_begin(struct gpu_meter *meter, int64_t now_ns);
void gpu_meter_begin_window(struct gpu_meter *meter);

/* Adds a book's figures, including unfinished requests, to *sum, and its latencies to *latency. */
void gpu_meter_read(const struct gpu_meter *meter, enum gpu_book_kind kind,
                    struct gpu_interval time, struct vg_gpu_sample *sum,
                    struct vg_histogram *latency);

/* Sets the latencies and the mean queue length of a summed sample. */
void gpu_meter_finish_sample(struct vg_gpu_sample *sample, const struct vg_histogram *latency,
                             int64_t length_ns);

#endif
