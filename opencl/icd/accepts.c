/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/accepts.h"

#include <stdlib.h>

#include "opencl/client/client.h"
#include "opencl/icd/vendor.h"
#include "opencl/track/program.h"

static const struct vg_cl_object *
accepts_next(const struct vg_cl_object *previous)
{
    const struct vg_cl_object *o = vg_cl_object_next(previous);

    while (o && (o->type != VG_CL_PROGRAM || o->program->kind != VG_CL_PROGRAM_BINARY))
        o = vg_cl_object_next(o);
    return o;
}

/* Returns the vendor of TRACK. */
static const struct vg_cl_vendor *
accepts_vendor(const struct vg_cl_track *track)
{
    cl_uint n;
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    for (cl_uint i = 0; i < n; i++)
        for (cl_uint t = 0; t < vendors[i].n_tracks; t++)
            if (vendors[i].tracks[t] == track)
                return &vendors[i];
    return NULL;
}

/* Finds the devices of PLATFORM that replace PROGRAM's. Returns false if one is missing. The root
 * device replaces a sub-device. */
static bool
accepts_find_devices(const struct vg_cl_program *program, cl_platform_id platform,
                     cl_device_id *devices)
{
    cl_uint n = 0;
    cl_device_id *all = NULL;
    const cl_icd_dispatch *cl = &vg_wire_dispatch;

    if (cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n) == CL_SUCCESS && n > 0)
        all = calloc(n, sizeof *all);
    bool ok = all && cl->clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, all, NULL) == CL_SUCCESS;
    for (cl_uint i = 0; ok && i < program->n_devices; i++) {
        const struct vg_cl_object *device = program->devices[i];
        while (device->device.parent)
            device = device->device.parent;
        ok = device->device.index < n;
        devices[i] = ok ? all[device->device.index] : NULL;
    }
    free(all);
    return ok;
}

/* Returns the error of PROGRAM's binaries on these devices. Resuming reports other differences. */
static cl_int
accepts_load(const struct vg_cl_program *program, cl_platform_id platform)
{
    const cl_icd_dispatch *cl = &vg_wire_dispatch;
    cl_device_id *devices = calloc(program->n_devices, sizeof *devices);
    cl_int error = CL_SUCCESS;
    cl_context context = NULL;

    if (devices && accepts_find_devices(program, platform, devices))
        context = cl->clCreateContext(NULL, program->n_devices, devices, NULL, NULL, &error);
    if (context) {
        cl_program loaded =
            cl->clCreateProgramWithBinary(context, program->n_devices, devices, program->sizes,
                                          (const unsigned char **)program->binaries, NULL, &error);
        if (loaded)
            cl->clReleaseProgram(loaded);
        cl->clReleaseContext(context);
    }
    free(devices);
    return error;
}

bool
vg_cl_accepts(struct vg_cl_switch *s)
{
    const struct vg_cl_object *o = s->place ? accepts_next(NULL) : NULL;
    const char *why = NULL;
    cl_uint n = 0;

    if (!o)
        return true;
    struct vg_wire_client *client = vg_cl_vendors_reach(s->place, &why);
    cl_platform_id *platforms = client ? vg_wire_platforms(client, &n) : NULL;
    bool ok = client || vg_cl_fail(s, "%.64s: %.160s", s->place, why);
    for (; ok && o; o = accepts_next(o)) {
        const struct vg_cl_vendor *vendor = accepts_vendor(o->track);
        cl_platform_id platform =
            vendor && platforms ? vg_cl_vendor_find_platform(vendor, o->track, platforms, n) : NULL;
        if (platform && accepts_load(o->program, platform) == CL_INVALID_BINARY)
            ok = vg_cl_fail(s, "%.64s: " VG_CL_FOREIGN_BINARY, s->place);
    }
    free(platforms);
    vg_cl_step(s, "checking binaries");
    return ok;
}
