/* SPDX-License-Identifier: Apache-2.0
 *
 * Device properties that a program may have queried and that any later device must satisfy.
 */
#ifndef VG_OPENCL_TRACK_LIMITS_H
#define VG_OPENCL_TRACK_LIMITS_H

#include "opencl/track/object.h"

#define VG_CL_LIMITS 21

struct vg_cl_limits {
    char name[128], driver[64]; /* of the device, and its driver's version */
    uint64_t values[VG_CL_LIMITS];
    char *extensions; /* owned */
};

/* Queries the vendor's DEVICE. */
void vg_cl_limits_ask(struct vg_cl_limits *limits, const cl_icd_dispatch *cl, cl_device_id device);

/* Returns true if both have the same kind of device and the same driver, so that binaries of one
 * run on the other. */
bool vg_cl_limits_are_same(const struct vg_cl_limits *a, const struct vg_cl_limits *b);

/* Returns true if the device is a CPU and nothing else. */
bool vg_cl_limits_are_of_processor(const struct vg_cl_limits *limits);

/* Returns the name of the first limit in AFTER that is lower than in BEFORE, or NULL if none is. */
const char *vg_cl_limits_lack(const struct vg_cl_limits *before, const struct vg_cl_limits *after);

#endif
