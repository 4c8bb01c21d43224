/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/tell.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/program.h"

#define TELL "-cl-kernel-arg-info"

static bool
tell_is_among(const char *options)
{
    for (const char *at = options; (at = strstr(at, TELL)) != NULL; at += sizeof TELL - 1)
        if ((at == options || at[-1] == ' ') && strchr(" ", at[sizeof TELL - 1]))
            return true;
    return false;
}

/* Puts the option first, because the program's last one may be incomplete. Returns NULL if it must
 * not be added, or there is no memory. The caller frees the text. */
static char *
tell_add(const struct vg_cl_object *object, const char *options)
{
    if (object->program->is_alone || (options && tell_is_among(options)))
        return NULL;
    char *more = malloc(sizeof TELL + 1 + (options ? strlen(options) : 0));
    if (!more)
        return NULL;
    strcpy(more, TELL);
    if (options && *options) {
        strcat(more, " ");
        strcat(more, options);
    }
    return more;
}

const char *
vg_cl_kinds_without(const char *options)
{
    const size_t size = sizeof TELL - 1;

    if (strncmp(options, TELL, size) != 0)
        return options;
    return options[size] == ' ' ? options + size + 1 : options + size;
}

/* Returns whether the vendor builds programs with the option, so that it cannot be the reason for a
 * failure. */
static bool
tell_is_taken(struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    const char *source = "kernel void vgpu(void) { }";
    cl_int error = CL_SUCCESS;

    if (atomic_load(&object->track->tells) != VG_CL_TELLS_UNKNOWN)
        return atomic_load(&object->track->tells) == VG_CL_TELLS_YES;
    cl_program tried =
        cl->clCreateProgramWithSource(object->context->real, 1, &source, NULL, &error);
    if (error != CL_SUCCESS || !tried)
        return false;
    bool ok = cl->clBuildProgram(tried, 0, NULL, TELL, NULL, NULL) == CL_SUCCESS;
    cl->clReleaseProgram(tried);
    atomic_store(&object->track->tells, ok ? VG_CL_TELLS_YES : VG_CL_TELLS_NO);
    return ok;
}

cl_int
vg_cl_kinds_build(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                  const char *options)
{
    const cl_icd_dispatch *cl = object->track->cl;
    char *more = tell_add(object, options);
    cl_int result = CL_INVALID_BUILD_OPTIONS;

    if (more)
        result = cl->clBuildProgram(object->real, n, devices, more, NULL, NULL);
    bool is_final = more && (result == CL_SUCCESS ||
                             (result == CL_BUILD_PROGRAM_FAILURE && tell_is_taken(object)));
    free(more);
    if (is_final) {
        object->program->is_telling = true;
        return result;
    }
    result = cl->clBuildProgram(object->real, n, devices, options, NULL, NULL);
    if (result == CL_SUCCESS || result == CL_BUILD_PROGRAM_FAILURE)
        object->program->is_telling = false;
    return result;
}

cl_int
vg_cl_kinds_compile(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                    const char *options, cl_uint n_headers, const cl_program *headers,
                    const char **names)
{
    const cl_icd_dispatch *cl = object->track->cl;
    char *more = tell_add(object, options);
    cl_int result = CL_INVALID_COMPILER_OPTIONS;

    if (more)
        result = cl->clCompileProgram(object->real, n, devices, more, n_headers, headers, names,
                                      NULL, NULL);
    bool is_final = more && (result == CL_SUCCESS ||
                             (result == CL_COMPILE_PROGRAM_FAILURE && tell_is_taken(object)));
    free(more);
    if (is_final) {
        object->program->is_telling = true;
        return result;
    }
    result = cl->clCompileProgram(object->real, n, devices, options, n_headers, headers, names,
                                  NULL, NULL);
    if (result == CL_SUCCESS || result == CL_COMPILE_PROGRAM_FAILURE)
        object->program->is_telling = false;
    return result;
}

cl_int
vg_cl_kinds_link(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                 const char *options, cl_uint n_inputs, const cl_program *inputs)
{
    const cl_icd_dispatch *cl = object->track->cl;
    char *more = tell_add(object, options);
    cl_int error = CL_INVALID_LINKER_OPTIONS;

    if (more)
        object->real = cl->clLinkProgram(object->context->real, n, devices, more, n_inputs, inputs,
                                         NULL, NULL, &error);
    free(more);
    object->program->is_telling = error == CL_SUCCESS;
    if (error == CL_SUCCESS)
        return CL_SUCCESS;
    if (object->real)
        cl->clReleaseProgram(object->real);
    object->real = cl->clLinkProgram(object->context->real, n, devices, options, n_inputs, inputs,
                                     NULL, NULL, &error);
    return error;
}
