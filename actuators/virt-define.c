/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes the persistent definition of a domain, which may be stopped, and ends a paused domain.
 */
#include "config.h"

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/error.h"

static int
define_add(vg_virt_host *host, virDomainPtr domain, const char *alias,
           const vg_domain_device *wanted, GError **err)
{
    g_autoptr(GPtrArray) inactive =
        vg_virt_host_devices(host, domain, VIR_DOMAIN_XML_INACTIVE, err);

    if (!inactive)
        return -1;
    if (vg_domain_devices_find(inactive, alias, wanted->source_address))
        return 0;
    g_autofree char *element = vg_domain_devices_occupy(inactive, wanted->guest_address)
                                   ? vg_device_xml_make(wanted->xml, alias, NULL, NULL, err)
                                   : g_strdup(wanted->xml);
    if (!element)
        return -1;
    if (virDomainAttachDeviceFlags(domain, element, VIR_DOMAIN_AFFECT_CONFIG) < 0)
        return vg_virt_host_failed(host, err, "cannot add '%s' to the definition of '%s'", alias,
                                   virDomainGetName(domain));
    return 0;
}

int
vg_virt_host_define_device(vg_virt_host *host, const char *uuid,
                           const struct vg_move_device *device, const char *xml, GError **err)
{
    if (!device->persistent)
        return 0;
    g_autoptr(vg_domain_device) wanted = vg_domain_device_read(xml, err);
    g_autoptr(virDomain) domain = wanted ? vg_virt_host_domain(host, uuid, err) : NULL;
    if (!domain)
        return -1;
    return virDomainIsPersistent(domain) == 1 ? define_add(host, domain, device->alias, wanted, err)
                                              : 0;
}

int
vg_virt_host_end_paused(vg_virt_host *host, const char *uuid, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    int state = VIR_DOMAIN_NOSTATE;

    if (!domain)
        return -1;
    if (virDomainGetState(domain, &state, NULL, 0) < 0 || state != VIR_DOMAIN_PAUSED)
        return vg_error(err, VG_E_CONFLICT, "'%s' is not paused on '%s'", virDomainGetName(domain),
                        host->uri);
    if (virDomainDestroy(domain) < 0)
        return vg_virt_host_failed(host, err, "cannot end '%s'", virDomainGetName(domain));
    return 0;
}

int
vg_virt_host_undefine(vg_virt_host *host, const char *uuid, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);

    if (!domain)
        return -1;
    if (virDomainIsActive(domain) != 0)
        return vg_error(err, VG_E_CONFLICT, "'%s' is running on '%s'", virDomainGetName(domain),
                        host->uri);
    if (virDomainUndefineFlags(domain, VIR_DOMAIN_UNDEFINE_KEEP_NVRAM) < 0)
        return vg_virt_host_failed(host, err, "cannot undefine '%s'", virDomainGetName(domain));
    return 0;
}
