/* SPDX-License-Identifier: Apache-2.0
 *
 * What is found out later (a request ran although nobody saw it start) changes totals backwards in
 * time. The period is exact then; a window that is closed is not told anew: what it had too little
 * or too much is in the next one, as far as it fits.
 */
#include "config.h"

#include "model/gpu-meter.h"

void
gpu_meter_init(struct gpu_meter *meter, int64_t now_ns)
{
    *meter = (struct gpu_meter){
        .last_ns = now_ns,
        .idle_since_ns = INT64_MIN,
        .shared_since_ns = INT64_MIN,
        .shared_until_ns = INT64_MIN,
    };
}

void
gpu_meter_clear(struct gpu_meter *meter)
{
    vg_histogram_clear(&meter->latency);
    vg_histogram_clear(&meter->window_latency);
}

static void
remember_gap(struct gpu_meter *meter, int64_t begin_ns, int64_t end_ns)
{
    if (begin_ns >= end_ns)
        return;
    meter->gaps[meter->next_gap] = (struct gpu_gap){begin_ns, end_ns};
    meter->next_gap = (meter->next_gap + 1) % GPU_METER_GAPS;
}

void
gpu_meter_run(struct gpu_meter *meter, int64_t now_ns)
{
    gpu_meter_advance(meter, now_ns);
    meter->running++;
    if (meter->running == 1)
        remember_gap(meter, meter->idle_since_ns, now_ns);
    else if (meter->running == 2)
        meter->shared_since_ns = now_ns;
}

void
gpu_meter_run_over(struct gpu_meter *meter, int64_t now_ns)
{
    gpu_meter_advance(meter, now_ns);
    meter->running--;
    if (meter->running == 0)
        meter->idle_since_ns = now_ns;
    else if (meter->running == 1)
        meter->shared_until_ns = now_ns;
}

void
gpu_meter_add_wait(struct gpu_meter *meter, enum gpu_wait wait, int64_t ns)
{
    int64_t *sum = &meter->total.wait_ns[wait];

    if (ns > 0)
        gpu_meter_grow(meter, sum, 1, ns, GPU_METER_WAIT_MAX);
    else
        *sum = meter->stopped ? MAX(*sum + ns, 0) : *sum + ns;
}

void
gpu_meter_recount_wait(struct gpu_meter *meter, enum gpu_wait from, enum gpu_wait to, int64_t ns)
{
    gpu_meter_add_wait(meter, from, -ns);
    gpu_meter_add_wait(meter, to, ns);
}

void
gpu_meter_ran(struct gpu_meter *meter, int64_t since_ns, int64_t now_ns, enum gpu_wait waited)
{
    gpu_meter_advance(meter, now_ns);
    if (since_ns >= now_ns)
        return;
    gpu_meter_grow(meter, &meter->total.exec_ns, 1, now_ns - since_ns, VG_TIME_MAX);
    if (waited < GPU_WAIT_MAX)
        gpu_meter_add_wait(meter, waited, since_ns - now_ns);
    /* Of this time only what lies in gaps was not busy yet. */
    for (uint32_t i = 0; i < GPU_METER_GAPS; i++) {
        struct gpu_gap *gap = &meter->gaps[i];
        int64_t begin_ns = MAX(gap->begin_ns, since_ns);
        if (begin_ns >= gap->end_ns)
            continue;
        meter->total.busy_ns += gap->end_ns - begin_ns;
        gap->end_ns = begin_ns;
    }
    if (meter->running > 0)
        return;
    meter->total.busy_ns += now_ns - MAX(meter->idle_since_ns, since_ns);
    remember_gap(meter, meter->idle_since_ns, since_ns);
    meter->idle_since_ns = now_ns;
}

void
gpu_meter_ran_less(struct gpu_meter *meter, int64_t since_ns, int64_t now_ns, enum gpu_wait waited)
{
    gpu_meter_advance(meter, now_ns);
    int64_t ns = MIN(now_ns - since_ns, meter->total.exec_ns);
    if (ns <= 0)
        return;
    meter->total.exec_ns -= ns;
    gpu_meter_add_wait(meter, waited, ns);
    /* While others ran, too, it was busy all the same; what is known of that is the last time. */
    int64_t alone_until_ns = meter->running > 1 ? meter->shared_since_ns : now_ns;
    int64_t alone_since_ns = MAX(since_ns, meter->shared_until_ns);
    if (alone_since_ns < alone_until_ns) {
        meter->total.busy_ns -= MIN(alone_until_ns - alone_since_ns, meter->total.busy_ns);
        remember_gap(meter, alone_since_ns, alone_until_ns);
    }
    meter->total.busy_ns = MIN(meter->total.busy_ns, meter->total.exec_ns);
}

void
gpu_meter_begin(struct gpu_meter *meter)
{
    meter->total = (struct gpu_totals){0};
    meter->told = (struct gpu_totals){0};
    meter->stopped = false;
    meter->window_partial = 0;
    meter->queue_max = meter->window_queue_max = gpu_meter_queue_length(meter);
    vg_histogram_clear(&meter->latency);
    vg_histogram_clear(&meter->window_latency);
}

/* What a window says of a sum that may have shrunk, or grown by more than fits. */
static int64_t
tell(int64_t total, int64_t told, int64_t most)
{
    return CLAMP(total - told, 0, most);
}

/* What the open window, which began at begin_ns, is told to have. */
static struct gpu_totals
window_of(const struct gpu_meter *meter, int64_t length_ns)
{
    const struct gpu_totals *total = &meter->total, *told = &meter->told;
    struct gpu_totals window = {
        .requests = total->requests - told->requests,
        .partial = meter->window_partial,
        .coalesced = total->coalesced - told->coalesced,
        .exec_ns = tell(total->exec_ns, told->exec_ns, VG_TIME_MAX),
    };

    window.busy_ns = tell(total->busy_ns, told->busy_ns, MIN(length_ns, window.exec_ns));
    for (int i = 0; i < GPU_WAIT_MAX; i++)
        window.wait_ns[i] = tell(total->wait_ns[i], told->wait_ns[i], VG_TIME_MAX);
    return window;
}

void
gpu_meter_close_window(struct gpu_meter *meter, int64_t length_ns)
{
    struct gpu_totals window = window_of(meter, length_ns);
    struct gpu_totals *told = &meter->told;

    told->requests += window.requests;
    told->coalesced += window.coalesced;
    told->exec_ns += window.exec_ns;
    told->busy_ns += window.busy_ns;
    for (int i = 0; i < GPU_WAIT_MAX; i++)
        told->wait_ns[i] += window.wait_ns[i];
    meter->window_partial = 0;
    meter->window_queue_max = gpu_meter_queue_length(meter);
    vg_histogram_merge(&meter->latency, &meter->window_latency);
    vg_histogram_reset(&meter->window_latency);
}

static void
add_wait(int64_t *sum, int64_t ns)
{
    *sum = MIN(vg_time_sum(*sum, ns), GPU_METER_WAIT_MAX);
}

void
gpu_meter_read(const struct gpu_meter *meter, bool period, int64_t length_ns,
               struct vg_gpu_sample *sum, struct vg_histogram *latency)
{
    struct gpu_totals totals = period ? meter->total : window_of(meter, length_ns);

    sum->requests += totals.requests;
    sum->partial += totals.partial + meter->running + gpu_meter_queue_length(meter);
    sum->coalesced += totals.coalesced;
    sum->busy_ns = MIN(vg_time_sum(sum->busy_ns, totals.busy_ns), length_ns);
    sum->exec_ns = vg_time_sum(sum->exec_ns, totals.exec_ns);
    add_wait(&sum->vgpu_queue_ns, totals.wait_ns[GPU_WAIT_VGPU]);
    add_wait(&sum->dependency_ns, totals.wait_ns[GPU_WAIT_DEPENDENCY]);
    add_wait(&sum->driver_queue_ns, totals.wait_ns[GPU_WAIT_DRIVER]);
    sum->wait_ns = sum->vgpu_queue_ns + sum->dependency_ns + sum->driver_queue_ns;
    sum->queue_len_max += period ? meter->queue_max : meter->window_queue_max;
    if (period)
        vg_histogram_merge(latency, &meter->latency);
    vg_histogram_merge(latency, &meter->window_latency);
}

void
gpu_meter_finish_sample(struct vg_gpu_sample *sample, const struct vg_histogram *latency,
                        int64_t length_ns)
{
    sample->latency_mean_ns = vg_histogram_mean(latency);
    sample->latency_p50_ns = vg_histogram_quantile(latency, 0.50);
    sample->latency_p95_ns = vg_histogram_quantile(latency, 0.95);
    sample->latency_p99_ns = vg_histogram_quantile(latency, 0.99);
    sample->latency_max_ns = latency->max;
    sample->queue_len_avg = length_ns > 0 ? (double)sample->wait_ns / (double)length_ns : 0;
}
