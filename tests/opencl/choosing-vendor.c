/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: the library that VG_VENDOR names. With VG_CHOICE it sees the GPUs that stand
 * in that file whenever it is loaded, as if others had been plugged in meanwhile. With VG_AS_GPU
 * its devices are found as GPUs, for programs that take nothing else.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/vendor-table.h"

static void *vendor;
static cl_int(CL_API_CALL *get_devices)(cl_platform_id, cl_device_type, cl_uint, cl_device_id *,
                                        cl_uint *);

static void
choose(const char *path)
{
    char line[64] = "";
    FILE *choice = fopen(path, "re");

    if (choice && fgets(line, sizeof line, choice)) {
        line[strcspn(line, "\n")] = '\0';
        setenv("CUDA_VISIBLE_DEVICES", line, 1);
    }
    if (choice)
        fclose(choice);
}

__attribute__((constructor)) static void
load(void)
{
    const char *choice = getenv("VG_CHOICE");

    if (choice)
        choose(choice);
    vendor = dlopen(getenv("VG_VENDOR"), RTLD_NOW | RTLD_LOCAL);
}

__attribute__((destructor)) static void
unload(void)
{
    if (vendor)
        dlclose(vendor);
}

static cl_int CL_API_CALL
get_all_devices(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *devices,
                cl_uint *found)
{
    return get_devices(platform, type & CL_DEVICE_TYPE_GPU ? CL_DEVICE_TYPE_ALL : type, n, devices,
                       found);
}

/* Its function takes the place of the vendor's in the table of the platform. */
static void
offer_gpus(vendor_get_platforms platforms)
{
    cl_icd_dispatch *table = get_devices ? NULL : vendor_table(platforms);

    if (!table)
        return;
    get_devices = table->clGetDeviceIDs;
    table->clGetDeviceIDs = get_all_devices;
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *(*get)(const char *) =
        vendor ? (void *(*)(const char *))dlsym(vendor, "clGetExtensionFunctionAddress") : NULL;
    void *found = get ? get(name) : NULL;

    if (getenv("VG_AS_GPU") && strcmp(name, "clIcdGetPlatformIDsKHR") == 0)
        offer_gpus((vendor_get_platforms)found);
    return found;
}
