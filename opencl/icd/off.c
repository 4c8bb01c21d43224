/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/off.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/vendor.h"

static pthread_once_t off_once = PTHREAD_ONCE_INIT;

bool
vg_cl_is_off(void)
{
    const char *value = secure_getenv("VGPU_OPENCL");

    return value && strcmp(value, "off") == 0;
}

static void
off_load(void)
{
    vg_cl_vendors_load(false);
}

cl_int CL_API_CALL
vg_cl_off_platforms(cl_uint n, cl_platform_id *platforms, cl_uint *found)
{
    cl_uint n_vendors, all = 0;

    if ((platforms && n == 0) || (!platforms && !found))
        return CL_INVALID_VALUE;
    pthread_once(&off_once, off_load);
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n_vendors);
    for (cl_uint v = 0; v < n_vendors; v++) {
        cl_uint own;
        cl_platform_id *list = vg_cl_vendor_platforms(&vendors[v], &own);
        for (cl_uint i = 0; list && i < own; i++, all++)
            if (platforms && all < n)
                platforms[all] = list[i];
        free(list);
    }
    if (found)
        *found = all;
    return all ? CL_SUCCESS : CL_PLATFORM_NOT_FOUND_KHR;
}

void *
vg_cl_off_address(const char *name)
{
    cl_uint n_vendors;
    void *address = NULL;

    pthread_once(&off_once, off_load);
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n_vendors);
    for (cl_uint v = 0; !address && v < n_vendors; v++)
        address = vg_cl_vendor_address(&vendors[v], name);
    return address;
}
