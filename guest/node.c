/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/node.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "guest/util.h"

/* The depth below a function. The deepest known is drm/card0/card0-HDMI-A-1/i2c-5/i2c-dev/i2c-5. */
#define DEPTH_MAX 10
/* The nodes below /dev that a driver has once for all of its GPUs. */
static const struct {
    const char *driver, *dir, *pattern;
} shared[] = {
    {"nvidia", "", "nvidiactl"},      {"nvidia", "", "nvidia-uvm"},
    {"nvidia", "", "nvidia-uvm-*"},   {"nvidia", "", "nvidia-modeset"},
    {"nvidia", "/nvidia-caps", "n*"}, {"amdgpu", "", "kfd"},
};

static void
node_add(struct vg_guest_nodes *to, size_t device, dev_t rdev, bool in_sysfs, const char *path)
{
    struct vg_guest_node *node = &to->nodes[to->n];
    struct stat st;
    bool there = stat(path, &st) == 0;

    if (to->n == VG_GUEST_NODES_MAX || (!there && rdev == 0))
        return;
    *node = (struct vg_guest_node){.rdev = rdev, .in_sysfs = in_sysfs, .device = device};
    node->for_all = in_sysfs && there && (st.st_mode & S_IROTH) != 0;
    vg_guest_put(node->path, sizeof node->path, "%s", path);
    if (there) {
        node->dev = st.st_dev;
        node->ino = st.st_ino;
        if (S_ISCHR(st.st_mode) && rdev == 0)
            node->rdev = st.st_rdev;
    }
    to->n++;
}

/* Adds the node of a sysfs directory with a file `dev`. */
static void
node_add_of_sysfs(struct vg_guest_nodes *to, const char *root, size_t device, const char *dir)
{
    char path[PATH_MAX], text[1024];
    unsigned int major_number, minor_number;

    vg_guest_put(path, sizeof path, "%s/dev", dir);
    if (vg_guest_read_file(path, text, sizeof text) != 0 ||
        sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
        return;
    vg_guest_put(path, sizeof path, "%s/uevent", dir);
    vg_guest_read_file(path, text, sizeof text);
    const char *name = strstr(text, "DEVNAME=");
    name = name ? name + strlen("DEVNAME=") : strrchr(dir, '/') + 1;
    vg_guest_put(path, sizeof path, "%s/dev/%.*s", root, (int)strcspn(name, "\n"), name);
    node_add(to, device, makedev(major_number, minor_number), false, path);
}

/* Walks the directories below a function, but enters no other function. */
static void
node_walk(struct vg_guest_nodes *to, const char *root, size_t device, const char *dir, int depth)
{
    DIR *list = opendir(dir);

    if (!list)
        return;
    if (depth > 0)
        node_add_of_sysfs(to, root, device, dir);
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        char path[PATH_MAX];
        bool function = fnmatch("????:??:??.?", entry->d_name, 0) == 0;
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || function || depth == DEPTH_MAX)
            continue;
        vg_guest_put(path, sizeof path, "%s/%s", dir, entry->d_name);
        node_walk(to, root, device, path, depth + 1);
    }
    closedir(list);
}

/* Adds the entries of a directory below root whose names match pattern. */
static void
node_add_like(struct vg_guest_nodes *to, size_t device, bool in_sysfs, const char *dir,
              const char *pattern)
{
    DIR *list = opendir(dir);

    if (!list)
        return;
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list)) {
        char path[PATH_MAX];
        if (entry->d_name[0] == '.' || fnmatch(pattern, entry->d_name, 0) != 0)
            continue;
        vg_guest_put(path, sizeof path, "%s/%s", dir, entry->d_name);
        node_add(to, device, 0, in_sysfs, path);
    }
    closedir(list);
}

/* Adds NVIDIA's nodes, which are not in sysfs: its driver reports the number of each GPU's node. */
static void
node_add_nvidia(struct vg_guest_nodes *to, const char *root, size_t device,
                const struct vg_guest_device *function)
{
    char path[PATH_MAX], text[4096];

    vg_guest_put(path, sizeof path, "%s/proc/driver/nvidia/gpus/%s/information", root,
                 function->address);
    if (vg_guest_read_file(path, text, sizeof text) != 0)
        return;
    const char *found = strstr(text, "Device Minor:");
    if (!found)
        return;
    unsigned int number = (unsigned int)strtoul(found + strlen("Device Minor:"), NULL, 10);
    vg_guest_put(path, sizeof path, "%s/dev/nvidia%u", root, number);
    node_add(to, device, makedev(VG_NVIDIA_MAJOR, number), false, path);
}

/* Adds the IOMMU group of a function that is passed through. */
static void
node_add_vfio(struct vg_guest_nodes *to, const char *root, size_t device,
              const struct vg_guest_device *function)
{
    char path[PATH_MAX];

    vg_guest_put(path, sizeof path, "%s/iommu_group", function->dir);
    vg_guest_auto char *group = realpath(path, NULL);
    if (!group || strcmp(function->driver, "vfio-pci") != 0)
        return;
    vg_guest_put(path, sizeof path, "%s/dev/vfio%s", root, strrchr(group, '/'));
    node_add(to, device, 0, false, path);
}

static void
node_add_shared(struct vg_guest_nodes *to, const char *root, size_t device,
                const struct vg_guest_device *function)
{
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        if (strcmp(shared[i].driver, function->driver) != 0)
            continue;
        vg_guest_put(path, sizeof path, "%s/dev%s", root, shared[i].dir);
        node_add_like(to, device, false, path, shared[i].pattern);
    }
}

void
vg_guest_nodes_read(const char *root, const struct vg_guest_device *devices, size_t n,
                    struct vg_guest_nodes *ret)
{
    ret->nodes = vg_guest_alloc(VG_GUEST_NODES_MAX * sizeof *ret->nodes);
    ret->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct vg_guest_device *function = &devices[i];
        node_walk(ret, root, i, function->dir, 0);
        node_add_like(ret, i, true, function->dir, "resource*");
        node_add_like(ret, i, true, function->dir, "config");
        node_add_like(ret, i, true, function->dir, "rom");
        node_add_nvidia(ret, root, i, function);
        node_add_vfio(ret, root, i, function);
        bool first = *function->driver != '\0';
        for (size_t j = 0; j < i; j++)
            first = first && strcmp(devices[j].driver, function->driver) != 0;
        if (first && !vg_guest_driver_has_others(root, function->driver, devices, n))
            node_add_shared(ret, root, i, function);
    }
}

void
vg_guest_nodes_clear(struct vg_guest_nodes *nodes)
{
    free(nodes->nodes);
    *nodes = (struct vg_guest_nodes){0};
}
