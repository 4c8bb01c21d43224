/* SPDX-License-Identifier: Apache-2.0
 *
 * Attaches a device to a running domain, at its old address if that is free.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/error.h"

/* Creates the element to attach, without its address if another device uses it. */
static char *
element_for(const GPtrArray *live, const vg_domain_device *wanted, const char *alias,
            const struct vg_verb *verb, GError **err)
{
    if (!vg_domain_devices_occupy(live, wanted->guest_address))
        return g_strdup(wanted->xml);
    g_autofree char *text =
        g_strdup_printf("the guest's address %s is in use, so %s gets a different address",
                        wanted->guest_address, alias);
    if (verb->tell)
        verb->tell(verb->data, NULL, text);
    return vg_device_xml_make(wanted->xml, alias, NULL, NULL, err);
}

static int
attach_live(vg_virt_host *host, virDomainPtr domain, const char *alias,
            const vg_domain_device *wanted, const struct vg_verb *verb, GError **err)
{
    g_autoptr(GPtrArray) before = vg_virt_host_devices(host, domain, 0, err);

    if (!before)
        return -1;
    if (vg_domain_devices_find(before, alias, wanted->source_address))
        return 0;
    g_autofree char *element = element_for(before, wanted, alias, verb, err);
    if (!element || vg_verb_pause(verb, 0, "the device to be attached", err) < 0)
        return -1;
    /* The live XML decides, whatever the result of this call. */
    virDomainAttachDeviceFlags(domain, element, VIR_DOMAIN_AFFECT_LIVE);
    g_autofree char *words = g_strdup(virGetLastErrorMessage());
    virResetLastError();
    g_autoptr(GPtrArray) after = vg_virt_host_devices(host, domain, 0, err);
    if (!after)
        return -1;
    const vg_domain_device *found = vg_domain_devices_find(after, alias, wanted->source_address);
    if (!found)
        return vg_error(err, VG_E_EXTERNAL, "'%s' cannot be attached to '%s' on '%s': %s", alias,
                        virDomainGetName(domain), host->uri, words);
    if (verb->tell && g_strcmp0(found->alias, alias) != 0) {
        g_autofree char *text = g_strdup_printf("%s is now called %s", alias, found->alias);
        verb->tell(verb->data, NULL, text);
    }
    return 0;
}

int
vg_virt_host_attach(vg_virt_host *host, const char *uuid, const struct vg_move_device *device,
                    const char *xml, const struct vg_verb *verb, GError **err)
{
    g_autoptr(vg_domain_device) wanted = vg_domain_device_read(xml, err);

    if (!wanted) {
        g_prefix_error(err, "the device '%s' to attach: ", device->alias);
        return -1;
    }
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    if (!domain || attach_live(host, domain, device->alias, wanted, verb, err) < 0)
        return -1;
    return vg_virt_host_define_device(host, uuid, device, xml, err);
}
