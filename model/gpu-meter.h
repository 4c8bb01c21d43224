/* SPDX-License-Identifier: Apache-2.0
 *
 * What is summed up of the requests of one engine, or of one VM or process on one engine. Counts of
 * waiting and running requests are integrated over time, so that a window or a period is cut
 * anywhere, whatever is open. Private to the GPU ledger.
 */
#ifndef VG_MODEL_GPU_METER_H
#define VG_MODEL_GPU_METER_H

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

struct gpu_totals {
    uint64_t requests;
    uint64_t partial; /* of these, that did not begin inside */
    uint64_t coalesced;
    int64_t exec_ns;
    int64_t busy_ns;
    int64_t wait_ns[GPU_WAIT_MAX];
};

/* A time in which nothing ran. */
struct gpu_gap {
    int64_t begin_ns;
    int64_t end_ns;
};
/* The newest gaps that are remembered; what ran in an older one is not found busy. */
#define GPU_METER_GAPS 8

struct gpu_meter {
    struct gpu_totals total; /* since the period began, up to last_ns */
    struct gpu_totals told;  /* of these, in closed windows */
    uint64_t window_partial; /* requests done in the open window that did not begin in it */
    uint32_t running;
    uint32_t waiting[GPU_WAIT_MAX];
    uint32_t queue_max;
    uint32_t window_queue_max;
    bool stopped; /* a sum has: what is taken from it again may be more than it has */
    int64_t last_ns;
    int64_t idle_since_ns; /* while running is 0; INT64_MIN: always */
    /* The last time that more than one ran began then, and was over then if it is. */
    int64_t shared_since_ns, shared_until_ns;
    struct gpu_gap gaps[GPU_METER_GAPS];
    uint32_t next_gap;                  /* the oldest one, which the next takes the place of */
    struct vg_histogram latency;        /* of closed windows */
    struct vg_histogram window_latency; /* of the open one */
};

void gpu_meter_init(struct gpu_meter *meter, int64_t now_ns);
void gpu_meter_clear(struct gpu_meter *meter);

/* A sum of times, which stops at most. */
static inline void
gpu_meter_grow(struct gpu_meter *meter, int64_t *sum, uint32_t count, int64_t ns, int64_t most)
{
    int64_t more;

    if (!__builtin_mul_overflow(count, ns, &more) && more <= most - *sum) {
        *sum += more;
        return;
    }
    *sum = most;
    meter->stopped = true;
}

/* Integrates up to now, which is not before the last time. */
static inline void
gpu_meter_advance(struct gpu_meter *meter, int64_t now_ns)
{
    int64_t dt = now_ns - meter->last_ns;

    meter->last_ns = now_ns;
    if (dt == 0)
        return;
    if (meter->running > 0) {
        gpu_meter_grow(meter, &meter->total.exec_ns, meter->running, dt, VG_TIME_MAX);
        meter->total.busy_ns += dt;
    }
    for (int i = 0; i < GPU_WAIT_MAX; i++) {
        if (meter->waiting[i] > 0)
            gpu_meter_grow(meter, &meter->total.wait_ns[i], meter->waiting[i], dt,
                           GPU_METER_WAIT_MAX);
    }
}

static inline uint32_t
gpu_meter_queue_length(const struct gpu_meter *meter)
{
    uint32_t length = 0;

    for (int i = 0; i < GPU_WAIT_MAX; i++)
        length += meter->waiting[i];
    return length;
}

/* One request more or less, from now on. */
static inline void
gpu_meter_wait(struct gpu_meter *meter, enum gpu_wait wait, int64_t now_ns)
{
    gpu_meter_advance(meter, now_ns);
    meter->waiting[wait]++;
    uint32_t length = gpu_meter_queue_length(meter);
    meter->queue_max = MAX(meter->queue_max, length);
    meter->window_queue_max = MAX(meter->window_queue_max, length);
}

static inline void
gpu_meter_wait_over(struct gpu_meter *meter, enum gpu_wait wait, int64_t now_ns)
{
    gpu_meter_advance(meter, now_ns);
    meter->waiting[wait]--;
}

void gpu_meter_run(struct gpu_meter *meter, int64_t now_ns);
void gpu_meter_run_over(struct gpu_meter *meter, int64_t now_ns);

/* What was counted as one wait since then was another one. */
void gpu_meter_recount_wait(struct gpu_meter *meter, enum gpu_wait from, enum gpu_wait to,
                            int64_t ns);

/* What was counted by another meter so far, or (negative) by this one. */
void gpu_meter_add_wait(struct gpu_meter *meter, enum gpu_wait wait, int64_t ns);

/* A request that is not counted as running ran from then until now, and did not wait, if it was
 * counted as waiting (else GPU_WAIT_MAX). */
void gpu_meter_ran(struct gpu_meter *meter, int64_t since_ns, int64_t now_ns, enum gpu_wait waited);

/* A request that is counted as running has not run since then, but waited so. */
void gpu_meter_ran_less(struct gpu_meter *meter, int64_t since_ns, int64_t now_ns,
                        enum gpu_wait waited);

/* A period, or the next window, begins at the time up to which the meter was advanced; the window
 * that ends is of that length. */
void gpu_meter_begin(struct gpu_meter *meter);
void gpu_meter_close_window(struct gpu_meter *meter, int64_t length_ns);

/* Adds the figures of the period, or of the open window, which are of that length, to *sum, and
 * the latencies to *latency. */
void gpu_meter_read(const struct gpu_meter *meter, bool period, int64_t length_ns,
                    struct vg_gpu_sample *sum, struct vg_histogram *latency);

/* Sets what a sample that is summed up has of latencies, and its mean queue length. */
void gpu_meter_finish_sample(struct vg_gpu_sample *sample, const struct vg_histogram *latency,
                             int64_t length_ns);

#endif
