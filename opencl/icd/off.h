/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass-through mode: a loader gets the vendors' own platforms and calls them directly.
 */
#ifndef VG_OPENCL_ICD_OFF_H
#define VG_OPENCL_ICD_OFF_H

#include <stdbool.h>

#include "opencl/track/object.h"

/* Returns whether VGPU_OPENCL=off is set. */
bool vg_cl_is_off(void);

/* As clIcdGetPlatformIDsKHR() and clGetExtensionFunctionAddress(), for all vendors. */
cl_int CL_API_CALL vg_cl_off_platforms(cl_uint n, cl_platform_id *platforms, cl_uint *found);
void *vg_cl_off_address(const char *name);

#endif
