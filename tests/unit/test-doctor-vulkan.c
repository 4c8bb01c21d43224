/* SPDX-License-Identifier: Apache-2.0
 *
 * What vgpuctl doctor says of Vulkan in VMs, on machines that are directories of files: one that
 * has all, and the same one without each piece.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "base/json.h"
#include "cli/doctor.h"
#include "cli/output.h"

#define LIB     "/usr/lib/x86_64-linux-gnu"
#define MODULE  LIB "/qemu/hw-display-virtio-gpu-gl.so"
#define VIRGL   LIB "/libvirglrenderer.so.1"
#define SERVER  "/usr/libexec/virgl_render_server"
#define DRIVER  "/usr/share/vulkan/icd.d/radeon_icd.json"
#define NODE    "/dev/dri/renderD128"
#define UDMABUF "/dev/udmabuf"
#define NOEXEC  "/proc/sys/vm/memfd_noexec"
#define CONF    "/etc/libvirt/qemu.conf"
#define RULES   "/etc/apparmor.d/abstractions/libvirt-qemu"
#define ENABLED "/sys/module/apparmor/parameters/enabled"
#define SPAWN   VG_PKGLIBEXECDIR "/vgpud-qemu-spawn"
#define NVIDIA  "/sys/module/nvidia/version"

static const struct {
    const char *path, *text;
} good[] = {
    {MODULE, "ELF venus virgl_renderer_resource_map"},
    {VIRGL, "/usr/libexec/virgl_render_server virgl_renderer_submit_cmd2"},
    {SERVER, ""},
    {DRIVER, ""},
    {"/usr/share/vulkan/icd.d/lvp_icd.json", ""},
    {NODE, ""},
    {UDMABUF, ""},
    {NOEXEC, "0\n"},
    {CONF, "#seccomp_sandbox = 1\n  seccomp_sandbox =  0\nseccomp_sandbox_x = 1\n"},
    {RULES, "/usr/libexec/virgl_render_server rix,\n"},
    {ENABLED, "Y\n"},
};

static char *root;

static void
write_file(const char *path, const char *text)
{
    g_autofree char *whole = g_strconcat(root, path, NULL);
    g_autofree char *dir = g_path_get_dirname(whole);

    assert_int_equal(g_mkdir_with_parents(dir, 0755), 0);
    assert_true(g_file_set_contents(whole, text, -1, NULL));
}

static int
setup(void **state)
{
    (void)state;
    root = g_dir_make_tmp("vg-doctor-XXXXXX", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++)
        write_file(good[i].path, good[i].text);
    return 0;
}

static int
remove_tree(const char *path)
{
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        g_autofree char *below = g_build_filename(path, name, NULL);
        remove_tree(below);
    }
    return g_remove(path);
}

static int
teardown(void **state)
{
    (void)state;
    int status = remove_tree(root);
    g_free(root);
    return status;
}

/* Returns the row of that name, or NULL. */
static json_object *
find_row(json_object *checks, const char *what)
{
    for (size_t i = 0; i < json_object_array_length(checks); i++) {
        json_object *check = json_object_array_get_idx(checks, i);
        if (strcmp(json_object_get_string(vg_output_member(check, "what")), what) == 0)
            return check;
    }
    return NULL;
}

static const char *
text_of(json_object *row, const char *member)
{
    const char *text = json_object_get_string(vg_output_member(row, member));

    return text ? text : "";
}

static void
test_all_is_there(void **state)
{
    static const char *const rows[] = {
        "Vulkan: QEMU",          "Vulkan: virglrenderer", "Vulkan: render server",
        "Vulkan: driver",        "Vulkan: render node",   "Vulkan: udmabuf",
        "Vulkan: shared memory", "Vulkan: sandbox",       "Vulkan: AppArmor"};
    g_autoptr(json_object) checks = json_object_new_array();

    (void)state;
    vg_doctor_read_vulkan(checks, root);
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_OK), G_N_ELEMENTS(rows));
    assert_int_equal(json_object_array_length(checks), G_N_ELEMENTS(rows));
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++)
        assert_non_null(find_row(checks, rows[i]));
    assert_non_null(strstr(text_of(find_row(checks, "Vulkan: driver"), "why"),
                           "lvp_icd.json, radeon_icd.json"));
    assert_non_null(
        strstr(text_of(find_row(checks, "Vulkan: sandbox"), "why"), "start any program"));
}

/* text NULL: the file is not there. */
static const struct {
    const char *path, *text, *what, *words, *mend;
} missing[] = {
    {MODULE, NULL, "Vulkan: QEMU", "no QEMU here", "apt install qemu-system-modules-opengl"},
    {MODULE, "virgl_renderer_resource_map", "Vulkan: QEMU", "QEMU 9.2 or newer", ""},
    {MODULE, "venus", "Vulkan: QEMU", "older than 1.0", ""},
    {VIRGL, NULL, "Vulkan: virglrenderer", "not installed", "apt install libvirglrenderer1"},
    {VIRGL, "virgl_renderer_submit_cmd2", "Vulkan: virglrenderer", "built without Venus", ""},
    {VIRGL, "virgl_render_server", "Vulkan: virglrenderer", "wire format 0", ""},
    {SERVER, NULL, "Vulkan: render server", "is not installed", "apt install virgl-server"},
    {NODE, NULL, "Vulkan: render node", "no render node", "modprobe vgem"},
    {UDMABUF, NULL, "Vulkan: udmabuf", "CONFIG_UDMABUF", "modprobe udmabuf"},
    {NOEXEC, "2\n", "Vulkan: shared memory", "memfd_noexec is 2", "sysctl vm.memfd_noexec=1"},
    {CONF, "seccomp_sandbox = 1\n", "Vulkan: sandbox", "spawn=deny", ""},
    {CONF, "# seccomp_sandbox = 0\n", "Vulkan: sandbox", "spawn=deny", ""},
    {CONF, NULL, "Vulkan: sandbox", "there is no " SPAWN, ""},
    {RULES, "/usr/bin/qemu rmix,\n", "Vulkan: AppArmor", "do not allow a program that they need",
     "/usr/libexec/virgl_render_server rix,"},
    {NVIDIA, "550.163.01\n", "Vulkan: driver", "NVIDIA's driver is 550.163", ""},
    {NVIDIA, "570.85\n", "Vulkan: driver", "570.86", ""},
    {"/dev/nvidiactl", "", "Vulkan: devices", "cgroup_device_acl", ""},
};

static void
test_each_piece_is_missed(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(missing); i++) {
        g_autoptr(json_object) checks = json_object_new_array();
        g_autofree char *path = g_strconcat(root, missing[i].path, NULL);
        g_autofree char *before = NULL;
        g_file_get_contents(path, &before, NULL, NULL);
        if (missing[i].text)
            write_file(missing[i].path, missing[i].text);
        else
            assert_int_equal(unlink(path), 0);
        vg_doctor_read_vulkan(checks, root);
        if (vg_doctor_count(checks, VG_HEALTH_LACKS) != 1)
            fail_msg("case %zu: %u lacks", i, vg_doctor_count(checks, VG_HEALTH_LACKS));
        json_object *row = find_row(checks, missing[i].what);
        assert_non_null(row);
        assert_string_equal(text_of(row, "state"), "lacks");
        if (!strstr(text_of(row, "why"), missing[i].words))
            fail_msg("case %zu: %s", i, text_of(row, "why"));
        if (!strstr(text_of(row, "mend"), missing[i].mend))
            fail_msg("case %zu: %s", i, text_of(row, "mend"));
        if (before)
            write_file(missing[i].path, before);
        else
            assert_int_equal(unlink(path), 0);
    }
}

/* Where no QEMU has 3D, or there is no libvirt, nothing else is said of what would only matter
 * then. */
static void
test_what_does_not_matter(void **state)
{
    g_autofree char *module = g_strconcat(root, MODULE, NULL);
    g_autofree char *conf = g_strconcat(root, CONF, NULL);
    g_autofree char *directory = g_path_get_dirname(conf);
    g_autoptr(json_object) bare = json_object_new_array();
    g_autoptr(json_object) plain = json_object_new_array();
    g_autoptr(json_object) whole = json_object_new_array();

    (void)state;
    assert_int_equal(unlink(conf), 0);
    assert_int_equal(rmdir(directory), 0);
    vg_doctor_read_vulkan(plain, root);
    assert_int_equal(vg_doctor_count(plain, VG_HEALTH_LACKS), 0);
    assert_null(find_row(plain, "Vulkan: sandbox"));

    assert_int_equal(unlink(module), 0);
    vg_doctor_read_vulkan(bare, root);
    assert_int_equal(json_object_array_length(bare), 1);

    /* A QEMU that is not built of modules. */
    write_file("/usr/bin/qemu-system-x86_64",
               "virgl_renderer_init venus virgl_renderer_resource_map");
    vg_doctor_read_vulkan(whole, root);
    assert_int_equal(vg_doctor_count(whole, VG_HEALTH_LACKS), 0);
    assert_non_null(strstr(text_of(find_row(whole, "Vulkan: QEMU"), "why"), "qemu-system-x86_64"));
}

static void
test_nvidia(void **state)
{
    g_autoptr(json_object) checks = json_object_new_array();

    (void)state;
    write_file(NVIDIA, "580.159.03\n");
    write_file("/dev/nvidiactl", "");
    write_file(CONF, "seccomp_sandbox = 0\n"
                     "cgroup_device_acl = [ \"/dev/nvidiactl\", \"/dev/nvidia0\" ]\n");
    write_file(RULES, "");
    write_file("/etc/apparmor.d/local/abstractions/libvirt-qemu",
               "/usr/libexec/virgl_render_server rix,\n");
    vg_doctor_read_vulkan(checks, root);
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_LACKS), 0);
    assert_non_null(find_row(checks, "Vulkan: devices"));
}

/* What lets one VM out of libvirt's sandbox, and what AppArmor has to know of it. */
static void
test_one_is_let_out(void **state)
{
    static const char local[] = "/etc/apparmor.d/local/abstractions/libvirt-qemu";
    static const char daemon[] = "/etc/apparmor.d/usr.sbin.libvirtd";
    g_autoptr(json_object) checks = json_object_new_array();
    g_autoptr(json_object) allowed = json_object_new_array();

    (void)state;
    write_file(CONF, "");
    write_file(SPAWN, "");
    write_file(daemon, "/usr/bin/* PUx,\n");
    vg_doctor_read_vulkan(checks, root);
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_LACKS), 2);
    assert_string_equal(text_of(find_row(checks, "Vulkan: sandbox"), "mend"),
                        "vgpuctl vulkan enable VM --loosen-sandbox");
    assert_non_null(strstr(text_of(find_row(checks, "Vulkan: AppArmor"), "why"), "spawn"));
    const char *mend = text_of(find_row(checks, "Vulkan: AppArmor"), "mend");
    assert_null(strstr(mend, "virgl_render_server"));
    assert_non_null(strstr(mend, "'" SPAWN " rmix,' >> "));
    assert_non_null(strstr(mend, "'" SPAWN " PUx,' >> /etc/apparmor.d/local/usr.sbin.libvirtd"));

    write_file(local, SPAWN " rmix,\n");
    write_file("/etc/apparmor.d/local/usr.sbin.libvirtd", SPAWN " PUx,\n");
    /* A QEMU that came after it. */
    g_usleep(1100000);
    write_file("/usr/bin/qemu-system-x86_64", "");
    vg_doctor_read_vulkan(allowed, root);
    assert_int_equal(vg_doctor_count(allowed, VG_HEALTH_LACKS), 2);
    assert_string_equal(text_of(find_row(allowed, "Vulkan: AppArmor"), "state"), "ok");
    assert_string_equal(text_of(find_row(allowed, "Vulkan: emulator"), "mend"), "touch " SPAWN);
}

/* qemu.conf may be root's alone. */
static void
test_conf_is_hidden(void **state)
{
    g_autofree char *conf = g_strconcat(root, CONF, NULL);
    g_autoptr(json_object) checks = json_object_new_array();

    (void)state;
    if (geteuid() == 0) {
        /* Root reads all files, but no directory as one. */
        assert_int_equal(unlink(conf), 0);
        assert_int_equal(mkdir(conf, 0700), 0);
    } else {
        assert_int_equal(chmod(conf, 0), 0);
    }
    vg_doctor_read_vulkan(checks, root);
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_LACKS), 1);
    assert_non_null(strstr(text_of(find_row(checks, "Vulkan: sandbox"), "why"), "only root can"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_each_piece_is_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_does_not_matter, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_is_let_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nvidia, setup, teardown),
        cmocka_unit_test_setup_teardown(test_conf_is_hidden, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
