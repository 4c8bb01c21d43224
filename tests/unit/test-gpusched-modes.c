/* SPDX-License-Identifier: Apache-2.0
 *
 * What defines each scheduler but GVT-g's, and the life of requests under any of them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/unit/gpusched-cases.h"

#define SMALL (MS / 10)

static double
share_of(const struct gpusched_run *run, uint32_t vm)
{
    return gpusched_figures(run, vm, 0)->share;
}

static void
check_pair(const struct vg_gpusched_scenario *scenario, double share_a, double share_b,
           double tolerance)
{
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(share_of(run, 0), share_a, tolerance);
    gpusched_assert_near(share_of(run, 1), share_b, tolerance);
}

/* Two that always have work, with requests of these sizes. */
static struct vg_gpusched_scenario *
make_pair(enum vg_gpusched_mode mode, int64_t size_a, int64_t size_b, bool preemptible)
{
    struct vg_gpusched_scenario *scenario = gpusched_make(mode);

    scenario->preemptible = preemptible;
    gpusched_add(scenario, "a", 2, size_a, 2);
    gpusched_add(scenario, "b", 4, size_b, 2);
    return scenario;
}

/* What a VM gets whose neighbour is there and does nothing. */
static void
test_idle_neighbour(void **state)
{
    (void)state;
    static const double wanted[] = {
        [VG_GPUSCHED_GVTG] = 0.5,          [VG_GPUSCHED_NO_CARRY] = 0.5,
        [VG_GPUSCHED_WORK_CONSERVING] = 1, [VG_GPUSCHED_WEIGHTED] = 1,
        [VG_GPUSCHED_BEST_EFFORT] = 1,     [VG_GPUSCHED_EQUAL_SHARE] = 0.5,
        [VG_GPUSCHED_FIXED_SHARE] = 0.5,   [VG_GPUSCHED_QUANTUM] = 1,
    };
    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make((enum vg_gpusched_mode)mode);
        scenario->duration_ns = 2 * S;
        gpusched_add(scenario, "busy", 4, SMALL, 2);
        gpusched_add(scenario, "idle", 4, 0, 0);
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        gpusched_assert_near(share_of(run, 0), wanted[mode], 0.001);
        assert_null(gpusched_figures(run, 1, 0));
    }
}

/* ---- variants of GVT-g ---- */

/* 50 ms each 100 ms for jobs of 80 ms: one begins after each balance, whatever was overdrawn. */
static void
test_no_carry_of_debt(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_NO_CARRY);
    gpusched_add(scenario, "long", 4, 80 * MS, 2);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    for (unsigned int i = 0; i < 100; i++)
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, i), (100 * i + 1) * MS);
}

static void
test_no_carry_of_credit(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_NO_CARRY);
    struct vg_gpusched_vm *late = gpusched_add(scenario, "late", 4, 0, 0);
    gpusched_add(scenario, "idle", 4, 0, 0);
    for (int i = 0; i < 2000; i++)
        gpusched_add_request(late, 0, 801 * MS, MS);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 0, 0, 801 * MS, 1001 * MS), 0.5, 0.011);
}

/* Weights count while both have work, and budgets never make it idle. */
static void
test_work_conserving(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) both =
        make_pair(VG_GPUSCHED_WORK_CONSERVING, SMALL, SMALL, false);
    check_pair(both, 1. / 3, 2. / 3, 0.005);

    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WORK_CONSERVING);
    gpusched_add(scenario, "a", 2, 3 * MS, 1);
    gpusched_add(scenario, "b", 4, 5 * MS, 1);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    const struct vg_gpusched_figures *all =
        &g_array_index(run->result->gpus, struct vg_gpusched_figures, 0);
    assert_true(all->busy_ns >= 10 * S - 2 * MS);
}

/* ---- weighted ---- */

/* At any time the one may be ahead of the other by the last request of each. */
static void
test_weighted(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario =
        make_pair(VG_GPUSCHED_WEIGHTED, 7 * MS, 2 * MS, false);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    for (int64_t end = 100 * MS; end <= 10 * S; end += 100 * MS) {
        double a = gpusched_share(run, 0, 0, 0, end) * (double)end / 2;
        double b = gpusched_share(run, 1, 0, 0, end) * (double)end / 4;
        gpusched_assert_near(a, b, 7. / 2 * MS + 2. / 4 * MS);
    }
}

/* A pause of 5 s is not made up for. */
static void
test_weighted_after_a_pause(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    gpusched_add(scenario, "busy", 4, MS, 2);
    struct vg_gpusched_vm *late = gpusched_add(scenario, "late", 4, 0, 0);
    for (int i = 0; i < 2000; i++)
        gpusched_add_request(late, 0, 5 * S, MS);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 0, 0, 5 * S, 6 * S), 0.5, 0.002);
}

/* ---- turns ---- */

static void
test_best_effort(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) small = make_pair(VG_GPUSCHED_BEST_EFFORT, SMALL, SMALL, false);
    g_autoptr(vg_gpusched_scenario) uncut = make_pair(VG_GPUSCHED_BEST_EFFORT, 80 * MS, MS, false);
    g_autoptr(vg_gpusched_scenario) cut = make_pair(VG_GPUSCHED_BEST_EFFORT, 80 * MS, MS, true);

    check_pair(small, 0.5, 0.5, 0.001);
    check_pair(uncut, 80. / 81, 1. / 81, 0.005); /* a turn each, however long */
    check_pair(cut, 0.5, 0.5, 0.001);
}

/* Whose turn is over goes on while nobody else has work: it is never cut. */
static void
test_best_effort_alone(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_BEST_EFFORT);
    scenario->preemptible = true;
    gpusched_add(scenario, "a", 4, 10 * MS, 1);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    assert_int_equal(gpusched_figures(run, 0, 0)->requests, 1000);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_PREEMPTED, 0, 0), -1);
}

/* A request of 2.5 ms, cut in turns of 1 ms, with a neighbour that always has work. */
static void
test_cut_and_resumed(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_BEST_EFFORT);
    scenario->preemptible = true;
    gpusched_add_request(gpusched_add(scenario, "a", 4, 0, 0), 0, 0, 2500000);
    gpusched_add(scenario, "b", 4, 10 * MS, 2);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    const struct vg_gpusched_figures *a = gpusched_figures(run, 0, 0);

    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, 0), 0);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_PREEMPTED, 0, 0), MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_RESUMED, 0, 0), 2 * MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_PREEMPTED, 0, 1), 3 * MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_RESUMED, 0, 1), 4 * MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_DONE, 0, 0), 4500000);
    assert_int_equal(a->exec_ns, 2500000);
    assert_int_equal(a->wait_ns, 2 * MS);
    assert_int_equal(a->latency_max_ns, 4500000);
    assert_int_equal(a->queue_len_max, 1);
}

static void
test_equal_share(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) small = make_pair(VG_GPUSCHED_EQUAL_SHARE, SMALL, SMALL, false);
    g_autoptr(vg_gpusched_scenario) uncut = make_pair(VG_GPUSCHED_EQUAL_SHARE, 80 * MS, MS, false);
    g_autoptr(vg_gpusched_scenario) cut = make_pair(VG_GPUSCHED_EQUAL_SHARE, 80 * MS, MS, true);

    check_pair(small, 0.5, 0.5, 0.001);
    check_pair(uncut, 0.5, 0.5, 0.01); /* what was overrun is paid back */
    check_pair(cut, 0.5, 0.5, 0.001);
}

/* Parts follow who is there, at once. */
static void
test_equal_share_of_those_started(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_EQUAL_SHARE);
    gpusched_add(scenario, "a", 4, SMALL, 2);
    gpusched_add(scenario, "b", 4, SMALL, 2)->stop_ns = 6 * S;
    gpusched_add(scenario, "c", 4, 0, 0)->start_ns = 3 * S;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 0, 0, 0, 3 * S), 1. / 2, 0.001);
    gpusched_assert_near(gpusched_share(run, 0, 0, 3 * S, 6 * S), 1. / 3, 0.001);
    gpusched_assert_near(gpusched_share(run, 0, 0, 6 * S, 10 * S), 1. / 2, 0.001);
}

static void
test_fixed_share(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_FIXED_SHARE);
    scenario->duration_ns = S;
    gpusched_add(scenario, "a", 4, SMALL / 4, 2)->share = 0.25;
    struct vg_gpusched_vm *b = gpusched_add(scenario, "b", 4, SMALL / 4, 2);
    b->share = 0.5;
    check_pair(scenario, 0.25, 0.5, 0.001);
    b->start_ns = S / 2;
    check_pair(scenario, 0.25, 0.25, 0.001);
    b->share = 0; /* what is left */
    b->start_ns = 0;
    check_pair(scenario, 0.25, 0.75, 0.001);
}

static void
test_quantum(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario =
        make_pair(VG_GPUSCHED_QUANTUM, 80 * MS, 80 * MS, true);
    struct vg_gpusched_vm *b = scenario->vms->pdata[1];
    b->quantum_ns = 3 * MS;
    check_pair(scenario, 0.25, 0.75, 0.001);
    scenario->preemptible = false; /* each turn is one request */
    check_pair(scenario, 0.5, 0.5, 0.01);
    b->quantum_ns = 0; /* it never ends */
    check_pair(scenario, 0.008, 0.992, 0.001);
}

/* Time in which both run, of two that have an engine each. */
static bool
run_together(enum vg_gpusched_mode mode)
{
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(mode);
    scenario->n_engines = 2;
    scenario->engines[1] = 1;
    scenario->preemptible = true;
    gpusched_add_job(gpusched_add(scenario, "a", 4, 0, 0), 0, 5 * MS, 2);
    gpusched_add_job(gpusched_add(scenario, "b", 4, 0, 0), 1, 5 * MS, 2);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    double sum = gpusched_figures(run, 0, 0)->share + gpusched_figures(run, 1, 1)->share;

    assert_true(sum > 0.99);
    return sum > 1.99;
}

static void
test_engines_together_or_alone(void **state)
{
    (void)state;
    assert_true(run_together(VG_GPUSCHED_WEIGHTED));
    assert_true(run_together(VG_GPUSCHED_BEST_EFFORT));
    assert_false(run_together(VG_GPUSCHED_EQUAL_SHARE));
    assert_false(run_together(VG_GPUSCHED_QUANTUM));
    assert_false(run_together(VG_GPUSCHED_GVTG));
}

/* ---- the life of requests ---- */

/* 0.2 ms before a request of another owner, nothing before one of the same. */
static void
test_switch_cost(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    scenario->switch_cost_ns = MS / 5;
    scenario->duration_ns = 100 * MS;
    struct vg_gpusched_vm *a = gpusched_add(scenario, "a", 4, 0, 0);
    gpusched_add_request(a, 0, 0, MS);
    gpusched_add_request(a, 0, 10 * MS, MS);
    gpusched_add_request(gpusched_add(scenario, "b", 4, 0, 0), 0, 20 * MS, MS);
    gpusched_add_request(a, 0, 30 * MS, MS);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_SUBMITTED, 0, 0), 0);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, 0), MS / 5);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, 1), 10 * MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 1, 0), 20 * MS + MS / 5);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, 2), 30 * MS + MS / 5);
    assert_int_equal(gpusched_figures(run, 0, 0)->wait_ns, 2 * MS / 5);
    assert_int_equal(gpusched_figures(run, 0, 0)->exec_ns, 3 * MS);
}

static void
test_percentiles(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
    scenario->duration_ns = 30 * S;
    for (int64_t i = 0; i < 100; i++)
        gpusched_add_request(vm, 0, i * 200 * MS, (i * 37 % 100 + 1) * MS); /* 1 to 100, shuffled */
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    const struct vg_gpusched_figures *figures = gpusched_figures(run, 0, 0);

    assert_int_equal(figures->requests, 100);
    assert_int_equal(figures->latency_mean_ns, 50500000);
    assert_int_equal(figures->latency_p50_ns, 50 * MS);
    assert_int_equal(figures->latency_p95_ns, 95 * MS);
    assert_int_equal(figures->latency_p99_ns, 99 * MS);
    assert_int_equal(figures->latency_max_ns, 100 * MS);
    assert_int_equal(figures->queue_len_max, 1);
}

/* Three requests of 10 ms at once: they wait 0, 10 and 20 ms of 100. */
static void
test_queue(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
    scenario->duration_ns = 100 * MS;
    for (int i = 0; i < 3; i++)
        gpusched_add_request(vm, 0, 0, 10 * MS);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    const struct vg_gpusched_figures *figures = gpusched_figures(run, 0, 0);

    assert_int_equal(figures->wait_ns, 30 * MS);
    gpusched_assert_near(figures->queue_len_avg, 0.3, 1e-12);
    assert_int_equal(figures->queue_len_max, 3);
}

/* A request that ends with the simulation is done, and nothing begins there. */
static void
test_end(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    scenario->duration_ns = 100 * MS;
    gpusched_add(scenario, "a", 4, 20 * MS, 1);
    gpusched_add(scenario, "never", 4, MS, 1)->start_ns = 100 * MS;
    g_autoptr(gpusched_run_t) exact = gpusched_run(scenario);
    assert_int_equal(gpusched_figures(exact, 0, 0)->requests, 5);
    assert_int_equal(gpusched_figures(exact, 0, 0)->partial, 0);
    assert_int_equal(gpusched_figures(exact, 0, 0)->busy_ns, 100 * MS);
    assert_int_equal(gpusched_figures(exact, 1, 0)->partial, 0);

    scenario->duration_ns = 100 * MS - 1;
    g_autoptr(gpusched_run_t) cut = gpusched_run(scenario);
    assert_int_equal(gpusched_figures(cut, 0, 0)->requests, 4);
    assert_int_equal(gpusched_figures(cut, 0, 0)->partial, 1);
    assert_int_equal(gpusched_figures(cut, 0, 0)->busy_ns, 100 * MS - 1);

    scenario->duration_ns = 1;
    g_autoptr(gpusched_run_t) shortest = gpusched_run(scenario);
    assert_int_equal(gpusched_figures(shortest, 0, 0)->partial, 1);
}

/* What waits is dropped, what runs ends first, and only then the VM is gone. */
static void
test_stop(void **state)
{
    (void)state;
    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make((enum vg_gpusched_mode)mode);
        struct vg_gpusched_vm *a = gpusched_add(scenario, "a", 4, 0, 0);
        a->stop_ns = 8 * MS;
        for (int i = 0; i < 3; i++)
            gpusched_add_request(a, 0, 0, 5 * MS);
        gpusched_add_request(a, 0, 20 * MS, MS);
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        const struct vg_gpusched_figures *figures = gpusched_figures(run, 0, 0);
        int64_t second = gpusched_time_of(run, VG_GPUSCHED_DONE, 0, 1);
        assert_int_equal(figures->requests, 2);
        assert_int_equal(figures->dropped, 1);
        assert_int_equal(figures->partial, 0);
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_DROPPED, 0, 0), 8 * MS);
        assert_in_range(second, 10 * MS, 11 * MS);
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_VM_STOP, 0, 0), second);
    }
}

/* Its last request is not cut: it would never go on. */
static void
test_stop_is_not_preempted(void **state)
{
    (void)state;
    for (int mode = VG_GPUSCHED_BEST_EFFORT; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        g_autoptr(vg_gpusched_scenario) scenario =
            make_pair((enum vg_gpusched_mode)mode, 5 * MS, SMALL, true);
        struct vg_gpusched_vm *a = scenario->vms->pdata[0];
        a->stop_ns = MS / 2;
        scenario->duration_ns = 2 * S;
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        assert_int_equal(gpusched_figures(run, 0, 0)->requests, 1);
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_VM_STOP, 0, 0), 5 * MS);
        assert_true(gpusched_figures(run, 1, 0)->share > 0.49);
    }
}

/* ---- recorded streams ---- */

static void
test_replay(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    scenario->n_engines = 2;
    scenario->engines[1] = 1;
    scenario->duration_ns = S;
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
    vm->start_ns = MS;
    gpusched_add_request(vm, 0, 0, 10 * MS); /* at the start of the VM */
    gpusched_add_request(vm, 1, 2 * MS, 4 * MS);
    gpusched_add_request(vm, 0, 3 * MS, 5 * MS);
    g_array_index(vm->stream, struct vg_gpusched_request, 2).think_ns = 7 * MS;

    g_autoptr(gpusched_run_t) open = gpusched_run(scenario);
    assert_int_equal(gpusched_time_of(open, VG_GPUSCHED_QUEUED, 0, 0), MS);
    assert_int_equal(gpusched_time_of(open, VG_GPUSCHED_QUEUED, 0, 1), 2 * MS);
    assert_int_equal(gpusched_time_of(open, VG_GPUSCHED_QUEUED, 0, 2), 3 * MS);

    vm->replay = VG_GPUSCHED_CLOSED; /* 1 + 10 + 7 */
    g_autoptr(gpusched_run_t) closed = gpusched_run(scenario);
    assert_int_equal(gpusched_time_of(closed, VG_GPUSCHED_QUEUED, 0, 0), MS);
    assert_int_equal(gpusched_time_of(closed, VG_GPUSCHED_QUEUED, 0, 1), 2 * MS);
    assert_int_equal(gpusched_time_of(closed, VG_GPUSCHED_QUEUED, 0, 2), 18 * MS);
    assert_int_equal(gpusched_figures(closed, 0, 0)->requests, 2);
}

static void
assert_queued(const struct gpusched_run *run, const int64_t *times_ms, size_t n)
{
    for (unsigned int i = 0; i < n; i++)
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_QUEUED, 0, i), times_ms[i] * MS);
    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_QUEUED, 0, (unsigned int)n), -1);
}

/* Requests of 10 ms. Two are there at a time: the second comes 1 ms after the first, each other one
 * 1 ms after the end of the one before the one before it, but not before that one. */
static void
test_replay_with_several_at_a_time(void **state)
{
    static const int64_t two[] = {0, 1, 11, 21};
    static const int64_t again[] = {0, 1, 11, 21, 45, 46, 56, 66, 90, 91};

    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    scenario->duration_ns = 100 * MS;
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
    vm->replay = VG_GPUSCHED_CLOSED;
    for (unsigned int i = 0; i < 4; i++) {
        gpusched_add_request(vm, 0, 0, 10 * MS);
        struct vg_gpusched_request *request =
            &g_array_index(vm->stream, struct vg_gpusched_request, i);
        request->ahead = i > 0;
        request->think_ns = i > 0 ? MS : 5 * MS;
    }
    g_autoptr(gpusched_run_t) once = gpusched_run(scenario);
    assert_queued(once, two, G_N_ELEMENTS(two));
    vm->repeat = true; /* the first again 5 ms after the end of all */
    g_autoptr(gpusched_run_t) repeated = gpusched_run(scenario);
    assert_queued(repeated, again, G_N_ELEMENTS(again));
}

/* ---- too much ---- */

static void
test_limits(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
    const struct vg_gpusched_job flood = {
        .loop = VG_GPUSCHED_OPEN,
        .size = {VG_GPUSCHED_FIXED, 1e9, 0},
        .gap = {VG_GPUSCHED_FIXED, 0, 0},
    };
    g_array_append_val(vm->jobs, flood);
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, NULL, NULL, NULL);
    g_autoptr(GError) error = NULL;
    assert_int_equal(vg_gpusched_run(sim, &error), -1);
    assert_int_equal(error->code, VG_E_INVALID);
    assert_non_null(strstr(error->message, "1000000 requests wait"));
    assert_non_null(strstr(error->message, "VM 'a'"));
    assert_int_equal(vg_gpusched_step(sim, NULL), -1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_neighbour),
        cmocka_unit_test(test_no_carry_of_debt),
        cmocka_unit_test(test_no_carry_of_credit),
        cmocka_unit_test(test_work_conserving),
        cmocka_unit_test(test_weighted),
        cmocka_unit_test(test_weighted_after_a_pause),
        cmocka_unit_test(test_best_effort),
        cmocka_unit_test(test_best_effort_alone),
        cmocka_unit_test(test_cut_and_resumed),
        cmocka_unit_test(test_equal_share),
        cmocka_unit_test(test_equal_share_of_those_started),
        cmocka_unit_test(test_fixed_share),
        cmocka_unit_test(test_quantum),
        cmocka_unit_test(test_engines_together_or_alone),
        cmocka_unit_test(test_switch_cost),
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_stop_is_not_preempted),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_replay_with_several_at_a_time),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
