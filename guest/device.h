/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the guest's PCI buses, as sysfs has them. Any process of the agent.
 */
#ifndef VG_GUEST_DEVICE_H
#define VG_GUEST_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "guest/request.h"

#define VG_GUEST_FUNCTIONS_MAX 4096

struct vg_guest_device {
    /* An address such as "0000:01:00.0". */
    char address[VG_GUEST_ADDRESS_MAX];
    /* A path such as "0000:00/02.1/00.0" (see vg_guest_match), or empty if the function is below no
     * PCI root. */
    char path[VG_GUEST_PATH_MAX];
    /* Its directory below /sys/devices, with the root before it. */
    char dir[512];
    int vendor, device, class;
    /* The name of its driver; empty if it has none. */
    char driver[64];
};

/* Reads all PCI functions below root ("" or a directory), by address; the caller frees the list.
 * Returns NULL with *ret_n 0 if there is no PCI. */
struct vg_guest_device *vg_guest_devices_read(const char *root, size_t *ret_n);

/* Counts the functions that match the description; *ret is the first one. */
size_t vg_guest_devices_match(const struct vg_guest_device *devices, size_t n,
                              const struct vg_guest_match *match, struct vg_guest_device *ret);

/* Describes in words the function that match describes. */
void vg_guest_match_text(const struct vg_guest_match *match, char *ret, size_t size);

/* Returns whether its class is for graphics or computing. */
bool vg_guest_device_is_gpu(const struct vg_guest_device *device);

/* Returns whether it is a bridge, with other devices behind it. */
bool vg_guest_device_is_bridge(const struct vg_guest_device *device);

/* Returns whether the kernel has added it completely. The kernel shows a device before it has
 * assigned addresses to its regions, and until then it cannot be enabled. The regions have files
 * once that is done. */
bool vg_guest_device_is_added(const struct vg_guest_device *device);

/* Reads again which driver the device has. */
void vg_guest_device_read_driver(struct vg_guest_device *device);

/* Waits until the device has a driver, or has none if bound is false, but no longer than until_ms.
 * Returns whether this state was reached. For a worker process (guest/child.h). */
bool vg_guest_device_wait(struct vg_guest_device *device, bool bound, int64_t until_ms);

/* Returns whether this driver has other devices than these. */
bool vg_guest_driver_has_others(const char *root, const char *driver,
                                const struct vg_guest_device *devices, size_t n);

#endif
