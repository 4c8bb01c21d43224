/* SPDX-License-Identifier: Apache-2.0
 *
 * VM maps: what is written is what is read, and what no map can say is refused.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "host/vm-map.h"

#define UUID "b0c6e1d4-77a2-4a5e-8d3c-000000000001"

static void
test_written_and_read(void **state)
{
    g_autoptr(GString) map = g_string_new(NULL);
    g_autoptr(vg_topology) topology = vg_topology_new();
    char name[VG_VM_NAME_MAX];

    (void)state;
    assert_int_equal(vg_vm_map_append(map, 100, "web-1", UUID, NULL), 0);
    assert_int_equal(vg_vm_map_append(map, 200, "#1;'\"", NULL, NULL), 0);
    assert_int_equal(vg_vm_map_append(map, VG_TID_LIMIT, "last", "", NULL), 0);
    assert_string_equal(map->str, "100 web-1 " UUID "\n200 #1;'\"\n4194304 last\n");
    assert_int_equal(vg_vm_map_apply("map", map->str, map->len, topology, NULL), 0);
    struct vg_thread *thread = vg_topology_thread(topology, 101);
    vg_topology_set_process(topology, thread, 100);
    assert_string_equal(vg_process_vm_name(vg_thread_process(thread), name), "web-1");
    assert_string_equal(vg_thread_process(thread)->uuid, UUID);
    thread = vg_topology_thread(topology, 200);
    assert_string_equal(vg_process_vm_name(vg_thread_process(thread), name), "#1;'\"");
}

static void
assert_refused(int32_t pid, const char *name, const char *uuid, const char *said)
{
    g_autoptr(GString) map = g_string_new("1 a\n");
    g_autoptr(GError) error = NULL;

    assert_int_equal(vg_vm_map_append(map, pid, name, uuid, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_INVALID));
    assert_non_null(strstr(error->message, said));
    assert_string_equal(map->str, "1 a\n");
}

static void
test_what_no_map_can_say(void **state)
{
    (void)state;
    assert_refused(2, "my vm", NULL, "'my vm' contains blanks");
    assert_refused(2, "a\tb", NULL, "blanks");
    assert_refused(2, "a\n3 b", NULL, "blanks");
    assert_refused(2, "", NULL, "1 to");
    assert_refused(2, "self", NULL, "aggressor");
    assert_refused(2, "host:kernel", NULL, "aggressor");
    assert_refused(2, UUID, NULL, "is a UUID");
    assert_refused(2, "a", "b0c6", "not a UUID");
    assert_refused(0, "a", NULL, "process ID");
    assert_refused(VG_TID_LIMIT + 1, "a", NULL, "process ID");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_and_read),
        cmocka_unit_test(test_what_no_map_can_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
