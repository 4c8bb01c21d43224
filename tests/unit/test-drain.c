/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the emptying of a host is.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/drain.h"

static struct vg_drain_vm *
add(vg_drain *drain, const char *name, enum vg_drain_step step, const char *to)
{
    struct vg_drain_vm *vm = vg_drain_add(drain, name, NULL);

    vm->step = step;
    vm->to = g_strdup(to);
    vm->seconds = 2;
    return vm;
}

static void
says_how_far_it_is(void **state)
{
    g_autoptr(vg_drain) drain = vg_drain_new();

    (void)state;
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_DONE);
    struct vg_drain_vm *vm = add(drain, "a", VG_DRAIN_WAITS, "h2");
    add(drain, "b", VG_DRAIN_MOVES, "h2");
    add(drain, "c", VG_DRAIN_MOVED, "h2");
    add(drain, "d", VG_DRAIN_STAYS, NULL);
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_RUNNING);
    assert_int_equal(drain->moved, 1);
    assert_int_equal(drain->left, 3);
    assert_float_equal(drain->eta_s, 4, 1e-9);
    vm->step = VG_DRAIN_MOVED;
    ((struct vg_drain_vm *)drain->vms->pdata[1])->step = VG_DRAIN_MOVED;
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_BLOCKED);
    assert_int_equal(drain->left, 1);
}

/* Only what has no host now waits, and only while one that has left is still seen here. */
static void
waits_for_those_that_have_left(void **state)
{
    g_autoptr(vg_drain) drain = vg_drain_new();

    (void)state;
    const struct vg_drain_vm *none = add(drain, "a", VG_DRAIN_STAYS, NULL);
    const struct vg_drain_vm *failed = add(drain, "b", VG_DRAIN_STAYS, "h2");
    vg_drain_wait_for_moved(drain);
    assert_int_equal(none->step, VG_DRAIN_STAYS);
    const struct vg_drain_vm *left = add(drain, "c", VG_DRAIN_MOVED, "h2");
    vg_drain_wait_for_moved(drain);
    vg_drain_settle(drain);
    assert_int_equal(none->step, VG_DRAIN_WAITS);
    assert_int_equal(failed->step, VG_DRAIN_STAYS);
    assert_int_equal(left->step, VG_DRAIN_MOVED);
    assert_int_equal(drain->state, VG_DRAIN_RUNNING);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_far_it_is),
        cmocka_unit_test(waits_for_those_that_have_left),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
