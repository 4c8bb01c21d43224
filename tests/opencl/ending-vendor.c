/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, of which there is no platform any more once exit() has come to what it
 * was told when the first context was made, as with CUDA's driver behind NVIDIA's.
 */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/vendor-table.h"

static cl_icd_dispatch pocl; /* its own functions */
static vendor_get_platforms get_pocl;
static bool is_told, has_ended;

static void
end(void)
{
    has_ended = true;
}

static cl_context CL_API_CALL
create_context(const cl_context_properties *properties, cl_uint n, const cl_device_id *list,
               void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
               cl_int *error)
{
    if (!is_told)
        atexit(end);
    is_told = true;
    return pocl.clCreateContext(properties, n, list, notify, data, error);
}

static cl_int CL_API_CALL
get_platforms(cl_uint n, cl_platform_id *platforms, cl_uint *found)
{
    return has_ended ? CL_PLATFORM_NOT_FOUND_KHR : get_pocl(n, platforms, found);
}

/* It stays loaded, so that what exit() calls does. */
__attribute__((constructor)) static void
stay(void)
{
    Dl_info info;

    if (dladdr(&pocl, &info))
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0)
        return found;
    if (!get_pocl) {
        get_pocl = (vendor_get_platforms)found;
        cl_icd_dispatch *table = vendor_table(get_pocl);
        if (!table)
            return NULL;
        pocl = *table;
        table->clCreateContext = create_context;
    }
    return (void *)get_platforms;
}
