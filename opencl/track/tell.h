/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs are built so that their kernels tell what their arguments are, which vendors may do only
 * with an option: without, a number that happens to be an object's address could not be told from
 * the object. The program does not see the option.
 *
 * Each function does what clBuildProgram() and the like do, on the vendor's object of OBJECT, and
 * notes in the program whether it was built with the option that OPTIONS did not have. Where the
 * vendor does not build with it, it is built without, so that errors and logs are those of OPTIONS
 * alone. A vendor that builds others with it says with it, too, why it does not build this one.
 * Calls for one program are made by one thread at a time.
 */
#ifndef VG_OPENCL_TRACK_TELL_H
#define VG_OPENCL_TRACK_TELL_H

#include "opencl/track/object.h"

/* Whether a vendor builds with the option at all, as a build has shown. */
enum vg_cl_tells {
    VG_CL_TELLS_UNKNOWN,
    VG_CL_TELLS_YES,
    VG_CL_TELLS_NO,
};

cl_int vg_cl_tell_build(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                        const char *options);

cl_int vg_cl_tell_compile(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                          const char *options, cl_uint n_headers, const cl_program *headers,
                          const char **names);

/* Sets `real`, which may be there also after an error. */
cl_int vg_cl_tell_link(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                       const char *options, cl_uint n_inputs, const cl_program *inputs);

/* Returns OPTIONS, which the vendor says, as the program gave them. */
const char *vg_cl_tell_without(const char *options);

#endif
