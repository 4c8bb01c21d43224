/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-proxy-trace: reports to LTTng-UST what happens to the commands of a proxy's clients. It
 * reads what their processes write into shared memory, and trusts none of it. Each record contains
 * its time. The records of all clients are reported in that order, a few milliseconds later. While
 * no session traces, clients write nothing, and this program does almost nothing.
 */
#include "config.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/serve/meter.h"
#include "opencl/wire/pass.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "opencl/proxy/tracer-events.h"

#define TRACER_RECORDS 65536
#define TRACER_TRACED  2   /* ms between rounds */
#define TRACER_IDLE    250 /* ms between rounds while no session traces */
#define TRACER_ROUNDS  3   /* number of rounds after which nothing of an ended client is left */

const char *const tracer_kinds[VG_SERVE_KINDS] = {
    [VG_SERVE_KERNEL] = "kernel", [VG_SERVE_READ] = "read",       [VG_SERVE_WRITE] = "write",
    [VG_SERVE_COPY] = "copy",     [VG_SERVE_FILL] = "fill",       [VG_SERVE_MAP] = "map",
    [VG_SERVE_UNMAP] = "unmap",   [VG_SERVE_MIGRATE] = "migrate",
};

static struct tracer_client **tracer_clients;
static unsigned tracer_n;
static bool tracer_is_traced;
static struct tracer_record tracer_records[TRACER_RECORDS]; /* taken, but not reported yet */
static unsigned tracer_has;

/* ---- clients ---- */

static void
tracer_want(struct tracer_client *client)
{
    if (tracer_is_traced && !client->told.is_gone)
        lttng_ust_tracepoint(vgpu_proxy, client, &client->told);
    atomic_store(&client->counts->told.is_wanted, tracer_is_traced);
}

static void
tracer_add(const struct proxy_traced *told, int memory)
{
    struct tracer_client **more = realloc(tracer_clients, (tracer_n + 1) * sizeof *more);
    struct tracer_client *client = more ? calloc(1, sizeof *client) : NULL;
    struct stat st;

    tracer_clients = more ? more : tracer_clients;
    if (!client || fstat(memory, &st) != 0 || (size_t)st.st_size < sizeof *client->counts) {
        free(client);
        return;
    }
    client->told = *told;
    client->counts =
        mmap(NULL, sizeof *client->counts, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (client->counts == MAP_FAILED) {
        free(client);
        return;
    }
    tracer_clients[tracer_n++] = client;
    tracer_want(client);
}

static void
tracer_drop_gone(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < tracer_n; i++) {
        struct tracer_client *client = tracer_clients[i];
        if (!client->told.is_gone || client->rounds++ < TRACER_ROUNDS) {
            tracer_clients[n++] = client;
            continue;
        }
        munmap(client->counts, sizeof *client->counts);
        free(client);
    }
    tracer_n = n;
}

/* Reads a message of the proxy. Returns false if the proxy no longer exists. */
static bool
tracer_hear(void)
{
    struct proxy_traced told;
    int memory = -1;
    ssize_t n = vg_wire_pass_receive(PROXY_TRACE_FD, &told, sizeof told, &memory, 0);

    for (unsigned i = 0; n == (ssize_t)sizeof told && told.is_gone && i < tracer_n; i++)
        if (tracer_clients[i]->told.pid == told.pid)
            tracer_clients[i]->told.is_gone = true;
    if (n == (ssize_t)sizeof told && !told.is_gone && memory >= 0)
        tracer_add(&told, memory);
    if (memory >= 0)
        close(memory);
    return n > 0;
}

/* ---- records ---- */

static void
tracer_emit(const struct tracer_record *record)
{
    switch (record->told.what) {
    case VG_SERVE_QUEUED:
        lttng_ust_tracepoint(vgpu_proxy, request_queued, record);
        break;
    case VG_SERVE_SUBMITTED:
        lttng_ust_tracepoint(vgpu_proxy, request_submitted, record);
        break;
    case VG_SERVE_RUNNING:
        lttng_ust_tracepoint(vgpu_proxy, request_running, record);
        break;
    case VG_SERVE_DONE:
        lttng_ust_tracepoint(vgpu_proxy, request_done, record);
        break;
    default:
        lttng_ust_tracepoint(vgpu_proxy, request_failed, record);
    }
}

static int
tracer_compare(const void *a, const void *b)
{
    const struct tracer_record *one = a, *other = b;

    if (one->told.at != other->told.at)
        return one->told.at < other->told.at ? -1 : 1;
    return one->number < other->number ? -1 : 1;
}

static void
tracer_take(struct tracer_client *client, int64_t now)
{
    static struct vg_serve_progress_record records[VG_SERVE_PROGRESS_RECORDS];
    static uint64_t number;
    const unsigned room = TRACER_RECORDS - tracer_has;
    unsigned n =
        vg_serve_progress_read(&client->counts->told, records,
                               room < VG_SERVE_PROGRESS_RECORDS ? room : VG_SERVE_PROGRESS_RECORDS);
    uint64_t lost = atomic_load(&client->counts->told.lost);

    for (unsigned i = 0; i < n; i++) {
        /* A time in the future is wrong: others would wait for it. */
        if (records[i].at > now + 1000000000)
            records[i].at = now;
        tracer_records[tracer_has++] = (struct tracer_record){records[i], client, number++};
    }
    if (lost != client->lost)
        lttng_ust_tracepoint(vgpu_proxy, lost, &client->told, lost - client->lost);
    client->lost = lost;
}

/* What happened before the round started has arrived by now. */
static void
tracer_round(void)
{
    const int64_t begun = vg_cl_now();
    unsigned n = 0;

    for (unsigned i = 0; i < tracer_n; i++)
        tracer_take(tracer_clients[i], vg_cl_now());
    qsort(tracer_records, tracer_has, sizeof *tracer_records, tracer_compare);
    while (n < tracer_has && (tracer_records[n].told.at < begun || tracer_has > TRACER_RECORDS / 2))
        tracer_emit(&tracer_records[n++]);
    tracer_has -= n;
    memmove(tracer_records, tracer_records + n, tracer_has * sizeof *tracer_records);
}

static bool
tracer_is_wanted(void)
{
    return lttng_ust_tracepoint_enabled(vgpu_proxy, request_queued) ||
           lttng_ust_tracepoint_enabled(vgpu_proxy, request_submitted) ||
           lttng_ust_tracepoint_enabled(vgpu_proxy, request_running) ||
           lttng_ust_tracepoint_enabled(vgpu_proxy, request_done) ||
           lttng_ust_tracepoint_enabled(vgpu_proxy, request_failed);
}

int
main(void)
{
    struct pollfd at = {.fd = PROXY_TRACE_FD, .events = POLLIN};
    bool is_there = true;

    /* If the proxy is stopped as a group, its clients must be served and traced to their end. */
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR1, SIG_IGN);
    while (is_there) {
        bool is_wanted = tracer_is_wanted();
        if (is_wanted != tracer_is_traced) {
            tracer_is_traced = is_wanted;
            vg_cl_say(is_wanted ? "an LTTng session is recording commands"
                                : "no LTTng session is recording commands any more");
            for (unsigned i = 0; i < tracer_n; i++)
                tracer_want(tracer_clients[i]);
        }
        if (poll(&at, 1, tracer_is_traced && tracer_n ? TRACER_TRACED : TRACER_IDLE) > 0)
            is_there = tracer_hear();
        tracer_round();
        tracer_drop_gone();
    }
    tracer_round(); /* for what happened before the end of the last round */
    return EXIT_SUCCESS;
}
