/* SPDX-License-Identifier: Apache-2.0
 *
 * What programs call.
 */
#ifndef VG_OPENCL_ICD_ENTRIES_H
#define VG_OPENCL_ICD_ENTRIES_H

#include "opencl/track/object.h"

struct vg_cl_entry {
    const char *name;
    void *function;
};

/* The table that every handle begins with. */
extern const cl_icd_dispatch vg_cl_dispatch;

/* The core functions by name; ends with NULL. */
extern const struct vg_cl_entry vg_cl_entries[];

/* Those that opencl.api has as `entry`. */
cl_int CL_API_CALL vg_cl_entry_SetKernelArg(cl_kernel kernel, cl_uint arg_index, size_t arg_size,
                                            const void *arg_value);

#endif
