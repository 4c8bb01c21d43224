/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/move-paths.h"

#include <string.h>

#include "host/device-paths.h"
#include "host/xml-walk.h"
#include "model/path.h"

#define NAME_BYTES_MAX 256
/* The maximum length of a chain of backing files. */
#define CHAIN_MAX 64

/* Adds a path. A path that is already listed is used twice and must meet both requirements. */
static void
paths_add(GPtrArray *paths, const struct vg_path_need *need)
{
    if (!need->path || need->path[0] != '/')
        return;
    for (guint i = 0; i < paths->len; i++) {
        struct vg_path_need *other = paths->pdata[i];
        if (strcmp(other->path, need->path) != 0)
            continue;
        other->writable |= need->writable;
        other->is_storage |= need->is_storage;
        other->optional &= need->optional;
        return;
    }
    g_ptr_array_add(paths, vg_record_copy(&vg_path_need_record, need));
}

/* Adds what a <source> names, if it is a file or a device of the host. */
static void
paths_add_source(GPtrArray *paths, const xmlNode *source, struct vg_path_need *need)
{
    g_autofree char *file = vg_xml_attribute(source, "file", VG_PATH_BYTES_MAX);
    g_autofree char *device = vg_xml_attribute(source, "dev", VG_PATH_BYTES_MAX);

    need->path = file ? file : device;
    need->is_device = !file;
    paths_add(paths, need);
    need->path = NULL;
}

/* Adds a disk with its backing files. For an optional medium (startupPolicy), libvirt uses an empty
 * drive. An optional disk must exist, because otherwise the VM's memory would not match. */
static void
paths_add_disk(GPtrArray *paths, const xmlNode *disk)
{
    const xmlNode *source = vg_xml_child(disk, "source");
    g_autofree char *name = vg_xml_attribute(vg_xml_child(disk, "target"), "dev", NAME_BYTES_MAX);
    const bool is_medium = vg_xml_attribute_is(disk, "device", "cdrom") ||
                           vg_xml_attribute_is(disk, "device", "floppy");
    g_autofree char *use = g_strdup_printf(
        "%s '%s'", is_medium ? "the medium in the drive" : "the disk", name ? name : "?");
    g_autofree char *backing = g_strdup_printf("a backing file of %s", use);
    struct vg_path_need need = {
        .use = use,
        .writable =
            !vg_xml_child(disk, "readonly") && !vg_xml_attribute_is(disk, "device", "cdrom"),
        .is_storage = true,
        .optional = is_medium && (vg_xml_attribute_is(source, "startupPolicy", "optional") ||
                                  vg_xml_attribute_is(source, "startupPolicy", "requisite")),
    };

    paths_add_source(paths, source, &need);
    paths_add_source(paths, vg_xml_at(source, "dataStore/source"), &need);
    need.use = backing;
    need.writable = false;
    const xmlNode *link = vg_xml_child(disk, "backingStore");
    for (unsigned i = 0; link && i < CHAIN_MAX; i++, link = vg_xml_child(link, "backingStore"))
        paths_add_source(paths, vg_xml_child(link, "source"), &need);
}

static void
paths_add_boot(GPtrArray *paths, const xmlNode *os, const char *element, const char *use)
{
    g_autofree char *path = vg_xml_text(vg_xml_at(os, element), VG_PATH_BYTES_MAX);

    paths_add(paths, &(struct vg_path_need){.path = path, .use = (char *)use});
}

/* Adds the firmware's variables. libvirt creates the file from a template if it is missing, and its
 * content is migrated with the VM's memory. */
static void
paths_add_variables(GPtrArray *paths, const xmlNode *nvram)
{
    g_autofree char *text = vg_xml_text(nvram, VG_PATH_BYTES_MAX);
    g_autofree char *file =
        vg_xml_attribute(vg_xml_child(nvram, "source"), "file", VG_PATH_BYTES_MAX);

    paths_add(paths, &(struct vg_path_need){
                         .path = file ? file : text,
                         .use = (char *)"the firmware's variables",
                         .writable = true,
                         .optional = true,
                     });
}

void
move_paths_read(const xmlNode *domain, GPtrArray *paths)
{
    const xmlNode *os = vg_xml_child(domain, "os");

    for (const xmlNode *disk = vg_xml_at(domain, "devices/disk"); disk; disk = vg_xml_next(disk))
        paths_add_disk(paths, disk);
    paths_add_boot(paths, os, "kernel", "the kernel");
    paths_add_boot(paths, os, "initrd", "the initial RAM disk");
    paths_add_boot(paths, os, "dtb", "the device tree");
    paths_add_boot(paths, os, "acpi/table", "the ACPI table");
    paths_add_boot(paths, os, "loader", "the firmware");
    paths_add_variables(paths, vg_xml_child(os, "nvram"));
    device_paths_read(domain, paths, paths_add);
}
