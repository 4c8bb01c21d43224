/* SPDX-License-Identifier: Apache-2.0
 *
 * The files through which programs use a GPU: device nodes that sysfs names below its function,
 * those of its driver, and the function's own files in sysfs. Any process of the agent.
 */
#ifndef VG_GUEST_NODE_H
#define VG_GUEST_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "guest/device.h"

#define VG_GUEST_NODES_MAX     1024
#define VG_GUEST_NODE_PATH_MAX 256

struct vg_guest_node {
    char path[VG_GUEST_NODE_PATH_MAX];
    /* Of a device node: what it is, wherever it lies. 0 if it is none. */
    dev_t rdev;
    /* Of the file at path; ino is 0 if there is none. */
    dev_t dev;
    ino_t ino;
    /* Of sysfs: it has this number in each mount of it. */
    bool in_sysfs;
    /* Which of the functions it was asked for. */
    size_t device;
};

struct vg_guest_nodes {
    struct vg_guest_node *nodes;
    size_t n;
};

/* Those of these functions, which all leave: nodes that a driver has for all of its GPUs are among
 * them if no other function has this driver. root as for vg_guest_devices_read(). */
void vg_guest_nodes_read(const char *root, const struct vg_guest_device *devices, size_t n,
                         struct vg_guest_nodes *ret);
void vg_guest_nodes_clear(struct vg_guest_nodes *nodes);

#endif
