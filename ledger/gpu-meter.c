/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "ledger/gpu-meter.h"

#include <string.h>

/* ---- unions ---- */

void
gpu_union_clear(struct gpu_union *set)
{
    g_clear_pointer(&set->gaps, g_free);
}

static void
gpu_union_count(struct gpu_union *set, struct gpu_interval interval,
                const int64_t begin_ns[GPU_BOOKS])
{
    for (int i = 0; i < GPU_BOOKS; i++)
        set->sum_ns[i] += gpu_interval_after(interval, begin_ns[i]);
}

static void
gpu_union_add_gap(struct gpu_union *set, struct gpu_interval gap)
{
    if (!set->gaps)
        set->gaps = g_new0(struct gpu_interval, GPU_UNION_GAPS);
    set->newest = (set->newest + 1) % GPU_UNION_GAPS;
    set->gaps[set->newest] = gap;
}

static struct gpu_interval *
gpu_union_gap(const struct gpu_union *set, uint32_t age)
{
    return &set->gaps[(set->newest - age) % GPU_UNION_GAPS];
}

static __attribute__((noinline)) void
gpu_union_fill_gaps(struct gpu_union *set, struct gpu_interval interval,
                    const int64_t begin_ns[GPU_BOOKS])
{
    for (uint32_t age = 0; set->gaps && age < GPU_UNION_GAPS; age++) {
        struct gpu_interval *gap = gpu_union_gap(set, age);
        if (gap->end_ns <= interval.begin_ns)
            break;
        /* What ends before the gap is counted, but not stored. */
        const struct gpu_interval filled = {MAX(gap->begin_ns, interval.begin_ns),
                                            MIN(gap->end_ns, interval.end_ns)};
        if (filled.begin_ns >= filled.end_ns)
            continue;
        gpu_union_count(set, filled, begin_ns);
        gap->end_ns = filled.begin_ns;
    }
}

void
gpu_union_add(struct gpu_union *set, struct gpu_interval interval,
              const int64_t begin_ns[GPU_BOOKS])
{
    if (interval.begin_ns < set->until_ns)
        gpu_union_fill_gaps(set, interval, begin_ns);
    if (interval.end_ns <= set->until_ns)
        return;
    if (interval.begin_ns > set->until_ns)
        gpu_union_add_gap(set, (struct gpu_interval){set->until_ns, interval.begin_ns});
    interval.begin_ns = MAX(interval.begin_ns, set->until_ns);
    gpu_union_count(set, interval, begin_ns);
    set->until_ns = interval.end_ns;
}

int64_t
gpu_union_more(const struct gpu_union *set, struct gpu_interval interval, int64_t from_ns)
{
    const struct gpu_interval after = {MAX(interval.begin_ns, set->until_ns), interval.end_ns};
    int64_t more_ns = gpu_interval_after(after, from_ns);

    for (uint32_t age = 0; set->gaps && age < GPU_UNION_GAPS; age++) {
        const struct gpu_interval *gap = gpu_union_gap(set, age);
        if (gap->end_ns <= interval.begin_ns)
            break;
        const struct gpu_interval filled = {MAX(gap->begin_ns, interval.begin_ns), gap->end_ns};
        more_ns += gpu_interval_after(filled, from_ns);
    }
    return more_ns;
}

/* ---- the longest queue ---- */

void
gpu_peak_clear(struct gpu_peak *peak)
{
    g_free(peak->times_ns);
    *peak = (struct gpu_peak){0};
}

void
gpu_peak_add(struct gpu_peak *peak, uint32_t waiting, int64_t now_ns)
{
    if (waiting == 1) {
        peak->most = MAX(peak->most, peak->settled + peak->n);
        peak->settled = peak->n = 0;
    }
    if (waiting <= peak->settled + peak->n)
        return;
    if (peak->n == GPU_PEAK_MAX) {
        memmove(peak->times_ns, peak->times_ns + 1, (peak->n - 1) * sizeof(*peak->times_ns));
        peak->settled++;
        peak->n--;
    }
    if (peak->n == peak->room) {
        peak->room = MAX(2 * peak->room, 8);
        peak->times_ns = g_renew(int64_t, peak->times_ns, peak->room);
    }
    peak->times_ns[peak->n++] = now_ns;
}

void
gpu_peak_take(struct gpu_peak *peak, int64_t proven_ns)
{
    uint32_t first = 0, end = peak->n;

    while (first < end) {
        const uint32_t middle = (first + end) / 2;
        if (peak->times_ns[middle] < proven_ns)
            first = middle + 1;
        else
            end = middle;
    }
    if (first == peak->n)
        return;
    peak->n--;
    memmove(peak->times_ns + first, peak->times_ns + first + 1,
            (peak->n - first) * sizeof(*peak->times_ns));
}

static uint32_t
gpu_peak_most(const struct gpu_peak *peak)
{
    return MAX(peak->most, peak->settled + peak->n);
}

/* ---- meters ---- */

void
gpu_meter_init(struct gpu_meter *meter)
{
    *meter = (struct gpu_meter){.busy.until_ns = INT64_MIN};
}

void
gpu_meter_clear(struct gpu_meter *meter)
{
    gpu_union_clear(&meter->busy);
    gpu_peak_clear(&meter->peak);
    gpu_peak_clear(&meter->open.peak);
    vg_histogram_clear(&meter->latency);
    vg_histogram_clear(&meter->window_latency);
}

void
gpu_meter_done(struct gpu_meter *meter, int64_t queued_ns, int64_t now_ns, bool coalesced,
               const int64_t begin_ns[GPU_BOOKS])
{
    for (int i = 0; i < GPU_BOOKS; i++) {
        meter->books[i].requests++;
        meter->books[i].coalesced += coalesced;
    }
    if (queued_ns != VG_TIME_UNKNOWN && queued_ns >= begin_ns[GPU_BOOK_PERIOD])
        vg_histogram_add(&meter->window_latency, now_ns - queued_ns);
}

static void
gpu_meter_begin_book(struct gpu_meter *meter, enum gpu_book_kind kind)
{
    meter->books[kind] = (struct gpu_book){.queue_max = meter->waiting - meter->passed};
    meter->busy.sum_ns[kind] = 0;
}

void
gpu_meter_begin(struct gpu_meter *meter, int64_t now_ns)
{
    gpu_peak_clear(&meter->peak);
    for (uint32_t i = 1; i <= meter->waiting; i++)
        gpu_peak_add(&meter->peak, i, now_ns);
    gpu_meter_begin_book(meter, GPU_BOOK_PERIOD);
    gpu_meter_begin_book(meter, GPU_BOOK_WINDOW);
    vg_histogram_clear(&meter->latency);
    vg_histogram_clear(&meter->window_latency);
}

void
gpu_meter_begin_window(struct gpu_meter *meter)
{
    gpu_meter_begin_book(meter, GPU_BOOK_WINDOW);
    vg_histogram_merge(&meter->latency, &meter->window_latency);
    vg_histogram_reset(&meter->window_latency);
}

static int64_t
gpu_meter_wait_sum(const struct gpu_meter *meter, enum gpu_book_kind kind, enum gpu_wait wait,
                   int64_t sum_ns)
{
    gpu_meter_grow(&sum_ns, meter->books[kind].wait_ns[wait], GPU_METER_WAIT_MAX);
    gpu_meter_grow(&sum_ns, meter->open.wait_ns[wait], GPU_METER_WAIT_MAX);
    return sum_ns;
}

void
gpu_meter_read(const struct gpu_meter *meter, enum gpu_book_kind kind, struct gpu_interval time,
               struct vg_gpu_sample *sum, struct vg_histogram *latency)
{
    const struct gpu_book *book = &meter->books[kind];
    const struct gpu_open *open = &meter->open;
    const int64_t busy_ns = meter->busy.sum_ns[kind] + meter->busy.more_ns;
    const int64_t age_ns = time.end_ns - open->oldest_ns;

    sum->requests += book->requests;
    sum->partial += book->partial + open->partial;
    sum->open += open->open;
    if (open->open > 0)
        sum->open_oldest_ns = MAX(sum->open_oldest_ns, age_ns);
    sum->coalesced += book->coalesced;
    sum->busy_ns = MIN(vg_time_sum(sum->busy_ns, busy_ns), time.end_ns - time.begin_ns);
    sum->exec_ns = vg_time_sum(sum->exec_ns, vg_time_sum(book->exec_ns, open->exec_ns));
    sum->vgpu_queue_ns = gpu_meter_wait_sum(meter, kind, GPU_WAIT_VGPU, sum->vgpu_queue_ns);
    sum->dependency_ns = gpu_meter_wait_sum(meter, kind, GPU_WAIT_DEPENDENCY, sum->dependency_ns);
    sum->driver_queue_ns = gpu_meter_wait_sum(meter, kind, GPU_WAIT_DRIVER, sum->driver_queue_ns);
    sum->wait_ns = sum->vgpu_queue_ns + sum->dependency_ns + sum->driver_queue_ns;
    if (kind == GPU_BOOK_PERIOD) {
        sum->queue_len_max += gpu_peak_most(&open->peak);
        vg_histogram_merge(latency, &meter->latency);
    } else {
        sum->queue_len_max += book->queue_max;
    }
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
