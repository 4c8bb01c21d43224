/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the GPU ledger alone is: the records that a host with GVT-g makes of the requests of
 * many vGPUs, made beforehand in memory, fed on one core. Prints one line. With "hostile", ids at
 * random and ends that never come; the line then also says how much memory the ledger holds.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ledger/gpu-ledger.h"

#define ENGINES      4
#define VGPUS        16
#define QUEUED       4 /* requests of a vGPU on an engine that wait at a time */
#define EVENTS       2000000
#define DEFAULT_RUNS 5

struct host {
    struct vg_event *events;
    size_t n;
    int64_t now;
    uint64_t random;
    uint64_t workloads;
    uint16_t device, engines[ENGINES];
};

/* A vGPU on an engine. */
struct queue {
    int32_t vgpu;
    uint16_t engine;
    uint64_t context, seqno;
    uint64_t first, last; /* workloads that wait: first..last - 1 */
};

static uint32_t
pick(struct host *host, uint32_t below)
{
    host->random = host->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(host->random >> 33) % below;
}

static struct vg_event *
add(struct host *host, const struct queue *queue, enum vg_gpu_op op)
{
    struct vg_event *event = &host->events[host->n++];

    host->now += 200 + pick(host, 1000);
    *event = (struct vg_event){.ts_ns = host->now, .type = VG_EVENT_GPU, .tid = 100, .pid = 100};
    event->gpu.op = (uint8_t)op;
    event->gpu.vgpu = VG_NONE;
    event->gpu.device = host->device;
    event->gpu.engine = queue->engine;
    return event;
}

static void
add_workload(struct host *host, const struct queue *queue, enum vg_gpu_op op, uint64_t workload)
{
    struct vg_event *event = add(host, queue, op);

    event->gpu.vgpu = queue->vgpu;
    event->gpu.id = workload;
    event->gpu.id_space = VG_GPU_ID_WORKLOAD;
    event->gpu.flags = VG_GPU_ENGINE_WEAK;
    if (op == VG_GPU_QUEUED) {
        event->tid = event->pid = 1000 + queue->vgpu;
    } else if (op == VG_GPU_SUBMITTED) {
        event->gpu.context = queue->context;
        event->gpu.seqno = queue->seqno;
    }
}

static void
add_request(struct host *host, const struct queue *queue, enum vg_gpu_op op)
{
    struct vg_event *event = add(host, queue, op);

    event->gpu.context = queue->context;
    event->gpu.seqno = queue->seqno;
    event->gpu.flags = op == VG_GPU_RUNNING ? VG_GPU_COALESCES : 0;
}

/* The seven records of a request, among those of others that wait. */
static void
make_events(struct host *host)
{
    static struct queue queues[VGPUS * ENGINES];

    for (uint32_t i = 0; i < VGPUS * ENGINES; i++)
        queues[i] = (struct queue){.vgpu = (int32_t)(i / ENGINES) + 1,
                                   .engine = host->engines[i % ENGINES],
                                   .context = i + 1};
    while (host->n + QUEUED + 8 < EVENTS) {
        struct queue *queue = &queues[pick(host, VGPUS * ENGINES)];
        while (queue->last - queue->first < QUEUED)
            add_workload(host, queue, VG_GPU_QUEUED, queue->context << 32 | queue->last++);
        uint64_t workload = queue->context << 32 | queue->first++;
        queue->seqno++;
        add_workload(host, queue, VG_GPU_SUBMITTED, workload);
        add_request(host, queue, VG_GPU_SUBMITTED);
        add_request(host, queue, VG_GPU_READY);
        add_request(host, queue, VG_GPU_RUNNING);
        add_request(host, queue, VG_GPU_DONE);
        add_workload(host, queue, VG_GPU_DONE, workload);
    }
}

static void
make_hostile_events(struct host *host)
{
    struct queue queue = {0};

    while (host->n < EVENTS) {
        queue.engine = host->engines[pick(host, ENGINES)];
        struct vg_event *event = add(host, &queue, (enum vg_gpu_op)pick(host, VG_GPU_OP_MAX));
        event->tid = event->pid = (int32_t)pick(host, VG_TID_LIMIT);
        event->gpu.vgpu = (int32_t)pick(host, 100000);
        event->gpu.context = pick(host, UINT32_MAX);
        event->gpu.seqno = pick(host, UINT32_MAX);
        event->gpu.id = pick(host, UINT32_MAX);
        event->gpu.id_space = (uint8_t)pick(host, VG_GPU_ID_OBJECT + 1);
        event->gpu.fence = pick(host, UINT32_MAX);
        event->gpu.flags = (uint16_t)pick(host, 32);
    }
}

static double
seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
run(const struct host *host, const vg_names *names, struct vg_gpu_ledger_stats *ret_stats)
{
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_gpu_ledger) ledger = vg_gpu_ledger_new(topology, names);
    struct vg_window window;
    double begin = seconds();

    for (size_t i = 0; i < host->n; i++)
        vg_gpu_ledger_feed(ledger, &host->events[i]);
    vg_window_init(&window, false);
    vg_gpu_ledger_read_period(ledger, host->now, &window);
    double spent = seconds() - begin;
    vg_gpu_ledger_read_stats(ledger, ret_stats);
    vg_window_clear(&window);
    return spent;
}

int
main(int argc, char **argv)
{
    bool hostile = argc > 1 && strcmp(argv[1], "hostile") == 0;
    int runs = argc > 2 ? atoi(argv[2]) : DEFAULT_RUNS;
    struct host host = {.events = g_new0(struct vg_event, EVENTS), .random = 1};
    g_autoptr(vg_names) names = vg_names_new();
    struct vg_gpu_ledger_stats stats = {0};
    double best = 0;

    host.device = vg_names_id(names, "card0");
    for (uint32_t i = 0; i < ENGINES; i++) {
        g_autofree char *name = g_strdup_printf("engine%u", i);
        host.engines[i] = vg_names_id(names, name);
    }
    if (hostile)
        make_hostile_events(&host);
    else
        make_events(&host);
    for (int i = 0; i < runs; i++) {
        double spent = run(&host, names, &stats);
        if (best == 0 || spent < best)
            best = spent;
    }
    if (!hostile && (stats.dropped > 0 || stats.discontinuities > 0))
        fprintf(stderr, "bench-gpu-ledger: dropped %" G_GUINT64_FORMAT "\n", stats.dropped);
    printf("gpu-ledger: %zu events in %.3f s = %.1f M/s, %.1f MiB\n", host.n, best,
           (double)host.n / best / 1e6, (double)stats.bytes / 1048576);
    g_free(host.events);
    return 0;
}
