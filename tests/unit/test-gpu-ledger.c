/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU ledger: records written by hand, and the figures that anybody can work out in the head. A
 * record is `MS WHAT NAMES`: WHAT is what a request does (or what its environment does), NAMES are
 *
 *     7:1          context and seqno         v1/a    workload a of vGPU 1, whose QEMU has pid 1000
 *     job=5        number on the ring        f=f0    address of the fence
 *     by=77        the process that makes it gvt     GVT-g's thread makes it
 *     on=vcs0      the engine (else rcs0)    weak    which is a guess
 *     dev=x        the device (else card0)   drm     the driver does not coalesce (else it is i915)
 *
 * Expected is `USER ENGINE FIGURE=N...`, times in ms; of figures that are left out nothing is.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "tests/unit/gpu-host.h"

/* ---- records ---- */

static const char *const op_names[VG_GPU_OP_MAX] = {
    [VG_GPU_QUEUED] = "queued",
    [VG_GPU_SUBMITTED] = "submitted",
    [VG_GPU_READY] = "ready",
    [VG_GPU_RUNNING] = "running",
    [VG_GPU_OFF] = "off",
    [VG_GPU_DONE] = "done",
    [VG_GPU_RETIRED] = "retired",
    [VG_GPU_SWITCH] = "switch",
    [VG_GPU_MEMORY_MADE] = "made",
    [VG_GPU_MEMORY_FREED] = "freed",
    [VG_GPU_MEMORY_TOTAL] = "total",
};

static uint64_t
hex(const char *text)
{
    return strtoull(text, NULL, 16);
}

/* One of the NAMES. */
static void
read_name(struct gpu_host *host, const char *name, struct vg_event *event)
{
    const char *value = strchr(name, '=') ? strchr(name, '=') + 1 : "";
    unsigned long long context, seqno, workload;
    int vgpu;

    if (sscanf(name, "v%d/%llx", &vgpu, &workload) == 2) {
        event->gpu.vgpu = vgpu;
        event->gpu.id = workload;
        event->gpu.id_space = VG_GPU_ID_WORKLOAD;
        event->gpu.flags = VG_GPU_ENGINE_WEAK;
        if (event->gpu.op == VG_GPU_QUEUED)
            event->tid = event->pid = 1000 * vgpu;
    } else if (sscanf(name, "v%d", &vgpu) == 1) {
        event->gpu.vgpu = vgpu;
    } else if (sscanf(name, "%llu:%llu", &context, &seqno) == 2) {
        event->gpu.context = context;
        event->gpu.seqno = seqno;
    } else if (g_str_has_prefix(name, "job=")) {
        event->gpu.id = hex(value);
        event->gpu.id_space = VG_GPU_ID_JOB;
    } else if (g_str_has_prefix(name, "object=")) {
        event->gpu.id = hex(value);
        event->gpu.id_space = VG_GPU_ID_OBJECT;
    } else if (g_str_has_prefix(name, "global=")) {
        event->gpu.id = hex(value);
        event->gpu.id_space = VG_GPU_ID_GLOBAL;
    } else if (g_str_has_prefix(name, "f=")) {
        event->gpu.fence = hex(value);
    } else if (g_str_has_prefix(name, "by=")) {
        event->tid = event->pid = atoi(value);
    } else if (g_str_has_prefix(name, "on=")) {
        event->gpu.engine = vg_names_id(host->names, value);
    } else if (g_str_has_prefix(name, "dev=")) {
        event->gpu.device = vg_names_id(host->names, value);
    } else if (strcmp(name, "gvt") == 0) {
        event->tid = event->pid = 77;
        event->gpu.comm = vg_names_id(host->names, "gvt:rcs0");
    } else if (strcmp(name, "drm") == 0) {
        event->gpu.flags &= (uint16_t) ~(VG_GPU_COALESCES | VG_GPU_ANY_ORDER);
    } else if (strcmp(name, "side") == 0) {
        event->gpu.flags = VG_GPU_SIDE_BY_SIDE;
    } else if (g_str_has_prefix(name, "jobs=")) {
        event->gpu.depth = (uint16_t)(atoi(value) + 1);
    } else if (strcmp(name, "weak") == 0) {
        event->gpu.flags |= VG_GPU_ENGINE_WEAK;
    } else if (strcmp(name, "failed") == 0) {
        event->gpu.flags |= VG_GPU_FAILED;
    } else if (strcmp(name, "fence") == 0) {
        event->gpu.device = event->gpu.engine = VG_NAME_NONE;
        event->gpu.flags = VG_GPU_OF_FENCE | VG_GPU_OF_SCHEDULER;
    } else {
        fail_msg("'%s' means nothing", name);
    }
}

/* "lost 4 12 cpu=1": the loss ends at 12; without it, when the CPU tells something. */
static void
lose(struct gpu_host *host, int64_t ts_ns, char **words)
{
    struct vg_event event = {.ts_ns = ts_ns, .type = VG_EVENT_LOST, .lost.end_ns = INT64_MAX};

    for (; *words; words++) {
        if (strcmp(*words, "other") == 0)
            event.lost.no_gpu = true;
        else
            event.lost.end_ns = atoi(*words) * MS;
    }
    vg_gpu_ledger_feed(host->ledger, &event);
}

static void
feed_record(struct gpu_host *host, const char *text)
{
    g_auto(GStrv) words = g_strsplit_set(g_strstrip((char *)(uintptr_t)text), " ", -1);
    int64_t ts_ns = (int64_t)(g_ascii_strtod(words[0], NULL) * 1e6);
    enum vg_gpu_op op = 0;

    if (strcmp(words[1], "begin") == 0) {
        gpu_host_begin(host, ts_ns);
        return;
    }
    if (strcmp(words[1], "end") == 0 || strcmp(words[1], "cut") == 0) {
        vg_gpu_ledger_end(host->ledger, ts_ns, strcmp(words[1], "end") == 0);
        return;
    }
    if (strcmp(words[1], "lost") == 0) {
        lose(host, ts_ns, words + 2);
        return;
    }
    while (op < VG_GPU_OP_MAX && strcmp(op_names[op], words[1]) != 0)
        op++;
    assert_true(op < VG_GPU_OP_MAX);
    struct vg_event event = gpu_host_record(host, ts_ns, op);
    event.gpu.flags = VG_GPU_COALESCES | VG_GPU_ANY_ORDER;
    for (char **name = words + 2; *name; name++)
        read_name(host, *name, &event);
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* Records, one after the other, with `;` between them. */
static void
feed(struct gpu_host *host, const char *records)
{
    g_auto(GStrv) all = g_strsplit(records, ";", -1);

    for (char **one = all; *one; one++)
        feed_record(host, *one);
}

/* ---- figures ---- */

static int64_t
figure_of(const struct vg_gpu_sample *gpu, const char *name)
{
    const struct {
        const char *name;
        int64_t value;
    } figures[] = {
        {"requests", (int64_t)gpu->requests * MS},
        {"partial", (int64_t)gpu->partial * MS},
        {"open", (int64_t)gpu->open * MS},
        {"oldest", gpu->open_oldest_ns},
        {"coalesced", (int64_t)gpu->coalesced * MS},
        {"busy", gpu->busy_ns},
        {"exec", gpu->exec_ns},
        {"wait", gpu->wait_ns},
        {"vgpu_queue", gpu->vgpu_queue_ns},
        {"dependency", gpu->dependency_ns},
        {"driver_queue", gpu->driver_queue_ns},
        {"latency_mean", gpu->latency_mean_ns},
        {"latency_max", gpu->latency_max_ns},
        {"queue_max", (int64_t)gpu->queue_len_max * MS},
        {"slices", (int64_t)gpu->slices * MS},
        {"suspended", gpu->suspended_ns},
        {"mem", gpu->mem_bytes * MS},
        {"mem_peak", gpu->mem_peak_bytes * MS},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        if (strcmp(figures[i].name, name) == 0)
            return figures[i].value;
    }
    fail_msg("'%s' is no figure", name);
    abort();
}

static void
expect_row(const struct vg_window *window, const char *text)
{
    g_auto(GStrv) words = g_strsplit_set(text, " ", -1);
    const struct vg_gpu_sample *gpu = gpu_host_row(window, words[0], words[1]);

    if (strcmp(words[2], "none") == 0) {
        assert_null(gpu);
        return;
    }
    assert_non_null(gpu);
    for (char **word = words + 2; *word; word++) {
        g_auto(GStrv) pair = g_strsplit(*word, "=", 2);
        double got = (double)figure_of(gpu, pair[0]) / 1e6, want = g_ascii_strtod(pair[1], NULL);
        if (got != want)
            print_error("%s: %s is %g, expected %g\n", text, pair[0], got, want);
        assert_true(got == want);
    }
}

/* Returns what comes after it. */
static const char *
expect_state(const struct gpu_host *host, const char *rows, int64_t *ret_end_ns)
{
    struct vg_gpu_ledger_stats stats = gpu_host_stats(host);
    unsigned open = 0, odd = 0;

    *ret_end_ns = 100 * MS;
    if (g_str_has_prefix(rows, "at ")) {
        const char *end = strchr(rows, ';');
        g_autofree char *text = g_strndup(rows, (gsize)(end - rows));
        g_auto(GStrv) words = g_strsplit(text, " ", -1);
        *ret_end_ns = atoi(words[1]) * MS;
        for (char **word = words + 2; *word; word++)
            *(g_str_has_prefix(*word, "open=") ? &open : &odd) =
                (unsigned)atoi(strchr(*word, '=') + 1);
        rows = end + 1;
    }
    assert_int_equal(stats.open, open);
    assert_int_equal(stats.discontinuities, odd);
    return rows;
}

static void
expect(struct gpu_host *host, int64_t end_ns, const char *rows)
{
    g_auto(GStrv) all = g_strsplit(rows, ";", -1);
    struct vg_window window;

    gpu_host_read(host, end_ns, &window);
    for (char **row = all; *row; row++)
        expect_row(&window, g_strstrip(*row));
    vg_window_clear(&window);
}

/* ---- cases ---- */

/* What is expected may begin with `at MS [open=N] [odd=N]`: when it is read (100), how many
 * requests the ledger keeps then, and how many records contradicted others. */
struct life_case {
    const char *name, *records, *expected;
};

static const struct life_case cases[] = {
    /* Lives of which all is told. */
    {"life",
     "0 begin; 1 queued 7:1; 2 submitted 7:1; 4 ready 7:1; 7 running 7:1; 17 done 7:1; 90 retired "
     "7:1",
     "all rcs0 requests=1 partial=0 vgpu_queue=1 dependency=2 driver_queue=3 wait=6 exec=10 "
     "busy=10 "
     "latency_mean=16 latency_max=16 queue_max=1"},
    {"what is not told belongs to the next stage",
     "0 queued 7:1; 5 running 7:1; 6 done 7:1; 10 queued 7:2; 12 ready 7:2; 15 running 7:2; 16 "
     "done 7:2",
     "all rcs0 vgpu_queue=0 dependency=2 driver_queue=8"},
    {"no record tells that requests of the engine run",
     "0 submitted 7:1; 2 submitted 8:1; 10 done 7:1; 14 done 8:1; 30 submitted 7:2; 31 done 7:2",
     "all rcs0 requests=3 busy=15 exec=15 wait=8"},
    {"nor their ends, but that they are forgotten", "0 submitted 7:1; 10 retired 7:1",
     "all rcs0 requests=1 busy=10 exec=10"},
    {"taken off and back", "0 queued 7:1; 1 running 7:1; 3 off 7:1; 8 running 7:1; 9 done 7:1",
     "all rcs0 exec=3 busy=3 wait=6 requests=1 latency_max=9"},
    {"one of the three that ran side by side is told last",
     "1 running 102:1 drm; 2 running 102:2 drm; 5 done 102:2 drm; 7 running 104:1; 9 done 104:1; "
     "12 done 102:1 drm",
     "all rcs0 exec=16 busy=11 requests=3"},
    {"coalesced: what is before the newest of a context runs with it",
     "0 queued 7:1; 1 queued 7:2; 1 queued 8:1; 2 queued 7:3; 4 running 7:2; 9 done 7:2",
     "at 10 open=2; all rcs0 requests=2 coalesced=1 exec=5 busy=5 wait=7 partial=0 open=2 "
     "oldest=9"},
    {"ends out of order",
     "0 queued 7:1 drm; 0 queued 7:2 drm; 1 running 7:1 drm; 2 running 7:2 drm; 6 done 7:2 drm; "
     "8 done 7:1 drm",
     "all rcs0 requests=2 partial=0 exec=11 busy=7 latency_max=8"},
    {"ends out of order of requests that no record tells to run",
     "0 queued 7:1 drm; 1 queued 7:2 drm; 6 done 7:2 drm; 8 done 7:1 drm",
     "all rcs0 requests=2 partial=0 exec=7 wait=6"},
    {"records that come late", "0 queued 7:1; 1 done 7:1; 1 running 7:1; 1 ready 7:1",
     "all rcs0 requests=1 partial=0 busy=1"},
    {"seqnos begin anew",
     "0 queued 7:4294967295; 1 running 7:4294967295; 2 done 7:4294967295; 2 queued 7:0; 3 running "
     "7:0; "
     "5 done 7:0",
     "all rcs0 requests=2 busy=3"},
    {"time runs backwards", "5 queued 7:1; 4 running 7:1; 6 done 7:1",
     "at 100 odd=1; all rcs0 exec=1 wait=0"},
    {"an interrupt tells how far the engine has come",
     "0 submitted 7:1 global=5; 1 submitted 7:2 global=6; 4 done global=6",
     "all rcs0 requests=2 exec=4 busy=4"},

    /* The period, and what is under way at its edges. */
    {"sums are clipped, what is not whole has no latency",
     "0 queued 7:1; 5 running 7:1; 6 queued 8:1; 10 begin; 12 done 7:1; 13 running 8:1",
     "at 20 open=1; all rcs0 requests=1 partial=0 open=1 oldest=14 busy=2 wait=3 latency_max=0"},
    {"under way when the recording begins: whether it ran is not known",
     "0 begin; 3 done 7:41; 5 done 8:3; 6 done 7:41", "all rcs0 requests=0 partial=2 busy=0"},
    {"open when a whole recording ends",
     "0 begin; 0 queued 6:1; 0 running 6:1; 1 done 6:1; 1 queued 7:1; 2 submitted 7:1; 3 queued "
     "8:1; "
     "4 running 8:1; 90 queued 9:1; 100 end",
     "at 100 open=3; all rcs0 requests=1 partial=0 open=3 oldest=99 vgpu_queue=1 driver_queue=1 "
     "wait=2 busy=1 exec=1"},
    {"open when a recording is cut",
     "0 begin; 0 queued 6:1; 0 running 6:1; 1 done 6:1; 1 queued 7:1; 2 submitted 7:1; 3 queued "
     "8:1; "
     "4 running 8:1; 90 queued 9:1; 100 cut",
     "at 100 open=3; all rcs0 requests=1 partial=3 open=0 vgpu_queue=1 wait=2 busy=1 exec=1"},
    {"open where nobody tells that any request is done",
     "0 begin; 1 queued 7:1; 2 submitted 7:1; 3 queued 8:1; 4 running 8:1; 90 queued 9:1; 100 end",
     "at 100 open=3; all rcs0 requests=0 partial=3 vgpu_queue=1 wait=2 busy=0 exec=0"},

    /* Ends that nobody told. */
    {"a later one of the context is done: this one is, too, but since when?",
     "0 queued 7:1 drm; 1 running 7:1 drm; 5 queued 7:2 drm; 50 running 7:2 drm; 60 done 7:2 drm",
     "at 100 open=1; all rcs0 requests=1 partial=1 coalesced=0 wait=46 exec=10 busy=10 "
     "latency_max=55"},
    {"likewise of one that waits",
     "0 queued 7:1 drm; 5 queued 7:2 drm; 50 running 7:2 drm; 60 done 7:2 drm; 70 end",
     "at 100 open=1; all rcs0 requests=1 partial=1 coalesced=0 wait=45 exec=10 latency_max=55"},
    {"i915 tells only the end of the last that it gave a port",
     "0 running 7:1; 4 queued 7:2; 5 running 7:2; 6 done 7:2; 7 queued 7:3; 8 running 7:3; 9 done "
     "7:3",
     "all rcs0 requests=3 partial=0 coalesced=1 exec=7 busy=7 wait=2"},
    {"the driver forgets it: it is done by now",
     "0 queued 8:1; 1 running 8:1; 2 done 8:1; 3 queued 7:1; 4 running 7:1; 90 retired 7:1",
     "all rcs0 requests=1 partial=1 busy=1 wait=2"},
    {"its address is used again",
     "0 queued job=1 f=f0 drm; 1 running job=1 f=f0 drm; 50 queued job=2 f=f0 drm; "
     "51 running job=2 f=f0 drm; 55 done f=f0 drm",
     "at 100 odd=1; all rcs0 requests=1 partial=1 exec=4 wait=2"},
    {"its number is used again",
     "0 queued job=1 drm; 1 running job=1 drm; 50 queued job=1 drm; 51 running job=1 drm; "
     "55 done job=1 drm",
     "at 100 odd=1; all rcs0 requests=1 partial=1 exec=4 wait=2"},

    /* Rings: a later job that is done passes those before it. */
    {"jobs of a ring that were only queued, and later ones that are done",
     "0 begin; 0 queued job=1 drm; 10 queued job=2 drm; 20 queued job=3 drm; 21 running job=3 drm; "
     "25 done job=3 drm; 30 queued job=4 drm; 32 running job=4 drm; 35 done job=4 drm; 100 end",
     "at 100 open=2; all rcs0 requests=2 partial=2 open=0 oldest=0 wait=3 driver_queue=3 exec=7 "
     "busy=7 latency_max=5 queue_max=1"},
    {"the same, as it is read before the end",
     "0 queued job=1 drm; 10 queued job=2 drm; 20 queued job=3 drm; 21 running job=3 drm; "
     "25 done job=3 drm; 30 queued job=4 drm; 32 running job=4 drm; 35 done job=4 drm",
     "at 100 open=2; all rcs0 requests=2 partial=2 open=0 wait=3 exec=7 queue_max=1"},
    {"its last job hangs, and one is behind it",
     "0 queued job=1 drm; 1 running job=1 drm; 4 done job=1 drm; 10 queued job=2 drm; "
     "12 running job=2 drm; 20 queued job=3 drm; 30 queued job=4 drm; 100 end",
     "at 100 open=3; all rcs0 requests=1 partial=0 open=3 oldest=90 wait=3 exec=3 busy=3 "
     "queue_max=1"},
    {"a job that waits in another queue of the scheduler is not passed: it runs later",
     "0 queued job=1 drm; 10 queued job=2 drm; 11 running job=2 drm; 15 done job=2 drm; "
     "50 running job=1 drm; 60 done job=1 drm; 100 end",
     "all rcs0 requests=2 partial=0 open=0 wait=51 exec=14 latency_max=60 queue_max=2"},
    {"it runs later, and hangs",
     "0 queued job=1 drm; 10 queued job=2 drm; 11 running job=2 drm; 15 done job=2 drm; "
     "50 running job=1 drm; 100 end",
     "at 100 open=1; all rcs0 requests=1 partial=0 open=1 oldest=100 wait=51 exec=4"},
    {"it runs later, and another one is done after it",
     "0 queued job=1 drm; 10 queued job=2 drm; 11 running job=2 drm; 15 done job=2 drm; "
     "50 running job=1 drm; 60 queued job=3 drm; 61 running job=3 drm; 65 done job=3 drm; 100 end",
     "at 100 open=1; all rcs0 requests=2 partial=1 open=0 wait=52 exec=8"},
    {"a job that is queued later is not passed, whenever the other one was queued",
     "0 running job=1 drm; 1 queued job=2 drm; 5 done job=1 drm; 100 end",
     "at 100 open=1; all rcs0 requests=1 partial=0 open=1 oldest=99 exec=5 wait=0"},
    {"a job whose begin is missing passes none that only was queued",
     "0 queued job=2 drm; 1 running job=1 drm; 5 done job=1 drm; 100 end",
     "at 100 open=1; all rcs0 requests=1 partial=0 open=1 oldest=100 exec=4 wait=0"},
    {"one that runs, and a later one of which no record tells that it does",
     "0 queued job=9 drm; 0 running job=9 drm; 1 done job=9 drm; 2 queued job=1 drm; "
     "3 running job=1 drm; 4 queued job=2 drm; 8 done job=2 drm; 100 end",
     "at 100 open=1; all rcs0 requests=2 partial=1 open=0 exec=1 wait=1"},
    {"another ring says nothing of it",
     "0 queued job=1 drm; 1 queued job=1 drm on=sdma0; 2 running job=1 drm on=sdma0; "
     "3 done job=1 drm on=sdma0; 100 end",
     "at 100 open=1; all rcs0 requests=0 partial=0 open=1 oldest=100; all sdma0 requests=1"},
    {"nor do other contexts of an engine that a firmware serves",
     "0 queued 7:1; 1 queued 8:1; 2 running 8:1; 3 done 8:1; 100 end",
     "at 100 open=1; all rcs0 requests=1 partial=0 open=1 oldest=100 wait=1"},
    {"a later workload of the vGPU is done",
     "0 queued v1/a; 0 queued v2/a; 1 queued v1/b; 2 submitted v1/b 21:2; 3 running 21:2; "
     "5 done 21:2; 100 end",
     "at 100 open=2; qemu-1000 rcs0 requests=1 partial=1 open=0 wait=2; "
     "qemu-2000 rcs0 partial=0 open=1 oldest=100"},

    /* The hardware is given several, and runs one. */
    {"the second port of i915",
     "0 queued 7:1; 0 running 7:1; 1 queued 8:1; 2 running 8:1; 8 done 7:1; 9 done 8:1",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=7 driver_queue=7 latency_max=8"},
    {"three jobs of a ring",
     "0 queued 7:1 drm; 0 queued 8:1 drm; 0 queued 7:2 drm; 1 running 7:1 drm; 2 running 8:1 drm; "
     "3 running 7:2 drm; 5 done 7:1 drm; 9 done 8:1 drm; 10 done 7:2 drm",
     "all rcs0 requests=3 partial=0 exec=9 busy=9 wait=15 latency_max=10"},
    {"under way when the recording begins", "0 running 7:1; 2 running 8:1; 5 done 7:1; 9 done 8:1",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=3 queue_max=1"},
    {"a queue that is open when it is read",
     "0 queued 7:1; 0 running 7:1; 1 queued 8:1; 2 running 8:1",
     "at 10 open=2; all rcs0 partial=0 open=2 oldest=10 exec=0 busy=0 wait=1 driver_queue=1"},
    {"ports are given anew, the first with what it runs",
     "0 queued 7:1; 0 running 7:1; 2 queued 8:1; 3 running 7:1; 3 running 8:1; 4 off 7:1; 9 done "
     "7:1; 12 done 8:1",
     "all rcs0 requests=2 exec=12 busy=12 wait=7 partial=0"},
    {"interrupted by one of a higher priority, and on again behind it",
     "0 queued 7:1; 0 running 7:1; 2 queued 8:1; 3 running 8:1; 3 running 7:1; 4 off 7:1; 6 done "
     "8:1; 9 done 7:1",
     "all rcs0 requests=2 exec=9 busy=9 wait=4 partial=0"},
    {"they take turns of a millisecond",
     "0 queued 7:1; 0 queued 8:1; 0 running 7:1; 0 running 8:1; 1 running 8:1; 1 running 7:1; "
     "1 off 7:1; 1 off 8:1; 2 running 7:1; 2 running 8:1; 2 off 8:1; 2 off 7:1; 3 done 7:1; 4 done "
     "8:1",
     "all rcs0 requests=2 exec=4 busy=4 wait=3"},
    {"a newer one of the context that runs: the older one is a part of it",
     "0 queued 7:1; 0 running 7:1; 1 queued 7:2; 2 running 7:2; 3 off 7:1; 6 done 7:2",
     "all rcs0 requests=2 coalesced=1 exec=6 busy=6 wait=2"},
    {"interrupted with those that run as parts of it",
     "0 queued 7:1; 0 queued 7:2; 1 running 7:2; 3 off 7:2; 3 queued 8:1; 3 running 8:1; 5 done "
     "8:1; 6 running 7:2; 8 done 7:2",
     "all rcs0 requests=3 coalesced=1 exec=6 busy=6 wait=8"},
    {"interrupted with those that it was given before",
     "0 queued 7:1; 0 queued 7:2; 1 running 7:1; 1 running 7:2; 3 off 7:2; 3 queued 8:1; 3 running "
     "8:1; 5 done 8:1; 6 running 7:1; 6 running 7:2; 8 done 7:2",
     "all rcs0 requests=3 coalesced=1 exec=6 busy=6 wait=10"},
    {"a firmware has chosen the second: the first was interrupted for it",
     "0 queued 7:1; 0 running 7:1; 2 queued 8:1; 3 running 8:1; 5 done 8:1; 9 done 7:1",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=3"},
    {"a ring is worked off in order: these are two of one name",
     "0 queued 7:1 drm; 0 running 7:1 drm; 2 queued 8:1 drm; 3 running 8:1 drm; 5 done 8:1 drm; "
     "9 done 7:1 drm",
     "all rcs0 requests=2 partial=0 exec=11 busy=9 wait=1"},
    {"the ring of each says that it has one job",
     "0 queued 7:1 drm dev=; 0 running 7:1 drm dev= jobs=1; 0 queued 7:2 drm dev=; 1 running 7:2 "
     "drm "
     "dev= jobs=2; 2 queued 8:1 drm dev=; 3 running 8:1 drm dev= jobs=1; 5 done 7:1 drm dev=; 6 "
     "done "
     "7:2 drm dev=; 9 done 8:1 drm dev=",
     "all rcs0 requests=3 partial=0 exec=12 busy=9 wait=6"},
    {"a number of jobs that is always the same",
     "0 queued 7:1 drm dev=; 0 running 7:1 drm dev= jobs=1; 2 queued 8:1 drm dev=; 3 running 8:1 "
     "drm dev= jobs=1; 5 done 7:1 drm dev=; 9 done 8:1 drm dev=",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=3"},
    {"the ring says that it has two jobs",
     "0 queued 7:1 drm dev=; 0 running 7:1 drm dev= jobs=1; 2 queued 8:1 drm dev=; 3 running 8:1 "
     "drm dev= jobs=2; 5 done 7:1 drm dev=; 9 done 8:1 drm dev=",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=3"},
    {"the ring says how many jobs it had before",
     "0 queued 7:1 drm dev=; 0 running 7:1 drm dev= jobs=0; 2 queued 8:1 drm dev=; 3 running 8:1 "
     "drm dev= jobs=1; 5 done 7:1 drm dev=; 9 done 8:1 drm dev=",
     "all rcs0 requests=2 partial=0 exec=9 busy=9 wait=3"},
    {"several engines by one name: a queue for each context",
     "0 running 7:1 side; 1 running 8:1 side; 2 queued 8:2 side; 3 running 8:2 side; 5 done 8:1 "
     "side; 9 done 8:2 side; 10 done 7:1 side",
     "all rcs0 requests=3 exec=18 busy=10 wait=3"},
    {"in front is one that is in doubt: its end is told",
     "0 begin; 1 queued 7:1; 2 running 7:1; 3 lost 4; 5 queued 8:1; 6 running 8:1; 8 done 7:1; "
     "10 done 8:1",
     "all rcs0 requests=1 partial=1 exec=2 busy=2 wait=4"},
    {"in front is one that is in doubt: its end is lost",
     "0 begin; 1 queued 7:1; 2 running 7:1; 3 lost 4; 5 queued 8:1; 6 running 8:1; 10 done 8:1; "
     "11 queued 8:2; 12 running 8:2; 13 done 8:2",
     "at 100 open=1; all rcs0 requests=2 partial=1 exec=5 busy=5 wait=3"},
    {"what is behind it is in doubt from when it was given on",
     "0 begin; 0 queued 8:1; 0 running 8:1; 1 queued 7:1; 3 running 7:1; 6 lost 7; 8 done 8:1; 9 "
     "done 7:1",
     "all rcs0 requests=0 partial=2 exec=0 busy=0 wait=2"},

    /* Begins and turns that nobody told. */
    {"done, and not told to run, where others are",
     "0 queued 8:1; 1 running 8:1; 2 done 8:1; 10 queued 7:1; 11 submitted 7:1; 30 done 7:1",
     "all rcs0 requests=2 partial=0 exec=1 busy=1 wait=2 latency_max=20"},
    {"a turn whose begin is missing",
     "0 queued 7:1; 1 running 7:1; 2 off 7:1; 12 off 7:1; 20 running 7:1; 21 done 7:1",
     "at 100 odd=1; all rcs0 requests=1 exec=2 wait=9"},

    /* Losses that the recorder tells. */
    {"open when a CPU loses records: partial, with or without an end",
     "0 begin; 1 queued 7:1; 2 running 7:1; 3 queued 8:1; 5 lost 9; 12 done 7:1",
     "at 100 open=1; all rcs0 requests=0 partial=2 wait=1 exec=0 busy=0 latency_max=0"},
    {"begun while a CPU loses records",
     "0 begin; 4 lost 9; 5 queued 7:1; 10 running 7:1; 12 done 7:1",
     "all rcs0 requests=0 partial=1 "
     "wait=0 exec=0"},
    {"whole before and after it",
     "0 begin; 1 queued 7:1; 2 running 7:1; 3 done 7:1; 4 lost 9; 10 queued 7:2; 12 running 7:2; "
     "15 done 7:2",
     "all rcs0 requests=2 partial=0 wait=3 exec=4 busy=4 latency_max=5"},
    {"a loss whose end is not told: until the CPU tells something",
     "0 begin; 4 lost; 5 queued 7:1; 6 running 7:1; 7 done 7:1",
     "all rcs0 requests=1 partial=0 exec=1"},
    {"its begin was among what was lost",
     "0 begin; 0 queued 8:1; 1 running 8:1; 2 done 8:1; 4 lost 9; 10 running 7:1; 12 done 7:1; "
     "14 queued 7:2; 15 running 7:2; 16 done 7:2",
     "all rcs0 requests=2 partial=1 exec=2 wait=2"},
    {"an end of which nothing was told before",
     "0 begin; 0 queued 8:1; 1 running 8:1; 2 done 8:1; 4 lost 9; 12 done 7:1",
     "all rcs0 requests=1 "
     "partial=1 exec=1"},
    {"where no begins are told, none is missing",
     "0 begin; 1 running 8:1; 2 done 8:1; 4 lost 9; 10 running 7:1; 12 done 7:1",
     "all rcs0 requests=2 partial=0 exec=3"},
    {"what was lost tells of no requests",
     "0 begin; 1 queued 7:1; 5 lost 9 other; 10 running 7:1; 12 done 7:1",
     "all rcs0 requests=1 "
     "partial=0 wait=9 exec=2"},
    {"after five seconds it is forgotten",
     "0 begin; 1 queued 7:1; 2 lost 3; 5100 queued 8:1; 5101 running 8:1; 5102 done 8:1",
     "all rcs0 requests=1 partial=1 wait=1 exec=1"},
    {"passed by, and then records were lost: its own end may be told twice",
     "0 begin; 0 running 7:1 drm; 1 running 7:2 drm; 2 done 7:2 drm; 3 lost 3; 9 done 7:1 drm",
     "all rcs0 requests=1 partial=1 exec=1 busy=1"},

    /* GVT-g: GVT-g's records and the driver's are of the same requests. */
    {"vGPUs with equal workloads and seqnos",
     "0 queued v1/a; 0 queued v2/a; 1 submitted v1/a 21:1; 1 submitted 21:1; 1 running 21:1; "
     "4 done 21:1; 4 done v1/a; 5 submitted v2/a 22:1; 5 running 22:1; 10 done 22:1",
     "qemu-1000 rcs0 requests=1 busy=3 vgpu_queue=1; qemu-2000 rcs0 requests=1 busy=5 wait=5; "
     "all rcs0 requests=2 partial=0"},
    {"the driver tells before GVT-g does",
     "0 queued v1/a; 2 submitted 21:1 gvt; 2 submitted v1/a 21:1; 3 running 21:1; 5 done 21:1",
     "qemu-1000 rcs0 requests=1 vgpu_queue=2 driver_queue=1 dependency=0 wait=3 busy=2; "
     "all rcs0 requests=1 wait=3 partial=0"},
    {"and that it runs",
     "0 queued v1/a; 2 submitted 21:1 gvt; 3 running 21:1; 4 submitted v1/a 21:1; 5 done 21:1",
     "qemu-1000 rcs0 requests=1 vgpu_queue=2 wait=3 busy=2 latency_max=5; all rcs0 requests=1 "
     "wait=3"},
    {"and that it is done: whose it was is not told",
     "0 queued v1/a; 1 submitted 21:1 gvt; 1 running 21:1; 3 done 21:1; 4 submitted v1/a 21:1; "
     "4 done v1/a",
     "qemu-1000 rcs0 none; all rcs0 requests=1 exec=2 busy=2 wait=0"},
    {"whose context it is GVT-g told before",
     "0 queued v1/a; 0 submitted v1/a 21:1; 0 running 21:1; 1 done 21:1; 1 queued v1/b; "
     "2 submitted 21:2 gvt; 2 running 21:2; 3 done 21:2; 4 submitted v1/b 21:2; 4 done v1/b",
     "qemu-1000 rcs0 requests=2 partial=0 exec=2 wait=0; all rcs0 requests=2"},
    {"GVT-g never tells which workload it was, and that one is done, too",
     "0 queued v1/a; 0 submitted v1/a 21:1; 0 running 21:1; 2 done 21:1; 2 queued v1/b; "
     "3 submitted 21:2 gvt; 3 running 21:2; 7 done 21:2",
     "at 10 open=1; qemu-1000 rcs0 requests=2 partial=0 open=1 oldest=8 busy=6 wait=0"},
    {"a workload whose begin is missing",
     "0 begin; 4 submitted v1/a 21:1; 5 running 21:1; 9 done 21:1",
     "vgpu-1 rcs0 requests=1 partial=0 "
     "exec=4 wait=1 latency_max=0"},
    {"a workload whose begin is missing, as records were lost",
     "0 begin; 1 lost 2; 4 submitted v1/a 21:1; 4 submitted 21:1; 5 running 21:1; 9 done 21:1",
     "vgpu-1 rcs0 requests=0 partial=1 exec=0 wait=0"},
    {"a workload is thrown away with its vGPU", "0 queued v1/a; 4 done v1/a failed",
     "all rcs0 requests=0 partial=0 wait=4 exec=0"},
    {"a workload is queued under the address of another one",
     "0 queued v1/a; 10 queued v1/a; 11 submitted v1/a 21:1; 11 running 21:1; 13 done 21:1",
     "at 100 odd=1; qemu-1000 rcs0 requests=1 partial=1 wait=1 exec=2"},
    {"a vGPU of nobody", "0 queued v3/5; 1 submitted v3/5 21:1; 3 running 21:1; 4 done 21:1",
     "qemu-3000 rcs0 requests=1 wait=3"},
    {"slices, and a vGPU that waits while another has the GPU",
     "0 queued v1/a; 0 queued v2/a; 1 switch v1; 4 switch v2; 5 submitted v2/a 22:1; 5 running "
     "22:1; "
     "6 switch v1",
     "at 8 open=2; qemu-1000 rcs0 slices=2 suspended=2; qemu-2000 rcs0 slices=1 suspended=3"},
    {"mainline GVT-g: it is for the vGPU that has the GPU when it runs",
     "10 submitted 50:1 gvt; 12 ready 50:1; 13 switch v2; 15 running 50:1; 18 done 50:1; "
     "20 submitted 50:2 gvt; 22 running 50:2; 25 done 50:2",
     "vgpu-2 rcs0 requests=2 wait=7 busy=6"},

    /* Whose, on what. */
    {"processes",
     "0 queued 30:1 by=500; 1 running 30:1; 4 done 30:1; 4 queued 31:1 by=600; 4 running 31:1; "
     "9 done 31:1; 9 running 32:1",
     "at 10 open=1; 500 rcs0 busy=3; 600 rcs0 busy=5; all rcs0 busy=8 open=1 oldest=1"},
    {"memory",
     "0 made object=1 f=1000 by=500; 0 made object=2 f=2000 by=500; 0 freed object=2 by=500; "
     "0 freed object=99 by=500; 0 made object=1 f=400 by=500; 0 queued 30:1 by=500",
     "at 100 open=1; 500 rcs0 mem=1024 mem_peak=12288"},
    {"the scheduler has two fences for a job: the lower one tells that it runs",
     "0 queued 249:9 drm; 3 done 248:9 fence; 5 done 249:9 fence; 6 done 300:9 fence",
     "all rcs0 requests=1 wait=3 exec=2"},
    {"jobs are counted for each ring, the device is told once",
     "0 queued job=1 f=f0 on=gfx dev=; 0 queued job=1 f=f1 on=sdma0 dev=; "
     "1 running job=1 f=f0 on=gfx dev=; 2 running job=1 on=sdma0 dev=amdgpu; 3 done f=f0 on= dev=; "
     "4 queued job=2 f=f0 on=gfx dev=; 5 running job=2 f=f0 on=gfx dev=; 6 done f=f1 on= dev=; "
     "8 done f=f0 on= dev=",
     "all gfx requests=2 exec=5; all sdma0 exec=4 wait=2"},
    {"the engine was a guess until it ran",
     "0 submitted 7:1 on=vcs0 weak by=500; 2 ready 7:1 on=vcs0 weak; 5 running 7:1 on=vcs1; "
     "9 done 7:1 on=vcs1",
     "500 vcs1 requests=1 wait=5 dependency=2 exec=4; 500 vcs0 none; all vcs0 wait=0 requests=0; "
     "all vcs1 wait=5"},
};

static void
test_lives(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct life_case *one = &cases[i];
        void *data;
        gpu_host_setup(&data);
        struct gpu_host *host = data;
        print_message("%s\n", one->name);
        feed(host, one->records);
        int64_t end_ns;
        const char *rows = expect_state(host, one->expected, &end_ns);
        expect(host, end_ns, rows);
        gpu_host_teardown(&data);
    }
}

static int64_t
active_ns(struct gpu_host *host, int64_t end_ns, const char *name)
{
    struct vg_window window;
    int64_t ns = -1;

    gpu_host_read(host, end_ns, &window);
    for (guint i = 0; i < window.vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window.vms, struct vg_vm_sample, i);
        ns = strcmp(vm->name, name) == 0 ? vm->gpu_active_ns : ns;
    }
    vg_window_clear(&window);
    return ns;
}

/* A VM is at work while any request of it waits or runs, on whatever engine, as far as is known. */
static void
test_activity(void **state)
{
    struct gpu_host *host = *state;

    feed(host,
         "0 begin; 1 queued v1/a; 3 queued v1/b on=vcs0; 5 submitted v1/a 21:1; 6 running 21:1;"
         "8 done 21:1; 20 submitted v1/b 22:1 on=vcs0; 22 running 22:1 on=vcs0; 23 done 22:1 "
         "on=vcs0");
    assert_int_equal(active_ns(host, 30 * MS, "qemu-1000"), 22 * MS);
    feed(host, "40 queued v1/c; 44 queued v1/d");
    assert_int_equal(active_ns(host, 50 * MS, "qemu-1000"), 22 * MS);
    vg_gpu_ledger_end(host->ledger, 50 * MS, true);
    assert_int_equal(active_ns(host, 50 * MS, "qemu-1000"), 22 * MS);
    vg_gpu_ledger_end(host->ledger, 50 * MS, false);
    assert_int_equal(active_ns(host, 50 * MS, "qemu-1000"), 22 * MS);
}

static struct vg_gpu_sample
close_window(struct gpu_host *host, int64_t end_ns)
{
    struct vg_window window;

    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, end_ns, &window);
    struct vg_gpu_sample gpu = *gpu_host_row(&window, "all", "rcs0");
    vg_window_clear(&window);
    return gpu;
}

/* A window tells what was known when it was closed; what comes out later only the period is told.
 */
static void
test_windows(void **state)
{
    struct gpu_host *host = *state;

    feed(host, "0 begin; 1 queued 8:1; 1 running 8:1; 6 done 8:1; 7 queued 7:1; 9 running 7:1");
    struct vg_gpu_sample gpu = close_window(host, 10 * MS);
    assert_int_equal(gpu.busy_ns, 6 * MS);
    assert_int_equal(gpu.wait_ns, 2 * MS);
    assert_int_equal(gpu.partial, 0);
    assert_int_equal(gpu.open, 1);
    assert_int_equal(gpu.open_oldest_ns, 3 * MS);
    gpu = close_window(host, 20 * MS);
    assert_int_equal(gpu.busy_ns, 10 * MS);
    assert_int_equal(gpu.wait_ns, 0);
    assert_int_equal(gpu.open, 1);
    assert_int_equal(gpu.open_oldest_ns, 13 * MS);
    feed(host, "24 lost 25; 26 queued 9:1; 27 running 9:1; 28 done 9:1");
    gpu = close_window(host, 30 * MS);
    assert_int_equal(gpu.busy_ns, 1 * MS);
    assert_int_equal(gpu.partial, 1);
    assert_int_equal(gpu.open, 0);
    feed(host, "34 done 7:1");
    gpu = close_window(host, 40 * MS);
    assert_int_equal(gpu.busy_ns, 0);
    assert_int_equal(gpu.requests, 0);
    assert_int_equal(gpu.partial, 0);
    expect(host, 40 * MS, "all rcs0 requests=2 partial=1 busy=6 exec=6 wait=3");
}

/* A window counts a request that waits or runs until a later one of its ring is done. Then it is
 * partial once, and closed windows stay. */
static void
test_windows_of_a_ring(void **state)
{
    static const struct {
        int64_t wait, exec, busy, partial, open, oldest, queue_max;
    } want[] = {
        {5 + 2, 0, 0, 0, 2, 5, 2},     /* 1 since 5, 2 since 8 */
        {10 + 10, 0, 0, 0, 2, 15, 2},  /* both wait */
        {4 + 4 + 1, 3, 3, 2, 0, 0, 3}, /* until 3 is done: it waits from 20 to 21, runs to 24 */
        {0, 0, 0, 0, 0, 0, 0},
        {1, 9, 9, 0, 1, 10, 1}, /* 4 is queued at 40 and runs at 41 */
        {0, 3, 3, 1, 0, 0, 1},  /* 5 is done at 53, and so is 4 */
    };
    struct gpu_host *host = *state;

    for (size_t i = 0; i < G_N_ELEMENTS(want); i++) {
        static const char *const records[G_N_ELEMENTS(want)] = {
            [0] = "0 begin; 5 queued job=1 drm; 8 queued job=2 drm",
            [2] = "20 queued job=3 drm; 21 running job=3 drm; 24 done job=3 drm",
            [4] = "40 queued job=4 drm; 41 running job=4 drm",
            [5] = "50 queued job=5 drm; 53 done job=5 drm",
        };
        if (records[i])
            feed(host, records[i]);
        const struct vg_gpu_sample gpu = close_window(host, (int64_t)(i + 1) * 10 * MS);
        print_message("window %zu\n", i);
        assert_int_equal(gpu.wait_ns, want[i].wait * MS);
        assert_int_equal(gpu.exec_ns, want[i].exec * MS);
        assert_int_equal(gpu.busy_ns, want[i].busy * MS);
        assert_int_equal(gpu.partial, want[i].partial);
        assert_int_equal(gpu.open, want[i].open);
        assert_int_equal(gpu.open_oldest_ns, want[i].oldest * MS);
        assert_int_equal(gpu.queue_len_max, want[i].queue_max);
    }
    /* 1, 2 and 4 have no end; 5 has no record that it ran, where others have. */
    expect(host, 60 * MS,
           "all rcs0 requests=2 partial=3 open=0 wait=2 exec=3 busy=3 queue_max=1 latency_max=4");
}

/* A program that holds memory is told with it in each window, also while nothing of it runs, and no
 * longer when it has given all back. */
static void
test_memory_of_who_does_nothing(void **state)
{
    static const int64_t held[] = {4096, 4096, 0};
    struct gpu_host *host = *state;

    feed(host, "0 begin; 0 made object=1 f=1000 by=500; 1 queued 30:1 by=500; 2 running 30:1; 3 "
               "done 30:1");
    for (int i = 0; i < 3; i++) {
        struct vg_window window;
        vg_window_init(&window, false);
        if (i == 2)
            feed(host, "25 freed object=1 by=500");
        vg_gpu_ledger_close_window(host->ledger, (i + 1) * 10 * MS, &window);
        const struct vg_gpu_sample *row = gpu_host_row(&window, "500", "rcs0");
        assert_int_equal(row != NULL, held[i] > 0);
        if (row)
            assert_int_equal(row->mem_bytes, held[i]);
        if (row)
            assert_int_equal(row->requests, i == 0);
        vg_window_clear(&window);
    }
}

static void
count_life(void *data, const struct vg_gpu_life *life)
{
    int *count = data;

    (*count)++;
    assert_int_equal(life->context, 7);
}

/* Only those that are done are told: not the one that was passed by, nor the one that is in doubt.
 */
static void
test_lives_are_told(void **state)
{
    struct gpu_host *host = *state;
    int count = 0;

    vg_gpu_ledger_watch(host->ledger, count_life, &count);
    feed(host, "1 queued 7:1; 2 queued 7:2; 3 queued 7:3; 6 running 7:2; 7 done 7:2;"
               "8 running 7:3 drm; 9 queued 7:4; 10 running 7:4 drm; 11 done 7:4; 12 queued 7:5;"
               "13 lost 14; 15 done 7:5");
    assert_int_equal(count, 3);
}

/* Between two of a window's gaps in the engine's work only so many are remembered. */
static void
test_long_beside_many_short(void **state)
{
    struct gpu_host *host = *state;

    feed(host, "0 begin; 0 queued 7:1; 0 running 7:1 side");
    for (int i = 1; i < 256; i++) {
        g_autofree char *records =
            g_strdup_printf("%d running 8:%d side; %d.5 done 8:%d", i, i, i, i);
        feed(host, records);
    }
    feed(host, "400 done 7:1");
    expect(host, 400 * MS, "all rcs0 busy=400 exec=527.5");
}

static void
request(struct gpu_host *host, int64_t ts_ns, enum vg_gpu_op op, uint64_t context, uint64_t seqno)
{
    struct vg_event event = gpu_host_record(host, ts_ns, op);

    event.gpu.context = context;
    event.gpu.seqno = seqno;
    vg_gpu_ledger_feed(host->ledger, &event);
}

static uint64_t
count_left_out(const struct vg_window *window)
{
    uint64_t n = 0;

    for (guint i = 0; i < window->gpu_requests->len; i++)
        n += g_array_index(window->gpu_requests, struct vg_gpu_request_sample, i).left_out;
    return n;
}

/* Contexts that take turns, as VMs do, keep each its part, and what is not kept is told where it
 * was. */
static void
test_requests_of_a_window_are_of_all(void **state)
{
    enum { CONTEXTS = 4, EACH = 5000, N = CONTEXTS * EACH };
    struct gpu_host *host = *state;
    struct vg_window window;
    unsigned kept[CONTEXTS] = {0};
    int64_t before = 0;

    vg_gpu_ledger_keep_requests(host->ledger, true);
    vg_gpu_ledger_begin(host->ledger, 0);
    for (int64_t i = 0; i < N; i++) {
        request(host, 2 * i, VG_GPU_RUNNING, 50 + (uint64_t)i % CONTEXTS,
                1 + (uint64_t)i / CONTEXTS);
        request(host, 2 * i + 1, VG_GPU_DONE, 50 + (uint64_t)i % CONTEXTS,
                1 + (uint64_t)i / CONTEXTS);
    }
    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, 2 * N, &window);
    guint n = window.gpu_requests->len;
    assert_in_range(n, VG_WINDOW_GPU_REQUESTS_MAX / 2 - 200, VG_WINDOW_GPU_REQUESTS_MAX);
    assert_int_equal(count_left_out(&window) + n, N);
    for (guint i = 0; i < n; i++) {
        const struct vg_gpu_request_sample *one =
            &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, i);
        kept[one->context - 50]++;
        if (i + 1 < n)
            assert_int_equal((one->end_ns - before) / 2, one->left_out + (i == 0 ? 0 : 1));
        before = one->end_ns;
    }
    for (unsigned i = 0; i < CONTEXTS; i++)
        assert_in_range(kept[i], n / CONTEXTS * 8 / 10, n / CONTEXTS * 12 / 10);
    vg_window_clear(&window);
}

static void
test_requests_of_a_window(void **state)
{
    struct gpu_host *host = *state;
    struct vg_window window;

    vg_gpu_ledger_keep_requests(host->ledger, true);
    vg_gpu_ledger_begin(host->ledger, 0);
    feed(host, "0.000001 queued v1/a; 0.000002 submitted v1/a 21:1");
    request(host, 3, VG_GPU_RUNNING, 21, 1);
    request(host, 5, VG_GPU_DONE, 21, 1);
    request(host, 6, VG_GPU_RUNNING, 90, 4);
    request(host, 7, VG_GPU_DONE, 90, 4);
    for (uint64_t i = 1; i <= VG_WINDOW_GPU_REQUESTS_MAX; i++) {
        request(host, 8, VG_GPU_QUEUED, 50, i);
        request(host, 9, VG_GPU_DONE, 50, i);
    }
    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, 10, &window);
    /* About half of 4098, with the first. */
    assert_in_range(window.gpu_requests->len, VG_WINDOW_GPU_REQUESTS_MAX * 4 / 10,
                    VG_WINDOW_GPU_REQUESTS_MAX * 6 / 10);
    assert_int_equal(window.gpu_requests->len + count_left_out(&window),
                     VG_WINDOW_GPU_REQUESTS_MAX + 2);
    const struct vg_gpu_request_sample *one =
        &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 0);
    assert_int_equal(one->vm, g_array_index(window.vms, struct vg_vm_sample, 0).id);
    assert_int_equal(one->gpu, 0);
    assert_int_equal(one->queued_ns, 1);
    assert_int_equal(one->run_ns, 3);
    assert_int_equal(one->end_ns, 5);
    const struct vg_gpu_request_sample *last = one + window.gpu_requests->len - 1;
    assert_in_range(last->seqno, VG_WINDOW_GPU_REQUESTS_MAX - 50, VG_WINDOW_GPU_REQUESTS_MAX);
    assert_int_equal(last->vm, VG_PROCESS_NO_ID);
    vg_window_clear(&window);
    vg_window_init(&window, false);
    request(host, 12, VG_GPU_RUNNING, 90, 5);
    request(host, 13, VG_GPU_DONE, 90, 5);
    vg_gpu_ledger_close_window(host->ledger, 20, &window);
    assert_int_equal(window.gpu_requests->len, 1);
    assert_int_equal(count_left_out(&window), 0);
    one = &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 0);
    assert_int_equal(one->pid, 0);
    assert_int_equal(one->queued_ns, VG_TIME_UNKNOWN);
    vg_window_clear(&window);
}

static void
test_nothing_is_known_without_events(void **state)
{
    struct gpu_host *host = *state;
    struct vg_window window;

    gpu_host_begin(host, 0);
    gpu_host_read(host, 10 * MS, &window);
    assert_int_equal(window.gpus->len, 0);
    assert_int_equal(window.vms->len, 0);
    vg_window_clear(&window);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, gpu_host_setup, gpu_host_teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lives),
        CASE(test_activity),
        CASE(test_windows),
        CASE(test_windows_of_a_ring),
        CASE(test_memory_of_who_does_nothing),
        CASE(test_lives_are_told),
        CASE(test_long_beside_many_short),
        CASE(test_requests_of_a_window_are_of_all),
        CASE(test_requests_of_a_window),
        CASE(test_nothing_is_known_without_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
