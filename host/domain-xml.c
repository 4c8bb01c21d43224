/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/domain-xml.h"

#include <string.h>

#include "host/domain-manager.h"
#include "host/qemu-owner.h"
#include "host/virtio-gpu.h"
#include "host/xml-walk.h"

#define NOVA_1_0 "http://openstack.org/xmlns/libvirt/nova/1.0"
#define NOVA_1_1 "http://openstack.org/xmlns/libvirt/nova/1.1"

#define NAME_MAX_BYTES VG_SNAPSHOT_NAME_MAX
#define TEXT_MAX_BYTES VG_SNAPSHOT_TEXT_FIELD_MAX

/* In microseconds: libvirt's default period, its longest one, and the least value that means no
 * quota. */
#define QUOTA_PERIOD_US     100000
#define QUOTA_PERIOD_MAX_US 1000000
#define QUOTA_MAX_US        INT64_C(17592186044415)

#define MEMORY_MAX (INT64_C(1) << 50)

static char *
lower(char *take_text)
{
    g_autofree char *text = take_text;

    return text ? g_ascii_strdown(text, -1) : NULL;
}

/* Replaces a string of a record. */
static void
set(char **member, char *take_value)
{
    g_free(*member);
    *member = take_value;
}

static int64_t
memory_of(const xmlNode *node)
{
    static const struct {
        const char *unit;
        int shift;
    } units[] = {{"b", 0},    {"bytes", 0}, {"k", 10},   {"KiB", 10}, {"M", 20},
                 {"MiB", 20}, {"G", 30},    {"GiB", 30}, {"T", 40},   {"TiB", 40}};
    int64_t value = vg_xml_number(node, MEMORY_MAX, 0);
    int shift = 10; /* without a unit it is KiB */

    for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
        if (vg_xml_attribute_is(node, "unit", units[i].unit))
            shift = units[i].shift;
    return value > MEMORY_MAX >> shift ? 0 : value << shift;
}

/* Finds the CPU model. Returns NULL if the guest has no fixed model. */
static char *
cpu_model_of(const xmlNode *domain, const char *host_cpu)
{
    const xmlNode *cpu = vg_xml_child(domain, "cpu");

    if (vg_xml_attribute_is(cpu, "mode", "host-passthrough") ||
        vg_xml_attribute_is(cpu, "mode", "host-model") ||
        vg_xml_attribute_is(cpu, "mode", "maximum"))
        return g_strdup(host_cpu);
    return vg_xml_text(vg_xml_child(cpu, "model"), NAME_MAX_BYTES);
}

static bool
has_attribute(const xmlNode *node, const char *name)
{
    g_autofree char *value = vg_xml_attribute(node, name, NAME_MAX_BYTES);

    return value != NULL;
}

static bool
is_pinned(const xmlNode *domain)
{
    const xmlNode *numa = vg_xml_child(domain, "numatune");
    const xmlNode *memory = vg_xml_child(numa, "memory");

    return vg_xml_at(domain, "cputune/vcpupin") || vg_xml_at(domain, "cputune/emulatorpin") ||
           vg_xml_child(numa, "memnode") || has_attribute(memory, "nodeset") ||
           vg_xml_attribute_is(memory, "placement", "auto") ||
           has_attribute(vg_xml_child(domain, "vcpu"), "cpuset");
}

/* Returns the cores that a quota of <cputune> grants per period, or 0 without a quota. */
static double
domain_xml_quota(const xmlNode *cputune, const char *period_name, const char *quota_name)
{
    int64_t period = vg_xml_number(vg_xml_child(cputune, period_name), QUOTA_PERIOD_MAX_US, 0);
    int64_t quota = vg_xml_number(vg_xml_child(cputune, quota_name), QUOTA_MAX_US, 0);

    return quota > 0 ? (double)quota / (double)(period > 0 ? period : QUOTA_PERIOD_US) : 0;
}

static double
cpu_limit_of(const xmlNode *domain, int64_t vcpus)
{
    const xmlNode *cputune = vg_xml_child(domain, "cputune");
    const double all = domain_xml_quota(cputune, "global_period", "global_quota");
    const double each = (double)vcpus * domain_xml_quota(cputune, "period", "quota");
    double limit = each > 0 && (all <= 0 || each < all) ? each : all;

    return limit < (double)vcpus ? limit : 0;
}

/* ---- devices ---- */

static void
read_hostdev(const xmlNode *hostdev, struct vg_inv_vm *vm)
{
    const xmlNode *address = vg_xml_at(hostdev, "source/address");
    bool mdev = vg_xml_attribute_is(hostdev, "type", "mdev");
    g_autofree char *what = NULL;

    if (mdev)
        what = lower(vg_xml_attribute(address, "uuid", NAME_MAX_BYTES));
    else if (vg_xml_attribute_is(hostdev, "type", "pci"))
        what = vg_xml_pci_address(address);
    if (!what || vm->devices->len >= VG_INVENTORY_DEVICES_MAX)
        return;
    struct vg_inv_device *device = vg_record_new(&vg_inv_device_record);
    device->kind = g_strdup(mdev ? "mdev" : "pci");
    device->address = g_steal_pointer(&what);
    device->alias = vg_xml_attribute(vg_xml_child(hostdev, "alias"), "name", NAME_MAX_BYTES);
    device->is_gpu = mdev;
    g_ptr_array_add(vm->devices, device);
}

/* ---- nova ---- */

static bool
is_nova(const xmlNode *node)
{
    const char *space = node->ns ? (const char *)node->ns->href : NULL;

    return space && (strcmp(space, NOVA_1_1) == 0 || strcmp(space, NOVA_1_0) == 0);
}

static void
read_nova(const xmlNode *domain, struct vg_inv_vm *vm)
{
    const xmlNode *instance = vg_xml_at(domain, "metadata/instance");

    while (instance && !is_nova(instance))
        instance = vg_xml_next(instance);
    if (!instance)
        return;
    const xmlNode *project = vg_xml_at(instance, "owner/project");
    const xmlNode *user = vg_xml_at(instance, "owner/user");
    vm->nova_managed = true;
    set(&vm->nova.name, vg_xml_text(vg_xml_child(instance, "name"), TEXT_MAX_BYTES));
    set(&vm->nova.flavor,
        vg_xml_attribute(vg_xml_child(instance, "flavor"), "name", TEXT_MAX_BYTES));
    set(&vm->nova.project_id, vg_xml_attribute(project, "uuid", TEXT_MAX_BYTES));
    set(&vm->nova.project_name, vg_xml_text(project, TEXT_MAX_BYTES));
    set(&vm->nova.user_id, vg_xml_attribute(user, "uuid", TEXT_MAX_BYTES));
    set(&vm->nova.user_name, vg_xml_text(user, TEXT_MAX_BYTES));
    set(&vm->nova.created, vg_xml_text(vg_xml_child(instance, "creationTime"), TEXT_MAX_BYTES));
}

/* ---- vgpud's own metadata ---- */

/* Reads the policy's mode. An unknown mode lets only people move the VM. */
static enum vg_policy_mode
domain_policy_of(const xmlNode *domain)
{
    const xmlNode *policy = vg_xml_at(domain, "metadata/policy");

    while (policy &&
           (!policy->ns || strcmp((const char *)policy->ns->href, VG_POLICY_XML_URI) != 0))
        policy = vg_xml_next(policy);
    if (!policy)
        return VG_POLICY_UNSET;
    if (vg_xml_attribute_is(policy, "mode", vg_policy_mode_names[VG_POLICY_NEVER]))
        return VG_POLICY_NEVER;
    return vg_xml_attribute_is(policy, "mode", vg_policy_mode_names[VG_POLICY_ACT])
               ? VG_POLICY_ACT
               : VG_POLICY_PROPOSE;
}

/* ---- the whole ---- */

/* Returns the user in the label of the security model that has users, or -1. */
static int64_t
domain_user_of(const xmlNode *domain)
{
    for (const xmlNode *label = vg_xml_child(domain, "seclabel"); label;
         label = vg_xml_next(label)) {
        g_autofree char *text = vg_xml_text(vg_xml_child(label, "label"), NAME_MAX_BYTES);
        if (vg_xml_attribute_is(label, "model", "dac"))
            return vg_qemu_owner_parse_label(text);
    }
    return -1;
}

int
vg_domain_xml_read(const char *xml, const char *host_cpu, struct vg_inv_vm *vm, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return -1;
    const xmlNode *domain = vg_xml_root(doc);
    const xmlNode *vcpu = vg_xml_child(domain, "vcpu");
    if (!vm->name)
        vm->name = vg_xml_text(vg_xml_child(domain, "name"), NAME_MAX_BYTES);
    if (!vm->uuid)
        vm->uuid = lower(vg_xml_text(vg_xml_child(domain, "uuid"), NAME_MAX_BYTES));
    vm->vcpus = vg_xml_attribute_number(vcpu, "current", VG_INVENTORY_VCPUS_MAX,
                                        vg_xml_number(vcpu, VG_INVENTORY_VCPUS_MAX, 0));
    vm->memory_bytes = memory_of(vg_xml_child(domain, "memory"));
    set(&vm->cpu_model, cpu_model_of(domain, host_cpu));
    vm->cpu_limit = cpu_limit_of(domain, vm->vcpus);
    vm->pinned = is_pinned(domain);
    vm->user = domain_user_of(domain);
    vm->policy = domain_policy_of(domain);
    read_nova(domain, vm);
    if (!vm->nova_managed)
        domain_manager_read(domain, vm);
    vm->virtio_gpu = vg_virtio_gpu_read(domain, &vm->hostmem_bytes);
    for (const xmlNode *hostdev = vg_xml_at(domain, "devices/hostdev"); hostdev;
         hostdev = vg_xml_next(hostdev))
        read_hostdev(hostdev, vm);
    return 0;
}

int
vg_capabilities_xml_read(const char *xml, vg_inventory *inventory, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "capabilities", err);

    if (!doc)
        return -1;
    const xmlNode *host = vg_xml_child(vg_xml_root(doc), "host");
    set(&inventory->uuid, lower(vg_xml_text(vg_xml_child(host, "uuid"), NAME_MAX_BYTES)));
    set(&inventory->cpu_model, vg_xml_text(vg_xml_at(host, "cpu/model"), NAME_MAX_BYTES));
    return 0;
}

int64_t
vg_capabilities_xml_user(const char *xml)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "capabilities", NULL);
    const xmlNode *model = doc ? vg_xml_at(vg_xml_root(doc), "host/secmodel") : NULL;

    for (; model; model = vg_xml_next(model)) {
        g_autofree char *name = vg_xml_text(vg_xml_child(model, "model"), NAME_MAX_BYTES);
        g_autofree char *label = vg_xml_text(vg_xml_child(model, "baselabel"), NAME_MAX_BYTES);
        if (g_strcmp0(name, "dac") == 0)
            return vg_qemu_owner_parse_label(label);
    }
    return -1;
}
