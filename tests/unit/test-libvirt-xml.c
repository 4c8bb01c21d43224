/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read from libvirt's XML. The good samples are those that the fuzzer starts from.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "host/domain-xml.h"
#include "host/node-device.h"

#define UUID_MDEV "c2177883-f1bb-47f0-914d-32a22e3a8804"

static char *
sample(const char *name)
{
    const char *srcdir = getenv("VG_SRCDIR");
    g_autofree char *path = g_build_filename(srcdir ? srcdir : ".", "tests", "fuzz", "corpus",
                                             "domain-xml", name, NULL);
    g_autoptr(GError) err = NULL;
    char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, &err))
        fail_msg("%s", err->message);
    return text;
}

/* A VM of an inventory that is freed by the caller, read from XML. */
static struct vg_inv_vm *
read_domain(vg_inventory *inventory, const char *xml)
{
    g_autoptr(GError) err = NULL;
    struct vg_inv_vm *vm = vg_inventory_add_vm(inventory, NULL);

    if (vg_domain_xml_read(xml, "HostModel", vm, &err) < 0)
        fail_msg("%s", err->message);
    return vm;
}

static void
test_nova_domain(void **state)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    g_autofree char *xml = sample("nova-mdev.xml");
    const struct vg_inv_vm *vm = read_domain(inventory, xml);

    (void)state;
    assert_string_equal(vm->name, "instance-0000002a");
    assert_string_equal(vm->uuid, "7f1c0a52-3d6e-4b7a-9c55-0a4d5c1e2b3f");
    assert_int_equal(vm->vcpus, 3);
    assert_int_equal(vm->memory_bytes, INT64_C(8) << 30);
    assert_string_equal(vm->cpu_model, "Skylake-Server-IBRS");
    assert_true(vm->pinned);
    assert_true(vm->nova_managed);
    assert_string_equal(vm->nova.name, "render & encode");
    assert_string_equal(vm->nova.flavor, "vgpu.large");
    assert_string_equal(vm->nova.project_id, "9f8e7d6c");
    assert_string_equal(vm->nova.project_name, "graphics");
    assert_string_equal(vm->nova.user_id, "0a1b2c3d");
    assert_string_equal(vm->nova.user_name, "alice");
    assert_string_equal(vm->nova.created, "2026-11-20 09:14:02");
    assert_int_equal(vm->devices->len, 2);
    const struct vg_inv_device *mdev = vm->devices->pdata[0], *pci = vm->devices->pdata[1];
    assert_string_equal(mdev->kind, "mdev");
    assert_string_equal(mdev->address, UUID_MDEV);
    assert_string_equal(mdev->alias, "ua-gpu0");
    assert_true(mdev->is_gpu);
    assert_string_equal(pci->kind, "pci");
    assert_string_equal(pci->address, "0000:41:00.4");
    assert_string_equal(pci->alias, "hostdev1");
    assert_false(pci->is_gpu);
}

static void
test_domain_parts(void **state)
{
    static const struct {
        const char *xml;
        int64_t vcpus;
        int64_t memory_bytes;
        const char *cpu_model;
        bool pinned;
        bool nova;
    } cases[] = {
        {"<domain/>", 0, 0, NULL, false, false},
        {"<domain><vcpu>2</vcpu><memory>1024</memory></domain>", 2, 1 << 20, NULL, false, false},
        {"<domain><memory unit='MiB'>3</memory></domain>", 0, 3 << 20, NULL, false, false},
        {"<domain><memory unit='b'>4096</memory></domain>", 0, 4096, NULL, false, false},
        /* More than fits, or more vCPUs than there may be: as if nothing had been said. */
        {"<domain><vcpu>4097</vcpu><memory unit='TiB'>1025</memory></domain>", 0, 0, NULL, false,
         false},
        {"<domain><vcpu>4096</vcpu><memory unit='TiB'>1024</memory></domain>", 4096,
         INT64_C(1) << 50, NULL, false, false},
        {"<domain><vcpu>-1</vcpu><memory>x</memory></domain>", 0, 0, NULL, false, false},
        {"<domain><cpu mode='host-passthrough'/></domain>", 0, 0, "HostModel", false, false},
        {"<domain><cpu mode='host-model'><model>other</model></cpu></domain>", 0, 0, "HostModel",
         false, false},
        {"<domain><cpu><model> qemu64 </model></cpu></domain>", 0, 0, "qemu64", false, false},
        {"<domain><vcpu cpuset='0-3'>1</vcpu></domain>", 1, 0, NULL, true, false},
        {"<domain><cputune><emulatorpin cpuset='1'/></cputune></domain>", 0, 0, NULL, true, false},
        {"<domain><cputune><shares>5</shares></cputune></domain>", 0, 0, NULL, false, false},
        {"<domain><numatune><memory mode='strict'/></numatune></domain>", 0, 0, NULL, false, false},
        {"<domain><numatune><memory placement='auto'/></numatune></domain>", 0, 0, NULL, true,
         false},
        {"<domain><numatune><memnode cellid='0' nodeset='1'/></numatune></domain>", 0, 0, NULL,
         true, false},
        {"<domain><metadata><n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.0'/>"
         "</metadata></domain>",
         0, 0, NULL, false, true},
        {"<domain><metadata><instance/><n:instance xmlns:n='urn:x'/></metadata></domain>", 0, 0,
         NULL, false, false},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
        const struct vg_inv_vm *vm = read_domain(inventory, cases[i].xml);
        if (vm->vcpus != cases[i].vcpus || vm->memory_bytes != cases[i].memory_bytes ||
            g_strcmp0(vm->cpu_model, cases[i].cpu_model) != 0 || vm->pinned != cases[i].pinned ||
            vm->nova_managed != cases[i].nova)
            fail_msg("case %zu: %s", i, cases[i].xml);
    }
}

/* The marks of managers, and what is none. */
static void
test_managers(void **state)
{
#define ID                "11111111-2222-4333-8444-000000000001"
#define NAMED(name, rest) "<domain><name>" name "</name><uuid>" ID "</uuid>" rest "</domain>"
#define MARK(mark)        "<metadata>" mark "</metadata>"
#define PRODUCT(text)     "<sysinfo><system><entry name='product'>" text "</entry></system></sysinfo>"
#define MAKER(text)                                                                                \
 "<sysinfo><system><entry name='manufacturer'>" text                                               \
 "</entry><entry name='product'>X</entry></system></sysinfo>"
    static const struct {
        const char *xml, *manager, *move;
    } cases[] = {
        {NAMED("v", MARK("<o:qos xmlns:o='http://ovirt.org/vm/tune/1.0'/>"
                         "<o:vm xmlns:o='http://ovirt.org/vm/1.0'/>")),
         "oVirt", "vms/" ID "/migrate"},
        /* oVirt 3.5 wrote nothing but its quotas. */
        {NAMED("v", MARK("<o:qos xmlns:o='http://ovirt.org/vm/tune/1.0'/>")), "oVirt", "Portal"},
        {NAMED("one-12", MARK("<x/><o:vm xmlns:o='http://opennebula.org/xmlns/libvirt/1.0'>"
                              "<o:id>12</o:id></o:vm>")),
         "OpenNebula", "'onevm migrate --live 12 HOST'"},
        {NAMED("one-12", MARK("<o:vm xmlns:o='http://opennebula.org/xmlns/libvirt/1.0'>"
                              "<o:id>1; reboot</o:id></o:vm>")),
         "OpenNebula", "'onevm migrate --live VM HOST'"},
        {NAMED("lab_train-1", MARK("<kubevirt xmlns='http://kubevirt.io'><uid/></kubevirt>")),
         "KubeVirt", "'virtctl migrate train-1 -n lab'"},
        {NAMED("z", MARK("<z:zstack xmlns:z='http://zstack.org'/>")), "ZStack",
         "vmInstanceUuid=z "},
        {NAMED("i-2-34-VM", ""), "CloudStack",
         "'cmk migrate virtualmachine virtualmachineid=" ID " hostid=HOST'"},
        {NAMED("v-1-VM", ""), "CloudStack", "cmk migrate systemvm virtualmachineid=" ID},
        {NAMED("r-7-VM", ""), "CloudStack", "cmk migrate virtualmachine virtualmachineid=ID"},
        {NAMED("shop", PRODUCT("CloudStack KVM Hypervisor")), "CloudStack", ID},
        {NAMED("shop", MAKER("Apache Software Foundation")), "CloudStack", ID},
        {NAMED("i-2-VM", PRODUCT("OpenStack Nova")), NULL, NULL},
        {NAMED("shop", MAKER("Foundation")), NULL, NULL},
        {NAMED("x-i-2-34-VM",
               MARK("<vm/><o:x xmlns:o='http://libosinfo.org/xmlns/libvirt/domain/1.0'/>")),
         NULL, NULL},
        /* nova's own mark counts before that of another. */
        {NAMED("i-2-34-VM",
               MARK("<n:instance xmlns:n='http://openstack.org/xmlns/libvirt/nova/1.1'/>")),
         NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
        const struct vg_inv_vm *vm = read_domain(inventory, cases[i].xml);
        if (g_strcmp0(vm->manager, cases[i].manager) != 0 ||
            (cases[i].move ? !vm->manager_move || !strstr(vm->manager_move, cases[i].move)
                           : vm->manager_move != NULL))
            fail_msg("case %zu: %s, %s", i, vm->manager ? vm->manager : "none",
                     vm->manager_move ? vm->manager_move : "none");
    }
#undef PRODUCT
#undef MARK
#undef NAMED
#undef ID
}

/* What the guest has of the host's GPU by virtio-gpu, by elements, overrides and arguments. */
static void
test_virtio_gpus(void **state)
{
#define CARD                                                                                       \
 "<video><model type='virtio'><acceleration accel3d='yes'/></model><alias name='a'/></video>"
#define OVERRIDE(name, value)                                                                      \
 "<override><device alias='a'><frontend><property name='" name "' value='" value "'/><property "   \
 "name='hostmem' value='268435456'/></frontend></device></override>"
#define ARGUMENT(text) "<commandline><arg value='" text "'/></commandline>"
    static const struct {
        const char *devices, *rest;
        enum vg_virtio_gpu gpu;
        int64_t hostmem_bytes;
    } cases[] = {
        {"<video><model type='qxl'/></video>", "", VG_VIRTIO_GPU_NONE, 0},
        {"<video><model type='virtio' blob='on'/></video>", "", VG_VIRTIO_GPU_NONE, 0},
        {CARD, "", VG_VIRTIO_GPU_VIRGL, 0},
        {"<video/>" CARD, OVERRIDE("venus", "true"), VG_VIRTIO_GPU_VENUS, 256 << 20},
        {CARD, OVERRIDE("venus", "on"), VG_VIRTIO_GPU_VENUS, 256 << 20},
        {CARD, OVERRIDE("venus", "false"), VG_VIRTIO_GPU_VIRGL, 256 << 20},
        {CARD, OVERRIDE("drm_native_context", "on"), VG_VIRTIO_GPU_NATIVE, 256 << 20},
        {"<video><model type='vga'/><alias name='a'/></video>", OVERRIDE("venus", "true"),
         VG_VIRTIO_GPU_NONE, 0},
        {"<video><model type='virtio'/><alias name='b'/></video>", OVERRIDE("venus", "true"),
         VG_VIRTIO_GPU_NONE, 0},
        {"", ARGUMENT("virtio-gpu-gl-pci,hostmem=4G,blob=true,venus=true"), VG_VIRTIO_GPU_VENUS,
         INT64_C(4) << 30},
        {CARD, ARGUMENT("device.a.venus=on"), VG_VIRTIO_GPU_VENUS, 0},
        {"", ARGUMENT("virtio-vga-gl,venus=off"), VG_VIRTIO_GPU_NONE, 0},
        {"", ARGUMENT("other,venus=on"), VG_VIRTIO_GPU_NONE, 0},
        {"", ARGUMENT("virtio-gpu-gl,venus=on,hostmem=99999999T"), VG_VIRTIO_GPU_VENUS, 0},
        {"", ARGUMENT("virtio-gpu-gl,venus=on,hostmem=1X"), VG_VIRTIO_GPU_VENUS, 1},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
        g_autofree char *xml = g_strdup_printf("<domain><devices>%s</devices>%s</domain>",
                                               cases[i].devices, cases[i].rest);
        const struct vg_inv_vm *vm = read_domain(inventory, xml);
        if (vm->virtio_gpu != cases[i].gpu || vm->hostmem_bytes != cases[i].hostmem_bytes)
            fail_msg("case %zu: %d, %" G_GINT64_FORMAT, i, (int)vm->virtio_gpu, vm->hostmem_bytes);
    }
}

/* The quota per vCPU, that of the whole domain, or the smaller one; libvirt's period is 100 ms. */
static void
test_cpu_quotas(void **state)
{
    static const struct {
        const char *cputune;
        double cores;
    } cases[] = {
        {"<quota>50000</quota>", 2},
        {"<period>20000</period><quota>5000</quota>", 1},
        {"<global_quota>150000</global_quota>", 1.5},
        {"<global_period>1000000</global_period><global_quota>500000</global_quota>", 0.5},
        {"<quota>50000</quota><global_quota>100000</global_quota>", 1},
        {"<quota>10000</quota><global_quota>100000</global_quota>", 0.4},
        /* No limits: as much as it has vCPUs, no quota, and how libvirt spells that. */
        {"<quota>100000</quota>", 0},
        {"<global_quota>900000</global_quota>", 0},
        {"<quota>-1</quota>", 0},
        {"<quota>0</quota><emulator_quota>1000</emulator_quota>", 0},
        {"<quota>17592186044415</quota>", 0},
        {"<quota>x</quota>", 0},
        {"<period>0</period><quota>25000</quota>", 1},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
        g_autofree char *xml = g_strdup_printf(
            "<domain><vcpu>4</vcpu><cputune>%s</cputune></domain>", cases[i].cputune);
        double cores = read_domain(inventory, xml)->cpu_limit;
        if (cores < cases[i].cores - 1e-9 || cores > cases[i].cores + 1e-9)
            fail_msg("%s: %f", cases[i].cputune, cores);
    }
}

static void
test_limits(void **state)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    g_autoptr(GString) xml = g_string_new("<domain><name>");

    (void)state;
    for (int i = 0; i < 200; i++)
        g_string_append(xml, "\303\244"); /* two bytes: 127 of them fit into 255 */
    g_string_append(xml, "</name><devices>");
    for (int i = 0; i < VG_INVENTORY_DEVICES_MAX + 1; i++)
        g_string_append_printf(xml,
                               "<hostdev type='mdev'><source><address uuid='m%d'/></source>"
                               "</hostdev>",
                               i);
    g_string_append(xml, "</devices></domain>");
    const struct vg_inv_vm *vm = read_domain(inventory, xml->str);
    assert_int_equal(strlen(vm->name), 254);
    assert_true(g_utf8_validate(vm->name, -1, NULL));
    assert_int_equal(vm->devices->len, VG_INVENTORY_DEVICES_MAX);
}

static void
test_bad_xml(void **state)
{
    static const char *const bad[] = {
        "", "x", "<domain>", "<device/>", "<domain></domain><a/>", "<domain>\377</domain>"};
    g_autofree char *doctype = sample("doctype.xml");
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    struct vg_inv_vm *vm = vg_inventory_add_vm(inventory, "kept");

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(bad) + 1; i++) {
        g_autoptr(GError) err = NULL;
        const char *xml = i < G_N_ELEMENTS(bad) ? bad[i] : doctype;
        assert_int_equal(vg_domain_xml_read(xml, NULL, vm, &err), -1);
        assert_int_equal(err->code, VG_E_INVALID);
    }
    assert_string_equal(vm->name, "kept");
    assert_null(vg_node_device_read("<domain/>", NULL));
    assert_int_equal(vg_capabilities_xml_read("<x/>", inventory, NULL), -1);
}

/* ---- the host ---- */

static void
free_device(void *device)
{
    vg_node_device_free(device);
}

static void
add_device(GPtrArray *devices, const char *xml)
{
    vg_node_device *device = vg_node_device_read(xml, NULL);

    assert_non_null(device);
    g_ptr_array_add(devices, device);
}

static void
test_capabilities(void **state)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    g_autofree char *xml = sample("capabilities.xml");

    (void)state;
    assert_int_equal(vg_capabilities_xml_read(xml, inventory, NULL), 0);
    assert_string_equal(inventory->uuid, "00000000-0000-4000-8000-00000000000a");
    assert_string_equal(inventory->cpu_model, "Skylake-Server-IBRS");
}

static void
test_gpus(void **state)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new("h");
    g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func(free_device);
    g_autofree char *domain = sample("nova-mdev.xml");
    static const char *const files[] = {"mdev.xml", "virtual-function.xml", "pci-mdev-types.xml"};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *xml = sample(files[i]);
        add_device(devices, xml);
    }
    add_device(devices, "<device><name>net</name><capability type='net'/></device>");
    const struct vg_inv_vm *vm = read_domain(inventory, domain);
    vg_node_devices_put(devices, inventory);

    assert_int_equal(inventory->gpus->len, 1);
    const struct vg_inv_gpu *gpu = inventory->gpus->pdata[0];
    assert_string_equal(gpu->device, "0000:41:00.0");
    assert_string_equal(gpu->vendor, "NVIDIA Corporation");
    assert_string_equal(gpu->product, "TU104GL [Tesla T4]");
    assert_string_equal(gpu->driver, "nvidia");
    assert_int_equal(gpu->numa_node, 1);
    assert_int_equal(gpu->vf_max, 16);
    assert_int_equal(gpu->mdev_types->len, 2);
    const struct vg_inv_mdev_type *first = gpu->mdev_types->pdata[0];
    const struct vg_inv_mdev_type *second = gpu->mdev_types->pdata[1];
    assert_string_equal(first->type, "nvidia-230");
    assert_string_equal(first->name, "GRID T4-1Q");
    assert_string_equal(first->device_api, "vfio-pci");
    assert_int_equal(first->available, 16); /* also those of the virtual function */
    assert_string_equal(second->type, "nvidia-231");
    assert_int_equal(second->available, 8);
    assert_int_equal(gpu->mdevs->len, 1);
    assert_string_equal(((struct vg_inv_mdev *)gpu->mdevs->pdata[0])->uuid, UUID_MDEV);

    const struct vg_inv_device *mdev = vm->devices->pdata[0], *pci = vm->devices->pdata[1];
    assert_string_equal(mdev->parent, "0000:41:00.0");
    assert_string_equal(mdev->mdev_type, "nvidia-230");
    assert_true(pci->is_gpu);
}

/* As the test driver writes it: without parent_addr. */
static void
test_mdev_parent(void **state)
{
    static const struct {
        const char *parts;
        const char *parent;
    } cases[] = {
        {"<parent>pci_0000_65_00_0</parent>", "0000:65:00.0"},
        {"<parent>pci_10000_65_00_0</parent>", "10000:65:00.0"},
        {"<parent>computer</parent>", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *xml = g_strdup_printf(
            "<device>%s<capability type='mdev'><uuid>u</uuid></capability></device>",
            cases[i].parts);
        g_autoptr(vg_node_device) device = vg_node_device_read(xml, NULL);
        assert_int_equal(device->kind, VG_NODE_DEVICE_MDEV);
        assert_int_equal(g_strcmp0(device->parent, cases[i].parent), 0);
    }
}

static void
test_other_devices(void **state)
{
    static const char *const others[] = {
        "<device/>",
        "<device><capability type='pci'/></device>",
        /* A network card; a display device without an address. */
        ("<device><capability type='pci'><class>0x020000</class><domain>0</domain><bus>1</bus>"
         "<slot>0</slot><function>0</function></capability></device>"),
        "<device><capability type='pci'><class>0x030000</class></capability></device>",
        "<device><capability type='mdev'/></device>",
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++) {
        g_autoptr(vg_node_device) device = vg_node_device_read(others[i], NULL);
        assert_int_equal(device->kind, VG_NODE_DEVICE_OTHER);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nova_domain),   cmocka_unit_test(test_domain_parts),
        cmocka_unit_test(test_managers),      cmocka_unit_test(test_virtio_gpus),
        cmocka_unit_test(test_cpu_quotas),    cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bad_xml),       cmocka_unit_test(test_capabilities),
        cmocka_unit_test(test_gpus),          cmocka_unit_test(test_mdev_parent),
        cmocka_unit_test(test_other_devices),
    };
    return cmocka_run_group_tests_name("libvirt-xml", tests, NULL, NULL);
}
