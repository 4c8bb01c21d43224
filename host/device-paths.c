/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: the code of libvirt 9.0 and 11.3 that prepares the host for an incoming VM
 * (qemuProcessPrepareHost(), qemuBuildCommandLine()).
 */
#include "config.h"

#include "host/device-paths.h"

#include <string.h>

#include "host/xml-walk.h"

/* The path that identifies a host's network device: a sysfs file that each one has. */
#define NET_DEVICE "/sys/class/net/%s/ifindex"

/* An element that names a path, and its condition. */
struct device_path_row {
    const char *element; /* path below <domain>, of an element that may occur several times */
    /* The condition: the element at this path below it has the attribute with this value. Without a
     * path, the element itself is checked; without an attribute, the condition always holds. */
    const char *if_path, *if_attribute, *if_value;
    /* The element below it (NULL: itself) and its attribute (NULL: its text) with the path. */
    const char *path, *attribute;
    const char *format; /* format of the path (the name for %s), or a path without %s; NULL: "%s" */
    const char *use;
    bool writable, is_storage, optional;
};

#define ALWAYS          NULL, NULL, NULL
#define IF(name, value) NULL, name, value
#define AT(path, name)  path, name, NULL
#define FIXED(path)     NULL, NULL, path
#define CHARDEV(element, words)                                                                    \
 {element, IF("type", "dev"), AT("source", "path"), words, true, false, false},                    \
     {element, IF("type", "pipe"), AT("source", "path"), words, true, false, false},               \
 {                                                                                                 \
  element, "source", "mode", "connect", AT("source", "path"), words, true, false, false            \
 }
#define RESCTRL "/sys/fs/resctrl/schemata"

static const struct device_path_row device_path_rows[] = {
    {"devices/hostdev", ALWAYS, AT("rom", "file"), "the ROM of a device (<rom>)", 0, 0, 0},
    {"devices/interface", ALWAYS, AT("rom", "file"), "the ROM of a network card (<rom>)", 0, 0, 0},
    {"devices/interface", IF("type", "bridge"), "source", "bridge", NET_DEVICE,
     "the bridge of a network card (<source>)", 0, 0, 0},
    {"devices/interface", IF("type", "direct"), "source", "dev", NET_DEVICE,
     "the host network card of a VM's network card (<source>)", 0, 0, 0},
    {"devices/interface", "target", "managed", "no", "target", "dev", NET_DEVICE,
     "the tap device of a network card (<target>)", 0, 0, 0},
    {"devices/interface", ALWAYS, AT("script", "path"), "the script of a network card (<script>)",
     0, 0, 0},
    {"devices/interface", ALWAYS, AT("downscript", "path"),
     "the script of a network card (<downscript>)", 0, 0, 0},
    {"devices/interface", "driver", "name", "vhost", FIXED("/dev/vhost-net"),
     "the backend of a network card (<driver name='vhost'>)", 0, 0, 0},
    CHARDEV("devices/serial", "a serial port (<serial>)"),
    CHARDEV("devices/parallel", "a parallel port (<parallel>)"),
    CHARDEV("devices/console", "a console (<console>)"),
    CHARDEV("devices/channel", "a channel (<channel>)"),
    CHARDEV("devices/redirdev", "a redirected USB device (<redirdev>)"),
    CHARDEV("devices/smartcard", "a smartcard (<smartcard>)"),
    CHARDEV("devices/rng/backend", "the entropy source (<rng>)"),
    {"devices/rng/backend", IF("model", "random"), AT(NULL, NULL), "the entropy source (<rng>)", 0,
     0, 0},
    {"devices/smartcard/database", ALWAYS, AT(NULL, NULL),
     "the certificates of a smartcard (<database>)", 0, 0, 0},
    {"devices/filesystem", ALWAYS, AT("binary", "path"), "virtiofsd (<binary>)", 0, 0, 0},
    {"devices/tpm/backend/source", IF("type", "file"), AT(NULL, "path"),
     "the state of the TPM (<source>)", true, true, false},
    {"devices/memory/source/path", ALWAYS, AT(NULL, NULL), "the memory of a device (<memory>)",
     true, false, false},
    {"devices/memory", IF("model", "sgx-epc"), FIXED("/dev/sgx_vepc"),
     "the protected memory (<memory model='sgx-epc'>)", 0, 0, 0},
    {"devices/pstore/path", ALWAYS, AT(NULL, NULL), "the crash log storage (<pstore>)", true, false,
     false},
    {"devices/lease/target", ALWAYS, AT(NULL, "path"), "the file of a lease (<lease>)", true, true,
     false},
    {"devices/graphics/gl", ALWAYS, AT(NULL, "rendernode"), "the render node (<gl>)", 0, 0, 0},
    {"devices/video/model/acceleration", ALWAYS, AT(NULL, "rendernode"),
     "the render node (<acceleration>)", 0, 0, 0},
    {"devices/input", ALWAYS, AT("source", "dev"), "an input device (<input>)", 0, 0, 0},
    {"devices/audio/input", ALWAYS, AT(NULL, "dev"), "a sound device (<input>)", 0, 0, 0},
    {"devices/audio/output", ALWAYS, AT(NULL, "dev"), "a sound device (<output>)", 0, 0, 0},
    {"devices/vsock", ALWAYS, FIXED("/dev/vhost-vsock"), "the backend of <vsock>", 0, 0, 0},
    {"os/shim", ALWAYS, AT(NULL, NULL), "the boot loader (<shim>)", 0, 0, 0},
    {"sysinfo/entry", ALWAYS, AT(NULL, "file"), "a file for the firmware (<entry>)", 0, 0, 0},
    {"cputune/cachetune", ALWAYS, FIXED(RESCTRL), "cache allocation (<cachetune>)", 0, 0, 0},
    {"cputune/memorytune", ALWAYS, FIXED(RESCTRL), "memory bandwidth allocation (<memorytune>)", 0,
     0, 0},
};

static const xmlNode *
device_path_at(const xmlNode *node, const char *path)
{
    return path ? vg_xml_at(node, path) : node;
}

static void
device_path_add(const struct device_path_row *row, const xmlNode *node, GPtrArray *paths,
                void (*add)(GPtrArray *paths, const struct vg_path_need *need))
{
    const xmlNode *holder = device_path_at(node, row->path);
    g_autofree char *name = row->attribute
                                ? vg_xml_attribute(holder, row->attribute, VG_PATH_BYTES_MAX)
                                : vg_xml_text(holder, VG_PATH_BYTES_MAX);
    const char *format = row->format ? row->format : "%s";
    const char *place = strstr(format, "%s");
    g_autofree char *path = NULL;

    if (row->if_attribute &&
        !vg_xml_attribute_is(device_path_at(node, row->if_path), row->if_attribute, row->if_value))
        return;
    if (place && (!name || !*name))
        return;
    path = place ? g_strdup_printf("%.*s%s%s", (int)(place - format), format, name,
                                   place + strlen("%s"))
                 : g_strdup(format);
    add(paths, &(struct vg_path_need){
                   .path = path,
                   .use = (char *)row->use,
                   .writable = row->writable,
                   .is_storage = row->is_storage,
                   .optional = row->optional,
               });
}

/* Finds all elements at a path. Their parents may also occur several times. */
static void
device_path_walk(const struct device_path_row *row, const xmlNode *node, const char *rest,
                 GPtrArray *paths, void (*add)(GPtrArray *paths, const struct vg_path_need *need))
{
    const char *slash = strchr(rest, '/');
    g_autofree char *name = slash ? g_strndup(rest, (gsize)(slash - rest)) : g_strdup(rest);

    for (const xmlNode *child = vg_xml_child(node, name); child; child = vg_xml_next(child))
        if (slash)
            device_path_walk(row, child, slash + 1, paths, add);
        else
            device_path_add(row, child, paths, add);
}

void
device_paths_read(const xmlNode *domain, GPtrArray *paths,
                  void (*add)(GPtrArray *paths, const struct vg_path_need *need))
{
    for (size_t i = 0; i < G_N_ELEMENTS(device_path_rows); i++)
        device_path_walk(&device_path_rows[i], domain, device_path_rows[i].element, paths, add);
}
