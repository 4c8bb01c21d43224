/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of extensions, which have a place in every handle's table. The extensions are not
 * offered (track/know.c); who calls them all the same is told so, and gets an error.
 */
#ifndef VG_OPENCL_ICD_NOT_CARRIED_H
#define VG_OPENCL_ICD_NOT_CARRIED_H

#include "opencl/track/object.h"

cl_int CL_API_CALL vg_cl_not_carried(void);
void *CL_API_CALL vg_cl_none_carried(void);

/* Their calling convention leaves the caller to clear up what it passed. */
#define VG_CL_NOT_CARRIED                                                                          \
 .clGetGLObjectInfo = (cl_api_clGetGLObjectInfo)(void *)vg_cl_not_carried,                         \
 .clGetGLTextureInfo = (cl_api_clGetGLTextureInfo)(void *)vg_cl_not_carried,                       \
 .clEnqueueAcquireGLObjects = (cl_api_clEnqueueAcquireGLObjects)(void *)vg_cl_not_carried,         \
 .clEnqueueReleaseGLObjects = (cl_api_clEnqueueReleaseGLObjects)(void *)vg_cl_not_carried,         \
 .clGetGLContextInfoKHR = (cl_api_clGetGLContextInfoKHR)(void *)vg_cl_not_carried,                 \
 .clCreateSubDevicesEXT = (cl_api_clCreateSubDevicesEXT)(void *)vg_cl_not_carried,                 \
 .clRetainDeviceEXT = (cl_api_clRetainDeviceEXT)(void *)vg_cl_not_carried,                         \
 .clReleaseDeviceEXT = (cl_api_clReleaseDeviceEXT)(void *)vg_cl_not_carried,                       \
 .clEnqueueAcquireEGLObjectsKHR = (cl_api_clEnqueueAcquireEGLObjectsKHR)(void *)vg_cl_not_carried, \
 .clEnqueueReleaseEGLObjectsKHR = (cl_api_clEnqueueReleaseEGLObjectsKHR)(void *)vg_cl_not_carried, \
 .clGetKernelSubGroupInfoKHR = (cl_api_clGetKernelSubGroupInfoKHR)(void *)vg_cl_not_carried,       \
 .clCreateFromGLBuffer = (cl_api_clCreateFromGLBuffer)(void *)vg_cl_none_carried,                  \
 .clCreateFromGLTexture2D = (cl_api_clCreateFromGLTexture2D)(void *)vg_cl_none_carried,            \
 .clCreateFromGLTexture3D = (cl_api_clCreateFromGLTexture3D)(void *)vg_cl_none_carried,            \
 .clCreateFromGLRenderbuffer = (cl_api_clCreateFromGLRenderbuffer)(void *)vg_cl_none_carried,      \
 .clCreateEventFromGLsyncKHR = (cl_api_clCreateEventFromGLsyncKHR)(void *)vg_cl_none_carried,      \
 .clCreateFromGLTexture = (cl_api_clCreateFromGLTexture)(void *)vg_cl_none_carried,                \
 .clCreateFromEGLImageKHR = (cl_api_clCreateFromEGLImageKHR)(void *)vg_cl_none_carried,            \
 .clCreateEventFromEGLSyncKHR = (cl_api_clCreateEventFromEGLSyncKHR)(void *)vg_cl_none_carried

#endif
