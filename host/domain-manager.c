/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources, as published in the managers' own repositories: oVirt, OVIRT_VM_URI in the engine's
 * LibvirtVmXmlBuilder.java, and vdsm's metadata; OpenNebula, <one:vm> in its KVM driver; KubeVirt,
 * <kubevirt> in the metadata of virt-launcher's tests; ZStack, ZS_XML_NAMESPACE in
 * kvmagent/plugins/vm_plugin.py; CloudStack, the SMBIOS entries in the tests of its KVM agent. An
 * operator may change their product, their manufacturer, or both.
 */
#include "config.h"

#include "host/domain-manager.h"

#include <string.h>

#include "host/xml-walk.h"

#define TEXT_BYTES_MAX VG_SNAPSHOT_NAME_MAX

/* KubeVirt's separator between the name space and the name of a VM. */
#define KUBEVIRT_SEPARATOR '_'

/* ---- the commands of managers ---- */

/* Returns the text if a shell needs no quotes for its characters, otherwise a placeholder. */
static const char *
manager_word(const char *text, const char *word)
{
    const char *plain = G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-._";

    return text && *text && strspn(text, plain) == strlen(text) ? text : word;
}

static char *
manager_move_ovirt(const struct vg_inv_vm *vm, const xmlNode *mark)
{
    (void)mark;
    return g_strdup_printf("'Migrate' of its Administration Portal, or POST "
                           "/ovirt-engine/api/vms/%s/migrate",
                           manager_word(vm->uuid, "ID"));
}

static char *
manager_move_opennebula(const struct vg_inv_vm *vm, const xmlNode *mark)
{
    g_autofree char *id = vg_xml_text(vg_xml_child(mark, "id"), TEXT_BYTES_MAX);

    return g_strdup_printf("'onevm migrate --live %s HOST'",
                           manager_word(id ? id : vm->name, "VM"));
}

static char *
manager_move_kubevirt(const struct vg_inv_vm *vm, const xmlNode *mark)
{
    const char *name = vm->name ? strchr(vm->name, KUBEVIRT_SEPARATOR) : NULL;
    g_autofree char *space = name ? g_strndup(vm->name, (gsize)(name - vm->name)) : NULL;

    (void)mark;
    return g_strdup_printf("'virtctl migrate %s -n %s'", manager_word(name ? name + 1 : NULL, "VM"),
                           manager_word(space, "NAMESPACE"));
}

static char *
manager_move_cloudstack(const struct vg_inv_vm *vm, const xmlNode *mark)
{
    const bool user = !vm->name || g_str_has_prefix(vm->name, "i-");
    const bool router = !user && g_str_has_prefix(vm->name, "r-");

    (void)mark;
    return g_strdup_printf("'cmk migrate %s virtualmachineid=%s hostid=HOST'",
                           user || router ? "virtualmachine" : "systemvm",
                           manager_word(router ? NULL : vm->uuid, "ID"));
}

static char *
manager_move_zstack(const struct vg_inv_vm *vm, const xmlNode *mark)
{
    (void)mark;
    return g_strdup_printf("'zstack-cli MigrateVm vmInstanceUuid=%s hostUuid=HOST'",
                           manager_word(vm->name, "UUID"));
}

/* ---- the marks ---- */

static const struct manager_row {
    const char *name;
    const char *space; /* name space of an element in <metadata>, possibly followed by a version */
    char *(*move)(const struct vg_inv_vm *vm, const xmlNode *mark);
} manager_rows[] = {
    {"oVirt", "http://ovirt.org/vm/", manager_move_ovirt},
    {"OpenNebula", "http://opennebula.org/xmlns/libvirt/", manager_move_opennebula},
    {"KubeVirt", "http://kubevirt.io", manager_move_kubevirt},
    {"ZStack", "http://zstack.org", manager_move_zstack},
};

static void
manager_set(struct vg_inv_vm *vm, const char *name, char *take_move)
{
    g_free(vm->manager);
    g_free(vm->manager_move);
    vm->manager = g_strdup(name);
    vm->manager_move = take_move;
}

/* Recognises CloudStack's names: i-ACCOUNT-NUMBER-VM, and r-, s- and v-NUMBER-VM for its own
 * VMs. */
static bool
manager_is_cloudstack_name(const char *name)
{
    return name && g_regex_match_simple("^(i-[0-9]+|[rsv])-[0-9]+-VM$", name, 0, 0);
}

/* Detects CloudStack, which adds nothing to <metadata>, but to the VM's SMBIOS. */
static bool
manager_is_cloudstack(const xmlNode *domain, const char *name)
{
    const xmlNode *entry = vg_xml_at(domain, "sysinfo/system/entry");

    for (; entry; entry = vg_xml_next(entry)) {
        g_autofree char *text = vg_xml_text(entry, TEXT_BYTES_MAX);
        if (vg_xml_attribute_is(entry, "name", "product") && text &&
            g_str_has_prefix(text, "CloudStack "))
            return true;
        if (vg_xml_attribute_is(entry, "name", "manufacturer") &&
            g_strcmp0(text, "Apache Software Foundation") == 0)
            return true;
    }
    return manager_is_cloudstack_name(name);
}

void
domain_manager_read(const xmlNode *domain, struct vg_inv_vm *vm)
{
    const xmlNode *metadata = vg_xml_child(domain, "metadata");

    for (const xmlNode *mark = metadata ? metadata->children : NULL; mark; mark = mark->next) {
        const char *space =
            mark->type == XML_ELEMENT_NODE && mark->ns ? (const char *)mark->ns->href : NULL;
        for (size_t i = 0; space && i < G_N_ELEMENTS(manager_rows); i++)
            if (g_str_has_prefix(space, manager_rows[i].space)) {
                manager_set(vm, manager_rows[i].name, manager_rows[i].move(vm, mark));
                return;
            }
    }
    if (manager_is_cloudstack(domain, vm->name))
        manager_set(vm, "CloudStack", manager_move_cloudstack(vm, NULL));
}
