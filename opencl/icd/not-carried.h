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
 .clGetGLObjectInfo = (void *)vg_cl_not_carried, .clGetGLTextureInfo = (void *)vg_cl_not_carried,  \
 .clEnqueueAcquireGLObjects = (void *)vg_cl_not_carried,                                           \
 .clEnqueueReleaseGLObjects = (void *)vg_cl_not_carried,                                           \
 .clGetGLContextInfoKHR = (void *)vg_cl_not_carried,                                               \
 .clCreateSubDevicesEXT = (void *)vg_cl_not_carried,                                               \
 .clRetainDeviceEXT = (void *)vg_cl_not_carried, .clReleaseDeviceEXT = (void *)vg_cl_not_carried,  \
 .clEnqueueAcquireEGLObjectsKHR = (void *)vg_cl_not_carried,                                       \
 .clEnqueueReleaseEGLObjectsKHR = (void *)vg_cl_not_carried,                                       \
 .clGetKernelSubGroupInfoKHR = (void *)vg_cl_not_carried,                                          \
 .clCreateFromGLBuffer = (void *)vg_cl_none_carried,                                               \
 .clCreateFromGLTexture2D = (void *)vg_cl_none_carried,                                            \
 .clCreateFromGLTexture3D = (void *)vg_cl_none_carried,                                            \
 .clCreateFromGLRenderbuffer = (void *)vg_cl_none_carried,                                         \
 .clCreateEventFromGLsyncKHR = (void *)vg_cl_none_carried,                                         \
 .clCreateFromGLTexture = (void *)vg_cl_none_carried,                                              \
 .clCreateFromEGLImageKHR = (void *)vg_cl_none_carried,                                            \
 .clCreateEventFromEGLSyncKHR = (void *)vg_cl_none_carried

#endif
