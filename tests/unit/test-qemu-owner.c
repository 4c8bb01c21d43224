/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes are libvirt's QEMU, and which only look like it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "host/domain-xml.h"
#include "host/qemu-owner.h"
#include "tests/unit/fake-proc.h"

static void
make_process(const char *proc, int pid, const char *user, const char *group)
{
    g_autofree char *status_path = g_strdup_printf("%s/%d/status", proc, pid);
    g_autofree char *status =
        g_strdup_printf("Name:\tUid:\t0\nUmask:\t0022\nUid:\t77\t%s\t77\t77\nGid:\t0\n", user);
    g_autofree char *group_path = g_strdup_printf("%s/%d/cgroup", proc, pid);

    fake_proc_process(proc, pid, "qemu", 1, 1, "qemu", sizeof("qemu"));
    fake_proc_write(status_path, status, strlen(status));
    fake_proc_write(group_path, group, strlen(group));
}

static void
test_user(void **state)
{
    const char *proc = *state;

    make_process(proc, 10, "64055", "0::/user.slice\n");
    make_process(proc, 11, "1000", "0::/user.slice\n");
    make_process(proc, 12, "0", "0::/\n");
    vg_qemu_owner_set_user(-1);
    assert_false(vg_qemu_owner_is(proc, 10, -1));
    assert_true(vg_qemu_owner_is(proc, 10, 64055));
    assert_false(vg_qemu_owner_is(proc, 11, 64055));
    /* Root is no exception, unless libvirt starts QEMU as root. */
    assert_false(vg_qemu_owner_is(proc, 12, 64055));
    assert_true(vg_qemu_owner_is(proc, 12, 0));
    vg_qemu_owner_set_user(64055);
    assert_true(vg_qemu_owner_is(proc, 10, -1));
    assert_false(vg_qemu_owner_is(proc, 11, -1));
    assert_true(vg_qemu_owner_is(proc, 11, 1000));
    assert_false(vg_qemu_owner_is(proc, 99, -1));
    vg_qemu_owner_set_user(-1);
}

static void
test_group(void **state)
{
    static const struct {
        const char *group;
        bool is_libvirts;
    } cases[] = {
        {"0::/machine.slice/machine-qemu\\x2d3\\x2dalpha.scope/libvirt/emulator\n", true},
        {"12:cpu:/machine/qemu-3-alpha.libvirt-qemu/emulator\n1:name=systemd:/\n", true},
        {"4:memory:/\n1:name=systemd:/machine.slice/machine-qemu\\x2d3\\x2dalpha.scope\n", true},
        /* Users have groups of their own below those that systemd gives them. */
        {"0::/user.slice/user-1000.slice/user@1000.service/machine.slice/"
         "machine-qemu\\x2d3.scope\n",
         false},
        {"0::/machine.slice/libpod-1.scope\n", false},
        {"0::/machine.slice\n", false},
        {"/machine.slice/machine-qemu", false},
        {"", false},
    };
    const char *proc = *state;

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        make_process(proc, 20 + (int)i, "1000", cases[i].group);
        assert_int_equal(vg_qemu_owner_is(proc, 20 + (int)i, -1), cases[i].is_libvirts);
    }
}

static void
test_labels(void **state)
{
    (void)state;
    assert_int_equal(vg_qemu_owner_parse_label("+64055:+108"), 64055);
    assert_int_equal(vg_qemu_owner_parse_label("107"), 107);
    assert_int_equal(vg_qemu_owner_parse_label("root:root"), 0);
    assert_int_equal(vg_qemu_owner_parse_label("+0:+0"), 0);
    static const char *const bad[] = {NULL,    "",   ":",          "+",
                                      "+x:+0", "-1", "4294967295", "nobody-has-this"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        assert_int_equal(vg_qemu_owner_parse_label(bad[i]), -1);
}

static void
test_capabilities(void **state)
{
    static const char xml[] =
        "<capabilities><host><secmodel><model>apparmor</model><doi>0</doi></secmodel>"
        "<secmodel><model>dac</model><doi>0</doi><baselabel type='kvm'>+64055:+64055</baselabel>"
        "<baselabel type='qemu'>+64055:+64055</baselabel></secmodel></host></capabilities>";

    (void)state;
    assert_int_equal(vg_capabilities_xml_user(xml), 64055);
    assert_int_equal(vg_capabilities_xml_user("<capabilities><host/></capabilities>"), -1);
    assert_int_equal(vg_capabilities_xml_user("<domain/>"), -1);
}

static void
test_pid_file(void **state)
{
    const char *dir = *state;
    g_autofree char *path = g_strdup_printf("%s/alpha.pid", dir);

    assert_int_equal(vg_qemu_owner_read_pid(dir, "alpha"), 0);
    fake_proc_write(path, "4711\n", 5);
    assert_int_equal(vg_qemu_owner_read_pid(dir, "alpha"), 4711);
    assert_int_equal(vg_qemu_owner_read_pid(dir, "./alpha"), 0);
    fake_proc_write(path, "-1\n", 3);
    assert_int_equal(vg_qemu_owner_read_pid(dir, "alpha"), 0);
    fake_proc_write(path, "99999999\n", 9);
    assert_int_equal(vg_qemu_owner_read_pid(dir, "alpha"), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_PROC_TEST(test_user),     FAKE_PROC_TEST(test_group),
        cmocka_unit_test(test_labels), cmocka_unit_test(test_capabilities),
        FAKE_PROC_TEST(test_pid_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
