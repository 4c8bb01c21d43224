/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a plan still holds: each thing that may have changed since is named.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "policy/drift.h"

#define UUID "6f1b7a52-1c0e-4d3a-9d53-0d2c5f9a8e11"

static vg_snapshot *snapshot;
static struct vg_snap_host *from, *to;
static struct vg_snap_vm *vm;
static vg_plan *plan;
static struct vg_plan_action *action;

/* Two hosts, and a plan that moves the VM from one to the other. */
static int
set_up(void **state)
{
    (void)state;
    snapshot = vg_snapshot_new(VG_SOURCE_EXAMPLE);
    from = vg_snapshot_add_host(snapshot, "host-a");
    to = vg_snapshot_add_host(snapshot, "host-b");
    from->cpus = to->cpus = 8;
    vm = vg_snap_host_add_vm(from, "alpha");
    vm->uuid = g_strdup(UUID);
    plan = vg_plan_new();
    plan->id = g_strdup("plan-1");
    plan->input_hash = g_strdup("1234");
    action = vg_record_new(&vg_plan_action_record);
    action->vm = g_strdup("alpha");
    action->uuid = g_strdup(UUID);
    action->from = g_strdup("host-a");
    action->to = g_strdup("host-b");
    action->facts.vm = vg_snap_vm_facts_hash(from, vm);
    action->facts.from = vg_snap_host_facts_hash(from);
    action->facts.to = vg_snap_host_facts_hash(to);
    g_ptr_array_add(plan->actions, action);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    vg_plan_free(plan);
    vg_snapshot_free(snapshot);
    return 0;
}

/* Asserts that the plan does not hold, for this reason. */
static void
assert_drifted(const char *words)
{
    g_autoptr(GError) error = NULL;

    assert_int_equal(vg_drift_check(snapshot, plan, action, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    if (!strstr(error->message, words) || !strstr(error->message, "make a new plan"))
        fail_msg("'%s' does not say '%s'", error->message, words);
}

static void
test_it_holds(void **state)
{
    g_autoptr(GError) error = NULL;

    (void)state;
    assert_int_equal(vg_drift_check(snapshot, plan, action, &error), 0);
    /* What is measured of them may change. */
    vm->run_share = 3;
    assert_int_equal(vg_drift_check(snapshot, plan, action, &error), 0);
    assert_null(error);
}

static void
test_the_vm_is_gone(void **state)
{
    (void)state;
    g_free(vm->uuid);
    /* One of the same name is another VM. */
    vm->uuid = g_strdup("00000000-1c0e-4d3a-9d53-0d2c5f9a8e11");
    assert_drifted("VM 'alpha' is no longer on host 'host-a'");
    g_ptr_array_remove(from->vms, vm);
    vg_record_free(&vg_snap_vm_record, vm);
    assert_drifted("VM 'alpha' is no longer on host 'host-a'");
}

static void
test_the_vm_has_changed(void **state)
{
    (void)state;
    vm->memory_bytes = INT64_C(1) << 40;
    assert_drifted("VM 'alpha' has changed");
}

static void
test_a_host_has_changed(void **state)
{
    (void)state;
    to->cpus = 4;
    assert_drifted("host 'host-b' has changed");
    from->maintenance = true;
    assert_drifted("host 'host-a' has changed");
}

static void
test_a_host_does_not_answer(void **state)
{
    (void)state;
    g_ptr_array_remove(snapshot->hosts, to);
    vg_record_free(&vg_snap_host_record, to);
    assert_drifted("host 'host-b' of plan 'plan-1' does not answer");
    g_ptr_array_remove(snapshot->hosts, from);
    vg_record_free(&vg_snap_host_record, from);
    assert_drifted("host 'host-a' of plan 'plan-1' does not answer");
}

static void
test_what_the_plan_does_not_say(void **state)
{
    static const struct {
        const char *vm, *to, *hash, *words;
    } cases[] = {
        {"alpha", "host-b", "99", "the input_hash of plan 'plan-1' is 1234, not 99"},
        {"alpha", "host-a", NULL, "does not move 'alpha' to 'host-a'"},
        {"beta", "host-b", "1234", "does not move 'beta' to 'host-b'"},
    };
    g_autoptr(GError) none = NULL;

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) error = NULL;
        assert_null(vg_drift_find_action(plan, cases[i].vm, cases[i].to, cases[i].hash, &error));
        assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
        assert_non_null(strstr(error->message, cases[i].words));
    }
    assert_ptr_equal(vg_drift_find_action(plan, "alpha", "host-b", "1234", &none), action);
    assert_ptr_equal(
        vg_drift_find_action(plan, "6F1B7A52-1C0E-4D3A-9D53-0D2C5F9A8E11", "host-b", NULL, &none),
        action);
}

static void
test_groups(void **state)
{
    struct vg_snap_vm *other = vg_snap_host_add_vm(from, "beta");
    g_autoptr(GError) error = NULL;

    (void)state;
    g_ptr_array_add(vm->anti_affinity, g_strdup("db"));
    assert_int_equal(vg_drift_check_groups(vm, other, &error), 0);
    g_ptr_array_add(other->anti_affinity, g_strdup("web"));
    assert_int_equal(vg_drift_check_groups(vm, other, &error), 0);
    /* It is not in its own way. */
    assert_int_equal(vg_drift_check_groups(vm, vm, &error), 0);
    g_ptr_array_add(other->anti_affinity, g_strdup("db"));
    assert_int_equal(vg_drift_check_groups(vm, other, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    assert_non_null(strstr(error->message, "'beta' in the same anti-affinity group 'db'"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_holds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_vm_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_vm_has_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_host_has_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_host_does_not_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_the_plan_does_not_say, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_groups, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
