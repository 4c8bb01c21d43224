/* SPDX-License-Identifier: Apache-2.0
 *
 * After a restart, vgpud knows the last 24 hours of its VMs from the store, and VMs that left.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glib.h>

#include "daemon/past-days.h"
#include "engine/departed.h"
#include "engine/engine.h"
#include "store-cases.h"

#define T0     (MIDNIGHT_NS + HOUR_NS)
#define HANG_S 60

/* The clock of the windows after the restart. */
#define OFFSET_NS (T0 + 3 * HOUR_NS - 7 * S_NS)

#define STAYS "00000000-0000-4000-8000-000000000001"
#define LEFT  "00000000-0000-4000-8000-000000000002"

static void
add_vm(struct vg_window *window, const char *name, const char *uuid, double cores)
{
    const int64_t length_ns = window->end_ns - window->begin_ns;
    struct vg_vm_sample vm;

    vg_vm_sample_init(&vm);
    vm.id = window->vms->len;
    vm.pid = 10 + (int32_t)window->vms->len;
    g_strlcpy(vm.name, name, sizeof(vm.name));
    g_strlcpy(vm.uuid, uuid, sizeof(vm.uuid));
    vm.cpu.run_ns = llround(cores * (double)length_ns) / 2;
    vm.cpu.preempt_ns = vm.cpu.run_ns;
    vm.cpu.observed_ns = length_ns;
    vm.cpu.blocked_ns = length_ns - vm.cpu.run_ns - vm.cpu.preempt_ns;
    const struct vg_vcpu_sample vcpu = {.tid = vm.pid + 100, .cpu = vm.cpu};
    g_array_append_val(vm.vcpus, vcpu);
    /* A part of the demand is that of its quota, which no other host serves. */
    const struct vg_lost_to limited = {.kind = VG_AGGRESSOR_LIMIT, .ns = length_ns / 10};
    g_array_append_val(vm.lost_to, limited);
    g_array_append_val(window->vms, vm);
}

/* Three hours, of which ten minutes are missing. One VM leaves after two hours. A VM without a UUID
 * has no past. */
static void
put_hours(vg_store *store)
{
    for (int minute = 0; minute < 180; minute++) {
        struct vg_window window;
        if (minute >= 90 && minute < 100)
            continue;
        vg_window_init(&window, false);
        window.begin_ns = T0 + minute * MIN_NS;
        window.end_ns = window.begin_ns + MIN_NS;
        add_vm(&window, "stays", STAYS, minute % 10 < 5 ? 0.8 : 0.4);
        if (minute < 120)
            add_vm(&window, "left", LEFT, 0.6);
        add_vm(&window, "unknown", "", 0.6);
        store_case_put_window(store, "live", &window, 0);
        vg_window_clear(&window);
    }
    assert_true(vg_store_flush(store, HANG_S * S_NS));
}

static const vg_day_past *
wait_for(const vg_past_days *days)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + HANG_S * S_NS;

    while (!vg_past_days_get(days) && vg_clock_monotonic_ns() < until_ns)
        g_usleep(1000);
    assert_non_null(vg_past_days_get(days));
    return vg_past_days_get(days);
}

static vg_snapshot *
snapshot_of(const vg_engine *engine)
{
    const struct vg_engine_part part = {.source = VG_SOURCE_LIVE};
    g_autoptr(vg_snapshot) description = vg_snapshot_new(VG_SOURCE_LIVE);
    const struct vg_snap_host *hosts[] = {vg_snapshot_add_host(description, "host")};
    vg_snapshot *snapshot = vg_engine_snapshot(engine, &part, hosts, 1, NULL);

    assert_non_null(snapshot);
    return snapshot;
}

static void
assert_near(const GArray *values, guint i, double expected)
{
    if (fabs(g_array_index(values, double, i) - expected) > 1e-6)
        fail_msg("value %u is %.9f, not %.9f", i, g_array_index(values, double, i), expected);
}

static void
check(const vg_snapshot *snapshot)
{
    const struct vg_snap_host *host = snapshot->hosts->pdata[0];
    const struct vg_snap_vm *vm = host->vms->pdata[0];

    assert_int_equal(host->vms->len, 1);
    assert_int_equal(vm->day.window_ns, VG_ENGINE_DAY_NS);
    assert_int_equal(vm->day.cpu->len, 36);
    assert_int_equal(vm->day.gpu->len, 0);
    /* The gap repeats the mean before it. */
    for (guint i = 0; i < 36; i++)
        assert_near(vm->day.cpu, i, (i % 2 == 0 && i != 18) ? 0.7 : 0.3);
    assert_int_equal(host->departed->len, 1);
    const struct vg_snap_departed *one = host->departed->pdata[0];
    assert_string_equal(one->uuid, LEFT);
    assert_int_equal(one->age_ns, HOUR_NS + MIN_NS);
    assert_int_equal(one->day.cpu->len, 24);
    for (guint i = 0; i < 24; i++)
        assert_near(one->day.cpu, i, 0.5);
}

static void
test_restart(void **state)
{
    struct vg_policy_config config;
    struct vg_window window;
    char *directory = store_case_directory();
    struct vg_store_options options = store_case_options(directory);
    vg_store *store;

    (void)state;
    options.log_commits = false;
    store = vg_store_new(&options, NULL);
    vg_policy_config_init(&config);
    put_hours(store);
    vg_engine *engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    vg_past_days *days = vg_past_days_new(store, T0 + 3 * HOUR_NS);
    const vg_day_past *past = wait_for(days);
    assert_false(vg_engine_restore_days(engine, "host", past, OFFSET_NS));
    vg_window_init(&window, false);
    window.begin_ns = T0 + 3 * HOUR_NS - OFFSET_NS;
    window.end_ns = window.begin_ns + MIN_NS;
    add_vm(&window, "stays", STAYS, 0.8);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
    assert_true(vg_engine_restore_days(engine, "host", past, OFFSET_NS));
    vg_past_days_free(days);
    vg_store_free(store);
    g_autoptr(vg_snapshot) snapshot = snapshot_of(engine);
    check(snapshot);
    vg_engine_free(engine);
    store_case_remove(directory);
}

/* A day has no gap of more than an hour, nor more than 24 hours. */
static void
test_bounds(void **state)
{
    static const int64_t gaps[] = {0, VG_DAY_GAP_MAX, VG_DAY_GAP_MAX + 1};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(gaps); i++) {
        g_autoptr(vg_day_past) past = vg_day_past_new();
        GPtrArray *departed = vg_departed_new();
        g_autoptr(GPtrArray) tracks = g_ptr_array_new();
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
        struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "host");
        int64_t end_ns = T0;
        for (int k = 0; k < 300; k++, end_ns += VG_ENGINE_DAY_NS)
            vg_day_past_add(past, LEFT, end_ns, 2, 0.5);
        for (int k = 0; k < 20; k++)
            vg_day_past_add(past, LEFT, end_ns + (gaps[i] + k) * VG_ENGINE_DAY_NS, 1, 0.25);
        vg_day_past_depart(past, 0, tracks, departed);
        vg_departed_read(departed, end_ns, host);
        const struct vg_snap_departed *one = host->departed->pdata[0];
        assert_int_equal(one->day.cpu->len, gaps[i] > VG_DAY_GAP_MAX ? 20 : 288);
        assert_int_equal(one->day.gpu->len, one->day.cpu->len);
        assert_near(one->day.cpu, 0, gaps[i] > VG_DAY_GAP_MAX ? 1 : 2);
        assert_near(one->day.gpu, one->day.gpu->len - 1, 0.25);
        g_ptr_array_unref(departed);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests_name("past-days", tests, NULL, NULL);
}
