/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, but kernels of programs that are built without options do not tell what
 * their arguments are either, as NVIDIA's do not. With VG_REFUSE nothing is built with the option
 * that makes them tell, as with vendors of OpenCL 1.1; if it is "late", what is compiled with it
 * cannot be linked, as with NVIDIA's where a kernel has no arguments. If it is "strict", kernels
 * never tell, and an argument that is an image or a sampler takes nothing else, as with NVIDIA's;
 * it links nothing, as PoCL itself does not know then what arguments are.
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdatomic.h>

#include "tests/opencl/vendor-table.h"

static cl_icd_dispatch pocl; /* its own functions */

static bool
is_refused(const char *options)
{
    return options && getenv("VG_REFUSE") && strstr(options, "-cl-kernel-arg-info");
}

static bool
is_mode(const char *mode)
{
    const char *refuse = getenv("VG_REFUSE");

    return refuse && strcmp(refuse, mode) == 0;
}

static bool
is_late(void)
{
    return is_mode("late");
}

/* What PoCL is to build with: for a strict vendor it has to tell, though not the program. */
static const char *
with_option(const char *options, char *room, size_t size)
{
    if (!is_mode("strict"))
        return options ? options : "";
    snprintf(room, size, "%s -cl-kernel-arg-info", options ? options : "");
    return room;
}

/* Leaves our option out. A program's own would have been refused. */
static cl_int CL_API_CALL
build_info(cl_program program, cl_device_id device, cl_program_build_info what, size_t size,
           void *value, size_t *size_ret)
{
    char options[1024] = "";
    size_t all = 0;

    if (what != CL_PROGRAM_BUILD_OPTIONS || !is_mode("strict"))
        return pocl.clGetProgramBuildInfo(program, device, what, size, value, size_ret);
    cl_int error = pocl.clGetProgramBuildInfo(program, device, what, sizeof options, options, &all);
    char *end = strstr(options, "-cl-kernel-arg-info");
    if (end)
        *(end > options ? end - 1 : end) = '\0';
    all = strlen(options) + 1;
    if (error == CL_SUCCESS && value && size < all)
        return CL_INVALID_VALUE;
    if (error == CL_SUCCESS && value)
        memcpy(value, options, all);
    if (error == CL_SUCCESS && size_ret)
        *size_ret = all;
    return error;
}

/* ---- a strict vendor ---- */

static struct {
    const void *handle;
    bool is_sampler;
} known[4096]; /* images and samplers that there were */
static atomic_uint n_known;

static void *
know(void *handle, bool is_sampler)
{
    unsigned i = handle ? atomic_fetch_add(&n_known, 1) : 0;

    if (i >= sizeof known / sizeof *known)
        abort();
    if (handle) {
        known[i].is_sampler = is_sampler;
        known[i].handle = handle;
    }
    return handle;
}

static bool
is_known(const void *handle, bool is_sampler)
{
    for (unsigned i = 0; i < n_known; i++)
        if (known[i].handle == handle && known[i].is_sampler == is_sampler)
            return true;
    return false;
}

static cl_mem CL_API_CALL
create_image(cl_context context, cl_mem_flags flags, const cl_image_format *format,
             const cl_image_desc *desc, void *host, cl_int *error)
{
    return know(pocl.clCreateImage(context, flags, format, desc, host, error), false);
}

static cl_sampler CL_API_CALL
create_sampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing,
               cl_filter_mode filter, cl_int *error)
{
    return know(pocl.clCreateSampler(context, normalized, addressing, filter, error), true);
}

static cl_sampler CL_API_CALL
create_sampler_with(cl_context context, const cl_sampler_properties *properties, cl_int *error)
{
    return know(pocl.clCreateSamplerWithProperties(context, properties, error), true);
}

static cl_int CL_API_CALL
set_arg(cl_kernel kernel, cl_uint i, size_t size, const void *value)
{
    cl_kernel_arg_access_qualifier access = CL_KERNEL_ARG_ACCESS_NONE;
    char type[64] = "";
    void *handle = NULL;

    pocl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access, &access,
                            NULL);
    pocl.clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
    bool is_sampler = strcmp(type, "sampler_t") == 0;
    if (value && size == sizeof handle)
        memcpy(&handle, value, sizeof handle);
    if (value && (is_sampler || access != CL_KERNEL_ARG_ACCESS_NONE) &&
        !is_known(handle, is_sampler))
        return is_sampler ? CL_INVALID_SAMPLER : CL_INVALID_MEM_OBJECT;
    return pocl.clSetKernelArg(kernel, i, size, value);
}

static cl_int CL_API_CALL
arg_info(cl_kernel kernel, cl_uint i, cl_kernel_arg_info what, size_t size, void *value,
         size_t *size_ret)
{
    cl_int error = pocl.clGetKernelArgInfo(kernel, i, what, 0, NULL, NULL);

    (void)size;
    (void)value;
    (void)size_ret;
    return error == CL_SUCCESS ? CL_KERNEL_ARG_INFO_NOT_AVAILABLE : error;
}

/* ---- building ---- */

/* Whether a part was compiled with the option. */
static bool
has_option(cl_program part)
{
    char options[256] = "";
    cl_device_id device;

    pocl.clGetProgramInfo(part, CL_PROGRAM_DEVICES, sizeof device, &device, NULL);
    pocl.clGetProgramBuildInfo(part, device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options,
                               NULL);
    return strstr(options, "-cl-kernel-arg-info") != NULL;
}

static cl_int CL_API_CALL
build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
      void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    char room[1024];

    if (is_refused(options))
        return CL_INVALID_BUILD_OPTIONS;
    return pocl.clBuildProgram(program, n, devices, with_option(options, room, sizeof room), notify,
                               data);
}

static cl_int CL_API_CALL
compile_part(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
             cl_uint n_headers, const cl_program *headers, const char **names,
             void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    char room[1024];

    if (is_refused(options) && !is_late())
        return CL_INVALID_COMPILER_OPTIONS;
    return pocl.clCompileProgram(program, n, devices, with_option(options, room, sizeof room),
                                 n_headers, headers, names, notify, data);
}

static cl_program CL_API_CALL
link_parts(cl_context context, cl_uint n, const cl_device_id *devices, const char *options,
           cl_uint n_parts, const cl_program *parts, void(CL_CALLBACK *notify)(cl_program, void *),
           void *data, cl_int *error)
{
    bool is_wrong = (is_refused(options) && !is_late()) || is_mode("strict");
    for (cl_uint i = 0; is_late() && i < n_parts; i++)
        is_wrong = is_wrong || has_option(parts[i]);
    if (is_wrong) {
        if (error)
            *error = is_refused(options) && !is_late() ? CL_INVALID_LINKER_OPTIONS
                                                       : CL_LINK_PROGRAM_FAILURE;
        return NULL;
    }
    return pocl.clLinkProgram(context, n, devices, options ? options : "", n_parts, parts, notify,
                              data, error);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0 || pocl.clBuildProgram)
        return found;
    cl_icd_dispatch *table = vendor_table((vendor_get_platforms)found);
    if (table) {
        pocl = *table;
        table->clBuildProgram = build;
        table->clCompileProgram = compile_part;
        table->clLinkProgram = link_parts;
    }
    if (table && is_mode("strict")) {
        table->clGetProgramBuildInfo = build_info;
        table->clCreateImage = create_image;
        table->clCreateSampler = create_sampler;
        table->clCreateSamplerWithProperties = create_sampler_with;
        table->clSetKernelArg = set_arg;
        table->clGetKernelArgInfo = arg_info;
    }
    return found;
}
