/* SPDX-License-Identifier: Apache-2.0
 *
 * The files through which programs use a GPU: device nodes that sysfs lists below its function,
 * its driver's nodes, and the function's own files in sysfs. Any process of the agent.
 */
#ifndef VG_GUEST_NODE_H
#define VG_GUEST_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "guest/device.h"

/* NV_MAJOR_DEVICE_NUMBER of NVIDIA's driver. */
#define VG_NVIDIA_MAJOR        195
#define VG_GUEST_NODES_MAX     1024
#define VG_GUEST_NODE_PATH_MAX 256

struct vg_guest_node {
    char path[VG_GUEST_NODE_PATH_MAX];
    /* The number of a device node, which is independent of the node's path; 0 for another file. */
    dev_t rdev;
    /* The identity of the file at path; ino is 0 if it does not exist. */
    dev_t dev;
    ino_t ino;
    /* It is in sysfs, where a file has the same number in each mount. */
    bool in_sysfs;
    /* Every user may read it: only processes that have it open for writing hold the device. */
    bool for_all;
    /* The index of the function that it belongs to. */
    size_t device;
};

struct vg_guest_nodes {
    struct vg_guest_node *nodes;
    size_t n;
};

/* Finds the nodes of these functions, which are all to be removed. A node that a driver shares
 * among its GPUs is included only if no other function uses that driver. root is as for
 * vg_guest_devices_read(). */
void vg_guest_nodes_read(const char *root, const struct vg_guest_device *devices, size_t n,
                         struct vg_guest_nodes *ret);
void vg_guest_nodes_clear(struct vg_guest_nodes *nodes);

#endif
