/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-policy.h"

#include "actuators/virt-link.h"
#include "host/domain-xml.h"

struct policy_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    enum vg_policy_mode mode;
};

static int
policy_do(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    const struct policy_job *job = (const struct policy_job *)base;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, job->uuid, err);
    unsigned flags = 0;

    if (!domain)
        return -1;
    if (virDomainIsActive(domain) == 1)
        flags |= VIR_DOMAIN_AFFECT_LIVE;
    if (virDomainIsPersistent(domain) == 1)
        flags |= VIR_DOMAIN_AFFECT_CONFIG;
    g_autofree char *element =
        job->mode == VG_POLICY_UNSET
            ? NULL
            : g_strdup_printf("<policy mode='%s'/>", vg_policy_mode_names[job->mode]);
    return virDomainSetMetadata(domain, VIR_DOMAIN_METADATA_ELEMENT, element,
                                element ? VG_POLICY_XML_PREFIX : NULL, VG_POLICY_XML_URI, flags) < 0
               ? vg_virt_host_failed(host, err, "libvirt rejected the metadata")
               : 0;
}

static void
policy_free(struct vg_virt_job *base)
{
    struct policy_job *job = (struct policy_job *)base;

    g_free(job->uuid);
    g_free(job);
}

int
vg_virt_set_policy(vg_virt_link *link, const char *uuid, enum vg_policy_mode mode, GError **err)
{
    struct policy_job *job = g_new0(struct policy_job, 1);

    vg_virt_job_init(&job->base, "to store the policy of the VM", policy_do, policy_free, NULL);
    job->uuid = g_strdup(uuid);
    job->mode = mode;
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    policy_free(&job->base);
    return 0;
}
