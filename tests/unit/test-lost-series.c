/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of which VM took how much of which: bounded, never falling, and exact together.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/clock.h"
#include "model/lost-series.h"

#define TOP     4
#define HOUR_NS (3600 * VG_NS_PER_S)

/* A run: its counters as they were, by "VM aggressor", and what the VM with id 1 lost in all. */
struct run {
    vg_lost_series *series;
    int64_t now_ns;
    GHashTable *before; /* aggressor -> int64_t */
    int64_t lost_ns;
    int64_t counted_ns; /* growths of all counters of VM 1 */
};

static void
add_vm(struct vg_window *window, uint32_t id)
{
    struct vg_vm_sample vm;

    vg_vm_sample_init(&vm);
    vm.id = id;
    g_snprintf(vm.name, sizeof(vm.name), "vm-%u", id);
    g_array_append_val(window->vms, vm);
}

static void
set_up_run(struct run *run)
{
    *run = (struct run){.series = vg_lost_series_new(TOP)};
    run->before = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

static void
tear_down_run(struct run *run)
{
    assert_int_equal(run->counted_ns, run->lost_ns);
    g_hash_table_unref(run->before);
    vg_lost_series_free(run->series);
}

/* Compares the counters of VM 1 with those before. */
static void
check(struct run *run)
{
    g_autoptr(GArray) list = vg_lost_series_list(run->series);
    GHashTable *now = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    guint n_named = 0;

    for (guint i = vg_lost_series_find(list, 1); i < list->len; i++) {
        const struct vg_lost_serie *serie = &g_array_index(list, struct vg_lost_serie, i);
        const char *name = serie->aggressor ? serie->aggressor : "other";
        if (serie->vm_id != 1)
            break;
        const int64_t *before = g_hash_table_lookup(run->before, name);
        assert_true(serie->ns >= (before ? *before : 0));
        run->counted_ns += serie->ns - (before ? *before : 0);
        n_named += serie->aggressor != NULL;
        int64_t *ns = g_new(int64_t, 1);
        *ns = serie->ns;
        assert_true(g_hash_table_insert(now, g_strdup(name), ns));
    }
    assert_true(n_named <= 2 * TOP);
    assert_int_equal(run->counted_ns, run->lost_ns);
    g_hash_table_unref(run->before);
    run->before = now;
}

/* A window of `seconds`, in which VM 1 loses ms[i] of each second to VM first + i. */
static void
lose(struct run *run, int seconds, uint32_t first, const int64_t *ms, guint n)
{
    struct vg_window window;

    vg_window_init(&window, false);
    window.begin_ns = run->now_ns;
    run->now_ns += seconds * VG_NS_PER_S;
    window.end_ns = run->now_ns;
    add_vm(&window, 1);
    for (guint i = 0; i < n; i++)
        add_vm(&window, first + i);
    for (guint i = 0; i < n; i++) {
        struct vg_lost_to lost = {
            .kind = VG_AGGRESSOR_VM, .vm_id = first + i, .ns = ms[i] * VG_NS_PER_MS * seconds};
        g_array_append_val(g_array_index(window.vms, struct vg_vm_sample, 0).lost_to, lost);
        run->lost_ns += lost.ns;
    }
    vg_lost_series_step(run->series, &window, false);
    vg_window_clear(&window);
    check(run);
}

static bool
has(const struct run *run, const char *name)
{
    return g_hash_table_contains(run->before, name);
}

/* A hog that comes when all places are taken gets a series; the one that it drove out keeps its own
 * for an hour, and counts in `other` then. */
static void
test_a_new_hog_appears(void **state)
{
    static const int64_t old[] = {40, 30, 20, 10}, all[] = {40, 30, 20, 10, 400};
    struct run run;

    (void)state;
    set_up_run(&run);
    for (int i = 0; i < 60; i++)
        lose(&run, 60, 10, old, 4);
    assert_true(has(&run, "vm-13") && !has(&run, "other"));
    lose(&run, 1, 10, all, 5);
    assert_true(has(&run, "other") && !has(&run, "vm-14"));
    for (int i = 0; i < 5; i++)
        lose(&run, 60, 10, all, 5);
    assert_true(has(&run, "vm-14") && has(&run, "vm-13"));
    for (int i = 0; i < 54; i++)
        lose(&run, 60, 10, all, 5);
    assert_true(has(&run, "vm-13"));
    for (int i = 0; i < 10; i++)
        lose(&run, 60, 10, all, 5);
    assert_false(has(&run, "vm-13"));
    assert_true(has(&run, "vm-10") && has(&run, "vm-12") && has(&run, "vm-14"));
    tear_down_run(&run);
}

/* 130 VMs that come and go: each takes much for some minutes and leaves. */
static void
test_many_come_and_go(void **state)
{
    static const int64_t ms[] = {50, 100, 150, 200, 100};
    struct run run;

    (void)state;
    set_up_run(&run);
    for (uint32_t i = 0; i < 130; i++) {
        for (int k = 0; k < 20; k++)
            lose(&run, 10, 10 + i, ms, 5);
    }
    /* Of those that left hours ago there is nothing. */
    for (int i = 0; i < 200; i++)
        lose(&run, 60, 1000, ms, 1);
    assert_int_equal(g_hash_table_size(run.before), 2);
    assert_true(has(&run, "vm-1000") && has(&run, "other"));
    tear_down_run(&run);
}

/* A VM that leaves ends its counters; one of another name begins anew; in a recording none leaves.
 */
static void
test_who_waited_leaves(void **state)
{
    struct vg_window window;

    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        vg_lost_series *series = vg_lost_series_new(TOP);
        for (int i = 0; i < 2; i++) {
            struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM, .vm_id = 2, .ns = 5};
            vg_window_init(&window, false);
            window.end_ns = i + 1;
            add_vm(&window, i == 0 ? 1 : 3);
            add_vm(&window, 2);
            g_array_append_val(g_array_index(window.vms, struct vg_vm_sample, 0).lost_to, lost);
            vg_lost_series_step(series, &window, keep == 1);
            vg_window_clear(&window);
        }
        g_autoptr(GArray) list = vg_lost_series_list(series);
        assert_int_equal(list->len, keep == 1 ? 2 : 1);
        assert_int_equal(g_array_index(list, struct vg_lost_serie, list->len - 1).vm_id, 3);
        assert_int_equal(vg_lost_series_find(list, 3), list->len - 1);
        assert_int_equal(vg_lost_series_find(list, 9), list->len);
        vg_lost_series_free(series);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_hog_appears),
        cmocka_unit_test(test_many_come_and_go),
        cmocka_unit_test(test_who_waited_leaves),
    };

    return cmocka_run_group_tests_name("lost-series", tests, NULL, NULL);
}
