/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the XML of domains, made for another host, and what stands in the way of a move.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "host/device-xml.h"
#include "host/move-xml.h"
#include "model/path.h"

#define MDEV_UUID  "c2177883-f1bb-47f0-914d-32a22e3a8804"
#define OTHER_UUID "00000000-f1bb-47f0-914d-32a22e3a8804"

#define MDEV                                                                                       \
 "<hostdev mode='subsystem' type='mdev' managed='no' model='vfio-pci' display='off'>"              \
 "<source><address uuid='C2177883-F1BB-47F0-914D-32A22E3A8804'/></source>"                         \
 "<alias name='ua-vgpu'/>"                                                                         \
 "<address type='pci' domain='0x0000' bus='0x05' slot='0x00' function='0x0'/></hostdev>"
#define PCI                                                                                        \
 "<hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/>"                        \
 "<source><address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/></source>"               \
 "<alias name='hostdev0'/>"                                                                        \
 "<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></hostdev>"
#define SHMEM                                                                                      \
 "<shmem name='gpu0' role='peer'><model type='ivshmem-plain'/><size unit='M'>4</size>"             \
 "<alias name='ua-gpu0'/>"                                                                         \
 "<address type='pci' domain='0x0000' bus='0x07' slot='0x03' function='0x0'/></shmem>"
#define PORT(index, slot, function)                                                                \
 "<controller type='pci' index='" index "' model='pcie-root-port'>"                                \
 "<address type='pci' domain='0x0000' bus='0x00' slot='" slot "' function='" function              \
 "'/></controller>"
#define Q35(devices)                                                                               \
 "<domain type='kvm'><name>q</name><devices>"                                                      \
 "<controller type='usb' index='1'><address type='pci' domain='0' bus='0' slot='9' "               \
 "function='0'/></controller>"                                                                     \
 "<controller type='pci' index='0' model='pcie-root'/>" PORT("1", "0x02", "0x1") devices           \
     "</devices></domain>"

static GPtrArray *
read_all(const char *xml)
{
    g_autoptr(GError) err = NULL;
    GPtrArray *devices = vg_domain_devices_read(xml, &err);

    if (!devices)
        fail_msg("%s", err->message);
    return devices;
}

static const vg_domain_device *
find(const GPtrArray *devices, const char *alias)
{
    const vg_domain_device *device = vg_domain_devices_find(devices, alias, NULL);

    assert_non_null(device);
    return device;
}

/* ---- reading ---- */

static void
test_read(void **state)
{
    g_autoptr(GPtrArray) all = read_all(Q35(MDEV PCI SHMEM));
    const vg_domain_device *device = find(all, "ua-vgpu");

    (void)state;
    assert_int_equal(all->len, 6);
    assert_int_equal(device->kind, VG_DOMAIN_DEVICE_MDEV);
    assert_string_equal(device->source_address, MDEV_UUID);
    assert_string_equal(device->guest_address, "0000:05:00.0");
    assert_false(device->managed);
    device = find(all, "hostdev0");
    assert_int_equal(device->kind, VG_DOMAIN_DEVICE_PCI);
    assert_string_equal(device->source_address, "0000:41:00.4");
    assert_string_equal(device->guest_address, "0000:01:00.0");
    assert_true(device->managed);
    device = find(all, "ua-gpu0");
    assert_int_equal(device->kind, VG_DOMAIN_DEVICE_OTHER);
    assert_null(device->source_address);
    assert_true(g_str_has_prefix(device->xml, "<shmem "));

    assert_ptr_equal(vg_domain_devices_find(all, "none", "0000:41:00.4"), find(all, "hostdev0"));
    assert_null(vg_domain_devices_find(all, "none", NULL));
    assert_null(vg_domain_devices_find(all, "none", "0000:41:00.0"));
    /* By address alone. */
    assert_ptr_equal(vg_domain_devices_find(all, NULL, "0000:41:00.4"), find(all, "hostdev0"));
    assert_null(vg_domain_devices_find(all, NULL, "0000:41:00.0"));
}

/* ---- where the guest finds it ---- */

static void
assert_path(const char *xml, const char *alias, const char *path)
{
    g_autoptr(GPtrArray) all = read_all(xml);
    const vg_domain_device *device = find(all, alias);

    if (path)
        assert_string_equal(device->guest_path, path);
    else
        assert_null(device->guest_path);
}

static void
test_path_q35(void **state)
{
    (void)state;
    assert_path(Q35(PCI), "hostdev0", "0000:00/02.1/00.0");
    /* The bus is the index of a controller, and there is none of it. */
    assert_path(Q35(MDEV), "ua-vgpu", NULL);
    assert_path(Q35(PORT("5", "0x03", "0x0") MDEV), "ua-vgpu", "0000:00/03.0/00.0");
    /* Behind a bridge to conventional PCI, behind a port. */
    assert_path(
        Q35(PORT("3", "0x1f",
                 "0x7") "<controller type='pci' index='7' model='pcie-to-pci-bridge'>"
                        "<address type='pci' domain='0' bus='0x03' slot='0x00' function='0x0'/>"
                        "</controller>" SHMEM),
        "ua-gpu0", "0000:00/1f.7/00.0/03.0");
}

static void
test_path_other_roots(void **state)
{
    (void)state;
    assert_path(
        "<domain><devices><controller type='pci' index='0' model='pci-root'/>"
        "<controller type='pci' index='7' model='pci-bridge'>"
        "<address type='pci' domain='0' bus='0' slot='0x1e' function='0'/></controller>" SHMEM
        "</devices></domain>",
        "ua-gpu0", "0000:00/1e.0/03.0");
    assert_path("<domain><devices>"
                "<video><alias name='video0'/><address type='pci' domain='0' bus='0' slot='0x02' "
                "function='0'/></video></devices></domain>",
                "video0", "0000:00/02.0");
    /* A root of its own, whose number is chosen. */
    assert_path(Q35("<controller type='pci' index='4' model='pcie-expander-bus'>"
                    "<target><busNr>128</busNr></target>"
                    "<address type='pci' domain='0' bus='0' slot='0x04' function='0'/></controller>"
                    "<controller type='pci' index='5' model='pcie-root-port'>"
                    "<address type='pci' domain='0' bus='4' slot='0x01' function='0'/>"
                    "</controller>" MDEV),
                "ua-vgpu", "0000:80/01.0/00.0");
    assert_path(Q35("<controller type='pci' index='5' model='pci-expander-bus'>"
                    "<address type='pci' domain='0' bus='0' slot='0x04' function='0'/>"
                    "</controller>" MDEV),
                "ua-vgpu", NULL);
    /* In a ring. */
    assert_path("<domain><devices><controller type='pci' index='5' model='pcie-root-port'>"
                "<address type='pci' domain='0' bus='5' slot='0x01' function='0'/>"
                "</controller>" MDEV "</devices></domain>",
                "ua-vgpu", NULL);
}

/* ---- making ---- */

static vg_domain_device *
made(const char *xml, const char *alias, const char *guest, const char *source)
{
    g_autoptr(GError) err = NULL;
    g_autofree char *text = vg_device_xml_make(xml, alias, guest, source, &err);

    if (!text)
        fail_msg("%s", err->message);
    vg_domain_device *device = vg_domain_device_read(text, &err);
    if (!device)
        fail_msg("%s", err->message);
    return device;
}

static void
test_make(void **state)
{
    g_autoptr(vg_domain_device) mdev = made(MDEV, "ua-a", "0000:0a:1f.7", OTHER_UUID);
    g_autoptr(vg_domain_device) pci = made(PCI, "ua-b", NULL, "0001:c1:02.3");
    g_autoptr(vg_domain_device) named = made("<shmem name='x'/>", "ua-c", "0000:01:00.0", NULL);
    g_autoptr(vg_domain_device) odd = made(SHMEM, "a\"<&'b", NULL, NULL);

    (void)state;
    assert_string_equal(mdev->alias, "ua-a");
    assert_string_equal(mdev->guest_address, "0000:0a:1f.7");
    assert_string_equal(mdev->source_address, OTHER_UUID);
    assert_non_null(strstr(mdev->xml, "display=\"off\""));
    assert_null(strstr(mdev->xml, "ua-vgpu"));
    assert_string_equal(pci->alias, "ua-b");
    assert_null(pci->guest_address);
    assert_string_equal(pci->source_address, "0001:c1:02.3");
    assert_non_null(strstr(pci->xml, "<driver name=\"vfio\"/>"));
    assert_string_equal(named->alias, "ua-c");
    assert_string_equal(named->guest_address, "0000:01:00.0");
    assert_string_equal(odd->alias, "a\"<&'b");
}

static void
test_make_refuses(void **state)
{
    static const struct {
        const char *xml, *guest, *source, *words;
    } cases[] = {
        {SHMEM, NULL, OTHER_UUID, "<shmem>"},
        {PCI, NULL, OTHER_UUID, "is not a PCI address"},
        {PCI, "slot 3", NULL, "'slot 3' is not a PCI address"},
        {"<hostdev", NULL, NULL, "malformed XML"},
        {"<!DOCTYPE a><hostdev/>", NULL, NULL, "DOCTYPE"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        assert_null(
            vg_device_xml_make(cases[i].xml, "ua-a", cases[i].guest, cases[i].source, &err));
        assert_int_equal(err->code, VG_E_INVALID);
        if (!strstr(err->message, cases[i].words))
            fail_msg("'%s' does not say '%s'", err->message, cases[i].words);
    }
}

static void
test_without(void **state)
{
    static const char *const aliases[] = {"ua-gpu0", "ua-none"};
    static const char *const addresses[] = {NULL, "0000:41:00.4"};
    bool changed = false;
    g_autofree char *xml =
        vg_domain_xml_without(Q35(MDEV PCI SHMEM), aliases, addresses, 2, &changed, NULL);
    g_autoptr(GPtrArray) left = read_all(xml);

    (void)state;
    assert_true(changed);
    assert_int_equal(left->len, 4);
    find(left, "ua-vgpu");
    g_autofree char *again = vg_domain_xml_without(xml, aliases, addresses, 2, &changed, NULL);
    assert_false(changed);
    assert_string_equal(again, xml);
}

static void
test_with_sources(void **state)
{
    static const char *const aliases[] = {"ua-vgpu", "ua-none"};
    static const char *const from[] = {NULL, "0000:41:00.4"};
    static const char *const to[] = {OTHER_UUID, "0000:42:00.1"};
    static const char *const shmem[] = {"ua-gpu0"};
    size_t n = 0;
    g_autofree char *xml =
        vg_domain_xml_with_sources(Q35(MDEV PCI SHMEM), aliases, from, to, 2, &n, NULL);
    g_autoptr(GPtrArray) all = read_all(xml);

    (void)state;
    assert_int_equal(n, 2);
    assert_int_equal(all->len, 6);
    assert_string_equal(find(all, "ua-vgpu")->source_address, OTHER_UUID);
    assert_string_equal(find(all, "ua-vgpu")->guest_address, "0000:05:00.0");
    assert_string_equal(find(all, "hostdev0")->source_address, "0000:42:00.1");
    assert_true(find(all, "hostdev0")->managed);
    g_autofree char *none = vg_domain_xml_with_sources(Q35(SHMEM), aliases, from, to, 2, &n, NULL);
    assert_non_null(none);
    assert_int_equal(n, 0);
    assert_null(vg_domain_xml_with_sources(Q35(SHMEM), shmem, from, to, 1, &n, NULL));
}

static void
test_overrides(void **state)
{
    static const char xml[] =
        "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:override>"
        "<qemu:device alias='ua-a'><qemu:frontend><qemu:property name='x' type='string' "
        "value='on'/></qemu:frontend></qemu:device>"
        "<qemu:device alias='ua-b'><qemu:frontend><qemu:property name='y' type='bool' "
        "value='true'/><qemu:property name='x' type='string' value='off'/></qemu:frontend>"
        "</qemu:device></qemu:override></domain>";

    (void)state;
    assert_true(vg_domain_xml_overrides(xml, "ua-a", "x", "on"));
    assert_true(vg_domain_xml_overrides(xml, "ua-b", "x", "off"));
    assert_false(vg_domain_xml_overrides(xml, "ua-a", "x", "off"));
    assert_false(vg_domain_xml_overrides(xml, "ua-a", "y", "true"));
    assert_false(vg_domain_xml_overrides("<domain/>", "ua-a", "x", "on"));
}

static void
test_channel(void **state)
{
    static const char xml[] = "<domain><devices><channel type='spicevmc'/><channel type='unix'>"
                              "<target type='virtio' name='org.vgpud.guest.0'/></channel>"
                              "</devices></domain>";

    (void)state;
    assert_true(vg_domain_xml_has_channel(xml, "org.vgpud.guest.0"));
    assert_false(vg_domain_xml_has_channel(xml, "org.vgpud.guest.1"));
    assert_false(vg_domain_xml_has_channel("<domain/>", "org.vgpud.guest.0"));
    assert_false(vg_domain_xml_channel_is_closed(xml, "org.vgpud.guest.0"));
    assert_false(vg_domain_xml_channel_is_closed("<domain/>", "org.vgpud.guest.0"));
    assert_true(vg_domain_xml_channel_is_closed(
        "<domain><devices><channel type='unix'><target type='virtio' name='org.vgpud.guest.0' "
        "state='disconnected'/></channel></devices></domain>",
        "org.vgpud.guest.0"));
}

/* ---- moving ---- */

static void
test_needs(void **state)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_move_needs) needs =
        vg_move_needs_read("<domain type='kvm'><memoryBacking><hugepages/></memoryBacking>"
                           "<os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os>"
                           "<cpu mode='custom'><model>EPYC</model></cpu><devices>"
                           "<emulator>/usr/bin/qemu-system-x86_64</emulator>"
                           "<disk type='file' device='cdrom'><target dev='sda'/></disk>"
                           "<disk type='file'><source file='/a.qcow2'/></disk>"
                           "<disk type='block'><source dev='/dev/b'/></disk>"
                           "<disk type='file'><source file='/e.iso'/><readonly/></disk>"
                           "<disk type='file'><source file='/c&amp;d'/><target dev='vdb'/></disk>"
                           "</devices></domain>",
                           &err);

    (void)state;
    assert_non_null(needs);
    assert_string_equal(needs->virt_type, "kvm");
    assert_string_equal(needs->arch, "x86_64");
    assert_string_equal(needs->machine, "pc-q35-7.2");
    assert_string_equal(needs->emulator, "/usr/bin/qemu-system-x86_64");
    assert_string_equal(needs->cpu_xml, "<cpu mode=\"custom\"><model>EPYC</model></cpu>");
    assert_false(needs->host_cpu);
    assert_true(needs->huge_pages);
    assert_int_equal(needs->paths->len, 4);
    assert_int_equal(needs->disks->len, 2);
    assert_string_equal(needs->disks->pdata[1], "vdb");

    g_autoptr(vg_move_needs) bare =
        vg_move_needs_read("<domain><cpu mode='host-passthrough'/></domain>", &err);
    assert_true(bare->host_cpu);
    assert_false(bare->huge_pages);
    assert_null(bare->machine);
    assert_null(vg_move_needs_read("<network/>", &err));
}

/* Returns what a VM needs at its paths, a line for each: what for, and of writable (w), a device
 * (d), its own contents (s) and optional (o) what is so. The caller frees it. */
static char *
read_paths(const char *inner)
{
    g_autofree char *xml = g_strdup_printf("<domain>%s</domain>", inner);
    g_autoptr(vg_move_needs) needs = vg_move_needs_read(xml, NULL);
    GString *text = g_string_new(NULL);

    assert_non_null(needs);
    for (unsigned i = 0; i < needs->paths->len; i++) {
        const struct vg_path_need *need = needs->paths->pdata[i];
        g_string_append_printf(text, "%s %s%s%s%s: %s\n", need->path, need->writable ? "w" : "",
                               need->is_device ? "d" : "", need->is_storage ? "s" : "",
                               need->optional ? "o" : "", need->use);
    }
    return g_string_free(text, FALSE);
}

static void
assert_paths(const char *inner, const char *expected)
{
    g_autofree char *text = read_paths(inner);

    assert_string_equal(text, expected);
}

#define DISK(attributes, inner) "<devices><disk " attributes ">" inner "</disk></devices>"

static void
test_paths(void **state)
{
    (void)state;
    assert_paths(DISK("type='file' device='disk'",
                      "<source file='/top'><dataStore type='file'><source file='/data'/>"
                      "</dataStore></source><target dev='vda'/>"
                      "<backingStore type='file'><source file='/middle'/>"
                      "<backingStore type='block'><source dev='/dev/base'/><backingStore/>"
                      "</backingStore></backingStore>"),
                 "/top ws: the disk 'vda'\n/data ws: the disk 'vda'\n"
                 "/middle s: a backing file of the disk 'vda'\n"
                 "/dev/base ds: a backing file of the disk 'vda'\n");
    assert_paths(DISK("type='block'", "<source dev='/dev/a'/><target dev='sdb'/><readonly/>"),
                 "/dev/a ds: the disk 'sdb'\n");
    assert_paths(DISK("type='file' device='cdrom'",
                      "<source file='/e.iso' startupPolicy='optional'/><target dev='sda'/>"),
                 "/e.iso so: the medium in the drive 'sda'\n");
    assert_paths(DISK("type='file' device='disk'",
                      "<source file='/d' startupPolicy='optional'/><target dev='sda'/>"),
                 "/d ws: the disk 'sda'\n");
    assert_paths(DISK("type='network'", "<source protocol='rbd' name='pool/a'/>"), "");
    assert_paths(DISK("type='file' device='cdrom'", "<target dev='sda'/>"), "");
    /* Two disks with one backing file, which a third one writes to. */
    assert_paths("<devices>"
                 "<disk><source file='/a'/><backingStore><source file='/b'/></backingStore></disk>"
                 "<disk><source file='/c'/><backingStore><source file='/b'/></backingStore></disk>"
                 "<disk><source file='/b'/></disk></devices>",
                 "/a ws: the disk '?'\n/b ws: a backing file of the disk '?'\n"
                 "/c ws: the disk '?'\n");
    assert_paths("<os><kernel>/k</kernel><initrd>/i</initrd><dtb>/d</dtb>"
                 "<acpi><table type='slic'>/slic</table></acpi><loader>/code.fd</loader>"
                 "<nvram template='/vars'>/nvram</nvram></os>",
                 "/k : the kernel\n/i : the initial RAM disk\n/d : the device tree\n"
                 "/slic : the ACPI table\n/code.fd : the firmware\n"
                 "/nvram wo: the firmware's variables\n");
    assert_paths("<os><nvram type='file'><source file='/nvram'/></nvram></os>",
                 "/nvram wo: the firmware's variables\n");
    /* The name of a built-in firmware is no path. */
    assert_paths("<os><loader>rom.bin</loader></os>", "");
}

/* The problems of a domain without the device 'ua-gpu0' or 'hostdev0' must be those words; NULL:
 * there are none. */
static void
assert_problem(const char *xml, const char *words)
{
    static const char *const off[] = {"ua-gpu0", "hostdev0", "hostdev2", NULL};
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);

    assert_int_equal(vg_move_xml_problems(xml, off, problems, NULL), 0);
    assert_int_equal(problems->len, words ? 1 : 0);
    if (words && !strstr(problems->pdata[0], words))
        fail_msg("'%s' does not say '%s'", (char *)problems->pdata[0], words);
}

#define HOSTDEV(n) "<hostdev type='usb'><source/><alias name='hostdev" n "'/></hostdev>"
#define SHMEM_AT(alias, bus, slot, function)                                                       \
 "<shmem role='peer'><alias name='" alias "'/><address type='pci' domain='0' bus='" bus            \
 "' slot='" slot "' function='" function "'/></shmem>"

static void
test_problems(void **state)
{
    (void)state;
    assert_problem(Q35(SHMEM), NULL);
    assert_problem(Q35(PCI), NULL);
    assert_problem(Q35(MDEV), NULL);
    assert_int_equal(vg_move_xml_problems("<a/>", (const char *const[]){NULL}, NULL, NULL), -1);
}

static void
test_rigid_places(void **state)
{
    (void)state;
    assert_problem(Q35(SHMEM_AT("ua-gpu0", "0", "7", "0")), "root bus");
    assert_problem(Q35(SHMEM_AT("ua-other", "0", "7", "0")), NULL);
    /* Conventional PCI has slots for that. */
    assert_problem("<domain><devices><controller type='pci' index='0' model='pci-root'/>" SHMEM_AT(
                       "ua-gpu0", "0", "7", "0") "</devices></domain>",
                   NULL);
    assert_problem(
        Q35(SHMEM_AT("ua-gpu0", "1", "0",
                     "0") "<sound><address type='pci' domain='0' bus='1' slot='0' function='1'/>"
                          "</sound>"),
        "shares its slot");
    assert_problem(
        Q35(SHMEM_AT("ua-gpu0", "1", "0",
                     "0") "<sound><address type='pci' domain='0' bus='1' slot='1' function='1'/>"
                          "</sound>"),
        NULL);
}

/* libvirt takes the number after the highest. */
static void
test_unstable_aliases(void **state)
{
    (void)state;
    assert_problem(Q35(HOSTDEV("0")), NULL);
    assert_problem(Q35(HOSTDEV("0") HOSTDEV("1") HOSTDEV("3")), "'hostdev0' would be named");
    assert_problem(Q35(HOSTDEV("1") HOSTDEV("2")), NULL);
    assert_problem(Q35(HOSTDEV("2")), "'hostdev2' would be named 'hostdev0'");
    assert_problem(Q35(HOSTDEV("0") HOSTDEV("2")), "'hostdev2' would be named 'hostdev1'");
    assert_problem(Q35(HOSTDEV("1") HOSTDEV("2") HOSTDEV("3")), "'hostdev2' would be named");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_path_q35),
        cmocka_unit_test(test_path_other_roots),
        cmocka_unit_test(test_make),
        cmocka_unit_test(test_make_refuses),
        cmocka_unit_test(test_without),
        cmocka_unit_test(test_with_sources),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_channel),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_problems),
        cmocka_unit_test(test_rigid_places),
        cmocka_unit_test(test_unstable_aliases),
    };

    return cmocka_run_group_tests_name("device-xml", tests, NULL, NULL);
}
