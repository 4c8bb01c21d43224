/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/device.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/util.h"

/* PCI classes (the kernel's pci_ids.h): display controllers, bridges, processing accelerators. */
enum { CLASS_DISPLAY = 0x03, CLASS_BRIDGE = 0x06, CLASS_ACCELERATOR = 0x12 };
/* Types of a device's regions (linux/ioport.h), and the number of its own regions. */
enum { REGION_IO = 0x100, REGION_MEMORY = 0x200, REGIONS = 6 };
/* The maximum pause between two checks of a driver. */
#define LOOK_MS_MAX 50

static int
device_read_hex(const char *dir, const char *name)
{
    char path[PATH_MAX], text[32];

    vg_guest_put(path, sizeof path, "%s/%s", dir, name);
    if (vg_guest_read_file(path, text, sizeof text) != 0)
        return -1;
    return (int)strtol(text, NULL, 16);
}

/* Converts ".../pci0000:00/0000:00:02.1/0000:01:00.0" to a path. The host chooses slots and
 * functions, but the guest chooses the bus numbers behind bridges. */
static void
device_set_path(struct vg_guest_device *device)
{
    const char *at = device->dir, *root = NULL;
    size_t size;

    for (const char *found = strstr(at, "/pci"); found; found = strstr(found + 1, "/pci"))
        root = found + strlen("/pci");
    if (!root)
        return;
    size = strcspn(root, "/");
    vg_guest_put(device->path, sizeof device->path, "%.*s", (int)size, root);
    for (at = root + size; *at == '/'; at += 1 + size) {
        size = strcspn(at + 1, "/");
        const char *slot = memrchr(at + 1, ':', size);
        size_t used = strlen(device->path);
        int length = slot ? (int)(at + 1 + size - (slot + 1)) : 0;
        if (!slot || used + (size_t)length + 2 > sizeof device->path) {
            device->path[0] = '\0';
            return;
        }
        vg_guest_put(device->path + used, sizeof device->path - used, "/%.*s", length, slot + 1);
    }
}

void
vg_guest_device_read_driver(struct vg_guest_device *device)
{
    char path[PATH_MAX], target[PATH_MAX];

    device->driver[0] = '\0';
    vg_guest_put(path, sizeof path, "%s/driver", device->dir);
    ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0)
        return;
    target[size] = '\0';
    const char *name = strrchr(target, '/');
    vg_guest_put(device->driver, sizeof device->driver, "%s", name ? name + 1 : target);
}

bool
vg_guest_device_wait(struct vg_guest_device *device, bool bound, int64_t until_ms)
{
    int64_t pause_ms = 1;

    vg_guest_device_read_driver(device);
    while ((*device->driver != '\0') != bound && vg_guest_now_ms() < until_ms &&
           vg_guest_child_stop() == VG_GUEST_STOP_NONE) {
        vg_guest_child_sleep(vg_guest_now_ms() + pause_ms);
        pause_ms = pause_ms < LOOK_MS_MAX / 2 ? 2 * pause_ms : LOOK_MS_MAX;
        vg_guest_device_read_driver(device);
    }
    return (*device->driver != '\0') == bound;
}

bool
vg_guest_device_is_added(const struct vg_guest_device *device)
{
    char path[PATH_MAX], text[2048];
    const char *line = text;

    vg_guest_put(path, sizeof path, "%s/resource", device->dir);
    vg_guest_read_file(path, text, sizeof text);
    for (int i = 0; i < REGIONS && line; i++) {
        unsigned long long start, end, kind;
        vg_guest_put(path, sizeof path, "%s/resource%d", device->dir, i);
        if (sscanf(line, "%llx %llx %llx", &start, &end, &kind) == 3 && end > start &&
            (kind & (REGION_IO | REGION_MEMORY)) && access(path, F_OK) != 0)
            return false;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return true;
}

/* Reads the device with this name. Returns whether it exists. It may disappear at any time. */
static bool
device_read(const char *bus, const char *name, struct vg_guest_device *ret)
{
    struct vg_guest_device device = {0};
    char path[PATH_MAX];

    vg_guest_put(path, sizeof path, "%s/%s", bus, name);
    vg_guest_auto char *dir = realpath(path, NULL);
    if (!dir || strlen(dir) >= sizeof device.dir || strlen(name) >= sizeof device.address)
        return false;
    vg_guest_put(device.dir, sizeof device.dir, "%s", dir);
    vg_guest_put(device.address, sizeof device.address, "%s", name);
    device.vendor = device_read_hex(dir, "vendor");
    device.device = device_read_hex(dir, "device");
    device.class = device_read_hex(dir, "class");
    if (device.vendor < 0 || device.device < 0)
        return false;
    device_set_path(&device);
    vg_guest_device_read_driver(&device);
    *ret = device;
    return true;
}

static int
device_compare(const void *a, const void *b)
{
    const struct vg_guest_device *x = a, *y = b;

    return strcmp(x->address, y->address);
}

struct vg_guest_device *
vg_guest_devices_read(const char *root, size_t *ret_n)
{
    vg_guest_auto char *bus = vg_guest_format("%s/sys/bus/pci/devices", root);
    struct vg_guest_device *devices = NULL;
    DIR *dir = opendir(bus);
    size_t n = 0, room = 0;

    *ret_n = 0;
    if (!dir)
        return NULL;
    for (struct dirent *entry = readdir(dir); entry && n < VG_GUEST_FUNCTIONS_MAX;
         entry = readdir(dir)) {
        if (n == room) {
            room = room ? room * 2 : 64;
            devices = realloc(devices, room * sizeof *devices);
            if (!devices)
                vg_guest_alloc(SIZE_MAX);
        }
        if (entry->d_name[0] != '.' && device_read(bus, entry->d_name, &devices[n]))
            n++;
    }
    closedir(dir);
    if (n > 0)
        qsort(devices, n, sizeof *devices, device_compare);
    *ret_n = n;
    return devices;
}

static bool
device_is(const struct vg_guest_device *device, const struct vg_guest_match *match)
{
    return (!*match->path || strcmp(device->path, match->path) == 0) &&
           (!*match->address || strcmp(device->address, match->address) == 0) &&
           (match->vendor < 0 || device->vendor == match->vendor) &&
           (match->device < 0 || device->device == match->device);
}

size_t
vg_guest_devices_match(const struct vg_guest_device *devices, size_t n,
                       const struct vg_guest_match *match, struct vg_guest_device *ret)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        if (!device_is(&devices[i], match))
            continue;
        if (found == 0)
            *ret = devices[i];
        found++;
    }
    return found;
}

void
vg_guest_match_text(const struct vg_guest_match *match, char *ret, size_t size)
{
    char ids[32] = "";

    if (match->vendor >= 0)
        vg_guest_put(ids, sizeof ids, " vendor 0x%04x", (unsigned int)match->vendor);
    if (match->device >= 0)
        vg_guest_put(ids + strlen(ids), sizeof ids - strlen(ids), " device 0x%04x",
                     (unsigned int)match->device);
    vg_guest_put(ret, size, "%s%s%s%s%s", *match->path ? " path " : "", match->path,
                 *match->address ? " address " : "", match->address, ids);
    memmove(ret, ret + 1, strlen(ret));
}

bool
vg_guest_device_is_gpu(const struct vg_guest_device *device)
{
    return device->class >> 16 == CLASS_DISPLAY || device->class >> 16 == CLASS_ACCELERATOR;
}

bool
vg_guest_device_is_bridge(const struct vg_guest_device *device)
{
    return device->class >> 16 == CLASS_BRIDGE;
}

bool
vg_guest_driver_has_others(const char *root, const char *driver,
                           const struct vg_guest_device *devices, size_t n)
{
    vg_guest_auto char *path = vg_guest_format("%s/sys/bus/pci/drivers/%s", root, driver);
    DIR *dir = opendir(path);
    bool others = false;

    if (!dir)
        return false;
    for (struct dirent *entry = readdir(dir); entry && !others; entry = readdir(dir)) {
        bool known = !strchr(entry->d_name, ':');
        for (size_t i = 0; i < n && !known; i++)
            known = strcmp(devices[i].address, entry->d_name) == 0;
        others = !known;
    }
    closedir(dir);
    return others;
}
