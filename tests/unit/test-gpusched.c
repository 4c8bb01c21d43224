/* SPDX-License-Identifier: Apache-2.0
 *
 * GVT-g's scheduler: what is known of it, one test for each, and shares that a simulation which is
 * not this one found (one engine, steps of 1 us).
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/gpusched-cases.h"

#define SHARE_TOLERANCE 0.003

/* ---- what it does ---- */

static void
test_weights(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "light", 2, MS * 3 / 10, 2);
    gpusched_add(scenario, "heavy", 4, MS * 3 / 10, 2);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    for (int64_t second = 0; second < 10; second++) {
        gpusched_assert_near(gpusched_share(run, 0, 0, second * S, (second + 1) * S), 1. / 3, 0.01);
        gpusched_assert_near(gpusched_share(run, 1, 0, second * S, (second + 1) * S), 2. / 3, 0.01);
    }
}

/* The neighbour is idle, and still half of the GPU is not for the one that has work. */
static void
test_not_work_conserving(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "busy", 4, MS, 2);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    for (int64_t at = MS; at + 100 * MS <= 10 * S; at += 100 * MS)
        gpusched_assert_near(gpusched_share(run, 0, 0, at, at + 100 * MS), 0.5, 0.011);
}

/* What a vGPU did not use in eight periods it may use in the ninth and tenth, alone and above its
 * share; then that is forgotten. */
static void
test_credit_carries(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "idle", 4, 0, 0);
    struct vg_gpusched_vm *late = gpusched_add(scenario, "late", 4, 0, 0);
    for (int i = 0; i < 2000; i++)
        gpusched_add_request(late, 0, 801 * MS, MS);
    scenario->duration_ns = 3 * S;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 1, 0, 801 * MS, 1001 * MS), 1, 0.001);
    gpusched_assert_near(gpusched_share(run, 1, 0, 1001 * MS, 2001 * MS), 0.5, 0.002);
}

static void
assert_starts(const struct gpusched_run *run, uint32_t vm, const int64_t *starts_ms, size_t n)
{
    for (unsigned int i = 0; i < n; i++)
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, vm, i), starts_ms[i] * MS);
}

/* 50 ms each 100 ms for jobs of 80 ms. Left after each balance, beginning at 1 ms: 50 runs to -30,
 * 20 runs to -60, -10, 40 to -40, 10 to -70, -20, 30 to -50, 0, 50 to -30, 20 to -60; then debt is
 * forgiven. */
static void
test_debt_carries(void **state)
{
    (void)state;
    static const int64_t starts[] = {1, 101, 301, 401, 601, 801, 901, 1001, 1101, 1301};
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "long", 4, 80 * MS, 2);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    assert_starts(run, 0, starts, G_N_ELEMENTS(starts));
}

/* Time between two switches. All requests are there from the start: an arrival would let it choose
 * earlier. */
static void
check_alternation(int64_t size_ns, int64_t least_ns, int64_t most_ns)
{
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    struct vg_gpusched_vm *a = gpusched_add(scenario, "a", 4, 0, 0);
    struct vg_gpusched_vm *b = gpusched_add(scenario, "b", 4, 0, 0);
    scenario->duration_ns = S / 2;
    for (int i = 0; i < 5000; i++) {
        gpusched_add_request(a, 0, 0, size_ns);
        gpusched_add_request(b, 0, 0, size_ns);
    }
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    int64_t last = -1;
    unsigned int switches = 0;
    for (unsigned int i = 0; i < run->records->len; i++) {
        const struct vg_gpusched_record *record =
            &g_array_index(run->records, struct vg_gpusched_record, i);
        if (record->kind != VG_GPUSCHED_SWITCH)
            continue;
        assert_int_equal(record->engine, VG_GPUSCHED_ALL_ENGINES);
        if (last >= 0)
            assert_in_range(record->ts_ns - last, least_ns, most_ns);
        last = record->ts_ns;
        switches++;
    }
    assert_in_range(switches, S / 2 / most_ns - 1, S / 2 / least_ns + 1);
}

static void
test_alternation(void **state)
{
    (void)state;
    check_alternation(MS / 10, MS, MS);
    check_alternation(MS * 3 / 10, MS * 9 / 10, MS * 12 / 10);
    check_alternation(5 * MS, 5 * MS, 5 * MS);
}

/* It has the GPU for 2 s and pays for it: 250 ms of budget since the last reset, 499 ms used, so
 * that it waits until four more balances have made up for that. */
static void
test_newcomer(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "old", 4, MS, 2);
    struct vg_gpusched_vm *newcomer = gpusched_add(scenario, "new", 4, MS, 2);
    newcomer->start_ns = 3500 * MS;
    newcomer->start_priority = true;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 1, 0, 3501 * MS, 5500 * MS), 1, 0);
    gpusched_assert_near(gpusched_share(run, 1, 0, 5502 * MS, 5900 * MS), 0, 0);
    gpusched_assert_near(gpusched_share(run, 1, 0, 6001 * MS, 7001 * MS), 0.5, 0.002);
}

static void
test_removal(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "stays", 4, MS, 2);
    gpusched_add(scenario, "goes", 4, MS, 2)->stop_ns = 2300 * MS;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_share(run, 0, 0, 2401 * MS, 3001 * MS), 0.5, 0.02);
    gpusched_assert_near(gpusched_share(run, 0, 0, 3001 * MS, 4001 * MS), 1, 0.001);
}

/* A decoder's request of 40 ms makes a renderer wait for as long, although its engine is free. */
static void
test_engines_switch_together(void **state)
{
    (void)state;
    for (int mode = VG_GPUSCHED_GVTG; mode <= VG_GPUSCHED_BEST_EFFORT; mode++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make((enum vg_gpusched_mode)mode);
        scenario->n_engines = 2;
        scenario->engines[1] = 2; /* vcs0 */
        gpusched_add_job(gpusched_add(scenario, "decodes", 4, 0, 0), 1, 40 * MS, 1);
        gpusched_add_job(gpusched_add(scenario, "renders", 4, 0, 0), 0, MS, 1);
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        int64_t worst = gpusched_figures(run, 1, 0)->latency_max_ns;
        if (mode == VG_GPUSCHED_WEIGHTED || mode == VG_GPUSCHED_BEST_EFFORT)
            assert_int_equal(worst, MS);
        else
            assert_true(worst >= 40 * MS);
    }
}

/* Started between two resets it has nothing until the next; while it was not there, it earned
 * nothing. */
static void
test_not_listed_earns_nothing(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "there", 4, 0, 0);
    gpusched_add(scenario, "late", 4, MS, 2)->start_ns = 850 * MS;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 1, 0), 1001 * MS);
    gpusched_assert_near(gpusched_share(run, 1, 0, 1001 * MS, 2001 * MS), 0.5, 0.002);
}

/* ---- shares of another simulation ---- */

static void
check_shares(uint32_t weight_a, int64_t size_a, uint32_t weight_b, int64_t size_b, double share_a,
             double share_b)
{
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "a", weight_a, size_a, 2);
    if (weight_b > 0)
        gpusched_add(scenario, "b", weight_b, size_b, 2);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_figures(run, 0, 0)->share, share_a, SHARE_TOLERANCE);
    if (size_b > 0)
        gpusched_assert_near(gpusched_figures(run, 1, 0)->share, share_b, SHARE_TOLERANCE);
}

static void
test_shares(void **state)
{
    (void)state;
    check_shares(2, MS * 3 / 10, 4, MS * 3 / 10, 0.334, 0.665);
    check_shares(4, MS * 3 / 10, 4, 0, 0.501, 0);
    check_shares(4, MS * 3 / 10, 0, 0, 0.999, 0);
    check_shares(4, 20 * MS, 4, MS, 0.500, 0.499);
    check_shares(4, 80 * MS, 4, MS, 0.560, 0.439);
}

static void
test_shares_of_newcomer(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    scenario->duration_ns = 5 * S;
    gpusched_add(scenario, "a", 4, MS * 3 / 10, 2);
    struct vg_gpusched_vm *b = gpusched_add(scenario, "b", 4, MS * 3 / 10, 2);
    b->start_ns = 3 * S;
    b->start_priority = true;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_figures(run, 0, 0)->share, 0.600, SHARE_TOLERANCE);
    gpusched_assert_near(gpusched_figures(run, 1, 0)->share, 0.400, SHARE_TOLERANCE);
}

/* ---- the old generation ---- */

static struct vg_gpusched_scenario *
make_old(void)
{
    struct vg_gpusched_scenario *scenario = gpusched_make(VG_GPUSCHED_GVTG);

    scenario->generation = VG_GPUSCHED_OLD;
    return scenario;
}

static void
test_old_weights(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = make_old();
    gpusched_add(scenario, "light", 2, MS * 3 / 10, 2);
    gpusched_add(scenario, "heavy", 4, MS * 3 / 10, 2);
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    gpusched_assert_near(gpusched_figures(run, 0, 0)->share, 1. / 3, 0.01);
    gpusched_assert_near(gpusched_figures(run, 1, 0)->share, 2. / 3, 0.01);
}

/* An arrival on an idle GPU is served at once by the new generation and at the next tick by the
 * old; both have had their first balance. */
static void
test_old_has_no_kick(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
        scenario->generation = old ? VG_GPUSCHED_OLD : VG_GPUSCHED_NEW;
        gpusched_add_request(gpusched_add(scenario, "a", 4, 0, 0), 0, 10 * MS + MS / 3, MS);
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        assert_int_equal(gpusched_time_of(run, VG_GPUSCHED_STARTED, 0, 0),
                         old ? 11 * MS : 10 * MS + MS / 3);
    }
}

static void
test_old_has_no_priority(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = make_old();
    gpusched_add(scenario, "a", 4, MS, 2);
    struct vg_gpusched_vm *b = gpusched_add(scenario, "b", 4, MS, 2);
    b->start_ns = 3 * S;
    b->start_priority = true;
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);

    assert_true(gpusched_share(run, 1, 0, 3 * S, 5 * S) < 0.52);
    gpusched_assert_near(gpusched_share(run, 1, 0, 5 * S, 10 * S), 0.5, 0.01);
}

/* A tick chooses the current vGPU anew, which only the end of all that is in flight lets it become:
 * meanwhile nothing is taken. */
static void
test_old_switches_to_itself(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
        scenario->generation = old ? VG_GPUSCHED_OLD : VG_GPUSCHED_NEW;
        scenario->duration_ns = 100 * MS;
        scenario->n_engines = 2;
        scenario->engines[1] = 1;
        struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, 0, 0);
        gpusched_add_job(vm, 0, 10 * MS, 2);
        gpusched_add_job(vm, 1, MS / 10, 2);
        g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
        gpusched_assert_near(gpusched_figures(run, 0, 1)->share, old ? 0.1 : 0.99, 0.011);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_not_work_conserving),
        cmocka_unit_test(test_credit_carries),
        cmocka_unit_test(test_debt_carries),
        cmocka_unit_test(test_alternation),
        cmocka_unit_test(test_newcomer),
        cmocka_unit_test(test_removal),
        cmocka_unit_test(test_engines_switch_together),
        cmocka_unit_test(test_not_listed_earns_nothing),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_shares_of_newcomer),
        cmocka_unit_test(test_old_weights),
        cmocka_unit_test(test_old_has_no_kick),
        cmocka_unit_test(test_old_has_no_priority),
        cmocka_unit_test(test_old_switches_to_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
