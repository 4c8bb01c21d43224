/* SPDX-License-Identifier: Apache-2.0
 *
 * Which VM a name or a UUID means: a UUID in any case, a name as it is written, and nothing at all
 * where one of both is missing.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/vm-name.h"

#define UUID  "12ab34cd-0000-4000-8000-00000000abcd"
#define UPPER "12AB34CD-0000-4000-8000-00000000ABCD"

static void
test_names(void **state)
{
    (void)state;
    assert_true(vg_vm_is("guest0", "guest0", UUID));
    assert_true(vg_vm_is("guest0", "guest0", NULL));
    assert_false(vg_vm_is("Guest0", "guest0", UUID));
    assert_false(vg_vm_is("guest", "guest0", UUID));
    assert_false(vg_vm_is("guest00", "guest0", UUID));
}

static void
test_uuids(void **state)
{
    (void)state;
    assert_true(vg_vm_is(UUID, "guest0", UUID));
    assert_true(vg_vm_is(UPPER, "guest0", UUID));
    assert_true(vg_vm_is(UUID, "guest0", UPPER));
    assert_true(vg_vm_is(UPPER, NULL, UUID));
    assert_false(vg_vm_is("12ab34cd-0000-4000-8000-00000000abce", NULL, UUID));
}

static void
test_what_is_missing_matches_nothing(void **state)
{
    (void)state;
    assert_false(vg_vm_is(NULL, "guest0", UUID));
    assert_false(vg_vm_is(NULL, NULL, NULL));
    assert_false(vg_vm_is("", "", ""));
    assert_false(vg_vm_is("guest0", NULL, NULL));
    assert_false(vg_vm_is("guest0", "", ""));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_what_is_missing_matches_nothing),
    };

    return cmocka_run_group_tests_name("vm-name", tests, NULL, NULL);
}
