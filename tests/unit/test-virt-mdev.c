/* SPDX-License-Identifier: Apache-2.0
 *
 * Mediated devices that vgpud has made are known by their UUIDs, and no others are.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "actuators/virt-mdev.h"

static void
test_own(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        g_autofree char *uuid = vg_mdev_uuid_new(), *next = vg_mdev_uuid_new();
        g_autofree char *upper = g_ascii_strup(uuid, -1);
        assert_true(g_uuid_string_is_valid(uuid));
        assert_int_equal(uuid[14], '8');
        assert_true(strchr("89ab", uuid[19]) != NULL);
        assert_string_not_equal(uuid, next);
        assert_true(vg_mdev_uuid_is_own(uuid));
        /* The kernel and libvirt write them as they like. */
        assert_true(vg_mdev_uuid_is_own(upper));
    }
}

static void
test_of_others(void **state)
{
    (void)state;
    assert_false(vg_mdev_uuid_is_own(NULL));
    assert_false(vg_mdev_uuid_is_own(""));
    assert_false(vg_mdev_uuid_is_own("0000:41:00.0"));
    assert_false(vg_mdev_uuid_is_own("c2177883-f1bb-47f0-914d-32a22e3a8804"));
    /* No other digit leaves it one of vgpud's. */
    g_autofree char *uuid = vg_mdev_uuid_new();
    for (size_t i = 0; uuid[i]; i++) {
        const char was = uuid[i];
        if (was == '-')
            continue;
        uuid[i] = was == '0' ? '1' : '0';
        assert_false(vg_mdev_uuid_is_own(uuid));
        uuid[i] = was;
    }
    for (int i = 0; i < 100; i++) {
        g_autofree char *random = g_uuid_string_random();
        random[14] = '8';
        assert_false(vg_mdev_uuid_is_own(random));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_own),
                                       cmocka_unit_test(test_of_others)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
