/* SPDX-License-Identifier: Apache-2.0
 *
 * Enables Vulkan in the persistent definition of a domain, and disables it.
 */
#include "config.h"

#include "actuators/virt-vulkan.h"

#include <unistd.h>

#include "actuators/virt-link.h"
#include "base/clock.h"
#include "base/error.h"
#include "host/vulkan-xml.h"

/* libvirt may have to start QEMU several times to determine its capabilities. */
#define VULKAN_CALL_NS (45 * VG_NS_PER_S)

#define VULKAN_XML_FLAGS (VIR_DOMAIN_XML_INACTIVE | VIR_DOMAIN_XML_SECURE)

struct vulkan_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    struct vg_vulkan_request *request;
    vg_vulkan_change *change;
};

static int
vulkan_define(vg_virt_host *host, const char *xml, GError **err)
{
    g_autoptr(virDomain) domain = virDomainDefineXML(host->connection, xml);

    return domain ? 0 : vg_virt_host_failed(host, err, "libvirt rejected the definition");
}

/* Records the change in the definition, after libvirt has added its own elements. */
static int
vulkan_note(vg_virt_host *host, virDomainPtr domain, const char *before,
            const struct vg_vulkan_request *request, char **ret_after, GError **err)
{
    g_autofree char *after = vg_virt_host_xml(host, domain, VULKAN_XML_FLAGS, err);

    if (!after || vg_vulkan_xml_check(after, err) < 0)
        return -1;
    g_autofree char *note = vg_vulkan_xml_note(
        before, after,
        request->hostmem_bytes > 0 ? request->hostmem_bytes : VG_VULKAN_HOSTMEM_DEFAULT, err);
    if (!note)
        return -1;
    if (virDomainSetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, note, VG_VULKAN_XML_PREFIX,
                             VG_VULKAN_XML_URI, VIR_DOMAIN_AFFECT_CONFIG) < 0)
        return vg_virt_host_failed(host, err, "libvirt rejected the record of the change");
    *ret_after = g_steal_pointer(&after);
    return 0;
}

/* Replaces the definition. plain is the definition without Vulkan. */
static int
vulkan_write(vg_virt_host *host, virDomainPtr domain, const struct vulkan_job *job, const char *now,
             const char *plain, char **next, GError **err)
{
    g_autofree char *after = NULL;

    if (vulkan_define(host, *next, err) < 0)
        return -1;
    if (!job->request->enabled) {
        after = vg_virt_host_xml(host, domain, VULKAN_XML_FLAGS, err);
        if (!after)
            return -1;
    } else if (vulkan_note(host, domain, plain, job->request, &after, err) < 0) {
        g_autoptr(GError) worse = NULL;
        if (vulkan_define(host, now, &worse) < 0)
            g_prefix_error(err, "the VM's definition remains changed (%s): ", worse->message);
        return -1;
    }
    g_free(*next);
    *next = g_steal_pointer(&after);
    return 0;
}

/* Returns the definition without Vulkan, which is the current one if it has none. */
static char *
vulkan_make_plain(const struct vulkan_job *job, const struct vg_vulkan_found *found,
                  const char *now, GError **err)
{
    if (found->ours || !job->request->enabled)
        return vg_vulkan_xml_disable(now, job->change->notes, err);
    return g_strdup(now);
}

static bool
vulkan_is_so(const struct vg_vulkan_found *found, const struct vg_vulkan_request *request)
{
    const int64_t wanted =
        request->hostmem_bytes > 0 ? request->hostmem_bytes : found->hostmem_bytes;

    return request->enabled && found->ours && found->venus && !request->render_node &&
           request->loosen_sandbox == found->loose && wanted == found->hostmem_bytes;
}

/* Checks that the programs named in the definition are installed, and adds a note on the security
 * cost. */
static int
vulkan_check_emulator(const char *xml, GPtrArray *notes, GError **err)
{
    struct vg_vulkan_found found;

    if (vg_vulkan_xml_read(xml, &found, err) < 0)
        return -1;
    if (!found.loose)
        return 0;
    if (access(VG_VULKAN_EMULATORS, X_OK) < 0)
        return vg_error(err, VG_E_CONFLICT,
                        VG_VULKAN_EMULATORS
                        ", a part of vgpud, is missing: install vgpud completely");
    g_ptr_array_add(
        notes,
        g_strdup(
            "This VM's QEMU may then start programs and change its user and group (sandbox options "
            "spawn=allow and elevateprivileges=allow). A guest that breaks into it can start any "
            "host program as QEMU's user. The rest of its sandbox, and the sandboxes of other VMs, "
            "do not change."));
    return 0;
}

static int
vulkan_change(vg_virt_host *host, virDomainPtr domain, struct vulkan_job *job, GError **err)
{
    const struct vg_vulkan_request *request = job->request;
    vg_vulkan_change *change = job->change;
    struct vg_vulkan_found found;
    g_autofree char *now = vg_virt_host_xml(host, domain, VULKAN_XML_FLAGS, err);

    if (!now || vg_vulkan_xml_read(now, &found, err) < 0)
        return -1;
    change->hostmem_bytes = found.hostmem_bytes;
    if (vulkan_is_so(&found, request))
        return 0;
    g_autofree char *plain = vulkan_make_plain(job, &found, now, err);
    g_autofree char *next = !plain             ? NULL
                            : request->enabled ? vg_vulkan_xml_enable(plain, request, err)
                                               : g_strdup(plain);
    if (!next)
        return -1;
    if (vulkan_check_emulator(next, change->notes, err) < 0)
        return -1;
    if (!request->dry_run && vulkan_write(host, domain, job, now, plain, &next, err) < 0)
        return -1;
    change->changed = true;
    change->hostmem_bytes = !request->enabled            ? 0
                            : request->hostmem_bytes > 0 ? request->hostmem_bytes
                                                         : VG_VULKAN_HOSTMEM_DEFAULT;
    return vg_vulkan_xml_compare(now, next, change->changes, err);
}

static int
vulkan_do(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct vulkan_job *job = (struct vulkan_job *)base;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, job->uuid, err);

    if (!domain)
        return -1;
    job->change->vm = g_strdup(virDomainGetName(domain));
    job->change->uuid = g_strdup(job->uuid);
    job->change->enabled = job->request->enabled;
    job->change->dry_run = job->request->dry_run;
    job->change->running = virDomainIsActive(domain) == 1;
    if (virDomainIsPersistent(domain) != 1)
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' is transient: it has no persistent definition to change",
                        job->change->vm);
    return vulkan_change(host, domain, job, err);
}

static void
vulkan_free(struct vg_virt_job *base)
{
    struct vulkan_job *job = (struct vulkan_job *)base;

    g_free(job->uuid);
    vg_vulkan_request_free(job->request);
    vg_vulkan_change_free(job->change);
    g_free(job);
}

vg_vulkan_change *
vg_virt_set_vulkan(vg_virt_link *link, const char *uuid, const struct vg_vulkan_request *request,
                   GError **err)
{
    struct vulkan_job *job = g_new0(struct vulkan_job, 1);

    vg_virt_job_init(&job->base, "to change the definition of the VM", vulkan_do, vulkan_free,
                     NULL);
    job->base.call_ns = VULKAN_CALL_NS;
    job->uuid = g_strdup(uuid);
    job->request = vg_record_copy(&vg_vulkan_request_record, request);
    job->change = vg_vulkan_change_new();
    if (vg_virt_call(link, &job->base, err) < 0)
        return NULL;
    vg_vulkan_change *change = g_steal_pointer(&job->change);
    vulkan_free(&job->base);
    return change;
}
