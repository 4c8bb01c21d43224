/* SPDX-License-Identifier: Apache-2.0
 *
 * With which devices no VM can be migrated. What is expected is from reading libvirt's and QEMU's
 * sources of the versions named.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/move-blockers.h"

static const struct vg_virt_versions debian_12 = {9000000, 7002022},
                                     debian_13 = {11003000, 10000013}, other = {10000000, 8002002},
                                     libvirt_only = {9000000, 0}, nothing = {0, 0};

/* MANY: there is a doubt, too, and the last one is told. */
enum answer { GOES, BLOCKS, MAYBE, MANY };

static enum answer
ask(const char *domain, const struct vg_virt_versions *versions, const char *words)
{
    static const char *const off[] = {"ua-gpu0", NULL};
    g_autoptr(GPtrArray) blockers = vg_move_blockers(domain, off, versions, NULL);

    assert_non_null(blockers);
    assert_true(blockers->len <= 2);
    if (blockers->len == 0)
        return GOES;
    const struct vg_move_blocker *blocker = blockers->pdata[blockers->len - 1];
    if (!strstr(blocker->text, words))
        fail_msg("'%s' does not say '%s'", blocker->text, words);
    return blockers->len > 1 ? MANY : blocker->sure ? BLOCKS : MAYBE;
}

static const struct {
    const char *device;
    enum answer in_12, in_13, in_others;
    const char *words;
} devices[] = {
    /* Of the host. */
    {"<hostdev mode='subsystem' type='pci'><source/></hostdev>", BLOCKS, MAYBE, MAYBE,
     "PCI device"},
    {"<hostdev mode='subsystem' type='mdev'><source/></hostdev>", BLOCKS, MAYBE, MAYBE, "mediated"},
    {"<hostdev mode='subsystem' type='scsi'><source/></hostdev>", BLOCKS, BLOCKS, BLOCKS,
     "SCSI device"},
    {"<hostdev mode='subsystem' type='scsi_host'><source/></hostdev>", BLOCKS, BLOCKS, BLOCKS,
     "vhost-scsi"},
    {"<hostdev mode='capabilities' type='misc'><source/></hostdev>", BLOCKS, BLOCKS, BLOCKS,
     "capability"},
    {"<hostdev mode='subsystem' type='usb'><source/></hostdev>", MAYBE, MAYBE, MAYBE, "USB device"},
    {"<hostdev type='usb'><source startupPolicy='optional'/></hostdev>", GOES, GOES, GOES, ""},
    {"<hostdev type='usb'><source startupPolicy='requisite'/></hostdev>", GOES, GOES, GOES, ""},
    {"<hostdev type='usb'><source startupPolicy='mandatory'/></hostdev>", MAYBE, MAYBE, MAYBE,
     "USB"},
    {"<hostdev type='pci'><teaming type='transient'/></hostdev>", GOES, GOES, GOES, ""},
    {"<hostdev type='pci'><alias name='ua-gpu0'/></hostdev>", GOES, GOES, GOES, ""},
    /* Network cards. */
    {"<interface type='bridge'><model type='virtio'/></interface>", GOES, GOES, GOES, ""},
    {"<interface type='direct'/>", GOES, GOES, GOES, ""},
    {"<interface type='hostdev'><source/></interface>", BLOCKS, MAYBE, MAYBE, "host network card"},
    {"<interface type='hostdev'><teaming type='transient'/></interface>", GOES, GOES, GOES, ""},
    {"<interface type='vdpa'/>", BLOCKS, MAYBE, MAYBE, "vDPA"},
    {"<interface type='vhostuser'/>", MAYBE, MAYBE, MAYBE, "vhost-user network card"},
    {"<interface type='user'><model type='usb-net'/></interface>", BLOCKS, BLOCKS, BLOCKS,
     "USB network"},
    /* Disks. */
    {"<disk type='network'><driver type='qcow2'/></disk>", GOES, GOES, GOES, ""},
    {"<disk type='file'><transient/></disk>", BLOCKS, BLOCKS, BLOCKS, "transient"},
    {"<disk type='nvme'><source type='pci'/></disk>", BLOCKS, BLOCKS, BLOCKS, "NVMe"},
    {"<disk type='file'><mirror type='file' job='copy'/></disk>", BLOCKS, BLOCKS, BLOCKS,
     "block job"},
    {"<disk type='vhostuser'/>", MAYBE, MAYBE, MAYBE, "vhost-user disk"},
    {"<disk type='vhostvdpa'/>", BLOCKS, BLOCKS, BLOCKS, "vDPA disk"},
    {"<disk type='file'><driver type='vpc'/></disk>", BLOCKS, BLOCKS, BLOCKS, "vpc format"},
    {"<disk type='file'><driver type='vmdk'/></disk>", BLOCKS, BLOCKS, BLOCKS, "vmdk format"},
    {"<disk type='dir'/>", MAYBE, MAYBE, MAYBE, "directory"},
    /* Directories. */
    {"<filesystem type='mount'><driver type='virtiofs'/></filesystem>", BLOCKS, MAYBE, MAYBE,
     "virtiofs"},
    {"<filesystem type='mount'><driver type='path'/></filesystem>", BLOCKS, BLOCKS, BLOCKS, "9p"},
    {"<filesystem type='mount'/>", BLOCKS, BLOCKS, BLOCKS, "9p"},
    {"<filesystem type='mount'><driver type='mtp'/></filesystem>", BLOCKS, BLOCKS, BLOCKS, "MTP"},
    /* Memory and secrets. */
    {"<shmem name='a'><model type='ivshmem-plain'/></shmem>", BLOCKS, BLOCKS, BLOCKS, "not master"},
    {"<shmem role='master'><model type='ivshmem-plain'/></shmem>", GOES, GOES, GOES, ""},
    {"<shmem role='master'><model type='ivshmem'/></shmem>", BLOCKS, BLOCKS, BLOCKS, "(ivshmem)"},
    {"<tpm model='tpm-crb'><backend type='emulator'/></tpm>", GOES, GOES, GOES, ""},
    {"<tpm model='tpm-tis'><backend type='passthrough'/></tpm>", BLOCKS, BLOCKS, BLOCKS,
     "host's TPM"},
    {"<tpm model='tpm-crb'><backend type='external'/></tpm>", MAYBE, MAYBE, MAYBE,
     "TPM emulator outside of libvirt"},
    {"<crypto model='virtio' type='qemu'/>", BLOCKS, BLOCKS, BLOCKS, "crypto"},
    /* What a desktop has. */
    {"<video><model type='virtio'><acceleration accel3d='yes'/></model></video>", BLOCKS, BLOCKS,
     BLOCKS, "virtio-gpu with 3D (virgl) cannot be migrated live"},
    {"<video><model type='virtio'><acceleration accel3d='no'/></model></video>", GOES, GOES, GOES,
     ""},
    {"<video><model type='virtio' blob='on'/></video>", GOES, GOES, GOES, ""},
    {"<video><model type='virtio'><acceleration accel3d='yes'/></model><alias name='ua-v'/></video>"
     "</devices><override><device alias='ua-v'><frontend>"
     "<property name='venus' type='bool' value='true'/></frontend></device></override><devices>",
     BLOCKS, BLOCKS, BLOCKS, "virtio-gpu with Venus cannot be migrated live"},
    {"</devices><commandline><arg value='-device'/>"
     "<arg value='virtio-vga-gl,blob=on,drm_native_context=on'/></commandline><devices>",
     MANY, MANY, MANY, "virtio-gpu with native contexts cannot be migrated live"},
    {"<sound model='usb'/>", BLOCKS, BLOCKS, BLOCKS, "USB sound"},
    {"<sound model='virtio'/>", BLOCKS, BLOCKS, BLOCKS, "virtio sound"},
    {"<sound model='ich9'/>", GOES, GOES, GOES, ""},
    {"<input type='passthrough' bus='virtio'/>", BLOCKS, BLOCKS, BLOCKS, "input device"},
    {"<input type='tablet' bus='usb'/>", GOES, GOES, GOES, ""},
    {"<channel type='qemu-vdagent'/>", BLOCKS, BLOCKS, BLOCKS, "clipboard"},
    {"<channel type='spicevmc'/>", GOES, GOES, GOES, ""},
    {"<serial type='pty'><target type='usb-serial'/></serial>", BLOCKS, BLOCKS, BLOCKS,
     "USB serial"},
    {"<rng model='virtio'/><memballoon model='virtio'/><vsock model='virtio'/>", GOES, GOES, GOES,
     ""},
};

static void
test_devices(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(devices); i++) {
        g_autofree char *domain =
            g_strdup_printf("<domain><devices>%s</devices></domain>", devices[i].device);
        const enum answer answers[] = {
            ask(domain, &debian_12, devices[i].words), ask(domain, &debian_13, devices[i].words),
            ask(domain, &other, devices[i].words), ask(domain, &nothing, devices[i].words)};
        if (answers[0] != devices[i].in_12 || answers[1] != devices[i].in_13 ||
            answers[2] != devices[i].in_others || answers[3] != devices[i].in_others)
            fail_msg("%s: %d %d %d %d", devices[i].device, answers[0], answers[1], answers[2],
                     answers[3]);
    }
}

/* Which version is meant is said; QEMU's, if it is not known, is that of the same Debian. */
static void
test_versions(void **state)
{
    static const char domain[] = "<domain><devices><interface type='vdpa'><alias name='net0'/>"
                                 "</interface></devices></domain>",
                      usb[] = "<domain><devices><sound model='usb'/></devices></domain>";

    (void)state;
    assert_int_equal(ask(domain, &debian_12,
                         "'net0' is a host vDPA network card: a VM with one cannot be "
                         "migrated (by QEMU 7.2); remove it"),
                     BLOCKS);
    assert_int_equal(ask(domain, &libvirt_only, "(by QEMU 7.2)"), BLOCKS);
    assert_int_equal(
        ask(domain, &debian_13, "QEMU 10.0 migrates a VM with one only if QEMU can track"), MAYBE);
    assert_int_equal(ask(domain, &other, "whether QEMU 8.2.2 does is unknown"), MAYBE);
    assert_int_equal(ask(usb, &other,
                         "QEMU 7.2 and QEMU 10.0 do not migrate a VM with one; whether QEMU 8.2.2 "
                         "does is unknown"),
                     BLOCKS);
    assert_int_equal(ask(usb, &nothing, "whether this QEMU does is unknown"), BLOCKS);
}

static void
test_domains(void **state)
{
    static const struct {
        const char *domain;
        enum answer answer;
        const char *words;
    } cases[] = {
        {"<domain><launchSecurity type='sev'/></domain>", BLOCKS, "encrypted"},
        {"<domain><launchSecurity type='sev-snp'/></domain>", BLOCKS, "encrypted"},
        {"<domain><features><hyperv mode='passthrough'/></features></domain>", BLOCKS, "Hyper-V"},
        {"<domain><features><hyperv mode='custom'/></features></domain>", GOES, ""},
        {"<domain><cpu><feature name='vmx'/><feature policy='require' "
         "name='invtsc'/></cpu></domain>",
         BLOCKS, "invtsc"},
        {"<domain><cpu><feature policy='disable' name='invtsc'/></cpu></domain>", GOES, ""},
        {"<domain><cpu><feature name='invtsc'/></cpu><clock><timer name='tsc' "
         "frequency='2900000000'/>"
         "</clock></domain>",
         GOES, ""},
        {"<domain><cpu mode='host-passthrough' migratable='off'/></domain>", MAYBE,
         "migratable='off'"},
        {"<domain "
         "xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline/></domain>",
         MAYBE, "<qemu:commandline>"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (ask(cases[i].domain, &debian_12, cases[i].words) != cases[i].answer)
            fail_msg("%s", cases[i].domain);
    assert_null(vg_move_blockers("<network/>", (const char *const[]){NULL}, &debian_12, NULL));
}

/* Of what the host's driver decides, the device is said. */
static void
test_driver_decides(void **state)
{
    static const char domain[] =
        "<domain><devices><hostdev type='pci'><source><address domain='0' bus='0x3b' slot='0' "
        "function='2'/></source></hostdev></devices></domain>";
    g_autoptr(GPtrArray) blockers =
        vg_move_blockers(domain, (const char *const[]){NULL}, &debian_13, NULL);
    const struct vg_move_blocker *blocker = blockers->pdata[0];

    (void)state;
    assert_false(blocker->sure);
    assert_string_equal(blocker->pci_source, "0000:3b:00.2");
}

/* What can be done is told, by which QEMU it is, and that QEMU is to be asked for its words. */
static void
test_venus(void **state)
{
    static const char domain[] =
        "<domain><devices><video><model type='virtio'/><alias name='ua-v'/></video></devices>"
        "<override><device alias='ua-v'><frontend><property name='venus' value='true'/></frontend>"
        "</device></override></domain>";
    g_autoptr(GPtrArray) blockers =
        vg_move_blockers(domain, (const char *const[]){NULL}, &debian_13, NULL);
    const struct vg_move_blocker *blocker = blockers->pdata[0];

    (void)state;
    assert_int_equal(blockers->len, 1);
    assert_true(blocker->sure && blocker->ask_qemu);
    assert_string_equal(blocker->text,
                        "virtio-gpu with Venus cannot be migrated live (by QEMU 10.0): shut the VM "
                        "down and start it on the other host, or remove it from the VM (`vgpuctl "
                        "vulkan disable` if vgpud added it)");
    assert_int_equal(ask(domain, &other, "(by QEMU 8.2.2)"), BLOCKS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_domains),        cmocka_unit_test(test_venus),
        cmocka_unit_test(test_driver_decides),
    };
    return cmocka_run_group_tests_name("move-blockers", tests, NULL, NULL);
}
