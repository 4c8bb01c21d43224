/* SPDX-License-Identifier: Apache-2.0
 *
 * Versions of NVIDIA's driver that are known to harm programs which are released and restored,
 * according to reports of users. Pure.
 */
#ifndef VG_GUEST_CUDA_DRIVERS_H
#define VG_GUEST_CUDA_DRIVERS_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

enum vg_cuda_driver_action {
    /* The agent handles it; no other action is needed. */
    VG_CUDA_DRIVER_NOTE,
    /* It may fail, and then nothing is lost. */
    VG_CUDA_DRIVER_WARN,
    /* Something would be lost. */
    VG_CUDA_DRIVER_REFUSE,
};

struct vg_cuda_driver_fault {
    /* The first and the last affected version, such as "595.71.05" or "580"; each includes the
     * versions with that prefix. An empty `to` means no end. */
    const char *from, *to;
    enum vg_cuda_driver_action action;
    const char *what, *source;
};

/* The size of a version's text, with the NUL. */
#define VG_CUDA_DRIVER_VERSION_MAX 32

/* Reads the version of the driver that is loaded; the text is empty if that is not known. Returns
 * its major number, or 0. */
int vg_cuda_driver_read(const char *root, char ret[VG_CUDA_DRIVER_VERSION_MAX]);

/* Returns the next fault of this version after `last`, or the first if that is NULL. Returns NULL
 * if there are no more. */
const struct vg_cuda_driver_fault *vg_cuda_driver_next(const char *version,
                                                       const struct vg_cuda_driver_fault *last);

/* Describes the driver and its faults: {version, faults: [{action, what, source}]}. The caller
 * releases it with json_object_put(). */
json_object *vg_cuda_driver_json(const char *version);

#endif
