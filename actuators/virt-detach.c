/* SPDX-License-Identifier: Apache-2.0
 *
 * Detaches devices from a running domain. The guest must release each device, but libvirt's calls
 * return 0 in any case. Therefore, a device counts as detached when it has disappeared from the
 * live XML.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/clock.h"
#include "base/error.h"

/* The pause between two checks. It grows, so that a fast release is detected immediately and a slow
 * guest causes little load. */
#define CHECK_NS     (10 * VG_NS_PER_MS)
#define CHECK_MAX_NS (100 * VG_NS_PER_MS)
/* A guest that is booting may miss the request. With native PCIe hotplug, a guest takes 6 s to
 * answer. */
#define REQUEST_AGAIN_NS (10 * VG_NS_PER_S)
/* A request cannot be revoked. A cancelled detach waits this long for its result. */
#define SETTLE_NS (8 * VG_NS_PER_S)

struct detach {
    vg_virt_host *host;
    virDomainPtr domain;
    const GPtrArray *devices; /* struct vg_move_device */
    const struct vg_verb *verb;
    int64_t asked_ns;      /* CLOCK_MONOTONIC, the time of the last request to the guest */
    int64_t pause_ns;      /* the pause before the next check */
    struct vg_verb limits; /* the limits of verb, without its cancel */
    char *last_words;      /* libvirt's error for the repeated request, or NULL */
};

static void
detach_report(const struct vg_verb *verb, const char *text)
{
    if (verb->tell)
        verb->tell(verb->data, NULL, text);
}

/* Lists the domain's devices that are still to be detached. The items are borrowed from live. */
static GPtrArray *
detach_left(const struct detach *detach, const GPtrArray *live)
{
    GPtrArray *left = g_ptr_array_new();

    for (unsigned i = 0; i < detach->devices->len; i++) {
        const struct vg_move_device *device = detach->devices->pdata[i];
        const vg_domain_device *found =
            vg_domain_devices_find(live, device->alias, device->source_address);
        if (found && found->alias)
            g_ptr_array_add(left, (void *)found);
    }
    return left;
}

static char *
detach_names(const GPtrArray *left)
{
    GString *names = g_string_new(NULL);

    for (unsigned i = 0; i < left->len; i++) {
        const vg_domain_device *device = left->pdata[i];
        g_string_append_printf(names, "%s%s", i ? ", " : "", device->alias);
    }
    return g_string_free(names, FALSE);
}

/* Requests the release from the guest. The first refusal is an error, unless QEMU is already
 * unplugging the device. */
static int
detach_request(struct detach *detach, const GPtrArray *left, bool again, GError **err)
{
    g_autofree char *names = detach_names(left);
    g_autofree char *text =
        g_strdup_printf("asking the guest%s to release %s", again ? " again" : "", names);

    detach_report(detach->verb, text);
    for (unsigned i = 0; i < left->len; i++) {
        const vg_domain_device *device = left->pdata[i];
        if (!vg_virt_host_goes_on(detach->host))
            return vg_error(err, VG_E_TIMEOUT, "the request for '%s' was cancelled",
                            detach->host->uri);
        if (virDomainDetachDeviceAlias(detach->domain, device->alias, VIR_DOMAIN_AFFECT_LIVE) == 0)
            continue;
        const char *words = virGetLastErrorMessage();
        bool under_way = strstr(words, "in the process of unplug") != NULL;
        g_free(detach->last_words);
        detach->last_words = g_strdup(words);
        /* Skip a device that was released in the meantime. */
        g_autoptr(GPtrArray) live = vg_virt_host_devices(detach->host, detach->domain, 0, err);
        if (!live)
            return -1;
        if (!again && !under_way && vg_domain_devices_find(live, device->alias, NULL))
            return vg_error(err, VG_E_EXTERNAL, "'%s' cannot be detached from '%s': %s",
                            device->alias, virDomainGetName(detach->domain), detach->last_words);
        virResetLastError();
    }
    return 0;
}

static int
detach_wait(struct detach *detach, const GPtrArray *left, GError **err)
{
    g_autofree char *names = detach_names(left);
    g_autofree char *what = g_strdup_printf("the guest to release %s", names);

    if (vg_verb_pause(&detach->limits, detach->pause_ns, what, err) == 0) {
        detach->pause_ns = MIN(detach->pause_ns * 2, CHECK_MAX_NS);
        return 0;
    }
    if (detach->last_words && err && *err)
        g_prefix_error(err, "libvirt reported '%s', and ", detach->last_words);
    return -1;
}

static int
detach_live(struct detach *detach, GError **err)
{
    int64_t request_at_ns = 0;

    for (;;) {
        g_autoptr(GPtrArray) live = vg_virt_host_devices(detach->host, detach->domain, 0, err);
        if (!live)
            return -1;
        g_autoptr(GPtrArray) left = detach_left(detach, live);
        if (left->len == 0)
            return 0;
        if (detach->verb->cancel && atomic_load(detach->verb->cancel))
            detach->limits.deadline_ns =
                MIN(detach->limits.deadline_ns, detach->asked_ns + SETTLE_NS);
        if (vg_clock_monotonic_ns() >= request_at_ns) {
            if (detach_request(detach, left, request_at_ns > 0, err) < 0)
                return -1;
            detach->asked_ns = vg_clock_monotonic_ns();
            request_at_ns = detach->asked_ns + REQUEST_AGAIN_NS;
        }
        if (detach_wait(detach, left, err) < 0)
            return -1;
    }
}

/* Removes detached devices from the persistent definition. This must not happen earlier: if the
 * guest keeps a device, the definition still needs it for the next start. */
static int
detach_from_definition(const struct detach *detach, GError **err)
{
    if (virDomainIsPersistent(detach->domain) != 1)
        return 0;
    g_autoptr(GPtrArray) inactive =
        vg_virt_host_devices(detach->host, detach->domain, VIR_DOMAIN_XML_INACTIVE, err);
    if (!inactive)
        return -1;
    for (unsigned i = 0; i < detach->devices->len; i++) {
        const struct vg_move_device *device = detach->devices->pdata[i];
        const vg_domain_device *found =
            device->persistent
                ? vg_domain_devices_find(inactive, device->alias, device->source_address)
                : NULL;
        if (found &&
            virDomainDetachDeviceFlags(detach->domain, found->xml, VIR_DOMAIN_AFFECT_CONFIG) < 0)
            return vg_virt_host_failed(detach->host, err,
                                       "'%s' is detached, but remains in the definition of '%s'",
                                       device->alias, virDomainGetName(detach->domain));
    }
    return 0;
}

int
vg_virt_host_detach(vg_virt_host *host, const char *uuid, const GPtrArray *devices,
                    const struct vg_verb *verb, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    struct detach detach = {.host = host,
                            .domain = domain,
                            .devices = devices,
                            .verb = verb,
                            .limits = *verb,
                            .pause_ns = CHECK_NS};

    if (!domain)
        return -1;
    detach.limits.cancel = NULL;
    int result = detach_live(&detach, err);
    if (result == 0)
        result = detach_from_definition(&detach, err);
    g_free(detach.last_words);
    return result;
}
