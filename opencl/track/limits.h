/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program may have learnt of its device, and must find again on another one.
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

/* Asks the vendor's DEVICE. */
void vg_cl_limits_ask(struct vg_cl_limits *limits, const cl_icd_dispatch *cl, cl_device_id device);

/* Returns true if both are of one kind of device with one driver: binaries of one run on the other.
 */
bool vg_cl_limits_are_same(const struct vg_cl_limits *a, const struct vg_cl_limits *b);

/* Returns true if the device is a processor of the machine, and nothing else. */
bool vg_cl_limits_are_of_processor(const struct vg_cl_limits *limits);

/* Returns the name of the first limit of AFTER that is less than what BEFORE allowed; NULL: none.
 */
const char *vg_cl_limits_lack(const struct vg_cl_limits *before, const struct vg_cl_limits *after);

#endif
