/* SPDX-License-Identifier: Apache-2.0
 *
 * Collects the inventory of a host's GPUs, and of the domains that use them.
 */
#include "config.h"

#include <stdlib.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "host/domain-xml.h"
#include "host/gpu-local.h"

/* Adds all domains, the running ones with their live definition. */
static int
inventory_read_domains(vg_virt_host *host, vg_inventory *inventory, GError **err)
{
    virDomainPtr *domains = NULL;
    int n = virConnectListAllDomains(host->connection, &domains, 0);

    if (n < 0)
        return vg_virt_host_failed(host, err, "cannot list the domains");
    for (int i = 0; i < n; i++) {
        g_autoptr(virDomain) domain = domains[i];
        g_autofree char *xml = vg_virt_own(virDomainGetXMLDesc(domain, 0));
        vg_virt_host_goes_on(host);
        /* A domain that has stopped in the meantime has no XML. */
        struct vg_inv_vm *vm = xml ? vg_inventory_add_vm(inventory, NULL) : NULL;
        if (vm && vg_domain_xml_read(xml, NULL, vm, NULL) < 0)
            vg_record_truncate(&vg_inv_vm_record, inventory->vms, inventory->vms->len - 1);
        else if (vm)
            vm->state = virDomainIsActive(domain) == 0 ? VG_DOMAIN_SHUTOFF : VG_DOMAIN_RUNNING;
    }
    free(domains);
    virResetLastError();
    return 0;
}

vg_inventory *
vg_virt_host_inventory(vg_virt_host *host, const GPtrArray *node_devices, GError **err)
{
    g_autoptr(vg_inventory) inventory = vg_inventory_new(NULL);
    g_autofree char *sys = g_build_filename(host->root, "sys", NULL);
    g_autofree char *proc = g_build_filename(host->root, "proc", NULL);

    if (inventory_read_domains(host, inventory, err) < 0)
        return NULL;
    vg_node_devices_put(node_devices, inventory);
    if (vg_gpu_local_is(host->uri))
        vg_gpu_local_put(sys, proc, inventory);
    return g_steal_pointer(&inventory);
}
