/* SPDX-License-Identifier: Apache-2.0
 *
 * What vgpuctl doctor makes of machines that are directories of files, and of what vgpud tells.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/doctor.h"
#include "cli/output.h"
#include "model/trouble.h"

static char *root;

static int
setup(void **state)
{
    (void)state;
    root = g_dir_make_tmp("vg-doctor-XXXXXX", NULL);
    return root ? 0 : -1;
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

static void
write_file(const char *path, const char *text)
{
    g_autofree char *whole = g_strconcat(root, path, NULL);
    g_autofree char *dir = g_path_get_dirname(whole);

    assert_int_equal(g_mkdir_with_parents(dir, 0755), 0);
    assert_true(g_file_set_contents(whole, text, -1, NULL));
}

static json_object *
find_check(json_object *checks, const char *what)
{
    for (size_t i = 0; i < json_object_array_length(checks); i++) {
        json_object *check = json_object_array_get_idx(checks, i);
        if (strcmp(json_object_get_string(vg_output_member(check, "what")), what) == 0)
            return check;
    }
    return NULL;
}

/* That what is `health`, for a reason with these words. */
static void
assert_check(json_object *checks, const char *what, enum vg_health health, const char *words)
{
    json_object *check = find_check(checks, what);

    if (!check)
        fail_msg("nothing is said of %s", what);
    assert_string_equal(json_object_get_string(vg_output_member(check, "state")),
                        vg_health_names[health]);
    const char *why = json_object_get_string(vg_output_member(check, "why"));
    if (!strstr(why, words))
        fail_msg("%s: '%s' says nothing of '%s'", what, why, words);
}

static void
assert_mend(json_object *checks, const char *what, const char *mend)
{
    json_object *value = vg_output_member(find_check(checks, what), "mend");

    if (mend)
        assert_string_equal(json_object_get_string(value), mend);
    else
        assert_null(value);
}

static json_object *
look(void)
{
    json_object *checks = json_object_new_array();
    g_autofree char *socket = g_strconcat(root, "/vgpud.sock", NULL);

    vg_doctor_look_around(checks, socket, root);
    return checks;
}

static void
test_bare_machine(void **state)
{
    (void)state;
    g_autoptr(json_object) checks = look();

    assert_check(checks, "process", VG_HEALTH_BROKEN, "is not running");
    assert_check(checks, "socket", VG_HEALTH_BROKEN, "No such file");
    assert_check(checks, "bpf", VG_HEALTH_LACKS, "unknown");
    assert_check(checks, "tracefs", VG_HEALTH_LACKS, "not mounted");
    assert_check(checks, "kvm", VG_HEALTH_LACKS, "no /dev/kvm");
    assert_check(checks, "libvirt", VG_HEALTH_LACKS, "not installed");
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_OK), 0);
}

static void
test_good_machine(void **state)
{
    (void)state;
    write_file("/proc/77/comm", "vgpud\n");
    write_file("/proc/78/comm", "vgpuctl\n");
    write_file("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
    write_file("/sys/kernel/btf/vmlinux", "");
    write_file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    write_file("/sys/kernel/tracing/events/enable", "");
    write_file("/dev/kvm", "");
    g_autoptr(json_object) checks = look();

    assert_check(checks, "process", VG_HEALTH_OK, "process 77");
    assert_check(checks, "bpf", VG_HEALTH_OK, "6.1.0-28-amd64");
    assert_check(checks, "tracefs", VG_HEALTH_OK, "mounted");
    assert_check(checks, "kvm", VG_HEALTH_OK, "/dev/kvm");
    assert_check(checks, "libvirt", VG_HEALTH_LACKS, "not installed");
    assert_int_equal(vg_doctor_count(checks, VG_HEALTH_BROKEN), 1); /* the socket */
}

static void
test_kernels_without_bpf(void **state)
{
    (void)state;
    write_file("/proc/sys/kernel/osrelease", "5.7.19\n");
    g_autoptr(json_object) old = look();
    assert_check(old, "bpf", VG_HEALTH_LACKS, "5.7.19 is too old");
    assert_mend(old, "bpf", "apt install linux-image-amd64");

    write_file("/proc/sys/kernel/osrelease", "5.10.0\n");
    g_autoptr(json_object) untyped = look();
    assert_check(untyped, "bpf", VG_HEALTH_LACKS, "no type information");
    assert_mend(untyped, "bpf", "apt install linux-image-amd64");

    write_file("/sys/kernel/btf/vmlinux", "");
    write_file("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
    g_autoptr(json_object) locked = look();
    assert_check(locked, "bpf", VG_HEALTH_LACKS, "lockdown=integrity");
}

/* Packages have the names of the distribution. */
static void
test_distributions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *command;
    } cases[] = {
        {"PRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\nID=ubuntu\nID_LIKE=debian\n", "ubuntu"},
        {"ID=neon\nID_LIKE=\"ubuntu debian\"\n", "ubuntu"},
        {"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n", "debian"},
        {"ID=other\nHOME_URL=\"https://ubuntu.example/\"\n", "debian"},
        {"", "debian"},
    };

    assert_string_equal(vg_doctor_by_distribution(root, "debian", "ubuntu"), "debian");
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        write_file("/etc/os-release", cases[i].text);
        assert_string_equal(vg_doctor_by_distribution(root, "debian", "ubuntu"), cases[i].command);
    }
    write_file("/etc/os-release", cases[0].text);
    write_file("/proc/sys/kernel/osrelease", "5.7.19\n");
    g_autoptr(json_object) checks = look();
    assert_mend(checks, "bpf", "apt install linux-image-generic");
}

/* ---- what vgpud tells ---- */

static json_object *
read_host(const char *text, const char *metrics)
{
    json_object *checks = json_object_new_array();
    g_autoptr(json_object) host = json_tokener_parse(text);

    assert_non_null(host);
    vg_doctor_read_host(checks, host, metrics);
    return checks;
}

#define PART(name, state, ready, reason)                                                           \
 "{\"name\":\"" name "\",\"state\":\"" state "\",\"ready\":" ready ",\"reason\":\"" reason "\"}"
#define PART_OF(code, name, state, ready, reason)                                                  \
 "{\"code\":\"" code "\",\"name\":\"" name "\",\"state\":\"" state "\",\"ready\":" ready           \
 ",\"reason\":\"" reason "\"}"

static void
test_parts(void **state)
{
    (void)state;
    g_autoptr(json_object) checks = read_host(
        "{\"name\":\"h\",\"daemon\":{\"setup\":{\"acting\":true,\"gpu\":false}},\"parts\":["
        /* One part in a line. */
        PART("engine", "starting", "false", "no window has been closed yet") "," PART_OF(
            "disk-full", "store", "failed", "false",
            "there is no room left") "," PART("journal", "failed", "false",
                                              "it is damaged") "," PART_OF("libvirt-denied",
                                                                           "collector:libvirt",
                                                                           "failed", "true",
                                                                           "it is shut") "]}",
        "");

    assert_check(checks, "engine", VG_HEALTH_LACKS, "no window");
    assert_check(checks, "store", VG_HEALTH_BROKEN, "no room");
    assert_mend(checks, "store", "df -h");
    assert_check(checks, "journal", VG_HEALTH_BROKEN, "damaged");
    assert_mend(checks, "journal", "journalctl -u vgpud -n 20");
    assert_check(checks, "libvirt", VG_HEALTH_LACKS, "shut");
    assert_mend(checks, "libvirt", "adduser vgpud libvirt && systemctl restart vgpud");
    assert_check(checks, "acting", VG_HEALTH_BROKEN, "without libvirt");
    assert_check(checks, "gpu", VG_HEALTH_LACKS, "enable=no");
}

/* The words of an older vgpud, which has no codes, and codes of a newer one choose no advice. */
static void
test_words_are_no_codes(void **state)
{
    (void)state;
    g_autoptr(json_object) checks =
        read_host("{\"name\":\"h\",\"parts\":[" PART(
                      "collector:libvirt", "failed", "true",
                      "libvirt-sock-ro: Permission denied") "," PART("store", "failed", "false",
                                                                     "database or disk is "
                                                                     "full") "," PART_OF("yet"
                                                                                         "-to"
                                                                                         "-co"
                                                                                         "me",
                                                                                         "col"
                                                                                         "lec"
                                                                                         "tor"
                                                                                         ":gp"
                                                                                         "u",
                                                                                         "fai"
                                                                                         "le"
                                                                                         "d",
                                                                                         "tru"
                                                                                         "e",
                                                                                         "CAP"
                                                                                         "_SY"
                                                                                         "S_"
                                                                                         "PTR"
                                                                                         "AC"
                                                                                         "E") "]}",
                  "");

    assert_mend(checks, "libvirt", NULL);
    assert_mend(checks, "store", "journalctl -u vgpud -n 20");
    assert_mend(checks, "gpu", NULL);
}

/* Every trouble has a code, and no two have the same. */
static void
test_codes(void **state)
{
    (void)state;
    for (int i = VG_TROUBLE_NONE + 1; i < VG_TROUBLE_MAX; i++) {
        assert_non_null(vg_trouble_names[i]);
        for (int k = VG_TROUBLE_NONE + 1; k < i; k++)
            assert_string_not_equal(vg_trouble_names[k], vg_trouble_names[i]);
    }
}

/* A detail stays with an error that is passed on, copied, and told with more words. */
static void
test_details(void **state)
{
    GError *error = NULL, *passed = NULL;

    (void)state;
    assert_int_equal(vg_error_detail(NULL), 0);
    assert_int_equal(vg_error_set_detail(NULL, 1), -1);
    vg_error(&error, VG_E_IO, "it is full");
    assert_int_equal(vg_error_detail(error), VG_TROUBLE_NONE);
    assert_int_equal(vg_error_set_detail(&error, VG_TROUBLE_DISK_FULL), -1);
    g_prefix_error(&error, "writing: ");
    g_propagate_error(&passed, error);
    g_autoptr(GError) copy = g_error_copy(passed);
    g_clear_error(&passed);
    assert_int_equal(vg_error_detail(copy), VG_TROUBLE_DISK_FULL);
    assert_string_equal(copy->message, "writing: it is full");
    g_autoptr(GError) foreign = g_error_new_literal(G_FILE_ERROR, G_FILE_ERROR_NOSPC, "full");
    vg_error_set_detail(&foreign, VG_TROUBLE_DISK_FULL);
    assert_int_equal(vg_error_detail(foreign), 0);
}

/* Checks the row of host b. */
static void
assert_tls(const char *setup, const char *peer, enum vg_health health, const char *why)
{
    g_autofree char *host_text =
        g_strdup_printf("{\"name\":\"a\",\"daemon\":{\"setup\":{\"acting\":true,%s}}}", setup);
    g_autofree char *peers_text = g_strdup_printf("{\"items\":[{\"host\":\"b\",%s}]}", peer);
    g_autoptr(json_object) host = json_tokener_parse(host_text);
    g_autoptr(json_object) peers = json_tokener_parse(peers_text);
    g_autoptr(json_object) checks = json_object_new_array();

    assert_non_null(host);
    assert_non_null(peers);
    vg_doctor_read_tls(checks, host, peers);
    assert_check(checks, "tls to b", health, why);
}

static void
test_tls(void **state)
{
    static const char uri[] = "\"libvirt_uri\":\"qemu+tls://b/system\"";
    static const char ready[] =
        "\"libvirt_uri\":\"qemu+tls://b/system\",\"migration_tls\":\"ready\"";
    g_autoptr(json_object) old = json_tokener_parse("{\"daemon\":{\"setup\":{\"acting\":true}}}");
    g_autoptr(json_object) peers = json_tokener_parse("{\"items\":[{\"host\":\"b\","
                                                      "\"libvirt_uri\":\"qemu+tls://b/system\"}]}");
    g_autoptr(json_object) none = json_object_new_array();

    (void)state;
    assert_tls("\"tls\":\"auto\",\"migration_tls\":\"ready\"", ready, VG_HEALTH_OK, "use TLS");
    assert_tls("\"tls\":\"auto\",\"migration_tls\":\"missing\"", ready, VG_HEALTH_LACKS,
               "clear text: QEMU's TLS certificates are missing on 'a'");
    assert_tls("\"tls\":\"auto\",\"migration_tls\":\"ready\"", uri, VG_HEALTH_LACKS,
               "does not report QEMU's TLS certificates on 'b'");
    assert_tls("\"tls\":\"yes\",\"migration_tls\":\"missing\"", ready, VG_HEALTH_BROKEN,
               "VMs cannot be moved to it");
    assert_tls("\"tls\":\"no\",\"migration_tls\":\"ready\"", ready, VG_HEALTH_OK, "clear text");
    /* An older vgpud, which says nothing of it. */
    vg_doctor_read_tls(none, old, peers);
    assert_int_equal(json_object_array_length(none), 0);
}

static void
test_store(void **state)
{
    (void)state;
    static const char host[] =
        "{\"daemon\":{\"setup\":{\"store\":{\"directory\":\"/a b\",\"raw_days\":2,"
        "\"minute_days\":30,\"hour_days\":400}}},\"parts\":[" PART("store", "ok", "true", "") "]}";
    g_autoptr(json_object) well =
        read_host(host, "# HELP vgpud_store_free_bytes x\nvgpud_store_free_bytes 5e9\n"
                        "vgpud_store_size_bytes 2097152\nvgpud_store_windows_dropped_total 0\n");
    g_autoptr(json_object) lost =
        read_host(host, "vgpud_store_free_bytes 5e9\nvgpud_store_windows_dropped_total 3\n");
    g_autoptr(json_object) small = read_host(host, "vgpud_store_free_bytes 1000000");

    assert_check(well, "store", VG_HEALTH_OK, "2.0 MiB in /a b, 4.7 GiB free; it retains");
    assert_check(lost, "store", VG_HEALTH_LACKS, "3 windows lost");
    assert_check(small, "store", VG_HEALTH_LACKS, "which is little");
    assert_string_equal(
        json_object_get_string(vg_output_member(find_check(small, "store"), "mend")),
        "df -h '/a b'");
}

/* Makes a PCI function. driver and group: NULL for none. */
static void
add_function(const char *address, const char *class, const char *driver, const char *group)
{
    g_autofree char *at = g_strconcat("/sys/bus/pci/devices/", address, NULL);
    g_autofree char *dir = g_strconcat(root, at, NULL);
    const struct {
        const char *name, *below, *to;
    } links[] = {{"driver", "/sys/bus/pci/drivers/", driver},
                 {"iommu_group", "/sys/kernel/iommu_groups/", group}};

    g_autofree char *file = g_strconcat(at, "/class", NULL);
    write_file(file, class);
    for (size_t i = 0; i < G_N_ELEMENTS(links); i++) {
        if (!links[i].to)
            continue;
        g_autofree char *link = g_build_filename(dir, links[i].name, NULL);
        g_autofree char *to = g_strconcat(root, links[i].below, links[i].to, NULL);
        assert_int_equal(symlink(to, link), 0);
    }
    if (group) {
        g_autofree char *member =
            g_strdup_printf("/sys/kernel/iommu_groups/%s/devices/%s", group, address);
        write_file(member, "");
    }
}

static void
add_types(const char *address, const char *first, const char *second)
{
    const char *const room[] = {first, second};

    for (int i = 0; i < 2; i++) {
        g_autofree char *file = g_strdup_printf("/sys/bus/pci/devices/%s/mdev_supported_types/"
                                                "nvidia-%d/available_instances",
                                                address, i);
        write_file(file, room[i]);
    }
}

static void
test_cards(void **state)
{
    (void)state;
    g_autoptr(json_object) checks = json_object_new_array();

    add_function("0000:00:01.0", "0x060400\n", "pcieport", "5");
    add_function("0000:00:02.0", "0x030000\n", "i915", NULL);
    /* A card with audio, whose root port is in the group, too. */
    add_function("0000:05:00.0", "0x030000\n", "nouveau", "5");
    add_function("0000:05:00.1", "0x040300\n", "snd_hda_intel", "5");
    add_function("0000:06:00.0", "0x038000\n", "bochs-drm", "6");
    add_function("0000:06:00.1", "0x020000\n", "e1000e", "6");
    /* Nothing of the host has the neighbour of this one. */
    add_function("0000:07:00.0", "0x120000\n", "habanalabs", "7");
    add_function("0000:07:01.0", "0x020000\n", "vfio-pci", "7");
    add_function("0000:08:00.0", "0x030200\n", NULL, "8");
    add_function("0000:09:00.0", "0x030200\n", "nvidia", "9");
    add_types("0000:09:00.0", "0\n", "0\n");
    add_function("0000:0a:00.0", "0x030200\n", "nvidia", "10");
    add_types("0000:0a:00.0", "0\n", "4\n");
    vg_doctor_read_cards(checks, root);
    assert_int_equal(json_object_array_length(checks), 7);
    assert_check(checks, "GPU 0000:00:02.0", VG_HEALTH_LACKS, "no IOMMU");
    assert_mend(checks, "GPU 0000:00:02.0", "journalctl -k -g 'DMAR|AMD-Vi|IOMMU'");
    assert_check(checks, "GPU 0000:05:00.0", VG_HEALTH_OK, "bound to nouveau");
    assert_check(checks, "GPU 0000:06:00.0", VG_HEALTH_LACKS,
                 "0000:06:00.1, bound to e1000e, is in the same IOMMU group, 6");
    assert_mend(checks, "GPU 0000:06:00.0", "virsh nodedev-detach pci_0000_06_00_1");
    assert_check(checks, "GPU 0000:07:00.0", VG_HEALTH_OK, "bound to habanalabs");
    assert_check(checks, "GPU 0000:08:00.0", VG_HEALTH_LACKS, "no driver");
    assert_mend(checks, "GPU 0000:08:00.0", "lspci -k -s 0000:08:00.0");
    assert_check(checks, "GPU 0000:09:00.0", VG_HEALTH_LACKS, "no capacity");
    assert_mend(checks, "GPU 0000:09:00.0", "mdevctl list");
    assert_check(checks, "GPU 0000:0a:00.0", VG_HEALTH_OK, "bound to nvidia");
}

/* Of vgpud that runs from a file like this; NULL: nobody may know. */
static json_object *
read_program(const char *file, const char *version)
{
    g_autofree char *link = g_strconcat(root, "/proc/77/exe", NULL);
    g_autofree char *dir = g_path_get_dirname(link);
    json_object *checks = json_object_new_array();

    g_mkdir_with_parents(dir, 0700);
    g_remove(link);
    if (file)
        assert_int_equal(symlink(file, link), 0);
    vg_doctor_read_program(checks, 77, version, root);
    return checks;
}

static void
test_program(void **state)
{
    (void)state;
    g_autoptr(json_object) same = read_program("/usr/sbin/vgpud", PACKAGE_VERSION);
    assert_int_equal(vg_doctor_count(same, VG_HEALTH_OK), 1);
    g_autoptr(json_object) replaced = read_program("/usr/sbin/vgpud (deleted)", PACKAGE_VERSION);
    assert_int_equal(vg_doctor_count(replaced, VG_HEALTH_LACKS), 1);
    assert_string_equal(
        json_object_get_string(vg_output_member(json_object_array_get_idx(replaced, 0), "mend")),
        "systemctl restart vgpud");
    g_autoptr(json_object) older = read_program("/opt/vgpud", "0.0.1");
    assert_int_equal(vg_doctor_count(older, VG_HEALTH_LACKS), 1);
    g_autoptr(json_object) hidden = read_program(NULL, PACKAGE_VERSION);
    assert_int_equal(json_object_array_length(hidden), 0);
    g_autoptr(json_object) hidden_older = read_program(NULL, "0.0.1");
    assert_int_equal(vg_doctor_count(hidden_older, VG_HEALTH_LACKS), 1);
    /* One that does not listen on a socket of this machine. */
    g_autoptr(json_object) nobody = json_object_new_array();
    vg_doctor_read_program(nobody, 0, "0.0.1", root);
    assert_int_equal(json_object_array_length(nobody), 0);
    assert_int_equal(vg_doctor_find_pid("/nonexistent/sock"), 0);
}

static json_object *
guest_with(const char *driver, const char *fault, const char *another)
{
    json_object *movable = json_object_new_object(), *guest = json_object_new_object();
    json_object *faults = json_object_new_array();

    vg_json_add_string(movable, "vm", "a");
    vg_json_add_string(guest, "driver", driver);
    for (int i = 0; i < 2; i++) {
        const char *text = i == 0 ? fault : another;
        if (text)
            vg_json_append(faults, json_object_new_string(text));
    }
    vg_json_add(guest, "driver_faults", faults);
    vg_json_add(movable, "guest", guest);
    return movable;
}

static void
test_drivers(void **state)
{
    static const struct {
        const char *driver, *fault, *another, *text; /* text: NULL: there is no row */
        enum vg_health health;
    } guests[] = {
        {NULL, NULL, NULL, NULL, VG_HEALTH_OK},
        {"580.1", NULL, NULL, "its NVIDIA driver 580.1 has no known fault ", VG_HEALTH_OK},
        {"580.1", "note: n (s)", NULL, "has no known fault that prevents moves", VG_HEALTH_OK},
        {"570.1", "note: n (s)", "warn: w (s)", "NVIDIA driver 570.1 has a known fault: w (s)",
         VG_HEALTH_LACKS},
        {"595.1", "refuse: r (s)", NULL, "r (s); its agent refuses", VG_HEALTH_LACKS},
    };
    static const char *const hosts[] = {"580.1", "595.71.05", "610.57.04"};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(guests); i++) {
        g_autoptr(json_object) checks = json_object_new_array();
        g_autoptr(json_object) movable =
            guest_with(guests[i].driver, guests[i].fault, guests[i].another);
        vg_doctor_read_guest(checks, movable);
        assert_int_equal(json_object_array_length(checks), guests[i].text != NULL);
        if (guests[i].text)
            assert_check(checks, "guest a", guests[i].health, guests[i].text);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        g_autoptr(json_object) checks = json_object_new_array();
        g_autofree char *text = g_strdup_printf("%s\n", hosts[i]);
        vg_doctor_read_driver(checks, root);
        assert_int_equal(json_object_array_length(checks), i > 1);
        write_file("/sys/module/nvidia/version", text);
    }
    g_autoptr(json_object) checks = json_object_new_array();
    vg_doctor_read_driver(checks, root);
    assert_check(checks, "NVIDIA driver", VG_HEALTH_LACKS, "version 610.57.04, which this host");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_program, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cards, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drivers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bare_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_good_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_kernels_without_bpf, setup, teardown),
        cmocka_unit_test_setup_teardown(test_distributions, setup, teardown),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_words_are_no_codes),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_details),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_store),
    };

    return cmocka_run_group_tests_name("doctor", tests, NULL, NULL);
}
