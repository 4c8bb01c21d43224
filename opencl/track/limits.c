/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/limits.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/know.h"

#define LIMITS_TYPE 0 /* index of the device's type among the values */

enum limits_rule {
    LIMITS_AT_LEAST, /* the other device has as much or more */
    LIMITS_AT_MOST,
    LIMITS_BITS, /* the other device has all these bits */
};

static const struct {
    cl_device_info param;
    const char *name;
    enum limits_rule rule;
} limits_table[] = {
    [LIMITS_TYPE] = {CL_DEVICE_TYPE, "device type", LIMITS_BITS},
    {CL_DEVICE_AVAILABLE, "availability", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_WORK_GROUP_SIZE, "maximum work-group size", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, "maximum work-item dimensions", LIMITS_AT_LEAST},
    {CL_DEVICE_LOCAL_MEM_SIZE, "local memory", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE, "maximum constant buffer size", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_CONSTANT_ARGS, "maximum number of constant arguments", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_PARAMETER_SIZE, "maximum size of arguments", LIMITS_AT_LEAST},
    {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "sub-buffer alignment", LIMITS_AT_MOST},
    {CL_DEVICE_ADDRESS_BITS, "address bits", LIMITS_AT_LEAST},
    {CL_DEVICE_ENDIAN_LITTLE, "byte order", LIMITS_AT_LEAST},
    {CL_DEVICE_IMAGE_SUPPORT, "images", LIMITS_AT_LEAST},
    {CL_DEVICE_IMAGE2D_MAX_WIDTH, "maximum image width", LIMITS_AT_LEAST},
    {CL_DEVICE_IMAGE2D_MAX_HEIGHT, "maximum image height", LIMITS_AT_LEAST},
    {CL_DEVICE_IMAGE3D_MAX_DEPTH, "maximum image depth", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_SAMPLERS, "samplers", LIMITS_AT_LEAST},
    {CL_DEVICE_MAX_READ_IMAGE_ARGS, "image arguments", LIMITS_AT_LEAST},
    {CL_DEVICE_SINGLE_FP_CONFIG, "single precision", LIMITS_BITS},
    {CL_DEVICE_DOUBLE_FP_CONFIG, "double precision", LIMITS_BITS},
    {CL_DEVICE_QUEUE_PROPERTIES, "queue properties", LIMITS_BITS},
    {CL_DEVICE_NUMERIC_VERSION, "OpenCL version", LIMITS_AT_LEAST},
};

_Static_assert(sizeof limits_table / sizeof *limits_table == VG_CL_LIMITS, "each has a value");

void
vg_cl_limits_ask(struct vg_cl_limits *limits, const cl_icd_dispatch *cl, cl_device_id device)
{
    size_t size = 0;

    *limits = (struct vg_cl_limits){.extensions = NULL};
    cl->clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof limits->name, limits->name, NULL);
    cl->clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof limits->driver, limits->driver, NULL);
    limits->name[sizeof limits->name - 1] = '\0';
    limits->driver[sizeof limits->driver - 1] = '\0';
    for (size_t i = 0; i < VG_CL_LIMITS; i++)
        cl->clGetDeviceInfo(device, limits_table[i].param, sizeof limits->values[i],
                            &limits->values[i], NULL);
    cl->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size);
    limits->extensions = calloc(1, size + 1);
    if (limits->extensions)
        cl->clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, limits->extensions, NULL);
    /* The program does not know any others, nor does a proxy's client. */
    if (limits->extensions)
        vg_cl_know_filter(limits->extensions);
}

bool
vg_cl_limits_are_same(const struct vg_cl_limits *a, const struct vg_cl_limits *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->driver, b->driver) == 0;
}

bool
vg_cl_limits_are_of_processor(const struct vg_cl_limits *limits)
{
    return (limits->values[LIMITS_TYPE] & ~(uint64_t)CL_DEVICE_TYPE_DEFAULT) == CL_DEVICE_TYPE_CPU;
}

static bool
limits_has_word(const char *text, const char *word, size_t size)
{
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += size)
        if ((at == text || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return true;
    return false;
}

static bool
limits_has_extensions(const char *before, const char *after)
{
    char word[128];

    for (const char *at = before; *at; at += strspn(at, " ")) {
        size_t size = strcspn(at, " ");
        if (size < sizeof word) {
            memcpy(word, at, size);
            word[size] = '\0';
            if (!limits_has_word(after, word, size))
                return false;
        }
        at += size;
    }
    return true;
}

const char *
vg_cl_limits_lack(const struct vg_cl_limits *before, const struct vg_cl_limits *after)
{
    for (size_t i = 0; i < VG_CL_LIMITS; i++) {
        uint64_t had = before->values[i], has = after->values[i];
        bool ok = limits_table[i].rule == LIMITS_AT_LEAST  ? has >= had
                  : limits_table[i].rule == LIMITS_AT_MOST ? has <= had
                                                           : (has & had) == had;
        if (!ok)
            return limits_table[i].name;
    }
    if (before->extensions && after->extensions &&
        !limits_has_extensions(before->extensions, after->extensions))
        return "extensions";
    return NULL;
}
