/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines whether a running domain could be migrated with its GPUs (VFIO migration). libvirt
 * does not report this. QEMU reports its reasons against a migration through its monitor, but using
 * the monitor marks the domain as tainted ("custom-monitor"). It is therefore only used if nothing
 * else prevents the migration.
 *
 * QEMU does not know all reasons. If a driver supports dirty tracking but the kernel lacks support
 * for it, as in Debian 13, QEMU fails at the start of the migration.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

#include "actuators/virt-link.h"
#include "base/json.h"
#include "host/device-xml.h"
#include "host/qemu-answer.h"

#define LINE_BYTES_MAX 1024

/* QEMU's property that enables dirty tracking by the device. */
#define TRACKING_PROPERTY "x-device-dirty-page-tracking"

struct native_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    GPtrArray *devices;

    char *why; /* the reason against it, or NULL */
};

/* ---- the devices ---- */

/* Returns the reason against it that the kinds of devices and their drivers show, or NULL. */
static char *
native_judge_devices(vg_virt_host *host, const GPtrArray *devices)
{
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        if (device->kind == VG_MOVE_DEVICE_NAMED)
            return g_strdup_printf("'%s' is a device of [gpu %s]", device->alias, device->type);
        if (device->kind == VG_MOVE_DEVICE_PCI &&
            vg_virt_host_is_plain_vfio(host, device->source_address))
            return g_strdup_printf("%s is bound to vfio-pci, which cannot transfer its state",
                                   device->source_address);
    }
    return NULL;
}

/* ---- QEMU ---- */

/* Sends a command to QEMU's monitor. Returns the answer, or NULL and the reason in *why. */
static char *
native_command(virDomainPtr domain, const char *command, char **why)
{
    char *answer = NULL;

    if (virDomainQemuMonitorCommand(domain, command, &answer, 0) < 0) {
        *why = g_strdup_printf("cannot query QEMU: %s", virGetLastErrorMessage());
        virResetLastError();
        return NULL;
    }
    return vg_virt_own(answer);
}

char *
vg_virt_host_ask_qemu(virDomainPtr domain)
{
    char *why = NULL;
    g_autofree char *answer = native_command(domain, "{\"execute\":\"query-migrate\"}", &why);

    return answer ? vg_qemu_why_not_migrated(answer) : why;
}

/* Returns the reason against it if QEMU would use device dirty tracking despite the XML, or NULL:
 * libvirt omits <qemu:override> when it plugs in a device. */
static char *
native_query_tracking(virDomainPtr domain, const char *alias)
{
    char *why = NULL;
    g_autoptr(json_object) command = json_object_new_object();
    json_object *arguments = json_object_new_object();

    vg_json_add_string(command, "execute", "qom-get");
    vg_json_add(command, "arguments", arguments);
    g_autofree char *path = g_strdup_printf("/machine/peripheral/%s", alias);
    vg_json_add_string(arguments, "path", path);
    vg_json_add_string(arguments, "property", TRACKING_PROPERTY);
    g_autofree char *answer = native_command(domain, json_object_to_json_string(command), &why);
    g_autofree char *value = answer ? vg_qemu_property(answer) : NULL;

    if (!answer)
        return why;
    if (g_strcmp0(value, "off") == 0)
        return NULL;
    return g_strdup_printf(
        "'%s' does not have the " TRACKING_PROPERTY
        "=off of <qemu:override>, which libvirt omits when it plugs in a device (QEMU: %s)",
        alias, value ? value : "no such property");
}

/* ---- the kernel ---- */

/* Returns whether this host's kernel supports dirty tracking by drivers (iova_bitmap, which may be
 * missing without IOMMUFD). Returns true if this is unknown. */
static bool
native_kernel_tracks(const char *root)
{
    g_autofree char *path = g_build_filename(root, "proc/kallsyms", NULL);
    FILE *file = fopen(path, "re");
    char line[LINE_BYTES_MAX];
    bool tracks = false, any = false;

    if (!file)
        return true;
    while (!tracks && fgets(line, sizeof line, file)) {
        any = true;
        tracks = strstr(line, " iova_bitmap_") != NULL;
    }
    fclose(file);
    return tracks || !any;
}

/* Returns the alias of a device for which QEMU would use device dirty tracking, or NULL. */
static const char *
native_find_tracked(const char *xml, const GPtrArray *devices)
{
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        if (!vg_domain_xml_overrides(xml, device->alias, TRACKING_PROPERTY, "off") &&
            !vg_domain_xml_overrides(xml, device->alias, TRACKING_PROPERTY, "false"))
            return device->alias;
    }
    return NULL;
}

static char *
native_judge_kernel(const vg_virt_host *host, virDomainPtr domain, const char *xml,
                    const GPtrArray *devices)
{
    char *why = NULL;

    if (native_kernel_tracks(host->root))
        return NULL;
    const char *tracked = native_find_tracked(xml, devices);
    if (tracked)
        return g_strdup_printf(
            "this host's kernel cannot track which memory '%s' writes (CONFIG_IOMMUFD), and "
            "<qemu:override> does not set " TRACKING_PROPERTY "=off",
            tracked);
    for (unsigned i = 0; !why && i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        why = native_query_tracking(domain, device->alias);
    }
    return why;
}

/* ---- all together ---- */

static int
native_run(struct vg_virt_job *base, vg_virt_host *host, GError **err)
{
    struct native_job *job = (struct native_job *)base;
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, job->uuid, err);
    g_autofree char *xml = domain ? vg_virt_host_xml(host, domain, 0, err) : NULL;

    if (!xml)
        return -1;
    job->why = native_judge_devices(host, job->devices);
    if (!job->why)
        job->why = native_judge_kernel(host, domain, xml, job->devices);
    if (!job->why)
        job->why = vg_virt_host_ask_qemu(domain);
    return 0;
}

static void
native_free(struct vg_virt_job *base)
{
    struct native_job *job = (struct native_job *)base;

    g_free(job->uuid);
    g_ptr_array_unref(job->devices);
    g_free(job->why);
    g_free(job);
}

int
vg_virt_ask_native(vg_virt_link *link, const char *uuid, const GPtrArray *devices, char **ret_why,
                   GError **err)
{
    struct native_job *job = g_new0(struct native_job, 1);

    vg_virt_job_init(&job->base, "to check whether the GPUs can be migrated", native_run,
                     native_free, NULL);
    job->uuid = g_strdup(uuid);
    job->devices = vg_virt_copy_devices(devices);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret_why = g_steal_pointer(&job->why);
    native_free(&job->base);
    return 0;
}
