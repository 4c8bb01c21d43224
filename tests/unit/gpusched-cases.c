/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/gpusched-cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- scenarios ---- */

struct vg_gpusched_scenario *
gpusched_make(enum vg_gpusched_mode mode)
{
    struct vg_gpusched_scenario *scenario = vg_gpusched_scenario_new();

    scenario->mode = mode;
    return scenario;
}

void
gpusched_add_job(struct vg_gpusched_vm *vm, uint8_t engine, int64_t size_ns, uint32_t depth)
{
    const struct vg_gpusched_job job = {
        .engine = engine,
        .loop = VG_GPUSCHED_CLOSED,
        .depth = depth,
        .size = {VG_GPUSCHED_FIXED, (double)size_ns, 0},
    };
    g_array_append_val(vm->jobs, job);
}

struct vg_gpusched_vm *
gpusched_add(struct vg_gpusched_scenario *scenario, const char *name, uint32_t weight,
             int64_t size_ns, uint32_t depth)
{
    struct vg_gpusched_vm *vm = vg_gpusched_scenario_add_vm(scenario, name);

    vm->weight = weight;
    vm->start_priority = false;
    if (size_ns > 0)
        gpusched_add_job(vm, 0, size_ns, depth);
    return vm;
}

void
gpusched_add_request(struct vg_gpusched_vm *vm, uint8_t engine, int64_t arrival_ns, int64_t size_ns)
{
    const struct vg_gpusched_request request = {
        .arrival_ns = arrival_ns,
        .size_ns = size_ns,
        .engine = engine,
    };
    g_array_append_val(vm->stream, request);
}

/* ---- what holds for every run ---- */

/* A request as its records tell. */
struct life {
    uint32_t vm;
    uint8_t engine;
    enum vg_gpusched_kind last;
    bool started;
    int64_t queued_ns, since_ns, ran_ns;
};

/* Of a VM on an engine, counted from records. */
struct count {
    uint64_t queued, done, dropped;
    int64_t exec_ns, wait_ns;
    uint32_t seqno;
};

struct checker {
    const struct gpusched_run *run;
    uint32_t n_engines;
    GArray *lives;        /* struct life, at id - 1 */
    struct count *counts; /* vm * n_engines + engine */
    uint64_t *running;    /* id on each engine, or 0 */
    bool *stopped;        /* VMs */
};

static void
begin_running(struct checker *checker, struct life *life, const struct vg_gpusched_record *record)
{
    assert_int_equal(checker->running[record->engine], 0);
    checker->running[record->engine] = record->workload;
    life->since_ns = record->ts_ns;
    life->started = true;
}

static void
end_running(struct checker *checker, struct life *life, const struct vg_gpusched_record *record)
{
    assert_int_equal(checker->running[record->engine], record->workload);
    checker->running[record->engine] = 0;
    life->ran_ns += record->ts_ns - life->since_ns;
    checker->counts[life->vm * checker->n_engines + life->engine].exec_ns +=
        record->ts_ns - life->since_ns;
}

static void
check_queued(struct checker *checker, const struct vg_gpusched_record *record)
{
    const struct life life = {.vm = record->vm,
                              .engine = record->engine,
                              .last = VG_GPUSCHED_QUEUED,
                              .queued_ns = record->ts_ns};
    struct count *count = &checker->counts[record->vm * checker->n_engines + record->engine];

    g_array_append_val(checker->lives, life);
    assert_int_equal(record->workload, checker->lives->len);
    assert_int_equal(record->seqno, ++count->seqno);
    assert_int_equal(record->context,
                     (uint64_t)record->vm * checker->n_engines + record->engine + 1);
    count->queued++;
}

/* Whether `kind` may follow in the life of a request. */
static bool
may_follow(const struct life *life, enum vg_gpusched_kind kind)
{
    bool runs = life->last == VG_GPUSCHED_STARTED || life->last == VG_GPUSCHED_RESUMED;

    switch (kind) {
    case VG_GPUSCHED_SUBMITTED:
        return life->last == VG_GPUSCHED_QUEUED;
    case VG_GPUSCHED_STARTED:
        return life->last == VG_GPUSCHED_SUBMITTED && !life->started;
    case VG_GPUSCHED_RESUMED:
        return life->last == VG_GPUSCHED_PREEMPTED;
    case VG_GPUSCHED_PREEMPTED:
    case VG_GPUSCHED_DONE:
        return runs;
    case VG_GPUSCHED_DROPPED:
        return !runs && life->last != VG_GPUSCHED_DONE && life->last != VG_GPUSCHED_DROPPED;
    case VG_GPUSCHED_QUEUED:
    case VG_GPUSCHED_SWITCH:
    case VG_GPUSCHED_VM_START:
    case VG_GPUSCHED_VM_STOP:
    case VG_GPUSCHED_KIND_MAX:
        break;
    }
    return false;
}

static void
check_life(struct checker *checker, const struct vg_gpusched_record *record)
{
    assert_in_range(record->workload, 1, checker->lives->len);
    struct life *life = &g_array_index(checker->lives, struct life, record->workload - 1);
    struct count *count = &checker->counts[life->vm * checker->n_engines + life->engine];
    enum vg_gpusched_kind kind = record->kind;

    assert_int_equal(life->vm, record->vm);
    assert_int_equal(life->engine, record->engine);
    assert_true(may_follow(life, kind));
    if (kind == VG_GPUSCHED_STARTED || kind == VG_GPUSCHED_RESUMED)
        begin_running(checker, life, record);
    if (kind == VG_GPUSCHED_PREEMPTED || kind == VG_GPUSCHED_DONE)
        end_running(checker, life, record);
    if (kind == VG_GPUSCHED_DONE || kind == VG_GPUSCHED_DROPPED)
        count->wait_ns += record->ts_ns - life->queued_ns - life->ran_ns;
    count->done += kind == VG_GPUSCHED_DONE;
    count->dropped += kind == VG_GPUSCHED_DROPPED;
    life->last = kind;
}

static void
check_record(struct checker *checker, const struct vg_gpusched_record *record)
{
    switch (record->kind) {
    case VG_GPUSCHED_SWITCH:
        assert_int_not_equal(record->prev_vgpu, record->next_vgpu);
        return;
    case VG_GPUSCHED_VM_START:
        return;
    case VG_GPUSCHED_VM_STOP:
        checker->stopped[record->vm] = true;
        return;
    case VG_GPUSCHED_QUEUED:
    case VG_GPUSCHED_SUBMITTED:
    case VG_GPUSCHED_STARTED:
    case VG_GPUSCHED_PREEMPTED:
    case VG_GPUSCHED_RESUMED:
    case VG_GPUSCHED_DONE:
    case VG_GPUSCHED_DROPPED:
    case VG_GPUSCHED_KIND_MAX:
        break;
    }
    assert_false(checker->stopped[record->vm]);
    if (record->kind == VG_GPUSCHED_QUEUED)
        check_queued(checker, record);
    else
        check_life(checker, record);
}

/* What is open at the end waits or runs up to it. */
static void
close_lives(struct checker *checker)
{
    int64_t end = checker->run->scenario->duration_ns;

    for (unsigned int i = 0; i < checker->lives->len; i++) {
        const struct life *life = &g_array_index(checker->lives, struct life, i);
        struct count *count = &checker->counts[life->vm * checker->n_engines + life->engine];
        bool runs = life->last == VG_GPUSCHED_STARTED || life->last == VG_GPUSCHED_RESUMED;
        int64_t ran = runs ? end - life->since_ns : 0;
        if (life->last == VG_GPUSCHED_DONE || life->last == VG_GPUSCHED_DROPPED)
            continue;
        count->exec_ns += ran;
        count->wait_ns += end - life->queued_ns - life->ran_ns - ran;
    }
}

static void
check_figures(const struct vg_gpusched_figures *figures, const struct count *count,
              int64_t duration_ns)
{
    assert_int_equal(figures->requests, count->done);
    assert_int_equal(figures->dropped, count->dropped);
    assert_int_equal(figures->partial, count->queued - count->done - count->dropped);
    assert_int_equal(figures->exec_ns, count->exec_ns);
    assert_int_equal(figures->busy_ns, figures->exec_ns); /* an engine runs one at a time */
    assert_int_equal(figures->wait_ns, count->wait_ns);
    assert_in_range(figures->busy_ns, 0, duration_ns);
    assert_true(figures->latency_p50_ns <= figures->latency_p95_ns);
    assert_true(figures->latency_p95_ns <= figures->latency_p99_ns);
    assert_true(figures->latency_p99_ns <= figures->latency_max_ns);
    assert_true(figures->latency_mean_ns <= figures->latency_max_ns);
    gpusched_assert_near(figures->share, (double)count->exec_ns / (double)duration_ns, 1e-9);
}

static void
check_result(const struct checker *checker)
{
    const struct vg_gpusched_result *result = checker->run->result;
    int64_t duration = checker->run->scenario->duration_ns;
    g_autofree struct count *engines = g_new0(struct count, checker->n_engines);

    for (uint32_t vm = 0; vm < result->vms->len; vm++) {
        for (uint8_t e = 0; e < checker->n_engines; e++) {
            const struct count *count = &checker->counts[vm * checker->n_engines + e];
            const struct vg_gpusched_figures *figures = gpusched_figures(checker->run, vm, e);
            assert_true(figures || count->queued == 0);
            if (figures)
                check_figures(figures, count, duration);
            engines[e].queued += count->queued;
            engines[e].done += count->done;
            engines[e].dropped += count->dropped;
            engines[e].exec_ns += count->exec_ns;
            engines[e].wait_ns += count->wait_ns;
        }
    }
    for (uint32_t e = 0; e < checker->n_engines; e++)
        check_figures(&g_array_index(result->gpus, struct vg_gpusched_figures, e), &engines[e],
                      duration);
}

static void
check_run(const struct gpusched_run *run)
{
    uint32_t n_vms = run->scenario->vms->len;
    struct checker checker = {.run = run, .n_engines = run->scenario->n_engines};
    int64_t last = 0;

    checker.lives = g_array_new(FALSE, FALSE, sizeof(struct life));
    checker.counts = g_new0(struct count, (size_t)n_vms * checker.n_engines);
    checker.running = g_new0(uint64_t, checker.n_engines);
    checker.stopped = g_new0(bool, n_vms);
    for (unsigned int i = 0; i < run->records->len; i++) {
        const struct vg_gpusched_record *record =
            &g_array_index(run->records, struct vg_gpusched_record, i);
        assert_in_range(record->ts_ns, last, run->scenario->duration_ns);
        last = record->ts_ns;
        check_record(&checker, record);
    }
    close_lives(&checker);
    check_result(&checker);
    g_array_unref(checker.lives);
    g_free(checker.counts);
    g_free(checker.running);
    g_free(checker.stopped);
}

/* ---- runs ---- */

static void
keep_record(void *data, const struct vg_gpusched_record *record)
{
    GArray *records = data;

    g_array_append_vals(records, record, 1);
}

struct gpusched_run *
gpusched_run(const struct vg_gpusched_scenario *scenario)
{
    struct gpusched_run *run = g_new0(struct gpusched_run, 1);
    g_autoptr(GError) error = NULL;

    run->scenario = scenario;
    run->records = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_record));
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, keep_record, run->records, &error);
    if (!sim || vg_gpusched_run(sim, &error) < 0)
        fail_msg("%s", error->message);
    run->result = vg_gpusched_get_result(sim);
    check_run(run);
    return run;
}

void
gpusched_run_free(struct gpusched_run *run)
{
    if (!run)
        return;
    g_array_unref(run->records);
    vg_gpusched_result_free(run->result);
    g_free(run);
}

const struct vg_gpusched_figures *
gpusched_figures(const struct gpusched_run *run, uint32_t vm, uint8_t engine)
{
    const struct vg_gpusched_vm_result *result = run->result->vms->pdata[vm];

    for (unsigned int i = 0; i < result->gpu->len; i++) {
        const struct vg_gpusched_figures *figures =
            &g_array_index(result->gpu, struct vg_gpusched_figures, i);
        if (figures->engine == engine)
            return figures;
    }
    return NULL;
}

double
gpusched_share(const struct gpusched_run *run, uint32_t vm, uint8_t engine, int64_t begin_ns,
               int64_t end_ns)
{
    int64_t since = -1;
    int64_t sum = 0;

    for (unsigned int i = 0; i <= run->records->len; i++) {
        const struct vg_gpusched_record *record =
            i < run->records->len ? &g_array_index(run->records, struct vg_gpusched_record, i)
                                  : NULL;
        enum vg_gpusched_kind kind = record ? record->kind : VG_GPUSCHED_DONE;
        int64_t now = record ? record->ts_ns : end_ns;
        if (record && (record->vm != vm || record->engine != engine))
            continue;
        if (kind == VG_GPUSCHED_STARTED || kind == VG_GPUSCHED_RESUMED)
            since = now;
        if ((kind == VG_GPUSCHED_DONE || kind == VG_GPUSCHED_PREEMPTED) && since >= 0) {
            sum += MAX(0, MIN(now, end_ns) - MAX(since, begin_ns));
            since = -1;
        }
    }
    return (double)sum / (double)(end_ns - begin_ns);
}

int64_t
gpusched_time_of(const struct gpusched_run *run, enum vg_gpusched_kind kind, uint32_t vm,
                 unsigned int nth)
{
    for (unsigned int i = 0; i < run->records->len; i++) {
        const struct vg_gpusched_record *record =
            &g_array_index(run->records, struct vg_gpusched_record, i);
        if (record->kind == kind && record->vm == vm && nth-- == 0)
            return record->ts_ns;
    }
    return -1;
}

void
gpusched_assert_near(double value, double wanted, double tolerance)
{
    if (!(fabs(value - wanted) <= tolerance))
        fail_msg("%.6f is not %.6f +- %g", value, wanted, tolerance);
}
