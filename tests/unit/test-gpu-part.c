/* SPDX-License-Identifier: Apache-2.0
 *
 * What of GPUs is free, and why: hosts as libvirt, sysfs and /proc describe them, written by hand.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/domain-xml.h"
#include "host/gpu-cards.h"
#include "host/gpu-local.h"
#include "host/node-device.h"
#include "model/gpu-part.h"
#include "tests/unit/fake-proc.h"

/* A host being described: PCI devices and mdevs, then VMs; part() completes it. */
struct host {
    char *dir; /* of sys and proc */
    GPtrArray *devices;
    vg_inventory *inventory;
    GPtrArray *taken;
    GPtrArray *parts; /* NULL: not yet complete */
};

static void
free_device(void *device)
{
    vg_node_device_free(device);
}

static int
setup(void **state)
{
    struct host *host = g_new0(struct host, 1);

    host->dir = fake_proc_new();
    host->devices = g_ptr_array_new_with_free_func(free_device);
    host->inventory = vg_inventory_new("h1");
    host->taken = g_ptr_array_new_with_free_func(g_free);
    *state = host;
    return 0;
}

static int
teardown(void **state)
{
    struct host *host = *state;

    if (host->parts)
        g_ptr_array_unref(host->parts);
    g_ptr_array_unref(host->taken);
    g_ptr_array_unref(host->devices);
    vg_inventory_free(host->inventory);
    fake_proc_remove(host->dir);
    g_free(host->dir);
    g_free(host);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static vg_node_device *
add_xml(struct host *host, const char *xml)
{
    vg_node_device *device = vg_node_device_read(xml, NULL);

    assert_non_null(device);
    g_ptr_array_add(host->devices, device);
    return device;
}

/* At bus:00.function, of a class and ids such as "10de:2331". driver: NULL: none. */
static void
add_pci(struct host *host, int bus, int function, const char *class, const char *ids,
        const char *driver, const char *more)
{
    g_autofree char *bound =
        driver ? g_strdup_printf("<driver><name>%s</name></driver>", driver) : g_strdup("");
    g_autofree char *xml = g_strdup_printf(
        "<device><name>pci_0000_%02x_00_%d</name><parent>computer</parent>%s<capability "
        "type='pci'><class>%s</class><domain>0</domain><bus>%d</bus><slot>0</slot>"
        "<function>%d</function><product id='0x%s'/><vendor id='0x%.4s'/>%s</capability></device>",
        bus, function, bound, class, bus, function, ids + 5, ids, more);

    add_xml(host, xml);
}

static void
add_vf(struct host *host, int bus, int function, const char *ids, const char *driver)
{
    g_autofree char *physical =
        g_strdup_printf("<capability type='phys_function'><address domain='0x0000' bus='0x%02x' "
                        "slot='0x00' function='0x0'/></capability>",
                        bus);

    add_pci(host, bus, function, "0x030200", ids, driver, physical);
}

/* A disk controller with two virtual functions, and a card that no class describes. */
static void
test_cards(void **state)
{
    struct host *host = *state;
    static const char storage[] = "0x010802", none[] = "0x00ff00";
    static const char physical[] =
        "<capability type='phys_function'><address domain='0x0000' bus='0x41' slot='0x00' "
        "function='0x0'/></capability>";

    assert_int_equal(vg_gpu_cards_check("", NULL), 0);
    assert_int_equal(vg_gpu_cards_check("1b36:0010, 1234:11E8", NULL), 0);
    assert_int_equal(vg_gpu_cards_check("1b36:001", NULL), -1);
    assert_int_equal(vg_gpu_cards_check("1b36-0010", NULL), -1);
    assert_int_equal(vg_gpu_cards_check("1b36:001g", NULL), -1);
    add_pci(host, 0x42, 0, none, "1234:11e8", NULL, "");
    vg_node_devices_put(host->devices, host->inventory);
    assert_int_equal(host->inventory->gpus->len, 0);
    vg_gpu_cards_set("1b36:0010, 1234:11E8");
    g_ptr_array_set_size(host->devices, 0);
    add_pci(host, 0x41, 0, storage, "1b36:0010", "nvme", "");
    add_pci(host, 0x41, 1, storage, "1b36:0010", NULL, physical);
    add_pci(host, 0x41, 2, storage, "1b36:0010", "vfio-pci", physical);
    add_pci(host, 0x42, 0, none, "1234:11e8", NULL, "");
    add_pci(host, 0x43, 0, storage, "1b36:0011", NULL, "");
    vg_node_devices_put(host->devices, host->inventory);
    vg_gpu_cards_set("");
    g_autoptr(GPtrArray) parts = vg_gpu_parts(host->inventory, NULL);
    static const struct {
        const char *address, *type;
        enum vg_gpu_part_kind kind;
    } wanted[] = {
        {"0000:41:00.0", "1b36:0010", VG_GPU_PART_WHOLE},
        {"0000:41:00.1", "1b36:0010:vf2", VG_GPU_PART_VF},
        {"0000:41:00.2", "1b36:0010:vf2", VG_GPU_PART_VF},
        {"0000:42:00.0", "1234:11e8", VG_GPU_PART_WHOLE},
    };
    assert_int_equal(parts->len, G_N_ELEMENTS(wanted));
    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        assert_string_equal(part->address, wanted[i].address);
        assert_string_equal(part->type, wanted[i].type);
        assert_int_equal(part->kind, wanted[i].kind);
    }
}

#define MDEV "c2177883-f1bb-47f0-914d-00000000000%d"

static vg_node_device *
add_mdev(struct host *host, int bus, const char *type, int number)
{
    g_autofree char *xml =
        g_strdup_printf("<device><name>mdev_%d</name><parent>pci_0000_%02x_00_0</parent>"
                        "<capability type='mdev'><type id='%s'/><uuid>" MDEV "</uuid>"
                        "</capability></device>",
                        number, bus, type, number);

    return add_xml(host, xml);
}

/* A VM with one device: a hostdev's address element. */
static void
add_vm(struct host *host, const char *name, enum vg_domain_state state, const char *type,
       const char *address)
{
    g_autofree char *xml =
        g_strdup_printf("<domain><name>%s</name><devices><hostdev mode='subsystem' type='%s'>"
                        "<source>%s</source></hostdev></devices></domain>",
                        name, type, address);
    struct vg_inv_vm *vm = vg_inventory_add_vm(host->inventory, name);

    assert_int_equal(vg_domain_xml_read(xml, NULL, vm, NULL), 0);
    vm->state = state;
}

static void
add_vm_pci(struct host *host, const char *name, int bus, int function)
{
    g_autofree char *address = g_strdup_printf(
        "<address domain='0x0000' bus='0x%02x' slot='0x00' function='0x%d'/>", bus, function);

    add_vm(host, name, VG_DOMAIN_RUNNING, "pci", address);
}

static void
add_vm_mdev(struct host *host, const char *name, enum vg_domain_state state, int number)
{
    g_autofree char *address = g_strdup_printf("<address uuid='" MDEV "'/>", number);

    add_vm(host, name, state, "mdev", address);
}

static void
write_text(const struct host *host, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(host->dir, name, NULL);
    g_autofree char *dir = g_path_get_dirname(path);

    assert_int_equal(g_mkdir_with_parents(dir, 0700), 0);
    fake_proc_write(path, text, strlen(text));
}

static void
make_link(const struct host *host, const char *name, const char *target)
{
    g_autofree char *path = g_build_filename(host->dir, name, NULL);
    g_autofree char *dir = g_path_get_dirname(path);

    assert_int_equal(g_mkdir_with_parents(dir, 0700), 0);
    assert_int_equal(symlink(target, path), 0);
}

#define SYS "sys/bus/pci/devices/"

/* Gives a function an IOMMU group of its own. */
static void
make_group(const struct host *host, int bus, int function)
{
    g_autofree char *link = g_strdup_printf(SYS "0000:%02x:00.%d/iommu_group", bus, function);

    make_link(host, link, "../../../kernel/iommu_groups/1");
}

/* A process that has one file open. */
static void
open_file(const struct host *host, int pid, const char *comm, const char *file)
{
    g_autofree char *text = g_strdup_printf("proc/%d/comm", pid);
    g_autofree char *link = g_strdup_printf("proc/%d/fd/7", pid);

    write_text(host, text, comm);
    make_link(host, link, file);
}

static void
complete(struct host *host)
{
    g_autofree char *sys = g_build_filename(host->dir, "sys", NULL);
    g_autofree char *proc = g_build_filename(host->dir, "proc", NULL);

    if (host->parts)
        return;
    vg_node_devices_put(host->devices, host->inventory);
    vg_gpu_local_put(sys, proc, host->inventory);
    host->parts = vg_gpu_parts(host->inventory, host->taken);
}

static const struct vg_gpu_part *
find_part(struct host *host, const char *address)
{
    complete(host);
    for (guint i = 0; i < host->parts->len; i++) {
        const struct vg_gpu_part *part = host->parts->pdata[i];
        if (g_strcmp0(part->address, address) == 0)
            return part;
    }
    fail_msg("there is no part %s", address);
    return NULL;
}

/* words: what the reason says; NULL: type stays unknown. */
static void
expect(struct host *host, const char *address, const char *type, enum vg_gpu_part_state state,
       const char *words)
{
    const struct vg_gpu_part *part = find_part(host, address);

    if (g_strcmp0(part->type, type) != 0 || part->state != state || !strstr(part->why, words))
        fail_msg("%s: type %s, state %s: %s", address, part->type,
                 vg_gpu_part_state_names[part->state], part->why);
    assert_int_equal(part->free, state == VG_GPU_PART_FREE);
}

/* What a snapshot offers of a type on the first GPU; -1: nothing is known of it there. */
static int64_t
count_free(struct host *host, const char *type, int64_t *ret_made)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    struct vg_snap_host *snap = vg_snapshot_add_host(snapshot, "h1");

    complete(host);
    vg_inventory_describe(host->inventory, host->taken, snap);
    const struct vg_snap_gpu *gpu = snap->gpus->pdata[0];
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *one = gpu->vgpu_types->pdata[i];
        if (strcmp(one->type, type) != 0)
            continue;
        *ret_made = one->made;
        return one->free;
    }
    return -1;
}

static void
expect_free(struct host *host, const char *type, int64_t free, int64_t made)
{
    int64_t have_made = 0;

    assert_int_equal(count_free(host, type, &have_made), free);
    if (free >= 0)
        assert_int_equal(have_made, made);
}

/* ---- what is a GPU ---- */

static void
test_classes(void **state)
{
    static const struct {
        const char *class;
        bool is_gpu;
    } classes[] = {
        {"0x030000", true},  /* VGA */
        {"0x030200", true},  /* 3D */
        {"0x038000", true},  /* other display */
        {"0x120000", true},  /* processing accelerator */
        {"0x12ff00", true},  /* whatever comes in that class */
        {"0x020000", false}, /* network */
        {"0x0b4000", false}, /* co-processor */
        {"0x048000", false}, /* multimedia, a neighbour in number */
    };
    struct host *host = *state;
    guint gpus = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(classes); i++) {
        add_pci(host, 0x10 + (int)i, 0, classes[i].class, "1002:74a5", "vfio-pci", "");
        gpus += classes[i].is_gpu;
    }
    add_vm_pci(host, "train", 0x13, 0);
    add_vm_pci(host, "other", 0x15, 0);
    complete(host);
    assert_int_equal(host->inventory->gpus->len, gpus);
    const struct vg_inv_vm *train = host->inventory->vms->pdata[0];
    const struct vg_inv_vm *other = host->inventory->vms->pdata[1];
    const struct vg_inv_device *device = train->devices->pdata[0];
    assert_true(device->is_gpu);
    assert_string_equal(device->gpu_type, "1002:74a5");
    assert_false(((struct vg_inv_device *)other->devices->pdata[0])->is_gpu);
    expect(host, "0000:13:00.0", "1002:74a5", VG_GPU_PART_USED, "assigned to VM 'train'");
    expect(host, "0000:14:00.0", "1002:74a5", VG_GPU_PART_FREE, "bound to vfio-pci");
}

/* Sound and USB of a card with a display, and of none. */
static void
test_functions(void **state)
{
    struct host *host = *state;

    add_pci(host, 0x41, 0, "0x030000", "10de:1e30", "vfio-pci", "");
    add_pci(host, 0x41, 1, "0x040300", "10de:10f7", "vfio-pci", "");
    add_pci(host, 0x41, 2, "0x0c0330", "10de:1ad6", "xhci_hcd", "");
    add_pci(host, 0x41, 3, "0x0c8000", "10de:1ad7", NULL, "");
    add_pci(host, 0x42, 3, "0x040300", "8086:a170", "snd_hda_intel", "");
    add_vm_pci(host, "render", 0x41, 1);
    complete(host);
    const struct vg_inv_gpu *gpu = host->inventory->gpus->pdata[0];
    const struct vg_inv_function *const functions[] = {
        gpu->functions->pdata[0], gpu->functions->pdata[1], gpu->functions->pdata[2]};
    assert_int_equal(host->inventory->gpus->len, 1);
    assert_int_equal(gpu->functions->len, 3);
    assert_string_equal(functions[0]->what, "audio");
    assert_string_equal(functions[1]->what, "USB");
    assert_string_equal(functions[2]->what, "USB-C");
    const struct vg_inv_vm *render = host->inventory->vms->pdata[0];
    const struct vg_inv_device *device = render->devices->pdata[0];
    assert_false(device->is_gpu);
    assert_string_equal(device->function, "audio");
    assert_string_equal(device->parent, "0000:41:00.0");
    expect(host, "0000:41:00.1", "10de:10f7", VG_GPU_PART_USED, "'render'");
    expect(host, "0000:41:00.2", "10de:1ad6", VG_GPU_PART_FREE,
           "USB next to the GPU, bound to xhci");
}

/* ---- mediated devices ---- */

static const char types_230[] =
    "<capability type='mdev_types'><type id='nvidia-230'><name>GRID T4-4Q</name>"
    "<deviceAPI>vfio-pci</deviceAPI><availableInstances>%d</availableInstances></type>"
    "</capability>";

static void
add_t4(struct host *host, int available)
{
    g_autofree char *text = g_strdup_printf(types_230, available);

    add_pci(host, 0x41, 0, "0x030200", "10de:1eb8", "nvidia", text);
}

/* No room for more, but three of the four are nobody's. */
static void
test_mdevs_made_before(void **state)
{
    struct host *host = *state;

    add_t4(host, 0);
    for (int i = 1; i <= 4; i++)
        add_mdev(host, 0x41, "nvidia-230", i);
    add_vm_mdev(host, "inst-1", VG_DOMAIN_RUNNING, 1);
    expect_free(host, "nvidia-230", 3, 3);
    expect_free(host, "10de:1eb8", 0, 0);
    expect(host, "0000:41:00.0", "10de:1eb8", VG_GPU_PART_DIVIDED, "4 mediated devices");
    expect(host, "c2177883-f1bb-47f0-914d-000000000001", "nvidia-230", VG_GPU_PART_USED,
           "assigned to VM 'inst-1'");
}

/* Of five, one is of a VM that does not run, one is reserved, one was only defined, and one is of
 * another type; and two more could be made. */
static void
test_mdevs_of_all_kinds(void **state)
{
    struct host *host = *state;

    add_t4(host, 2);
    for (int i = 1; i <= 4; i++)
        add_mdev(host, 0x41, "nvidia-230", i);
    add_mdev(host, 0x41, "nvidia-231", 5);
    ((vg_node_device *)host->devices->pdata[3])->inactive = true;
    add_vm_mdev(host, "asleep", VG_DOMAIN_SHUTOFF, 1);
    g_ptr_array_add(host->taken, g_strdup("C2177883-F1BB-47F0-914D-000000000002"));
    expect(host, "c2177883-f1bb-47f0-914d-000000000001", "nvidia-230", VG_GPU_PART_USED,
           "'asleep', which is not running");
    expect(host, "c2177883-f1bb-47f0-914d-000000000002", "nvidia-230", VG_GPU_PART_RESERVED,
           "reserved");
    expect(host, "c2177883-f1bb-47f0-914d-000000000003", "nvidia-230", VG_GPU_PART_UNSET,
           "not started");
    expect_free(host, "nvidia-230", 3, 1);
    expect_free(host, "nvidia-231", 1, 1);
}

/* ---- virtual functions ---- */

/* The virtual functions of a card of 48 GiB, each of which offers one of 24 GiB and one of 12. */
static void
add_a40(struct host *host, int n)
{
    static const char offers[] =
        "<capability type='phys_function'><address domain='0x0000' bus='0x41' slot='0x00' "
        "function='0x0'/></capability><capability type='mdev_types'><type id='nvidia-562'>"
        "<name>NVIDIA A40-24Q</name><availableInstances>%d</availableInstances></type>"
        "<type id='nvidia-560'><name>NVIDIA A40-12Q</name><availableInstances>1"
        "</availableInstances></type></capability>";

    add_pci(host, 0x41, 0, "0x030200", "10de:2235", "nvidia", "");
    for (int i = 1; i <= n; i++) {
        g_autofree char *text = g_strdup_printf(offers, i > 1);
        add_pci(host, 0x41, i, "0x030200", "10de:2235", "nvidia", text);
    }
}

static void
tell_max(const struct host *host, const char *type, int max)
{
    g_autofree char *name =
        g_strdup_printf(SYS "0000:41:00.1/mdev_supported_types/%s/description", type);
    g_autofree char *text = g_strdup_printf("num_heads=4, framebuffer=24576M, max_resolution="
                                            "7680x4320, max_instance=%d\n",
                                            max);

    write_text(host, name, text);
}

/* Each function offers one for as long as the card is not full: the sum is not what the card has.
 */
static void
test_room_of_functions(void **state)
{
    struct host *host = *state;

    add_a40(host, 4);
    expect_free(host, "nvidia-562", 1, 0);
    expect_free(host, "nvidia-560", 1, 0);
    expect(host, "0000:41:00.2", NULL, VG_GPU_PART_UNSET, "it is not used for a mediated device");
}

static void
test_room_that_the_driver_tells(void **state)
{
    struct host *host = *state;

    add_a40(host, 4);
    add_mdev(host, 0x41, "nvidia-562", 1);
    tell_max(host, "nvidia-562", 2);
    tell_max(host, "nvidia-560", 9);
    expect_free(host, "nvidia-562", 2, 1);
    expect_free(host, "nvidia-560", 4, 0);
}

/* No group at all, one that VFIO made without an IOMMU, and a virtual function without one. */
static void
test_no_iommu(void **state)
{
    struct host *host = *state;
    static const char words[] = "the kernel has no IOMMU for it";

    add_pci(host, 0x41, 0, "0x030200", "10de:2331", "vfio-pci", "");
    add_pci(host, 0x42, 0, "0x030200", "10de:2331", "vfio-pci", "");
    add_pci(host, 0x43, 0, "0x038000", "8086:56c0", "i915", "");
    add_vf(host, 0x43, 1, "8086:56c0", "vfio-pci");
    add_vf(host, 0x43, 2, "8086:56c0", "vfio-pci");
    make_link(host, SYS "0000:41:00.0/driver", "../../drivers/vfio-pci");
    make_link(host, SYS "0000:42:00.0/driver", "../../drivers/vfio-pci");
    write_text(host, SYS "0000:42:00.0/iommu_group/name", "vfio-noiommu\n");
    make_link(host, SYS "0000:43:00.0/driver", "../../drivers/i915");
    make_link(host, SYS "0000:43:00.1/driver", "../../drivers/vfio-pci");
    make_link(host, SYS "0000:43:00.2/driver", "../../drivers/vfio-pci");
    make_group(host, 0x43, 2);
    expect(host, "0000:41:00.0", "10de:2331", VG_GPU_PART_UNSET, words);
    expect(host, "0000:42:00.0", "10de:2331", VG_GPU_PART_UNSET, words);
    expect(host, "0000:43:00.1", "8086:56c0:vf2", VG_GPU_PART_UNSET, words);
    expect(host, "0000:43:00.2", "8086:56c0:vf2", VG_GPU_PART_FREE, "not in use");
    expect_free(host, "10de:2331", 0, 0);
}

/* Displays of management controllers, and cards of the same vendors that are none. */
static void
test_displays(void **state)
{
    static const struct {
        const char *ids;
        bool is;
    } cases[] = {
        {"1a03:2000", true},  {"1a03:2010", true},  {"102b:0536", true},  {"102b:0522", true},
        {"19e5:1711", true},  {"126f:0750", true},  {"18ca:0020", true},  {"1002:515e", true},
        {"1002:4752", true},  {"102b:2527", false}, {"19e5:d100", false}, {"1002:74a5", false},
        {"10de:2331", false}, {"8086:56c0", false}, {NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
        if (vg_gpu_cards_is_display(cases[i].ids) != cases[i].is)
            fail_msg("%s", cases[i].ids);
    vg_gpu_cards_set("1a03:2000");
    assert_false(vg_gpu_cards_is_display("1a03:2000"));
    vg_gpu_cards_set("");
}

/* Of NVIDIA's own driver, as it is on kernel 6.8 and later. */
static void
test_vf_of_vendor_driver(void **state)
{
    struct host *host = *state;

    add_pci(host, 0x41, 0, "0x030200", "10de:26b9", "nvidia", "");
    for (int i = 4; i <= 7; i++)
        add_vf(host, 0x41, i, "10de:26b9", "nvidia");
    write_text(host, SYS "0000:41:00.4/nvidia/current_vgpu_type", "1153\n");
    write_text(host, SYS "0000:41:00.5/nvidia/current_vgpu_type", "1153\n");
    write_text(host, SYS "0000:41:00.6/nvidia/current_vgpu_type", "0\n");
    write_text(host, SYS "0000:41:00.6/nvidia/creatable_vgpu_types",
               "ID    : vGPU Name\n1153  : NVIDIA L40S-12Q\n1160  : NVIDIA L40S-48Q\n");
    add_vm_pci(host, "vgpu-1", 0x41, 4);
    for (int i = 4; i <= 6; i++) {
        g_autofree char *driver = g_strdup_printf(SYS "0000:41:00.%d/driver", i);
        make_link(host, driver, "../../../bus/pci/drivers/nvidia");
        make_group(host, 0x41, i);
    }
    expect(host, "0000:41:00.4", "nvidia-1153", VG_GPU_PART_USED, "'vgpu-1'");
    expect(host, "0000:41:00.5", "nvidia-1153", VG_GPU_PART_FREE, "a vGPU of nvidia");
    expect(host, "0000:41:00.6", NULL, VG_GPU_PART_UNSET, "it can become nvidia-1153, nvidia-1160");
    expect(host, "0000:41:00.7", NULL, VG_GPU_PART_UNKNOWN, "its vGPU type is unknown");
    expect_free(host, "nvidia-1153", 1, 1);
    expect_free(host, "nvidia-1160", -1, 0);
    const struct vg_inv_vm *vm = host->inventory->vms->pdata[0];
    const struct vg_inv_device *device = vm->devices->pdata[0];
    assert_string_equal(device->gpu_type, "nvidia-1153");
    assert_string_equal(device->parent, "0000:41:00.0");
    assert_true(find_part(host, "0000:41:00.5")->bound);
}

/* Those of AMD and Intel are as large as there are of them; a whole GPU has another type, also
 * where it has the same PCI id. */
static void
test_vf_by_number(void **state)
{
    struct host *host = *state;

    add_pci(host, 0x41, 0, "0x038000", "8086:56c0", "i915", "");
    for (int i = 1; i <= 3; i++)
        add_vf(host, 0x41, i, "8086:56c0", i == 1 ? "xe-vfio-pci" : i == 2 ? NULL : "i915");
    add_pci(host, 0x42, 0, "0x120000", "1002:74a1", "gim", "");
    add_vf(host, 0x42, 1, "1002:74b5", "vfio-pci");
    expect(host, "0000:41:00.0", "8086:56c0", VG_GPU_PART_DIVIDED, "3 virtual functions");
    expect(host, "0000:41:00.1", "8086:56c0:vf3", VG_GPU_PART_FREE, "bound to xe-vfio-pci");
    expect(host, "0000:41:00.2", "8086:56c0:vf3", VG_GPU_PART_FREE, "no driver");
    expect(host, "0000:41:00.3", "8086:56c0:vf3", VG_GPU_PART_UNKNOWN,
           "bound to i915; it is unknown whether");
    expect(host, "0000:42:00.1", "1002:74b5:vf1", VG_GPU_PART_FREE, "vfio-pci");
    expect_free(host, "8086:56c0", 0, 0);
    expect_free(host, "8086:56c0:vf3", 2, 2);
}

/* ---- who works with it ---- */

static void
test_host_uses(void **state)
{
    struct host *host = *state;

    for (int bus = 0x41; bus <= 0x49; bus++) {
        g_autofree char *dir = g_strdup_printf(SYS "0000:%02x:00.0/class", bus);
        add_pci(host, bus, 0, "0x030200", "10de:2331", bus == 0x42 ? "vfio-pci" : "nvidia", "");
        if (bus != 0x47)
            write_text(host, dir, "0x030200\n");
    }
    make_link(host, SYS "0000:41:00.0/driver", "../../drivers/nvidia");
    make_link(host, SYS "0000:42:00.0/driver", "../../drivers/vfio-pci");
    make_link(host, SYS "0000:43:00.0/driver", "../../drivers/nvidia");
    make_link(host, SYS "0000:44:00.0/driver", "../../drivers/amdgpu");
    make_link(host, SYS "0000:45:00.0/driver", "../../drivers/vfio-pci");
    make_link(host, SYS "0000:45:00.0/iommu_group", "../../../kernel/iommu_groups/29");
    for (int bus = 0x41; bus <= 0x49; bus++)
        if (bus != 0x45 && bus != 0x47)
            make_group(host, bus, 0);
    write_text(host, "proc/driver/nvidia/gpus/0000:41:00.0/information",
               "Model: \t\t H100\nDevice Minor: \t 3\n");
    write_text(host, "proc/driver/nvidia/gpus/0000:43:00.0/information",
               "Model: \t\t H100\nDevice Minor: \t 4\n");
    write_text(host, SYS "0000:44:00.0/drm/renderD129/dev", "226:129\n");
    /* Drivers whose nodes only sysfs tells. */
    make_link(host, SYS "0000:48:00.0/driver", "../../drivers/uio_pci_generic");
    make_link(host, SYS "0000:49:00.0/driver", "../../drivers/nvme");
    write_text(host, SYS "0000:48:00.0/uio/uio0/uevent", "MAJOR=246\nMINOR=0\nDEVNAME=uio0\n");
    write_text(host, SYS "0000:49:00.0/nvme/nvme0/nvme0n1/nvme0n1p2/uevent",
               "DEVNAME=nvme0n1p2\nDEVTYPE=partition\n");
    write_text(host, "proc/1/mountinfo",
               "24 1 0:22 / /sys rw - sysfs sysfs rw\n"
               "29 1 259:2 / /srv rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw\n");
    open_file(host, 811, "dpdk\n", "/dev/uio0");
    open_file(host, 812, "python3\n", "/dev/nvidia3");
    open_file(host, 813, "Xorg\n", "/dev/dri/renderD129");
    open_file(host, 814, "qemu-system-x86\n", "/dev/vfio/29");
    open_file(host, 815, "sh\n", "/dev/null");
    expect(host, "0000:41:00.0", "10de:2331", VG_GPU_PART_HOST, "in use by python3 [812]");
    expect(host, "0000:42:00.0", "10de:2331", VG_GPU_PART_FREE, "bound to vfio-pci");
    expect(host, "0000:43:00.0", "10de:2331", VG_GPU_PART_FREE, "no program has it open");
    expect(host, "0000:44:00.0", "10de:2331", VG_GPU_PART_HOST, "amdgpu, and in use by Xorg [813]");
    expect(host, "0000:45:00.0", "10de:2331", VG_GPU_PART_USED, "in use by qemu-system-x86 [814]");
    /* Its driver went after libvirt had looked. */
    expect(host, "0000:46:00.0", "10de:2331", VG_GPU_PART_FREE, "no driver");
    expect(host, "0000:47:00.0", "10de:2331", VG_GPU_PART_UNKNOWN,
           "it is unknown whether a host program uses it");
    expect(host, "0000:48:00.0", "10de:2331", VG_GPU_PART_HOST, "in use by dpdk [811]");
    expect(host, "0000:49:00.0", "10de:2331", VG_GPU_PART_HOST,
           "in use by a file system on /dev/nvme0n1p2");
    assert_false(find_part(host, "0000:42:00.0")->last);
    assert_true(find_part(host, "0000:43:00.0")->last);
}

/* Which of NVIDIA's nodes is whose is not known: each may be. Who holds it is told, as far as
 * three. */
static void
test_node_of_unknown_gpu(void **state)
{
    struct host *host = *state;

    add_pci(host, 0x41, 0, "0x030200", "10de:2331", "nvidia", "");
    make_link(host, SYS "0000:41:00.0/driver", "../../drivers/nvidia");
    make_group(host, 0x41, 0);
    for (int pid = 9; pid <= 13; pid++)
        open_file(host, pid, "train\n", "/dev/nvidia0");
    open_file(host, 20, "smi\n", "/dev/nvidiactl");
    expect(host, "0000:41:00.0", "10de:2331", VG_GPU_PART_HOST,
           "in use by train [9], train [10], train [11] and 2 more");
}

/* A GPU that could be had, but for the sound of the same card. */
static void
test_iommu_group(void **state)
{
    struct host *host = *state;
    static const char group[] = "<iommuGroup number='15'/>";

    add_pci(host, 0x41, 0, "0x030000", "10de:1e30", "vfio-pci", group);
    add_pci(host, 0x41, 1, "0x040300", "10de:10f7", "snd_hda_intel", group);
    add_pci(host, 0x42, 0, "0x030000", "10de:1e30", "vfio-pci", "<iommuGroup number='16'/>");
    add_pci(host, 0x42, 1, "0x040300", "10de:10f7", "snd_hda_intel", "<iommuGroup number='17'/>");
    expect(host, "0000:41:00.0", "10de:1e30", VG_GPU_PART_HOST,
           "0000:41:00.1 (audio) is bound to snd_hda_intel, and is in the same IOMMU group 15");
    expect(host, "0000:42:00.0", "10de:1e30", VG_GPU_PART_FREE, "vfio-pci");
    assert_true(find_part(host, "0000:41:00.0")->by_function);
}

/* What else is in the group keeps a GPU from VMs wherever it sits, unless it is a bridge, or
 * nothing drives it; what is in the slot but not in the group does not. */
static void
test_iommu_group_of_others(void **state)
{
    struct host *host = *state;

    add_pci(host, 0x41, 0, "0x038000", "1234:1111", "vfio-pci", "<iommuGroup number='15'/>");
    add_pci(host, 0x51, 0, "0x020000", "8086:10d3", "e1000e", "<iommuGroup number='15'/>");
    add_pci(host, 0x42, 0, "0x038000", "1234:1111", "vfio-pci", "<iommuGroup number='16'/>");
    add_pci(host, 0x42, 1, "0x060400", "1b36:000c", "pcieport", "<iommuGroup number='16'/>");
    add_pci(host, 0x52, 0, "0x00ff00", "1234:11e8", NULL, "<iommuGroup number='16'/>");
    add_pci(host, 0x43, 0, "0x038000", "1234:1111", "vfio-pci", "<iommuGroup number='17'/>");
    add_pci(host, 0x43, 1, "0x010802", "1b36:0010", "nvme", "<iommuGroup number='18'/>");
    /* Of no group: there is no IOMMU. */
    add_pci(host, 0x44, 0, "0x038000", "1234:1111", "vfio-pci", "");
    add_pci(host, 0x44, 1, "0x010802", "1b36:0010", "nvme", "");
    expect(host, "0000:41:00.0", "1234:1111", VG_GPU_PART_HOST,
           "0000:51:00.0 (network) is bound to e1000e, and is in the same IOMMU group 15");
    expect(host, "0000:42:00.0", "1234:1111", VG_GPU_PART_FREE, "vfio-pci");
    expect(host, "0000:43:00.0", "1234:1111", VG_GPU_PART_FREE, "vfio-pci");
    expect(host, "0000:44:00.0", "1234:1111", VG_GPU_PART_FREE, "vfio-pci");
}

static void
test_types(void **state)
{
    (void)state;
    assert_true(vg_gpu_type_is_whole("10de:2331"));
    assert_false(vg_gpu_type_is_whole("8086:56c0:vf3"));
    assert_false(vg_gpu_type_is_whole("nvidia-230"));
    assert_false(vg_gpu_type_is_whole(""));
    assert_false(vg_gpu_type_is_whole("10de:233"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cards),
        TEST(test_classes),
        TEST(test_functions),
        TEST(test_mdevs_made_before),
        TEST(test_mdevs_of_all_kinds),
        TEST(test_room_of_functions),
        TEST(test_room_that_the_driver_tells),
        TEST(test_no_iommu),
        cmocka_unit_test(test_displays),
        TEST(test_vf_of_vendor_driver),
        TEST(test_vf_by_number),
        TEST(test_host_uses),
        TEST(test_node_of_unknown_gpu),
        TEST(test_iommu_group),
        TEST(test_iommu_group_of_others),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests_name("gpu-part", tests, NULL, NULL);
}
