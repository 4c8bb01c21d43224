/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, but kernels of programs that are built without options do not tell what
 * their arguments are either, as NVIDIA's do not. With VG_REFUSE nothing is built with the option
 * that makes them tell, as with vendors of OpenCL 1.1; if it is "late", what is compiled with it
 * cannot be linked, as with NVIDIA's where a kernel has no arguments.
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/vendor-table.h"

static cl_icd_dispatch pocl; /* its own functions */

static bool
is_refused(const char *options)
{
    return options && getenv("VG_REFUSE") && strstr(options, "-cl-kernel-arg-info");
}

static bool
is_late(void)
{
    const char *refuse = getenv("VG_REFUSE");

    return refuse && strcmp(refuse, "late") == 0;
}

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
    if (is_refused(options))
        return CL_INVALID_BUILD_OPTIONS;
    return pocl.clBuildProgram(program, n, devices, options ? options : "", notify, data);
}

static cl_int CL_API_CALL
compile_part(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
             cl_uint n_headers, const cl_program *headers, const char **names,
             void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    if (is_refused(options) && !is_late())
        return CL_INVALID_COMPILER_OPTIONS;
    return pocl.clCompileProgram(program, n, devices, options ? options : "", n_headers, headers,
                                 names, notify, data);
}

static cl_program CL_API_CALL
link_parts(cl_context context, cl_uint n, const cl_device_id *devices, const char *options,
           cl_uint n_parts, const cl_program *parts, void(CL_CALLBACK *notify)(cl_program, void *),
           void *data, cl_int *error)
{
    bool is_wrong = is_refused(options) && !is_late();
    for (cl_uint i = 0; is_late() && i < n_parts; i++)
        is_wrong = is_wrong || has_option(parts[i]);
    if (is_wrong) {
        if (error)
            *error = is_late() ? CL_LINK_PROGRAM_FAILURE : CL_INVALID_LINKER_OPTIONS;
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
    return found;
}
