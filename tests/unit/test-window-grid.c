/* SPDX-License-Identifier: Apache-2.0
 *
 * When windows of the living host end, while its clock is corrected and set. The clocks are this
 * test's own.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/window-grid.h"

#define EPOCH_NS (INT64_C(1795200000) * VG_NS_PER_S)

static int64_t now_ns, offset_ns;

int64_t
vg_clock_monotonic_ns(void)
{
    return now_ns;
}

int64_t
vg_clock_realtime_ns(void)
{
    return now_ns + offset_ns;
}

int64_t
vg_clock_thread_cpu_ns(void)
{
    return 0;
}

int
vg_clock_poll(struct pollfd *fds, unsigned n, int64_t until_ns)
{
    (void)fds, (void)n, (void)until_ns;
    return 0;
}

static void
set(int64_t now, int64_t offset)
{
    now_ns = now;
    offset_ns = offset;
}

/* The end is a multiple of the length since the epoch. */
static int64_t
checked(const struct vg_window_end *end, int64_t window_ns)
{
    assert_int_equal((end->at_ns + end->offset_ns) % window_ns, 0);
    return end->at_ns;
}

/* Two hosts that were booted at odd times, with one clock. */
static void
test_hosts(void **state)
{
    static const int64_t lengths[] = {100 * VG_NS_PER_MS, VG_NS_PER_S, 7 * VG_NS_PER_S,
                                      60 * VG_NS_PER_S};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const int64_t boots[] = {EPOCH_NS - 12345678901, EPOCH_NS - 99 * VG_NS_PER_S - 1};
        int64_t ends[2][3];
        for (int host = 0; host < 2; host++) {
            g_autoptr(vg_window_grid) grid = vg_window_grid_new(lengths[i]);
            set(EPOCH_NS - boots[host] + 5, boots[host]);
            int64_t at_ns = now_ns;
            for (int k = 0; k < 3; k++) {
                const struct vg_window_end end = vg_window_grid_next(grid, at_ns);
                assert_true(end.at_ns > at_ns && end.at_ns - at_ns <= lengths[i]);
                at_ns = checked(&end, lengths[i]);
                ends[host][k] = end.at_ns + end.offset_ns;
            }
        }
        assert_memory_equal(ends[0], ends[1], sizeof(ends[0]));
    }
}

/* The clock runs fast or slow, and reading it jitters: both who share the grid have the same ends.
 */
static void
test_slewed(void **state)
{
    g_autoptr(vg_window_grid) grid = vg_window_grid_new(VG_NS_PER_S);
    struct vg_window_end first, end;

    (void)state;
    set(1234567, EPOCH_NS);
    end = vg_window_grid_next(grid, now_ns);
    for (int i = 0; i < 1000; i++) {
        const int64_t before_ns = end.at_ns;
        set(end.at_ns + 100, offset_ns + (i < 500 ? 500000 : -400000) + i % 7);
        first = vg_window_grid_next(grid, end.at_ns);
        offset_ns += 3;
        end = vg_window_grid_next(grid, before_ns);
        assert_memory_equal(&first, &end, sizeof(end));
        assert_in_range(end.at_ns - before_ns, 999000000, 1001000000);
        checked(&end, VG_NS_PER_S);
    }
}

/* The clock is set: no window is shorter than half its length, and none is longer than one and a
 * half. */
static void
test_set(void **state)
{
    static const int64_t steps[] = {3600 * VG_NS_PER_S + 300000000, -86400 * VG_NS_PER_S - 1,
                                    499999999, -500000001, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        g_autoptr(vg_window_grid) grid = vg_window_grid_new(VG_NS_PER_S);
        set(5, EPOCH_NS);
        const struct vg_window_end before = vg_window_grid_next(grid, now_ns);
        set(before.at_ns, offset_ns + steps[i]);
        const struct vg_window_end end = vg_window_grid_next(grid, before.at_ns);
        assert_in_range(end.at_ns - before.at_ns, VG_NS_PER_S / 2, VG_NS_PER_S * 3 / 2);
        assert_int_equal(end.offset_ns, offset_ns);
        checked(&end, VG_NS_PER_S);
    }
}

/* Who slept gets the last end before now, and who reports late the ends that others had. */
static void
test_late(void **state)
{
    g_autoptr(vg_window_grid) grid = vg_window_grid_new(VG_NS_PER_S);
    int64_t ends[20];

    (void)state;
    set(5, EPOCH_NS);
    ends[0] = vg_window_grid_next(grid, now_ns).at_ns;
    set(ends[0] + 15 * VG_NS_PER_S + 7, offset_ns + 3000);
    const struct vg_window_end last = vg_window_grid_last(grid, now_ns);
    assert_true(last.at_ns <= now_ns && now_ns - last.at_ns < VG_NS_PER_S);
    for (int i = 1; i < 20; i++) {
        ends[i] = vg_window_grid_next(grid, ends[i - 1]).at_ns;
        offset_ns += 1000;
    }
    int64_t at_ns = ends[0] - 1;
    for (int i = 0; i < 20; i++) {
        at_ns = vg_window_grid_next(grid, at_ns).at_ns;
        assert_int_equal(at_ns, ends[i]);
        assert_int_equal(vg_window_grid_last(grid, at_ns).at_ns, at_ns);
    }
    /* After a long sleep, and before all that is remembered. */
    set(now_ns + 100000 * VG_NS_PER_S, offset_ns);
    const struct vg_window_end woken = vg_window_grid_last(grid, now_ns);
    assert_true(woken.at_ns <= now_ns && now_ns - woken.at_ns < VG_NS_PER_S);
    const struct vg_window_end old = vg_window_grid_next(grid, ends[3]);
    assert_in_range(old.at_ns - ends[3], 1, VG_NS_PER_S);
    checked(&old, VG_NS_PER_S);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_slewed),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
