/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out whether a running domain could be migrated with its GPUs in it (VFIO migration).
 * libvirt says nothing about that; QEMU names its reasons against a migration, and is asked through
 * its monitor, by which libvirt calls the domain tainted ("custom-monitor"). So that is only done
 * where nothing else speaks against it.
 *
 * QEMU does not know all of it: where the driver of a device offers to tell which memory the device
 * writes, but the kernel lacks what is needed for that, QEMU finds out when the migration begins,
 * and fails. That is so in Debian 13's kernel.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

#include "actuators/virt-link.h"
#include "base/error.h"
#include "base/json.h"
#include "host/device-xml.h"

#define ANSWER_BYTES_MAX (1 << 20)
#define ANSWER_DEPTH_MAX 16
#define LINE_BYTES_MAX   1024

/* The parts that QEMU's property has of the ways to know which memory a device writes. */
#define TRACKING_PROPERTY "x-device-dirty-page-tracking"

struct native_job {
    struct vg_virt_job base; /* the first member */
    char *uuid;
    GPtrArray *devices;

    char *why; /* what speaks against it, or NULL */
};

/* ---- the devices ---- */

/* Returns what speaks against it as far as the kinds of the devices and their drivers tell, or
 * NULL. */
static char *
native_judge_devices(vg_virt_host *host, const GPtrArray *devices)
{
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        if (device->kind == VG_MOVE_DEVICE_NAMED)
            return g_strdup_printf("'%s' is a device of [gpu %s]", device->alias, device->type);
        if (device->kind == VG_MOVE_DEVICE_PCI &&
            vg_virt_host_is_plain_vfio(host, device->source_address))
            return g_strdup_printf("%s is bound to vfio-pci, which cannot hand out its state",
                                   device->source_address);
    }
    return NULL;
}

/* ---- QEMU ---- */

/* Joins QEMU's reasons against a migration. Returns NULL if it has none. An answer that is not as
 * expected, such as an error, is a reason, too. */
static char *
native_join_reasons(json_object *answer)
{
    json_object *result = NULL, *reasons = NULL;
    g_autoptr(GString) text = g_string_new(NULL);

    if (!json_object_object_get_ex(answer, "return", &result) ||
        !json_object_is_type(result, json_type_object))
        return g_strdup("QEMU does not answer what speaks against a migration");
    if (!json_object_object_get_ex(result, "blocked-reasons", &reasons))
        return NULL;
    if (!json_object_is_type(reasons, json_type_array))
        return g_strdup("QEMU's reasons against a migration are no list");
    for (size_t i = 0; i < json_object_array_length(reasons); i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "; " : "",
                               json_object_get_string(json_object_array_get_idx(reasons, i)));
    return text->len > 0 ? g_strdup_printf("QEMU says: %s", text->str) : NULL;
}

/* Returns QEMU's reasons against a migration, or the reason why it cannot be asked, or NULL. */
static char *
native_ask_qemu(virDomainPtr domain)
{
    g_autofree char *words = NULL;
    char *answer = NULL;

    if (virDomainQemuMonitorCommand(domain, "{\"execute\":\"query-migrate\"}", &answer, 0) < 0) {
        words = g_strdup_printf("QEMU cannot be asked: %s", virGetLastErrorMessage());
        virResetLastError();
        return g_steal_pointer(&words);
    }
    g_autofree char *text = vg_virt_own(answer);
    g_autoptr(json_object) parsed =
        vg_json_parse(text, strlen(text), ANSWER_BYTES_MAX, ANSWER_DEPTH_MAX, NULL);
    return parsed ? native_join_reasons(parsed) : g_strdup("QEMU's answer cannot be read");
}

/* ---- the kernel ---- */

/* Returns whether the kernel of this host has what drivers need to tell which memory a device
 * writes (iova_bitmap, which a kernel without IOMMUFD may lack). If that cannot be read, it has. */
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

/* Returns the alias of a device whose writes QEMU would have the kernel track, or NULL. */
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
native_judge_kernel(const vg_virt_host *host, const char *xml, const GPtrArray *devices)
{
    const char *tracked = native_find_tracked(xml, devices);

    if (!tracked || native_kernel_tracks(host->root))
        return NULL;
    return g_strdup_printf(
        "this host's kernel has nothing by which a driver could tell which "
        "memory '%s' writes (CONFIG_IOMMUFD), and <qemu:override> does not say " TRACKING_PROPERTY
        "=off",
        tracked);
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
        job->why = native_judge_kernel(host, xml, job->devices);
    if (!job->why)
        job->why = native_ask_qemu(domain);
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

    vg_virt_job_init(&job->base, "whether the GPUs could be migrated", native_run, native_free,
                     NULL);
    job->uuid = g_strdup(uuid);
    job->devices = vg_virt_copy_devices(devices);
    if (vg_virt_call(link, &job->base, err) < 0)
        return -1;
    *ret_why = g_steal_pointer(&job->why);
    native_free(&job->base);
    return 0;
}
