/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, which says on stderr when a buffer over memory of the host comes and
 * goes, and how many contexts there are then. With VG_REFUSES it has no such buffers. It lets the
 * status of an event be set again, as NVIDIA's does.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stdatomic.h>

#include "tests/opencl/vendor-table.h"

static cl_icd_dispatch real;
static _Atomic(cl_mem) over;
static atomic_int contexts;

static cl_mem CL_API_CALL
create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    if (!(flags & CL_MEM_USE_HOST_PTR))
        return real.clCreateBuffer(context, flags, size, host, error);
    if (getenv("VG_REFUSES")) {
        fprintf(stderr, "refused: %zu bytes\n", size);
        return NULL;
    }
    cl_mem mem = real.clCreateBuffer(context, flags, size, host, error);
    over = mem;
    fprintf(stderr, "known: %zu bytes, %d contexts\n", size, contexts);
    return mem;
}

static cl_int CL_API_CALL
release_mem(cl_mem mem)
{
    cl_mem expected = mem;

    if (mem && atomic_compare_exchange_strong(&over, &expected, NULL))
        fprintf(stderr, "unknown, %d contexts\n", contexts);
    return real.clReleaseMemObject(mem);
}

static cl_context CL_API_CALL
create_context(const cl_context_properties *properties, cl_uint n, const cl_device_id *devices,
               void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
               cl_int *error)
{
    contexts++;
    return real.clCreateContext(properties, n, devices, notify, data, error);
}

static cl_int CL_API_CALL
release_context(cl_context context)
{
    contexts--;
    return real.clReleaseContext(context);
}

static cl_int CL_API_CALL
set_status(cl_event event, cl_int status)
{
    cl_int result = real.clSetUserEventStatus(event, status);

    return result == CL_INVALID_OPERATION ? CL_SUCCESS : result;
}

static cl_int CL_API_CALL
platforms(cl_uint n, cl_platform_id *list, cl_uint *n_ret)
{
    vendor_get_platforms get = (vendor_get_platforms)vendor_pocl("clIcdGetPlatformIDsKHR");
    cl_icd_dispatch *table = vendor_table(get);

    if (table && table->clCreateBuffer != create_buffer) {
        real = *table;
        table->clCreateBuffer = create_buffer;
        table->clReleaseMemObject = release_mem;
        table->clCreateContext = create_context;
        table->clReleaseContext = release_context;
        table->clSetUserEventStatus = set_status;
    }
    return get(n, list, n_ret);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void *)platforms : vendor_pocl(name);
}
