/* SPDX-License-Identifier: Apache-2.0
 *
 * For vendors made of another one, whose functions take the place of some of the other's. The table
 * of functions is changed where it is, as a loader reaches it by each object.
 */
#ifndef VG_TESTS_OPENCL_VENDOR_TABLE_H
#define VG_TESTS_OPENCL_VENDOR_TABLE_H

#define CL_TARGET_OPENCL_VERSION 300
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CL/cl_icd.h>
#include <dlfcn.h>

typedef void *(*vendor_get_address)(const char *);
typedef cl_int(CL_API_CALL *vendor_get_platforms)(cl_uint, cl_platform_id *, cl_uint *);

/* What PoCL's clGetExtensionFunctionAddress() says. */
static inline void *
vendor_pocl(const char *name)
{
    void *pocl = dlopen("libpocl.so.2", RTLD_NOW | RTLD_LOCAL);
    vendor_get_address get =
        pocl ? (vendor_get_address)dlsym(pocl, "clGetExtensionFunctionAddress") : NULL;

    return get ? get(name) : NULL;
}

/* The table of the first platform, which may be written to; NULL: there is none. */
static inline cl_icd_dispatch *
vendor_table(vendor_get_platforms platforms)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    cl_platform_id platform;

    if (!platforms || platforms(1, &platform, NULL) != CL_SUCCESS)
        return NULL;
    cl_icd_dispatch *table = *(cl_icd_dispatch **)platform;
    uintptr_t begin = (uintptr_t)table & ~(page - 1), end = (uintptr_t)(table + 1);
    return mprotect((void *)begin, end - begin, PROT_READ | PROT_WRITE) == 0 ? table : NULL;
}

#endif
