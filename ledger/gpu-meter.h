/* SPDX-License-Identifier: Apache-2.0
 *
 * What is summed up of the requests of one engine, or of one VM or process on one engine. Only what
 * two records of a request enclose is added: a wait or a run that is over. What is under way is
 * added to what is read, so that nothing ever has to be taken back. Private to the GPU ledger.
 */
#ifndef VG_LEDGER_GPU_METER_H
#define VG_LEDGER_GPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/event.h"
#include "model/histogram.h"
#include "model/window.h"

/* Of each wait, so that the sum of all is a time, too. */
#define GPU_METER_WAIT_MAX (VG_TIME_MAX / 4)

/* The stages of a wait, by the event that ends them. */
enum gpu_wait {
    GPU_WAIT_VGPU,       /* until it is submitted */
    GPU_WAIT_DEPENDENCY, /* until it is ready */
    GPU_WAIT_DRIVER,     /* until it runs */
    GPU_WAIT_MAX
};

/* Everything is counted for two times, which begin at different moments and end now. */
enum gpu_book_kind { GPU_BOOK_PERIOD, GPU_BOOK_WINDOW, GPU_BOOKS };
#define GPU_BOOKS_ALL (1U << GPU_BOOK_PERIOD | 1U << GPU_BOOK_WINDOW)

struct gpu_interval {
    int64_t begin_ns;
    int64_t end_ns;
};

/* The length of a union of intervals, which come in the order of their ends. In front of one that
 * comes late, so many of the gaps between others are known; what lies in an older one is not found.
 * All zero but until_ns: there was none. */
#define GPU_UNION_GAPS 256
struct gpu_union {
    int64_t until_ns; /* the latest end; INT64_MIN: none */
    int64_t sum_ns[GPU_BOOKS];
    int64_t more_ns;           /* while it is read: of what is under way */
    struct gpu_interval *gaps; /* a ring; NULL: none yet */
    uint32_t newest;           /* of these */
};

void gpu_union_clear(struct gpu_union *set);
void gpu_union_add(struct gpu_union *set, struct gpu_interval interval,
                   const int64_t begin_ns[GPU_BOOKS]);
/* How much longer it was if it had this interval, too, as far as it is after from_ns. */
int64_t gpu_union_more(const struct gpu_union *set, struct gpu_interval interval, int64_t from_ns);

/* The most requests that waited at a time, of those whose waits are proven. A request counts from
 * when it waits; if it turns out that its wait is proven up to an earlier time only, it is taken
 * out of what came later. For this, it is known when each number of waiting requests was first
 * reached. No more than GPU_PEAK_MAX of these times are kept: older ones are taken for proven. */
#define GPU_PEAK_MAX 1024
struct gpu_peak {
    uint32_t most;    /* of earlier times, where all waits are proven */
    uint32_t settled; /* numbers that were reached before the oldest of times_ns */
    uint32_t n, room;
    int64_t *times_ns; /* NULL: none yet */
};

void gpu_peak_clear(struct gpu_peak *peak);
/* So many wait from now on. */
void gpu_peak_add(struct gpu_peak *peak, uint32_t waiting, int64_t now_ns);
/* One of those that waited since then, or longer, is proven only up to then. */
void gpu_peak_take(struct gpu_peak *peak, int64_t proven_ns);

struct gpu_book {
    uint64_t requests;
    uint64_t partial;
    uint64_t coalesced;
    int64_t exec_ns;
    int64_t wait_ns[GPU_WAIT_MAX];
    uint32_t queue_max;
};

/* What is under way when the meter is read. */
struct gpu_open {
    uint64_t partial; /* over, at a time that nobody told */
    uint64_t open;
    int64_t oldest_ns; /* since when one of these is there; VG_TIME_MAX: none */
    int64_t exec_ns;
    int64_t wait_ns[GPU_WAIT_MAX];
    struct gpu_peak peak; /* of the period */
};

struct gpu_meter {
    struct gpu_book books[GPU_BOOKS];
    struct gpu_union busy;
    struct gpu_peak peak; /* of the period */
    uint32_t waiting;     /* with those that were passed, whose next record may still come */
    uint32_t passed;
    struct vg_histogram latency;        /* of closed windows */
    struct vg_histogram window_latency; /* of the open one */
    struct gpu_open open;               /* while it is read */
};

void gpu_meter_init(struct gpu_meter *meter);
void gpu_meter_clear(struct gpu_meter *meter);

/* The part of an interval that is after from_ns. */
static inline int64_t
gpu_interval_after(struct gpu_interval interval, int64_t from_ns)
{
    int64_t begin_ns = MAX(interval.begin_ns, from_ns);

    return interval.end_ns > begin_ns ? interval.end_ns - begin_ns : 0;
}

/* A sum of times, which stops at most. */
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

/* One request more waits from now on, or one less, which was passed or not. */
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

/* A request is done that was queued then, or at a time that is not known. */
void gpu_meter_done(struct gpu_meter *meter, int64_t queued_ns, int64_t now_ns, bool coalesced,
                    const int64_t begin_ns[GPU_BOOKS]);

/* The period begins, or the next window. */
void gpu_meter_begin(struct gpu_meter *meter, int64_t now_ns);
void gpu_meter_begin_window(struct gpu_meter *meter);

/* Adds the figures of a book, with what is under way, to *sum, and the latencies to *latency. */
void gpu_meter_read(const struct gpu_meter *meter, enum gpu_book_kind kind,
                    struct gpu_interval time, struct vg_gpu_sample *sum,
                    struct vg_histogram *latency);

/* Sets what a sample that is summed up has of latencies, and its mean queue length. */
void gpu_meter_finish_sample(struct vg_gpu_sample *sample, const struct vg_histogram *latency,
                             int64_t length_ns);

#endif
