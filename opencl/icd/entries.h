/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points that programs call.
 */
#ifndef VG_OPENCL_ICD_ENTRIES_H
#define VG_OPENCL_ICD_ENTRIES_H

#include "opencl/track/object.h"

struct vg_cl_entry {
    const char *name;
    void *function;
};

/* The dispatch table that each handle's first member points to. */
extern const cl_icd_dispatch vg_cl_dispatch;

/* The core functions by name. The last entry is NULL. */
extern const struct vg_cl_entry vg_cl_entries[];

/* The functions marked `entry` in opencl.api. */
cl_int CL_API_CALL vg_cl_entry_SetKernelArg(cl_kernel kernel, cl_uint arg_index, size_t arg_size,
                                            const void *arg_value);

#endif
