/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of several collectors gathered into one, and windows added up.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/gather.h"
#include "model/window-sum.h"

#define S INT64_C(1000000000)

/* A window that ends at end and has one VM with one vCPU, which ran for run_ns. */
static struct vg_window
window_of(int64_t end_ns, uint32_t id, const char *name, const char *uuid, int32_t pid,
          int64_t run_ns)
{
    struct vg_window window;
    struct vg_vm_sample vm;
    struct vg_vcpu_sample vcpu = {.tid = pid + 1, .index = 0};

    vg_window_init(&window, false);
    window.begin_ns = end_ns - S;
    window.end_ns = end_ns;
    vg_vm_sample_init(&vm);
    vm.id = id;
    vm.pid = pid;
    g_strlcpy(vm.name, name, sizeof(vm.name));
    g_strlcpy(vm.uuid, uuid, sizeof(vm.uuid));
    vcpu.cpu.observed_ns = S;
    vcpu.cpu.run_ns = run_ns;
    vcpu.cpu.blocked_ns = S - run_ns;
    vm.cpu = vcpu.cpu;
    g_array_append_val(vm.vcpus, vcpu);
    g_array_append_val(window.vms, vm);
    return window;
}

static enum vg_gather_taken
put(vg_gather *gather, unsigned int source, struct vg_window window, double confidence)
{
    const struct vg_provenance provenance = {.confidence = confidence, .cost_ns = 10};

    return vg_gather_put(gather, source, &window, &provenance, 0);
}

static struct vg_vm_sample *
vm_at(struct vg_window *window, guint i)
{
    return &g_array_index(window->vms, struct vg_vm_sample, i);
}

static void
test_a_window_waits_for_all_who_live(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, S, &gathered));
    put(gather, b, window_of(S, 7, "vm", "", 100, 9), 0.5);
    assert_true(vg_gather_next(gather, S, &gathered));
    /* The same pid is the same VM; the figures are those of the more trusted source. */
    assert_int_equal(gathered.window.vms->len, 1);
    assert_int_equal(vm_at(&gathered.window, 0)->cpu.run_ns, 5);
    assert_int_equal(gathered.provenance.cost_ns, 20);
    vg_window_clear(&gathered.window);
    assert_false(vg_gather_next(gather, S, &gathered));
}

static void
test_grace_is_one_window(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int a = vg_gather_add_source(gather);

    (void)state;
    vg_gather_add_source(gather);
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, 2 * S - 1, &gathered));
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    vg_window_clear(&gathered.window);
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.windows, 1);
    assert_int_equal(stats.incomplete, 1);
}

static void
test_who_is_known_to_be_late_has_more_grace(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    vg_gather_set_lag(gather, b, 3 * S);
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, 5 * S - 1, &gathered));
    assert_true(vg_gather_next(gather, 5 * S, &gathered));
    vg_window_clear(&gathered.window);
    /* The dead are late for nothing. */
    put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1);
    vg_gather_set_alive(gather, b, false);
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    vg_window_clear(&gathered.window);
}

static void
test_what_another_source_has_seen_was_not_missed(void **state)
{
    struct vg_provenance provenance = {.confidence = 1, .missed = 2};

    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        g_autoptr(vg_gather) gather = vg_gather_new(S);
        struct vg_gathered gathered;
        unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);
        vg_gather_set_alive(gather, b, seen);
        for (int64_t i = 1; i <= 3; i++) {
            if (i == 1)
                put(gather, a, window_of(i * S, 0, "vm", "", 100, 5), 1);
            if (seen)
                put(gather, b, window_of(i * S, 0, "vm", "", 100, 5), 0.5);
            while (vg_gather_next(gather, INT64_MAX, &gathered))
                vg_window_clear(&gathered.window);
        }
        struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
        vg_gather_put(gather, a, &window, &provenance, 0);
        assert_true(vg_gather_next(gather, INT64_MAX, &gathered));
        assert_int_equal(gathered.provenance.missed, seen ? 0 : 2);
        vg_window_clear(&gathered.window);
    }
}

static void
test_the_dead_are_not_waited_for(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, S, &gathered));
    vg_gather_set_alive(gather, b, false);
    assert_true(vg_gather_next(gather, S, &gathered));
    vg_window_clear(&gathered.window);
}

static void
test_late_and_twice_are_counted_and_dropped(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int a = vg_gather_add_source(gather);

    (void)state;
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_TAKEN);
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_DUPLICATE);
    assert_true(vg_gather_next(gather, 0, &gathered));
    vg_window_clear(&gathered.window);
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_DUPLICATE);
    assert_int_equal(put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1), VG_GATHER_LATE);
    assert_false(vg_gather_next(gather, INT64_MAX, &gathered));
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.windows, 1);
    assert_int_equal(stats.duplicates, 2);
    assert_int_equal(stats.late, 1);
}

static void
test_windows_come_in_order_and_do_not_overlap(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 1), 1);
    put(gather, a, window_of(2 * S, 0, "vm", "", 100, 2), 1);
    struct vg_window longer = window_of(2 * S, 0, "vm", "", 100, 3);
    longer.begin_ns = 0;
    put(gather, b, longer, 0.5);
    assert_true(vg_gather_next(gather, 0, &gathered));
    assert_int_equal(gathered.window.end_ns, S);
    vg_window_clear(&gathered.window);
    assert_true(vg_gather_next(gather, 0, &gathered));
    assert_int_equal(gathered.window.begin_ns, S);
    assert_int_equal(gathered.window.end_ns, 2 * S);
    vg_window_clear(&gathered.window);
}

static void
test_who_floods_does_not_wait_for_ever(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), n = 0;

    (void)state;
    vg_gather_add_source(gather);
    for (int i = 1; i <= 2 * VG_GATHER_PENDING_MAX; i++)
        put(gather, a, window_of(i * S, 0, "vm", "", 100, 1), 1);
    while (vg_gather_next(gather, 0, &gathered)) {
        vg_window_clear(&gathered.window);
        n++;
    }
    assert_int_equal(n, VG_GATHER_PENDING_MAX);
}

static void
test_ids_hold_and_are_not_given_twice(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather);
    uint32_t ids[3];

    (void)state;
    static const struct {
        uint32_t id;
        int32_t pid;
    } seen[] = {{4, 100}, {4, 100}, {5, 200}};
    for (int i = 0; i < 3; i++) {
        put(gather, a, window_of((i + 1) * S, seen[i].id, "vm", "", seen[i].pid, 1), 1);
        assert_true(vg_gather_next(gather, 0, &gathered));
        ids[i] = vm_at(&gathered.window, 0)->id;
        vg_window_clear(&gathered.window);
    }
    assert_int_equal(ids[0], ids[1]);
    assert_int_not_equal(ids[1], ids[2]);
}

static void
test_aggressors_keep_their_vm(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather);
    struct vg_window window = window_of(S, 9, "victim", "", 100, 1);
    struct vg_window other = window_of(S, 8, "aggressor", "", 200, 1);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM, .vm_id = 8, .ns = 3, .count = 1};

    (void)state;
    g_array_append_val(vm_at(&window, 0)->lost_to, lost);
    struct vg_vm_sample moved = *vm_at(&other, 0);
    vg_vm_sample_init(vm_at(&other, 0));
    g_array_append_val(window.vms, moved);
    vg_window_clear(&other);
    put(gather, a, window, 1);
    assert_true(vg_gather_next(gather, 0, &gathered));
    const struct vg_lost_to *kept =
        &g_array_index(vm_at(&gathered.window, 0)->lost_to, struct vg_lost_to, 0);
    assert_string_equal(vg_window_vm(&gathered.window, kept->vm_id)->name, "aggressor");
    vg_window_clear(&gathered.window);
}

/* ---- sums ---- */

static void
test_windows_add_up(void **state)
{
    struct vg_window sum, first = window_of(S, 1, "old-name", "", 100, 5);
    struct vg_window second = window_of(2 * S, 1, "name", "u", 100, 7);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_HOST_KERNEL, .ns = 3, .count = 1};
    int32_t cpus[] = {3, 1};

    (void)state;
    g_array_append_val(vm_at(&first, 0)->lost_to, lost);
    g_array_append_val(vm_at(&first, 0)->cpus, cpus[0]);
    lost.ns = 4;
    g_array_append_val(vm_at(&second, 0)->lost_to, lost);
    g_array_append_val(vm_at(&second, 0)->cpus, cpus[1]);
    first.lost_events = 2;
    vg_window_init(&sum, false);
    vg_window_add(&sum, &first);
    vg_window_add(&sum, &second);
    assert_int_equal(sum.begin_ns, 0);
    assert_int_equal(sum.end_ns, 2 * S);
    assert_int_equal(sum.lost_events, 2);
    assert_int_equal(sum.vms->len, 1);
    const struct vg_vm_sample *vm = vm_at(&sum, 0);
    assert_string_equal(vm->name, "name");
    assert_string_equal(vm->uuid, "u");
    assert_int_equal(vm->cpu.run_ns, 12);
    assert_int_equal(vm->vcpus->len, 1);
    assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 0).cpu.blocked_ns, 2 * S - 12);
    assert_int_equal(vm->lost_to->len, 1);
    assert_int_equal(g_array_index(vm->lost_to, struct vg_lost_to, 0).ns, 7);
    assert_int_equal(g_array_index(vm->cpus, int32_t, 0), 1);
    assert_int_equal(g_array_index(vm->cpus, int32_t, 1), 3);

    struct vg_window copy;
    vg_window_copy(&copy, &sum);
    vg_window_clear(&sum);
    assert_int_equal(vm_at(&copy, 0)->cpu.run_ns, 12);
    vg_window_clear(&copy);
    vg_window_clear(&first);
    vg_window_clear(&second);
}

static void
test_who_is_gone_is_forgotten_also_as_aggressor(void **state)
{
    struct vg_window sum, first = window_of(S, 1, "gone", "", 100, 5);
    struct vg_window second = window_of(2 * S, 2, "here", "", 200, 7);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM, .vm_id = 1, .ns = 3, .count = 1};

    (void)state;
    vg_window_init(&sum, false);
    vg_window_add(&sum, &first);
    g_array_append_val(vm_at(&second, 0)->lost_to, lost);
    vg_window_add(&sum, &second);
    assert_int_equal(sum.vms->len, 2);
    vg_window_keep_only(&sum, &second);
    assert_int_equal(sum.vms->len, 1);
    const struct vg_lost_to *kept = &g_array_index(vm_at(&sum, 0)->lost_to, struct vg_lost_to, 0);
    assert_int_equal(kept->kind, VG_AGGRESSOR_HOST_UNKNOWN);
    assert_int_equal(kept->ns, 3);
    vg_window_clear(&sum);
    vg_window_clear(&first);
    vg_window_clear(&second);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_window_waits_for_all_who_live),
        cmocka_unit_test(test_grace_is_one_window),
        cmocka_unit_test(test_who_is_known_to_be_late_has_more_grace),
        cmocka_unit_test(test_what_another_source_has_seen_was_not_missed),
        cmocka_unit_test(test_the_dead_are_not_waited_for),
        cmocka_unit_test(test_late_and_twice_are_counted_and_dropped),
        cmocka_unit_test(test_windows_come_in_order_and_do_not_overlap),
        cmocka_unit_test(test_who_floods_does_not_wait_for_ever),
        cmocka_unit_test(test_ids_hold_and_are_not_given_twice),
        cmocka_unit_test(test_aggressors_keep_their_vm),
        cmocka_unit_test(test_windows_add_up),
        cmocka_unit_test(test_who_is_gone_is_forgotten_also_as_aggressor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
