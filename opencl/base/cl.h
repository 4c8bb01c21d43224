/* SPDX-License-Identifier: Apache-2.0
 *
 * The OpenCL types and functions, including the deprecated ones of all earlier versions.
 */
#ifndef VG_OPENCL_BASE_CL_H
#define VG_OPENCL_BASE_CL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS

#include <CL/cl_icd.h>

#endif
