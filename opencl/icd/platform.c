/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions without an object of the program's: platforms, their devices, functions by name.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/control.h"
#include "opencl/icd/entries.h"
#include "opencl/icd/forked.h"
#include "opencl/icd/off.h"
#include "opencl/icd/vendor.h"
#include "opencl/track/calls.h"
#include "opencl/track/ends.h"

/* As in CL/cl_layer.h, which is missing from headers before 2021. */
#define LAYER_API_VERSION     0x4240
#define LAYER_NAME            0x4241
#define LAYER_API_VERSION_100 100

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_uint param_name, size_t param_value_size,
                                               void *param_value, size_t *param_value_size_ret);
CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint num_entries,
                                            const cl_icd_dispatch *target_dispatch,
                                            cl_uint *num_entries_ret,
                                            const cl_icd_dispatch **layer_dispatch_ret);

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

static void
platform_load(void)
{
    cl_uint n;

    vg_cl_objects_begin(&vg_cl_dispatch, vg_cl_ends);
    vg_cl_vendors_load(true);
    vg_cl_vendors_get(&n);
    if (n) {
        vg_cl_forked_watch();
        vg_cl_control_start();
    }
}

cl_int
vg_cl_GetPlatformIDs(cl_uint num_entries, struct vg_cl_object **platforms, cl_uint *num_platforms)
{
    cl_uint n_vendors, n = 0;

    if ((platforms && num_entries == 0) || (!platforms && !num_platforms))
        return CL_INVALID_VALUE;
    pthread_once(&loaded, platform_load);
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n_vendors);
    for (cl_uint v = 0; v < n_vendors; v++)
        for (cl_uint t = 0; t < vendors[v].n_tracks; t++, n++)
            if (platforms && n < num_entries)
                platforms[n] = vendors[v].tracks[t]->platform;
    if (num_platforms)
        *num_platforms = n;
    return n ? CL_SUCCESS : CL_PLATFORM_NOT_FOUND_KHR;
}

static struct vg_cl_object *
platform_find_device(const struct vg_cl_track *track, cl_device_id real)
{
    for (cl_uint i = 0; i < track->n_devices; i++)
        if (track->devices[i]->real == real)
            return track->devices[i];
    return NULL;
}

cl_int
vg_cl_GetDeviceIDs(struct vg_cl_object *platform, cl_device_type device_type, cl_uint num_entries,
                   struct vg_cl_object **devices, cl_uint *num_devices)
{
    cl_uint n = 0, found = 0;

    if (!platform)
        return CL_INVALID_PLATFORM;
    struct vg_cl_track *track = platform->track;
    if (track->as_gpu && (device_type & CL_DEVICE_TYPE_GPU))
        device_type = CL_DEVICE_TYPE_ALL;
    else if (track->as_gpu && device_type == CL_DEVICE_TYPE_CPU)
        return CL_DEVICE_NOT_FOUND;
    cl_int result = track->cl->clGetDeviceIDs(platform->real, device_type, 0, NULL, &n);
    if (result != CL_SUCCESS)
        return result;
    if ((devices && num_entries == 0) || (!devices && !num_devices))
        return CL_INVALID_VALUE;
    cl_device_id *reals = calloc(n ? n : 1, sizeof *reals);
    if (!reals)
        return CL_OUT_OF_HOST_MEMORY;
    result = track->cl->clGetDeviceIDs(platform->real, device_type, n, reals, NULL);
    for (cl_uint i = 0; result == CL_SUCCESS && i < n; i++) {
        struct vg_cl_object *device = platform_find_device(track, reals[i]);
        if (device && devices && found < num_entries)
            devices[found] = device;
        found += device ? 1 : 0;
    }
    free(reals);
    if (result == CL_SUCCESS && num_devices)
        *num_devices = found;
    return result;
}

/* Returns the platform in PROPERTIES, or the first one. */
static struct vg_cl_object *
platform_of_properties(const cl_context_properties *properties, cl_int *error)
{
    struct vg_cl_object *platform = NULL;

    for (; properties && properties[0] != 0; properties += 2)
        if (properties[0] == CL_CONTEXT_PLATFORM) {
            platform = vg_cl_as((void *)properties[1], VG_CL_PLATFORM);
            *error = platform ? CL_SUCCESS : CL_INVALID_PLATFORM;
            return platform;
        }
    *error =
        vg_cl_GetPlatformIDs(1, &platform, NULL) == CL_SUCCESS ? CL_SUCCESS : CL_INVALID_PLATFORM;
    return platform;
}

struct vg_cl_object *
vg_cl_CreateContextFromType(const cl_context_properties *properties, cl_device_type device_type,
                            vg_cl_context_notify pfn_notify, void *user_data, cl_int *errcode_ret)
{
    struct vg_cl_object *devices[64], *context = NULL;
    cl_uint n = 0;
    cl_int error;
    struct vg_cl_object *platform = platform_of_properties(properties, &error);

    if (platform)
        error = vg_cl_GetDeviceIDs(platform, device_type, 64, devices, &n);
    if (error == CL_SUCCESS)
        context = vg_cl_CreateContext(properties, n < 64 ? n : 64, devices, pfn_notify, user_data,
                                      errcode_ret);
    else
        vg_cl_set_error(errcode_ret, error);
    return context;
}

cl_int
vg_cl_UnloadPlatformCompiler(struct vg_cl_object *platform)
{
    if (!platform)
        return CL_INVALID_PLATFORM;
    return platform->track->cl->clUnloadPlatformCompiler(platform->real);
}

cl_int
vg_cl_UnloadCompiler(void)
{
    cl_uint n_vendors;
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n_vendors);

    for (cl_uint v = 0; v < n_vendors; v++)
        for (cl_uint t = 0; t < vendors[v].n_tracks; t++)
            vg_cl_UnloadPlatformCompiler(vendors[v].tracks[t]->platform);
    return CL_SUCCESS;
}

/* ---- functions by name, and what a loader looks for ---- */

void *
vg_cl_GetExtensionFunctionAddress(const char *func_name)
{
    if (!func_name)
        return NULL;
    if (strcmp(func_name, "clIcdGetPlatformIDsKHR") == 0)
        return (void *)vg_cl_dispatch.clGetPlatformIDs;
    for (const struct vg_cl_entry *entry = vg_cl_entries; entry->name; entry++)
        if (strcmp(entry->name, func_name) == 0)
            return entry->function;
    return NULL;
}

void *
vg_cl_GetExtensionFunctionAddressForPlatform(struct vg_cl_object *platform, const char *func_name)
{
    return platform ? vg_cl_GetExtensionFunctionAddress(func_name) : NULL;
}

__attribute__((visibility("default"))) void *CL_API_CALL
clGetExtensionFunctionAddress(const char *func_name)
{
    if (vg_cl_is_off())
        return func_name && strcmp(func_name, "clIcdGetPlatformIDsKHR") == 0
                   ? (void *)vg_cl_off_platforms
                   : vg_cl_off_address(func_name);
    return vg_cl_GetExtensionFunctionAddress(func_name);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms)
{
    return vg_cl_is_off() ? vg_cl_off_platforms(num_entries, platforms, num_platforms)
                          : vg_cl_dispatch.clGetPlatformIDs(num_entries, platforms, num_platforms);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clGetPlatformInfo(cl_platform_id platform, cl_platform_info param_name, size_t param_value_size,
                  void *param_value, size_t *param_value_size_ret)
{
    const cl_icd_dispatch *cl =
        vg_cl_is_off() && platform ? *(const cl_icd_dispatch **)platform : &vg_cl_dispatch;

    return cl->clGetPlatformInfo(platform, param_name, param_value_size, param_value,
                                 param_value_size_ret);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clGetLayerInfo(cl_uint param_name, size_t param_value_size, void *param_value,
               size_t *param_value_size_ret)
{
    static const char name[] = "vgpud";
    cl_uint version = LAYER_API_VERSION_100;
    const void *data = param_name == LAYER_NAME ? (const void *)name : &version;
    size_t size = param_name == LAYER_NAME ? sizeof name : sizeof version;

    if (param_name != LAYER_NAME && param_name != LAYER_API_VERSION)
        return CL_INVALID_VALUE;
    if (param_value && param_value_size < size)
        return CL_INVALID_VALUE;
    if (param_value)
        memcpy(param_value, data, size);
    if (param_value_size_ret)
        *param_value_size_ret = size;
    return CL_SUCCESS;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch, cl_uint *num_entries_ret,
            const cl_icd_dispatch **layer_dispatch_ret)
{
    const cl_uint n = sizeof(cl_icd_dispatch) / sizeof(void *);

    if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret || num_entries < n)
        return CL_INVALID_VALUE;
    vg_cl_vendors_set_target(target_dispatch);
    *num_entries_ret = n;
    *layer_dispatch_ret = vg_cl_is_off() ? target_dispatch : &vg_cl_dispatch;
    return CL_SUCCESS;
}
