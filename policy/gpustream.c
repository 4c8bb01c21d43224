/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/gpustream.h"

/* A VM on an engine. */
struct lane {
    GArray *requests; /* struct vg_gpusched_request, in order of arrival */
    GArray *ends;     /* int64_t, sorted */
    uint32_t n_ended; /* when the newest request came */
    uint32_t deepest; /* maximum number of concurrent requests */
};

/* Sum and sum of squares. */
struct spread {
    uint64_t n;
    double sum, squares;
};

static int
compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

static int
compare_requests(const void *a, const void *b)
{
    const struct vg_gpustream_request *x = a;
    const struct vg_gpustream_request *y = b;

    if (x->arrival_ns != y->arrival_ns)
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    if (x->done_ns != y->done_ns)
        return x->done_ns < y->done_ns ? -1 : 1;
    return x->exec_ns < y->exec_ns ? -1 : x->exec_ns > y->exec_ns;
}

/* ---- figures ---- */

static int64_t
percentile(const GArray *sorted, uint64_t percent)
{
    uint64_t rank = (sorted->len * percent + 99) / 100;

    return g_array_index(sorted, int64_t, rank - 1);
}

struct vg_gpustream_figures
vg_gpustream_figures_of(GArray *latencies, int64_t exec_ns, int64_t wait_ns, int64_t duration_ns)
{
    double seconds = (double)duration_ns / 1e9;
    struct vg_gpustream_figures figures = {
        .requests = latencies->len,
        .requests_per_s = latencies->len / seconds,
        .share = (double)exec_ns / (double)duration_ns,
        .wait_ns_per_s = (int64_t)((double)wait_ns / seconds + 0.5),
    };
    double sum = 0;

    if (latencies->len == 0)
        return figures;
    g_array_sort(latencies, compare_times);
    for (unsigned int i = 0; i < latencies->len; i++)
        sum += (double)g_array_index(latencies, int64_t, i);
    figures.latency_mean_ns = (int64_t)(sum / latencies->len + 0.5);
    figures.latency_p50_ns = percentile(latencies, 50);
    figures.latency_p95_ns = percentile(latencies, 95);
    figures.latency_p99_ns = percentile(latencies, 99);
    return figures;
}

static struct vg_gpustream_figures
measure(const GArray *requests, uint32_t vm, int64_t duration_ns)
{
    g_autoptr(GArray) latencies = g_array_new(FALSE, FALSE, sizeof(int64_t));
    int64_t exec_ns = 0;
    int64_t wait_ns = 0;

    for (unsigned int i = 0; i < requests->len; i++) {
        const struct vg_gpustream_request *request =
            &g_array_index(requests, struct vg_gpustream_request, i);
        int64_t latency = request->done_ns - request->arrival_ns;
        if (request->vm != vm)
            continue;
        g_array_append_val(latencies, latency);
        exec_ns += request->exec_ns;
        wait_ns += MAX(0, latency - request->exec_ns);
    }
    return vg_gpustream_figures_of(latencies, exec_ns, wait_ns, duration_ns);
}

/* ---- lanes ---- */

static void
add_end(struct lane *lanes, const struct vg_gpusched_scenario *scenario,
        const struct vg_gpustream_request *request)
{
    struct lane *lane = &lanes[request->vm * scenario->n_engines + request->engine];

    if (!lane->requests) {
        lane->requests = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_request));
        lane->ends = g_array_new(FALSE, FALSE, sizeof(int64_t));
    }
    g_array_append_val(lane->ends, request->done_ns);
}

/* Returns the end that the request waited for or the arrival before it, whichever was later. */
static int64_t
waited_until(const struct lane *lane)
{
    int64_t until = 0;

    if (lane->requests->len > 0)
        until = g_array_index(lane->requests, struct vg_gpusched_request, lane->requests->len - 1)
                    .arrival_ns;
    if (lane->n_ended > 0)
        until = MAX(until, g_array_index(lane->ends, int64_t, lane->n_ended - 1));
    return until;
}

static void
gpustream_add_request(struct lane *lane, const struct vg_gpustream_request *recorded)
{
    uint32_t before = lane->requests->len;

    /* A request never waits for its own end. */
    while (lane->n_ended < before &&
           g_array_index(lane->ends, int64_t, lane->n_ended) <= recorded->arrival_ns)
        lane->n_ended++;
    const struct vg_gpusched_request request = {
        .arrival_ns = recorded->arrival_ns,
        .size_ns = CLAMP(recorded->exec_ns, 1, VG_GPUSCHED_TIME_MAX),
        .think_ns = CLAMP(recorded->arrival_ns - waited_until(lane), 0, VG_GPUSCHED_TIME_MAX),
        .ahead = before - lane->n_ended,
        .engine = recorded->engine,
    };
    g_array_append_val(lane->requests, request);
    lane->deepest = MAX(lane->deepest, request.ahead + 1);
}

/* Closes the cycle from the last request to the first one, for when the lane starts again: the rest
 * at both edges. */
static void
close_circle(struct lane *lane, int64_t duration_ns)
{
    struct vg_gpusched_request *first =
        &g_array_index(lane->requests, struct vg_gpusched_request, 0);
    int64_t last = g_array_index(lane->ends, int64_t, lane->ends->len - 1);

    first->think_ns = MIN(first->arrival_ns + MAX(0, duration_ns - last), VG_GPUSCHED_TIME_MAX);
}

/* ---- who sets the pace ---- */

static void
add_to_spread(struct spread *spread, int64_t value)
{
    spread->n++;
    spread->sum += (double)value;
    spread->squares += (double)value * (double)value;
}

static double
variance(const struct spread *spread)
{
    double mean = spread->sum / (double)spread->n;

    return MAX(0, spread->squares / (double)spread->n - mean * mean);
}

static bool
is_open(const struct lane *lane)
{
    struct spread gaps = {0};
    struct spread thinks = {0};

    if (lane->deepest > VG_GPUSTREAM_DEPTH_MAX)
        return true;
    if (lane->requests->len < VG_GPUSTREAM_PACED_MIN)
        return false;
    for (unsigned int i = 1; i < lane->requests->len; i++) {
        const struct vg_gpusched_request *request =
            &g_array_index(lane->requests, struct vg_gpusched_request, i);
        add_to_spread(&gaps, request->arrival_ns - (request - 1)->arrival_ns);
        add_to_spread(&thinks, request->think_ns);
    }
    double least = VG_GPUSTREAM_VARIES * gaps.sum / (double)gaps.n;
    return variance(&thinks) >
           MAX(least * least, VG_GPUSTREAM_PACED * VG_GPUSTREAM_PACED * variance(&gaps));
}

/* All earlier requests may still be open, but a request only waits for the previous one. */
static void
make_open(struct lane *lane)
{
    for (unsigned int i = 1; i < lane->requests->len; i++) {
        struct vg_gpusched_request *request =
            &g_array_index(lane->requests, struct vg_gpusched_request, i);
        request->ahead = i;
        request->think_ns =
            MIN(request->arrival_ns - (request - 1)->arrival_ns, VG_GPUSCHED_TIME_MAX);
    }
}

/* ---- streams ---- */

static int
compare_arrivals(const void *a, const void *b)
{
    const struct vg_gpusched_request *x = a;
    const struct vg_gpusched_request *y = b;

    if (x->arrival_ns != y->arrival_ns)
        return x->arrival_ns < y->arrival_ns ? -1 : 1;
    return x->engine < y->engine ? -1 : x->engine > y->engine;
}

static void
fill_vm(struct vg_gpusched_vm *vm, const struct lane *lanes, uint32_t n_engines)
{
    for (uint32_t e = 0; e < n_engines; e++) {
        if (lanes[e].requests)
            g_array_append_vals(vm->stream, lanes[e].requests->data, lanes[e].requests->len);
    }
    /* Stable: requests of one engine keep their order. */
    g_array_sort(vm->stream, compare_arrivals);
    vm->replay = VG_GPUSCHED_CLOSED;
    vm->repeat = true;
}

static struct lane *
make_lanes(const struct vg_gpusched_scenario *scenario, const GArray *requests)
{
    uint32_t n = scenario->vms->len * scenario->n_engines;
    struct lane *lanes = g_new0(struct lane, n);

    for (unsigned int i = 0; i < requests->len; i++)
        add_end(lanes, scenario, &g_array_index(requests, struct vg_gpustream_request, i));
    for (uint32_t i = 0; i < n; i++) {
        if (lanes[i].ends)
            g_array_sort(lanes[i].ends, compare_times);
    }
    for (unsigned int i = 0; i < requests->len; i++) {
        const struct vg_gpustream_request *request =
            &g_array_index(requests, struct vg_gpustream_request, i);
        gpustream_add_request(&lanes[request->vm * scenario->n_engines + request->engine], request);
    }
    return lanes;
}

GArray *
vg_gpustream_fill(struct vg_gpusched_scenario *scenario, GArray *requests)
{
    GArray *measured = g_array_new(FALSE, TRUE, sizeof(struct vg_gpustream_figures));

    g_array_sort(requests, compare_requests);
    struct lane *lanes = make_lanes(scenario, requests);
    for (uint32_t i = 0; i < scenario->vms->len * scenario->n_engines; i++) {
        if (lanes[i].requests && is_open(&lanes[i]))
            make_open(&lanes[i]);
        if (lanes[i].requests)
            close_circle(&lanes[i], scenario->duration_ns);
    }
    for (uint32_t vm = 0; vm < scenario->vms->len; vm++) {
        const struct vg_gpustream_figures figures = measure(requests, vm, scenario->duration_ns);
        g_array_append_val(measured, figures);
        fill_vm(scenario->vms->pdata[vm], &lanes[vm * scenario->n_engines], scenario->n_engines);
    }
    for (uint32_t i = 0; i < scenario->vms->len * scenario->n_engines; i++) {
        g_clear_pointer(&lanes[i].requests, g_array_unref);
        g_clear_pointer(&lanes[i].ends, g_array_unref);
    }
    g_free(lanes);
    return measured;
}
