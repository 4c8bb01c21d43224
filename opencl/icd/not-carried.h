/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension functions that have a slot in every handle's dispatch table. The extensions are not
 * offered (track/know.c). A program that calls one of these functions anyway gets an error and a
 * message.
 */
#ifndef VG_OPENCL_ICD_NOT_CARRIED_H
#define VG_OPENCL_ICD_NOT_CARRIED_H

#include "opencl/track/object.h"

cl_int CL_API_CALL vg_cl_not_carried(void);
void *CL_API_CALL vg_cl_none_carried(void);

/* Callers remove the arguments in this calling convention, so a function without parameters
 * fits. */
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
