/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU ledger fed at random: lives whose figures are computed from their intervals, one
 * nanosecond boundary after the other; the same with records missing, in bursts that are told; and
 * ids that mean nothing.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "tests/unit/chance.h"
#include "tests/unit/gpu-host.h"
#include "tests/unit/used-bytes.h"

/* ---- hostile streams ---- */

/* Ids at random, hardly ever an end: what is kept stays below the limit, what is not is counted. */
static void
test_memory_is_limited(void **state)
{
    const int events = (int)chance_rounds(300000, 3000000);
    struct gpu_host *host = *state;
    GRand *random = g_rand_new_with_seed(11);
    struct vg_window window;
    size_t before = used_bytes();

    for (int i = 0; i < events; i++) {
        struct vg_event event =
            gpu_host_record(host, i, (enum vg_gpu_op)g_rand_int_range(random, 0, VG_GPU_OP_MAX));
        event.tid = event.pid = g_rand_int_range(random, -1, VG_TID_LIMIT);
        event.gpu.context = g_rand_int(random) % 5 ? g_rand_int(random) : 0;
        event.gpu.seqno = g_rand_int(random);
        event.gpu.id = g_rand_int(random);
        event.gpu.id_space = (uint8_t)g_rand_int_range(random, 0, 5);
        event.gpu.fence = g_rand_int(random) % 3 ? g_rand_int(random) : 0;
        event.gpu.vgpu = g_rand_int(random) % 2 ? g_rand_int_range(random, 1, 100000) : VG_NONE;
        event.gpu.device = (uint16_t)g_rand_int_range(random, 0, 10);
        event.gpu.engine = (uint16_t)g_rand_int_range(random, 0, 100);
        event.gpu.flags = (uint16_t)g_rand_int_range(random, 0, 512);
        vg_gpu_ledger_feed(host->ledger, &event);
        if (i % 50000 == 0) {
            vg_window_init(&window, false);
            vg_gpu_ledger_close_window(host->ledger, i, &window);
            vg_window_clear(&window);
        }
    }
    struct vg_gpu_ledger_stats stats = gpu_host_stats(host);
    assert_true(stats.bytes < VG_GPU_LEDGER_BYTES_MAX);
    /* With what the topology keeps of the threads. */
    assert_true(used_bytes() < before + VG_GPU_LEDGER_BYTES_MAX);
    assert_true(stats.open <= VG_GPU_OPEN_REQUESTS_MAX);
    assert_true(stats.dropped > 0);
    assert_true(stats.unattributed > 0);
    g_rand_free(random);
}

/* More contexts than are kept, with a request each that never ends. */
static void
test_contexts_are_limited(void **state)
{
    const uint64_t contexts = chance_rounds(100000, 10000000);
    struct gpu_host *host = *state;

    for (uint64_t i = 1; i <= contexts; i++) {
        struct vg_event event = gpu_host_record(host, (int64_t)i, VG_GPU_RUNNING);
        event.gpu.context = i;
        event.gpu.seqno = 1;
        vg_gpu_ledger_feed(host->ledger, &event);
    }
    struct vg_gpu_ledger_stats stats = gpu_host_stats(host);
    assert_int_equal(stats.open, VG_GPU_CONTEXTS_MAX);
    assert_true(stats.bytes < VG_GPU_LEDGER_BYTES_MAX);
    assert_int_equal(stats.dropped, 2 * (contexts - VG_GPU_CONTEXTS_MAX));
}

/* ---- streams at random ---- */

#define ENGINES  3
#define VGPUS    4
#define LIVES    400
#define BEGIN_NS (100 * MS)
#define END_NS   (900 * MS)

/* Whose requests they are, and how an engine works them off. */
enum kind {
    OF_VGPUS,    /* one after the other, as GVT-g gives them */
    OF_CONTEXTS, /* one after the other in each context, contexts side by side */
    IN_ORDER,    /* one after the other; the hardware is given up to three */
    ANY_ORDER,   /* the same, told as of an engine that may choose */
    KINDS
};

/* A request as it really was. */
struct truth {
    int engine;
    int32_t vgpu;
    uint64_t workload;
    /* given: what is told as running; done > the end of the stream: never told */
    int64_t queued, submitted, ready, given, run, done;
};

static const char *const engine_names[ENGINES] = {"rcs0", "bcs0", "vcs0"};

static void
make_lives(GRand *random, enum kind kind, struct truth *lives)
{
    int64_t busy_until[VGPUS + 1][ENGINES] = {0}, given[ENGINES] = {0}, done[ENGINES][3] = {0};
    int64_t queued[VGPUS + 1][ENGINES] = {0};

    for (int i = 0; i < LIVES; i++) {
        struct truth *life = &lives[i];
        life->engine = g_rand_int_range(random, 0, ENGINES);
        life->vgpu = g_rand_int_range(random, 1, VGPUS + 1);
        life->workload = (uint64_t)i + 1;
        const bool is_deep = kind >= IN_ORDER;
        int64_t *busy = &busy_until[kind == OF_CONTEXTS ? life->vgpu : 0][life->engine];
        int64_t *place = &done[life->engine][i % 3];
        int64_t free = is_deep ? MAX(*place, given[life->engine]) : *busy;
        int64_t earliest = free - g_rand_int_range(random, 0, 5) * MS;
        life->queued = MAX(earliest, 0) + g_rand_int_range(random, 0, 10 * (int)MS);
        /* Each vGPU has a queue for each engine. */
        if (kind == OF_VGPUS)
            life->queued = MAX(life->queued, queued[life->vgpu][life->engine]);
        queued[life->vgpu][life->engine] = life->queued;
        life->submitted = MAX(life->queued, free) + g_rand_int_range(random, 0, 2 * (int)MS);
        life->ready = life->submitted + g_rand_int_range(random, 0, (int)MS);
        life->given = life->ready + g_rand_int_range(random, 0, (int)MS);
        life->run = is_deep ? MAX(life->given, *busy) : life->given;
        life->done = life->run + g_rand_int_range(random, 1, 20 * (int)MS);
        *busy = *place = life->done;
        given[life->engine] = life->given;
    }
}

/* A record. */
struct step {
    int64_t ts_ns;
    int life;
    int stage; /* 0 queued ... 4 done */
    int cpu;
    bool lost;
};

#define CPUS 4

static int
compare_steps(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->life != y->life ? x->life - y->life : x->stage - y->stage;
}

static void
tell(struct gpu_host *host, enum kind kind, const struct truth *life, const struct step *step)
{
    static const uint16_t flags[KINDS] = {
        [OF_CONTEXTS] = VG_GPU_SIDE_BY_SIDE,
        [ANY_ORDER] = VG_GPU_ANY_ORDER,
    };
    const bool of_vgpus = kind == OF_VGPUS;

    static const enum vg_gpu_op ops[] = {VG_GPU_QUEUED, VG_GPU_SUBMITTED, VG_GPU_READY,
                                         VG_GPU_RUNNING, VG_GPU_DONE};
    struct vg_event event = gpu_host_record(host, step->ts_ns, ops[step->stage]);

    event.gpu.engine = vg_names_id(host->names, engine_names[life->engine]);
    if (step->stage <= 1)
        event.tid = event.pid = 1000 * life->vgpu;
    if (step->stage == 3)
        event.gpu.flags = flags[kind];
    if (step->stage <= 1 && of_vgpus) {
        event.gpu.vgpu = life->vgpu;
        event.gpu.id = life->workload;
        event.gpu.id_space = VG_GPU_ID_WORKLOAD;
        event.gpu.flags = VG_GPU_ENGINE_WEAK;
    }
    if (step->stage >= 1 || !of_vgpus) {
        event.gpu.context = (uint64_t)life->vgpu * ENGINES + (uint64_t)life->engine;
        event.gpu.seqno = life->workload;
    }
    vg_gpu_ledger_feed(host->ledger, &event);
}

static int64_t
overlap(int64_t from, int64_t to)
{
    return MAX(MIN(to, END_NS) - MAX(from, BEGIN_NS), 0);
}

/* The last record of one that is not done, or what proves that it ran. */
static int64_t
last_known(const struct truth *life)
{
    const int64_t times[] = {life->queued, life->submitted, life->ready, life->given, life->run};
    int64_t last = life->queued;

    for (size_t i = 0; i < G_N_ELEMENTS(times); i++)
        last = times[i] <= END_NS ? MAX(last, times[i]) : last;
    return last;
}

static struct vg_gpu_sample
true_figures(const struct truth *lives, int engine, int32_t vgpu)
{
    struct vg_gpu_sample gpu = {0};
    int64_t until = 0;
    g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(struct step));

    for (int i = 0; i < LIVES; i++) {
        const struct truth *life = &lives[i];
        if (life->engine != engine || (vgpu != VG_NONE && life->vgpu != vgpu))
            continue;
        if (life->queued > END_NS)
            continue;
        const bool is_done = life->done <= END_NS;
        if (is_done) {
            gpu.exec_ns += overlap(life->run, life->done);
            gpu.wait_ns += overlap(life->queued, life->run);
        } else {
            gpu.wait_ns += overlap(life->queued, last_known(life));
            gpu.open_oldest_ns = MAX(gpu.open_oldest_ns, END_NS - life->queued);
        }
        if (life->submitted <= END_NS)
            gpu.vgpu_queue_ns += overlap(life->queued, life->submitted);
        gpu.requests += life->done > BEGIN_NS && is_done;
        gpu.open += !is_done;
        if (!is_done)
            continue;
        const struct step run = {.ts_ns = life->run, .life = i};
        g_array_append_val(runs, run);
    }
    g_array_sort(runs, compare_steps);
    for (guint i = 0; i < runs->len; i++) {
        const struct truth *life = &lives[g_array_index(runs, struct step, i).life];
        gpu.busy_ns += overlap(MAX(life->run, until), life->done);
        until = MAX(until, life->done);
    }
    return gpu;
}

static GArray *
make_steps(const struct truth *lives)
{
    GArray *steps = g_array_new(FALSE, FALSE, sizeof(struct step));

    for (int i = 0; i < LIVES; i++) {
        const int64_t times[] = {lives[i].queued, lives[i].submitted, lives[i].ready,
                                 lives[i].given, lives[i].done};
        for (int k = 0; k < 5; k++) {
            const struct step step = {times[k], i, k, (lives[i].vgpu + k) % CPUS, false};
            if (times[k] <= END_NS)
                g_array_append_val(steps, step);
        }
    }
    g_array_sort(steps, compare_steps);
    return steps;
}

/* The figures of an engine or of one of its users, NULL if it was not notified of. */
static const struct vg_gpu_sample *
told_figures(const struct vg_window *window, int engine, int32_t vgpu)
{
    g_autofree char *name = g_strdup_printf("qemu-%d", 1000 * vgpu);
    g_autofree char *pid = g_strdup_printf("%d", 1000 * vgpu);

    if (vgpu == VG_NONE)
        return gpu_host_row(window, "all", engine_names[engine]);
    const struct vg_gpu_sample *gpu = gpu_host_row(window, name, engine_names[engine]);
    return gpu ? gpu : gpu_host_row(window, pid, engine_names[engine]);
}

static void
check_stream(struct gpu_host *host, enum kind kind, GRand *random)
{
    static struct truth lives[LIVES];
    struct vg_window window;
    bool begun = false;

    make_lives(random, kind, lives);
    g_autoptr(GArray) steps = make_steps(lives);
    for (guint i = 0; i < steps->len; i++) {
        const struct step *step = &g_array_index(steps, struct step, i);
        if (step->ts_ns > BEGIN_NS && !begun) {
            gpu_host_begin(host, BEGIN_NS);
            begun = true;
        }
        tell(host, kind, &lives[step->life], step);
    }
    gpu_host_read(host, END_NS, &window);
    for (int e = 0; e < ENGINES; e++) {
        for (int32_t v = VG_NONE; v <= VGPUS; v += v == VG_NONE ? 2 : 1) {
            const struct vg_gpu_sample want = true_figures(lives, e, v);
            const struct vg_gpu_sample *gpu = told_figures(&window, e, v);
            assert_int_equal(gpu->exec_ns, want.exec_ns);
            assert_int_equal(gpu->wait_ns, want.wait_ns);
            assert_int_equal(gpu->busy_ns, want.busy_ns);
            assert_true(gpu->exec_ns == gpu->busy_ns || kind == OF_CONTEXTS);
            assert_int_equal(gpu->requests, want.requests);
            assert_int_equal(gpu->partial, 0);
            assert_int_equal(gpu->open, want.open);
            assert_int_equal(gpu->open_oldest_ns, want.open_oldest_ns);
            assert_int_equal(gpu->vgpu_queue_ns, want.vgpu_queue_ns);
            assert_int_equal(gpu->vgpu_queue_ns + gpu->dependency_ns + gpu->driver_queue_ns,
                             want.wait_ns);
        }
    }
    vg_window_clear(&window);
}

/* ---- with records missing ---- */

struct loss {
    int cpu;
    int64_t begin_ns, end_ns; /* the records of the CPU before and after it */
};

/* Loses some records of one CPU that follow each other, somewhere. */
static struct loss
lose_some(GArray *steps, GRand *random)
{
    struct loss loss = {g_rand_int_range(random, 0, CPUS), 0, END_NS};
    guint at = (guint)g_rand_int_range(random, 0, (int)steps->len);
    int n = g_rand_int_range(random, 1, 12);

    for (guint i = 0; i < steps->len; i++) {
        struct step *step = &g_array_index(steps, struct step, i);
        if (step->cpu != loss.cpu)
            continue;
        if (i < at) {
            loss.begin_ns = step->ts_ns;
        } else if (n-- > 0) {
            step->lost = true;
        } else {
            loss.end_ns = step->ts_ns;
            break;
        }
    }
    return loss;
}

static int
compare_losses(const void *a, const void *b)
{
    const struct loss *x = a, *y = b;

    return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

static bool
is_whole(const struct truth *life, const GArray *losses)
{
    for (guint i = 0; i < losses->len; i++) {
        const struct loss *loss = &g_array_index(losses, struct loss, i);
        if (life->queued < loss->end_ns && life->done > loss->begin_ns)
            return false;
    }
    return life->done <= END_NS;
}

static void
feed_lossy(struct gpu_host *host, enum kind kind, const struct truth *lives, const GArray *steps,
           const GArray *losses)
{
    guint next = 0;

    vg_gpu_ledger_declare_ops(host->ledger, 1U << VG_GPU_SUBMITTED |
                                                (kind == OF_VGPUS ? 0 : 1U << VG_GPU_QUEUED));
    for (guint i = 0; i < steps->len; i++) {
        const struct step *step = &g_array_index(steps, struct step, i);
        while (next < losses->len &&
               g_array_index(losses, struct loss, next).begin_ns < step->ts_ns) {
            const struct loss *loss = &g_array_index(losses, struct loss, next++);
            const struct vg_event event = {.ts_ns = loss->begin_ns,
                                           .type = VG_EVENT_LOST,
                                           .cpu = (int16_t)loss->cpu,
                                           .lost.end_ns = loss->end_ns};
            vg_gpu_ledger_feed(host->ledger, &event);
        }
        if (!step->lost)
            tell(host, kind, &lives[step->life], step);
    }
    vg_gpu_ledger_end(host->ledger, END_NS, false);
}

/* Nothing is told that did not happen, and of what is whole nothing is missing. */
static void
check_lossy_stream(struct gpu_host *host, enum kind kind, GRand *random)
{
    static struct truth lives[LIVES];
    g_autoptr(GArray) losses = g_array_new(FALSE, FALSE, sizeof(struct loss));
    struct vg_window window;

    make_lives(random, kind, lives);
    g_autoptr(GArray) steps = make_steps(lives);
    for (int i = g_rand_int_range(random, 1, 6); i > 0; i--) {
        const struct loss loss = lose_some(steps, random);
        g_array_append_val(losses, loss);
    }
    g_array_sort(losses, compare_losses);
    gpu_host_begin(host, 0);
    feed_lossy(host, kind, lives, steps, losses);
    gpu_host_read(host, END_NS, &window);
    for (int e = 0; e < ENGINES; e++) {
        for (int32_t v = VG_NONE; v <= VGPUS; v += v == VG_NONE ? 2 : 1) {
            struct vg_gpu_sample least = {0}, most = {0};
            for (int i = 0; i < LIVES; i++) {
                const struct truth *life = &lives[i];
                if (life->engine != e || (v != VG_NONE && life->vgpu != v))
                    continue;
                most.exec_ns += MIN(life->done, END_NS) - MIN(life->run, END_NS);
                most.wait_ns += MIN(life->run, END_NS) - MIN(life->queued, END_NS);
                if (!is_whole(life, losses))
                    continue;
                least.requests++;
                least.exec_ns += life->done - life->run;
                least.wait_ns += life->run - life->queued;
                least.latency_max_ns = MAX(least.latency_max_ns, life->done - life->queued);
            }
            const struct vg_gpu_sample *gpu = told_figures(&window, e, v);
            if (!gpu && least.requests == 0)
                continue;
            assert_int_equal(gpu->requests, least.requests);
            assert_int_equal(gpu->latency_max_ns, least.latency_max_ns);
            assert_in_range(gpu->exec_ns + gpu->wait_ns, least.exec_ns + least.wait_ns,
                            most.exec_ns + most.wait_ns);
            assert_true(gpu->exec_ns >= least.exec_ns);
            assert_true(gpu->wait_ns <= most.wait_ns);
            /* If it is lost that the hardware was given one, those behind it seem to run. */
            if (kind < IN_ORDER) {
                assert_true(gpu->exec_ns <= most.exec_ns);
                assert_true(gpu->wait_ns >= least.wait_ns);
            }
            assert_true(gpu->busy_ns <= gpu->exec_ns);
        }
    }
    vg_window_clear(&window);
}

static void
run_rounds(void (*check)(struct gpu_host *host, enum kind kind, GRand *random))
{
    const unsigned rounds = chance_rounds(30, 600);
    const uint64_t seed = chance_seed();

    for (unsigned i = 0; i < rounds; i++) {
        GRand *random = g_rand_new_with_seed((guint32)(seed + i));
        void *host;
        chance_print(seed + i);
        gpu_host_setup(&host);
        check(host, i % KINDS, random);
        gpu_host_teardown(&host);
        g_rand_free(random);
    }
}

static void
test_streams_at_random(void **state)
{
    (void)state;
    run_rounds(check_stream);
}

static void
test_lossy_streams_at_random(void **state)
{
    (void)state;
    run_rounds(check_lossy_stream);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_is_limited, gpu_host_setup, gpu_host_teardown),
        cmocka_unit_test_setup_teardown(test_contexts_are_limited, gpu_host_setup,
                                        gpu_host_teardown),
        cmocka_unit_test(test_streams_at_random),
        cmocka_unit_test(test_lossy_streams_at_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
