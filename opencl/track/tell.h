/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds programs such that kernels report the kinds of their arguments. Vendors may require a
 * build option for this. Without it, a number that equals an object's address cannot be
 * distinguished from the object. The program does not see the option.
 *
 * Each function works as clBuildProgram() and its relatives, on the vendor's object of OBJECT. It
 * records in the program whether it was built with an option that OPTIONS lacked. If the vendor
 * cannot build with the option, it builds without, so that errors and logs match OPTIONS alone. If
 * the vendor has accepted the option in other builds, the log with the option already explains the
 * failure. One thread at a time may call these for one program.
 */
#ifndef VG_OPENCL_TRACK_TELL_H
#define VG_OPENCL_TRACK_TELL_H

#include "opencl/track/object.h"

/* Whether a vendor accepts the option at all, as known from a build. */
enum vg_cl_tells {
    VG_CL_TELLS_UNKNOWN,
    VG_CL_TELLS_YES,
    VG_CL_TELLS_NO,
};

cl_int vg_cl_kinds_build(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                         const char *options);

cl_int vg_cl_kinds_compile(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                           const char *options, cl_uint n_headers, const cl_program *headers,
                           const char **names);

/* Sets `real`, which may be set even after an error. */
cl_int vg_cl_kinds_link(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                        const char *options, cl_uint n_inputs, const cl_program *inputs);

/* Returns OPTIONS, as reported by the vendor, without the added option. */
const char *vg_cl_kinds_without(const char *options);

#endif
