/* SPDX-License-Identifier: Apache-2.0
 *
 * A collector that counts, and what becomes of its windows under each fault.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/fault.h"
#include "tests/unit/collector-run.h"

#define WINDOWS 200
#define MS      VG_NS_PER_MS

/* ---- a collector whose n-th window ends at n: a status, windows, the end ---- */

static atomic_bool counted; /* all is put */

static void
count(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    sink->put(sink->data, vg_report_status(collector->ops->name, VG_COLLECTOR_OK, "counting"));
    for (int n = 1; n <= WINDOWS; n++) {
        vg_report *report = vg_report_new(VG_REPORT_WINDOW, collector->ops->name);
        vg_window_init(&report->window, false);
        report->window.end_ns = n;
        sink->put(sink->data, report);
    }
    sink->put(sink->data, vg_report_new(VG_REPORT_END, collector->ops->name));
    atomic_store(&counted, true);
    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + 10 * MS))
        continue;
}

static void
free_counting(vg_collector *collector)
{
    g_free(collector);
}

static const struct vg_collector_ops counting_ops = {
    .name = "counting",
    .measures_windows = true,
    .run = count,
    .free = free_counting,
};

static vg_collector *
counting_new(void)
{
    vg_collector *collector = g_new0(vg_collector, 1);

    collector->ops = &counting_ops;
    return collector;
}

static struct collector_run *
start(const char *spec)
{
    g_autoptr(GError) err = NULL;
    vg_collector *fault = vg_fault_new(counting_new(), spec, &err);

    if (!fault)
        fail_msg("%s", err->message);
    assert_string_equal(fault->ops->name, "counting");
    assert_true(fault->ops->measures_windows);
    atomic_store(&counted, false);
    return collector_run_start(fault);
}

/* The ends of all windows that came through. */
static GArray *
ends(struct collector_run *run, bool *ret_ended)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(int64_t));

    *ret_ended = false;
    for (;;) {
        bool last = atomic_load(&counted);
        g_autoptr(vg_report) report = collector_run_next(run, last ? 0 : MS);
        if (!report && last)
            return all;
        if (!report)
            continue;
        assert_false(*ret_ended);
        *ret_ended = report->kind == VG_REPORT_END;
        if (report->kind == VG_REPORT_WINDOW)
            g_array_append_val(all, report->window.end_ns);
    }
}

static int64_t
end_at(const GArray *all, unsigned i)
{
    return g_array_index(all, int64_t, i);
}

/* ---- the faults ---- */

static void
test_drop(void **state)
{
    bool ended;
    struct collector_run *run = start("drop:0.5,seed:3");
    g_autoptr(GArray) all = ends(run, &ended);

    (void)state;
    /* Six sigma of 200 throws. */
    assert_in_range(all->len, 100 - 43, 100 + 43);
    for (unsigned i = 1; i < all->len; i++)
        assert_true(end_at(all, i) > end_at(all, i - 1));
    assert_true(ended);
    collector_run_stop(run);

    /* The same seed does the same. */
    run = start("seed:3,drop:0.5");
    g_autoptr(GArray) again = ends(run, &ended);
    assert_int_equal(again->len, all->len);
    assert_memory_equal(again->data, all->data, all->len * sizeof(int64_t));
    collector_run_stop(run);

    run = start("drop:1");
    g_autoptr(GArray) none = ends(run, &ended);
    assert_int_equal(none->len, 0);
    assert_true(ended);
    collector_run_stop(run);
}

static void
test_duplicate(void **state)
{
    bool ended;
    struct collector_run *run = start("duplicate:1");
    g_autoptr(GArray) all = ends(run, &ended);

    (void)state;
    assert_int_equal(all->len, 2 * WINDOWS);
    for (unsigned i = 0; i < all->len; i++)
        assert_int_equal(end_at(all, i), i / 2 + 1);
    collector_run_stop(run);
}

static void
test_reorder(void **state)
{
    bool ended;
    struct collector_run *run = start("reorder:1");
    g_autoptr(GArray) all = ends(run, &ended);

    (void)state;
    /* 2 1 4 3 6 5 ... */
    assert_int_equal(all->len, WINDOWS);
    for (unsigned i = 0; i < all->len; i++)
        assert_int_equal(end_at(all, i), (i ^ 1) + 1);
    assert_true(ended);
    collector_run_stop(run);
}

static void
test_delay(void **state)
{
    struct collector_run *run = start("delay:1:20ms");

    (void)state;
    int64_t before_ns = vg_clock_monotonic_ns();
    for (int n = 1; n <= 3; n++) {
        g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
        assert_int_equal(report->window.end_ns, n);
    }
    assert_true(vg_clock_monotonic_ns() - before_ns > 40 * MS);
    /* It does not hold up the end of the thread. */
    collector_run_stop(run);
}

static void
test_silence(void **state)
{
    bool ended;
    struct collector_run *run = start("silence:30");
    g_autoptr(GArray) all = ends(run, &ended);

    (void)state;
    assert_int_equal(all->len, 30);
    assert_false(ended);
    assert_true(atomic_load(&counted));
    collector_run_await_beats(collector_run_thread(run), 2);
    collector_run_stop(run);
}

static void
test_hang(void **state)
{
    struct collector_run *run = start("hang:30");

    (void)state;
    for (int n = 1; n <= 30; n++) {
        g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
        assert_int_equal(report->window.end_ns, n);
    }
    /* Its heart stands still; it would beat every 10 ms. */
    while (vg_thread_silence_ns(collector_run_thread(run)) < 300 * MS) {
        assert_false(atomic_load(&counted));
        g_usleep(1000);
    }
    assert_null(collector_run_next(run, 0));
    assert_false(vg_thread_ended(collector_run_thread(run)));
    collector_run_stop(run);
}

static void
test_several(void **state)
{
    bool ended;
    struct collector_run *run = start("drop:0.1, duplicate:0.1,reorder:0.2,silence:150");
    g_autoptr(GArray) all = ends(run, &ended);

    (void)state;
    assert_in_range(all->len, 100, 200);
    collector_run_stop(run);
}

static void
test_bad_text(void **state)
{
    static const struct {
        const char *spec;
        const char *says;
    } cases[] = {
        {"", "the faults are"},
        {"drip:0.1", "fault 'drip:0.1': unknown fault; the faults are drop:RATE"},
        {"drop", "the faults are"},
        {"drop:", "not a rate"},
        {"drop:1.5", "'1.5' is not a rate"},
        {"drop:-0.1", "not a rate"},
        {"drop:nan", "not a rate"},
        {"drop:0.1x", "not a rate"},
        {"drop:0.1:3ms", "the faults are"},
        {"delay:0.1", "the faults are"},
        {"delay:0.1:300", "'300' is not a duration"},
        {"delay:0.1:-3ms", "not a duration"},
        {"delay:0.1:61s", "not a duration"},
        {"delay:0.1:99999999999999999999s", "not a duration"},
        {"silence:-1", "not a count"},
        {"silence:x", "not a count"},
        {"hang:1.5", "not a count"},
        {"drop:0.1,", "the faults are"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        assert_null(vg_fault_new(counting_new(), cases[i].spec, &err));
        assert_int_equal(err->code, VG_E_INVALID);
        if (!strstr(err->message, cases[i].says))
            fail_msg("'%s' says: %s", cases[i].spec, err->message);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drop),    cmocka_unit_test(test_duplicate),
        cmocka_unit_test(test_reorder), cmocka_unit_test(test_delay),
        cmocka_unit_test(test_silence), cmocka_unit_test(test_hang),
        cmocka_unit_test(test_several), cmocka_unit_test(test_bad_text),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
