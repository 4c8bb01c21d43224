/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/gpu-local.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/pid-namespace.h"
#include "model/gpu-part.h"

#define TYPES_BYTES_MAX 65536
#define HOLDERS_TOLD    3
#define NVIDIA_NODE     "/dev/nvidia"
#define MAX_INSTANCE    "max_instance="
/* The depth of nodes below a function. The deepest are partitions: nvme/nvme0/nvme0n1/nvme0n1p1. */
#define NODE_DEPTH_MAX 4

/* The programs that have open nodes of one device. */
struct local_device {
    struct vg_inv_use *use;
    GString *holders;
    unsigned n_holders;
};

struct local_scan {
    const char *sys, *proc;
    GPtrArray *devices; /* struct local_device */
    GHashTable *nodes; /* "/dev/dri/card0" -> struct local_device; of a shared node, the last one */
    GPtrArray *all_nvidia; /* struct local_device with unknown nodes */
    bool denied;           /* the files of some process could not be listed */
};

static void
local_device_free(void *free_device)
{
    struct local_device *device = free_device;

    g_string_free(device->holders, TRUE);
    g_free(device);
}

static char *
local_read(const char *dir, const char *name)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);
    char *text = NULL;
    gsize size = 0;

    if (!g_file_get_contents(path, &text, &size, NULL))
        return NULL;
    if (size <= TYPES_BYTES_MAX)
        return text;
    g_free(text);
    return NULL;
}

/* ---- device nodes ---- */

/* Adds the nodes in a directory of /dev whose names are in a directory of sysfs. */
static void
local_add_nodes(struct local_scan *scan, struct local_device *device, const char *dir,
                const char *below, const char *dev)
{
    g_autofree char *path = g_build_filename(dir, below, NULL);
    GDir *list = g_dir_open(path, 0, NULL);

    for (const char *name = list ? g_dir_read_name(list) : NULL; name; name = g_dir_read_name(list))
        g_hash_table_insert(scan->nodes, g_build_filename(dev, name, NULL), device);
    if (list)
        g_dir_close(list);
}

/* Adds the node that sysfs lists for a directory. */
static void
local_add_named(struct local_scan *scan, struct local_device *device, const char *dir)
{
    g_autofree char *text = local_read(dir, "uevent");
    const char *name = text ? strstr(text, "DEVNAME=") : NULL;

    if (!name)
        return;
    name += strlen("DEVNAME=");
    g_autofree char *node = g_strndup(name, strcspn(name, "\n"));
    g_hash_table_insert(scan->nodes, g_build_filename("/dev", node, NULL), device);
}

/* Adds the nodes of everything below a function, with any driver, except those of its mediated
 * devices. Other functions are links. */
static void
local_walk(struct local_scan *scan, struct local_device *device, const char *dir, unsigned depth)
{
    DIR *list = opendir(dir);

    if (!list)
        return;
    if (depth > 0)
        local_add_named(scan, device, dir);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        g_autofree char *path = g_build_filename(dir, entry->d_name, NULL);
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.' &&
            !g_uuid_string_is_valid(entry->d_name) && depth < NODE_DEPTH_MAX)
            local_walk(scan, device, path, depth + 1);
    }
    closedir(list);
}

static void
local_add_vfio_group(struct local_scan *scan, struct local_device *device, const char *dir)
{
    g_autofree char *link = g_build_filename(dir, "iommu_group", NULL);
    g_autofree char *target = g_file_read_link(link, NULL);
    g_autofree char *group = target ? g_path_get_basename(target) : NULL;

    if (group)
        g_hash_table_insert(scan->nodes, g_build_filename("/dev/vfio", group, NULL), device);
}

/* Adds NVIDIA's nodes. They represent whole GPUs and are not in sysfs, but the driver reports which
 * node belongs to which GPU. */
static void
local_add_nvidia(struct local_scan *scan, struct local_device *device, const char *address)
{
    g_autofree char *dir = g_build_filename(scan->proc, "driver/nvidia/gpus", address, NULL);
    g_autofree char *text = local_read(dir, "information");
    const char *minor = text ? strstr(text, "Device Minor:") : NULL;
    int number = -1;

    if (minor && sscanf(minor, "Device Minor: %d", &number) == 1 && number >= 0)
        g_hash_table_insert(scan->nodes, g_strdup_printf(NVIDIA_NODE "%d", number), device);
    else
        g_ptr_array_add(scan->all_nvidia, device);
}

/* Reads the driver from sysfs, because libvirt's value is from the last event of the device. */
static void
local_read_driver(const char *dir, char **driver)
{
    g_autofree char *link = g_build_filename(dir, "driver", NULL);
    g_autofree char *target = g_file_read_link(link, NULL);

    g_free(*driver);
    *driver = target ? g_path_get_basename(target) : NULL;
}

/* Returns whether the kernel has no IOMMU for a function. QEMU does not accept a group that VFIO
 * creates without one (enable_unsafe_noiommu_mode). */
static bool
local_has_no_iommu(const char *dir)
{
    g_autofree char *group = g_build_filename(dir, "iommu_group", NULL);
    g_autofree char *link = g_file_read_link(group, NULL);
    g_autofree char *name = local_read(group, "name");

    return name ? g_str_has_prefix(name, "vfio-noiommu") : !link;
}

static void
local_add_device(struct local_scan *scan, const char *address, bool is_whole, char **driver,
                 bool *no_iommu, struct vg_inv_use *use)
{
    g_autofree char *dir = g_build_filename(scan->sys, "bus/pci/devices", address, NULL);

    if (!g_file_test(dir, G_FILE_TEST_IS_DIR))
        return;
    local_read_driver(dir, driver);
    *no_iommu = local_has_no_iommu(dir);
    struct local_device *device = g_new0(struct local_device, 1);
    device->use = use;
    device->holders = g_string_new(NULL);
    g_ptr_array_add(scan->devices, device);
    local_add_nodes(scan, device, dir, "drm", "/dev/dri");
    local_add_nodes(scan, device, dir, "accel", "/dev/accel");
    local_add_nodes(scan, device, dir, "vfio-dev", "/dev/vfio/devices");
    local_walk(scan, device, dir, 0);
    local_add_vfio_group(scan, device, dir);
    if (g_strcmp0(*driver, "nvidia") == 0 && is_whole)
        local_add_nvidia(scan, device, address);
}

/* ---- who has them open ---- */

static void
local_add_holder(struct local_device *device, const char *who)
{
    device->n_holders++;
    if (device->n_holders <= HOLDERS_TOLD)
        g_string_append_printf(device->holders, "%s%s", device->n_holders > 1 ? ", " : "", who);
}

static bool
local_is_nvidia_gpu(const char *path)
{
    const char *number = g_str_has_prefix(path, NVIDIA_NODE) ? path + strlen(NVIDIA_NODE) : "";

    return *number && strspn(number, "0123456789") == strlen(number);
}

/* Formats a process like "Xorg [812]". */
static char *
local_name_process(const char *dir, const char *pid)
{
    g_autofree char *comm = local_read(dir, "comm");
    g_autofree char *valid = comm ? g_utf8_make_valid(g_strchomp(comm), -1) : g_strdup("process");

    return g_strdup_printf("%s [%s]", valid, pid);
}

static void
local_add_file(struct local_scan *scan, const char *path, GHashTable *held)
{
    struct local_device *device = g_hash_table_lookup(scan->nodes, path);

    if (device)
        g_hash_table_add(held, device);
    for (guint i = 0; local_is_nvidia_gpu(path) && i < scan->all_nvidia->len; i++)
        g_hash_table_add(held, scan->all_nvidia->pdata[i]);
}

static void
local_scan_process(struct local_scan *scan, const char *pid)
{
    g_autofree char *dir = g_build_filename(scan->proc, pid, NULL);
    g_autofree char *files = g_build_filename(dir, "fd", NULL);
    g_autoptr(GHashTable) held = g_hash_table_new(NULL, NULL);
    g_autoptr(GError) error = NULL;
    GHashTableIter iter;
    void *device;
    GDir *list = g_dir_open(files, 0, &error);

    if (!list) {
        scan->denied = scan->denied || g_error_matches(error, G_FILE_ERROR, G_FILE_ERROR_ACCES);
        return;
    }
    for (const char *name = g_dir_read_name(list); name; name = g_dir_read_name(list)) {
        char path[PATH_MAX];
        g_autofree char *link = g_build_filename(files, name, NULL);
        ssize_t size = readlink(link, path, sizeof(path) - 1);
        path[MAX(size, 0)] = '\0';
        if (g_str_has_prefix(path, "/dev/"))
            local_add_file(scan, path, held);
    }
    g_dir_close(list);
    if (g_hash_table_size(held) == 0)
        return;
    g_autofree char *who = local_name_process(dir, pid);
    g_hash_table_iter_init(&iter, held);
    while (g_hash_table_iter_next(&iter, &device, NULL))
        local_add_holder(device, who);
}

/* Adds the host's file systems, which no process has open. A line of mountinfo ends with "- TYPE
 * NODE OPTIONS". */
static void
local_scan_mounts(struct local_scan *scan)
{
    g_autofree char *dir = g_build_filename(scan->proc, "1", NULL);
    g_autofree char *text = local_read(dir, "mountinfo");
    g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);

    for (size_t i = 0; lines[i]; i++) {
        const char *rest = strstr(lines[i], " - ");
        g_auto(GStrv) words = g_strsplit(rest ? rest + strlen(" - ") : "", " ", -1);
        struct local_device *device =
            g_strv_length(words) > 1 ? g_hash_table_lookup(scan->nodes, words[1]) : NULL;
        g_autofree char *who = device ? g_strdup_printf("a file system on %s", words[1]) : NULL;
        if (device)
            local_add_holder(device, who);
    }
}

static int
local_compare_pids(const void *a, const void *b)
{
    return (int)(strtol(*(char *const *)a, NULL, 10) - strtol(*(char *const *)b, NULL, 10));
}

/* Checks all processes. Returns false if the directory does not exist. */
static bool
local_scan_processes(struct local_scan *scan)
{
    g_autoptr(GPtrArray) pids = g_ptr_array_new_with_free_func(g_free);
    GDir *list = g_dir_open(scan->proc, 0, NULL);

    if (!list)
        return false;
    for (const char *name = g_dir_read_name(list); name; name = g_dir_read_name(list))
        if (isdigit((unsigned char)*name))
            g_ptr_array_add(pids, g_strdup(name));
    g_dir_close(list);
    g_ptr_array_sort(pids, local_compare_pids);
    for (guint i = 0; i < pids->len; i++)
        local_scan_process(scan, pids->pdata[i]);
    return true;
}

static void
local_set_use(const struct local_device *device, const char *trouble)
{
    struct vg_inv_use *use = device->use;

    g_free(use->text);
    use->known = device->n_holders > 0 || !trouble;
    use->text = use->known ? NULL : g_strdup(trouble);
    if (device->n_holders > HOLDERS_TOLD)
        use->text = g_strdup_printf("%s and %u more", device->holders->str,
                                    device->n_holders - HOLDERS_TOLD);
    else if (device->n_holders > 0)
        use->text = g_strdup(device->holders->str);
}

static void
local_find_users(struct local_scan *scan)
{
    const char *trouble = NULL;

    if (scan->devices->len == 0)
        return;
    local_scan_mounts(scan);
    if (!local_scan_processes(scan))
        trouble = "processes cannot be listed";
    else if (scan->denied)
        trouble = "vgpud cannot read other users' processes without CAP_SYS_PTRACE, see vgpud(8)";
    else if (vg_pid_namespace_check(scan->proc, NULL) < 0)
        trouble =
            "vgpud runs in its own PID namespace and does not see all of the host's processes";
    for (guint i = 0; i < scan->devices->len; i++)
        local_set_use(scan->devices->pdata[i], trouble);
}

/* ---- vGPUs of virtual functions ---- */

/* Reads lines such as "1428 : NVIDIA H200X-141C" of NVIDIA's driver. */
static void
local_read_creatable(const char *text, struct vg_inv_vf *vf)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

    for (size_t i = 0; lines[i] && vf->creatable->len < VG_SNAPSHOT_VGPU_TYPES_MAX; i++) {
        char *end = NULL;
        const long number = strtol(lines[i], &end, 10);
        const char *name = end ? end + strspn(end, " \t:") : "";
        if (end == lines[i] || number <= 0 || !strchr(end, ':'))
            continue;
        struct vg_inv_mdev_type *type = vg_record_new(&vg_inv_mdev_type_record);
        type->type = g_strdup_printf("nvidia-%ld", number);
        type->name = g_utf8_make_valid(name, MIN((gssize)strlen(name), VG_SNAPSHOT_NAME_MAX / 3));
        type->available = 1;
        g_ptr_array_add(vf->creatable, type);
    }
}

static void
local_read_vgpu(const char *sys, struct vg_inv_vf *vf)
{
    g_autofree char *dir = g_build_filename(sys, "bus/pci/devices", vf->address, "nvidia", NULL);
    g_autofree char *current = local_read(dir, "current_vgpu_type");
    g_autofree char *creatable = current ? local_read(dir, "creatable_vgpu_types") : NULL;
    char *end = NULL;
    const long number = current ? strtol(current, &end, 10) : 0;

    if (!current || end == current || number < 0)
        return;
    vf->vgpu_told = true;
    vf->vgpu_type = number > 0 ? g_strdup_printf("nvidia-%ld", number) : NULL;
    if (creatable)
        local_read_creatable(creatable, vf);
}

/* ---- how many mediated devices a card can have ---- */

/* Reads the number after "max_instance=" in the NVIDIA driver's description of a type, or returns
 * 0. */
static int64_t
local_read_max(const char *sys, const char *address, const char *type)
{
    g_autofree char *dir =
        g_build_filename(sys, "bus/pci/devices", address, "mdev_supported_types", type, NULL);
    g_autofree char *text = local_read(dir, "description");
    const char *number = text ? strstr(text, MAX_INSTANCE) : NULL;
    const int64_t max = number ? g_ascii_strtoll(number + strlen(MAX_INSTANCE), NULL, 10) : 0;

    return max > 0 && max <= VG_INVENTORY_MDEVS_MAX ? max : 0;
}

/* Reads the limits of the whole card, which its virtual functions share. */
static void
local_read_limits(const char *sys, struct vg_inv_gpu *gpu)
{
    for (guint i = 0; i < gpu->mdev_types->len; i++) {
        struct vg_inv_mdev_type *type = gpu->mdev_types->pdata[i];
        if (type->functions == 0)
            type->max_instances = local_read_max(sys, gpu->device, type->type);
        for (guint k = 0; type->functions > 0 && type->max_instances == 0 && k < gpu->vfs->len; k++)
            type->max_instances = local_read_max(
                sys, ((const struct vg_inv_vf *)gpu->vfs->pdata[k])->address, type->type);
    }
    vg_inv_gpu_count_room(gpu);
}

/* ---- the whole ---- */

static void
local_read_function(const char *sys, struct vg_inv_function *function)
{
    g_autofree char *dir = g_build_filename(sys, "bus/pci/devices", function->address, NULL);

    if (g_file_test(dir, G_FILE_TEST_IS_DIR))
        local_read_driver(dir, &function->driver);
}

void
vg_gpu_local_put(const char *sys, const char *proc, vg_inventory *inventory)
{
    g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func(local_device_free);
    g_autoptr(GHashTable) nodes = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    g_autoptr(GPtrArray) all_nvidia = g_ptr_array_new();
    struct local_scan scan = {
        .sys = sys, .proc = proc, .devices = devices, .nodes = nodes, .all_nvidia = all_nvidia};

    for (guint i = 0; i < inventory->gpus->len; i++) {
        struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        local_add_device(&scan, gpu->device, true, &gpu->driver, &gpu->no_iommu, &gpu->use);
        local_read_limits(sys, gpu);
        for (guint k = 0; k < gpu->functions->len; k++)
            local_read_function(sys, gpu->functions->pdata[k]);
        for (guint k = 0; k < gpu->vfs->len; k++) {
            struct vg_inv_vf *vf = gpu->vfs->pdata[k];
            local_add_device(&scan, vf->address, false, &vf->driver, &vf->no_iommu, &vf->use);
            local_read_vgpu(sys, vf);
        }
    }
    local_find_users(&scan);
    vg_gpu_parts_assign_vms(inventory);
}

bool
vg_gpu_local_is(const char *libvirt_uri)
{
    return strstr(libvirt_uri, ":///") != NULL;
}
