/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/kinds.h"

#include <string.h>

#include "opencl/track/program.h"

/* Returns whether TYPE is a number or a vector, not another name of a sampler's type. */
static bool
kinds_is_number(const char *type)
{
    static const char *const numbers[] = {
        "char",           "uchar",         "unsigned char", "short",        "ushort",
        "unsigned short", "int",           "uint",          "unsigned int", "long",
        "ulong",          "unsigned long", "half",          "float",        "double"};
    size_t size = strlen(type);

    while (size > 0 && type[size - 1] >= '0' && type[size - 1] <= '9')
        size--;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i]) == size && memcmp(type, numbers[i], size) == 0)
            return true;
    return false;
}

/* ---- what a kernel shows that nobody uses ---- */

struct kinds_spare {
    const cl_icd_dispatch *cl;
    cl_kernel kernel;
    void *other; /* a handle that is neither memory nor a sampler */
};

/* A number needs a value, but memory that is not an image does not. */
static bool
kinds_has_value(const struct kinds_spare *spare, cl_uint i)
{
    return spare->cl->clSetKernelArg(spare->kernel, i, sizeof(void *), NULL) ==
           CL_INVALID_ARG_VALUE;
}

/* A number accepts any value. An image or a sampler does so only with few vendors. */
static bool
kinds_takes_all(const struct kinds_spare *spare, cl_uint i)
{
    const uint64_t zero = 0;

    return spare->cl->clSetKernelArg(spare->kernel, i, sizeof zero, &zero) == CL_SUCCESS &&
           spare->cl->clSetKernelArg(spare->kernel, i, sizeof spare->other, &spare->other) ==
               CL_SUCCESS;
}

/* ---- whether it can be seen what is a number ---- */

static bool
kinds_sees_all(const struct kinds_spare *spare, bool has_images)
{
    bool sees_numbers = kinds_has_value(spare, 0) && kinds_takes_all(spare, 0);
    bool sees_memory = !kinds_has_value(spare, 1) && !kinds_has_value(spare, 2);

    for (cl_uint i = 3; has_images && i < 6; i++)
        sees_memory = sees_memory && !(kinds_has_value(spare, i) && kinds_takes_all(spare, i));
    return sees_numbers && sees_memory;
}

/* Tries it with a kernel whose arguments are known. */
static bool
kinds_try(const struct vg_cl_object *kernel)
{
    static const char *const texts[] = {
        "kernel void vgpu_kinds(long a, global int *b, constant int *c) { b[0] = c[a]; }",
        "kernel void vgpu_kinds(long a, global int *b, constant int *c, read_only image2d_t d,\n"
        "                       write_only image2d_t e, sampler_t f) {\n"
        "  b[0] = c[a];\n"
        "  write_imagei(e, (int2)(0, 0), read_imagei(d, f, (int2)(0, 0))); }"};
    struct kinds_spare spare = {.cl = kernel->track->cl, .other = kernel->context->real};
    const cl_icd_dispatch *cl = spare.cl;
    cl_device_id device = kernel->kernel.program->program->devices[0]->real;
    cl_bool has_images = CL_TRUE;
    cl_int error;

    cl->clGetDeviceInfo(device, CL_DEVICE_IMAGE_SUPPORT, sizeof has_images, &has_images, NULL);
    const char *text = texts[has_images ? 1 : 0];
    cl_program program =
        cl->clCreateProgramWithSource(kernel->context->real, 1, &text, NULL, &error);
    if (!program)
        return false;
    bool ok = cl->clBuildProgram(program, 1, &device, "", NULL, NULL) == CL_SUCCESS &&
              (spare.kernel = cl->clCreateKernel(program, "vgpu_kinds", &error)) &&
              kinds_sees_all(&spare, has_images);
    if (spare.kernel)
        cl->clReleaseKernel(spare.kernel);
    cl->clReleaseProgram(program);
    return ok;
}

static bool
kinds_can_see(const struct vg_cl_object *kernel)
{
    struct vg_cl_track *track = kernel->track;

    if (track->numbers == VG_CL_NUMBERS_UNKNOWN)
        track->numbers = kinds_try(kernel) ? VG_CL_NUMBERS_SEEN : VG_CL_NUMBERS_UNSEEN;
    return track->numbers == VG_CL_NUMBERS_SEEN;
}

/* ---- each argument ---- */

static void
kinds_get_spare(const struct vg_cl_object *kernel, struct kinds_spare *spare)
{
    if (!spare->kernel)
        spare->kernel =
            spare->cl->clCreateKernel(kernel->kernel.program->real, kernel->kernel.name, NULL);
}

/* The compiler does not report whether it is a number. */
static enum vg_cl_declared
kinds_check(const struct vg_cl_object *kernel, struct kinds_spare *spare, cl_uint i)
{
    kinds_get_spare(kernel, spare);
    if (!spare->kernel || !kinds_has_value(spare, i))
        return VG_CL_DECLARED_UNKNOWN;
    return kinds_can_see(kernel) && kinds_takes_all(spare, i) ? VG_CL_DECLARED_VALUE
                                                              : VG_CL_DECLARED_OPAQUE;
}

/* A type with the program's own name is a number, or a sampler. */
static enum vg_cl_declared
kinds_check_named(const struct vg_cl_object *kernel, struct kinds_spare *spare, cl_uint i)
{
    kinds_get_spare(kernel, spare);
    return spare->kernel && kinds_has_value(spare, i) && kinds_takes_all(spare, i)
               ? VG_CL_DECLARED_VALUE
               : VG_CL_DECLARED_UNKNOWN;
}

/* Notes what the compiler reports about an argument. Returns false if that is nothing. */
static bool
kinds_query_one(const struct vg_cl_object *object, struct kinds_spare *spare, cl_uint i)
{
    const cl_icd_dispatch *cl = object->track->cl;
    struct vg_cl_arg *arg = &object->kernel.args[i];
    cl_kernel_arg_address_qualifier address;
    cl_kernel_arg_access_qualifier access;
    cl_kernel_arg_type_qualifier how = 0;
    char type[64] = "";

    if (cl->clGetKernelArgInfo(object->real, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address,
                               &address, NULL) != CL_SUCCESS ||
        cl->clGetKernelArgInfo(object->real, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof access,
                               &access, NULL) != CL_SUCCESS)
        return false;
    cl->clGetKernelArgInfo(object->real, i, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
    type[sizeof type - 1] = '\0';
    cl->clGetKernelArgInfo(object->real, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof how, &how, NULL);
    if (address == CL_KERNEL_ARG_ADDRESS_PRIVATE && access == CL_KERNEL_ARG_ACCESS_NONE) {
        if (kinds_is_number(type))
            arg->declared = VG_CL_DECLARED_VALUE;
        else if (strcmp(type, "sampler_t") != 0)
            arg->declared = (uint8_t)kinds_check_named(object, spare, i);
    }
    /* With the program's own type name, it may be anything. */
    if (access != CL_KERNEL_ARG_ACCESS_NONE || address == CL_KERNEL_ARG_ADDRESS_GLOBAL ||
        address == CL_KERNEL_ARG_ADDRESS_CONSTANT)
        arg->takes = VG_CL_TAKES_MEM;
    else if (strcmp(type, "sampler_t") == 0)
        arg->takes = VG_CL_TAKES_SAMPLER;
    else if (arg->declared == VG_CL_DECLARED_VALUE)
        arg->takes = VG_CL_TAKES_VALUE;
    arg->is_read =
        address == CL_KERNEL_ARG_ADDRESS_CONSTANT || access == CL_KERNEL_ARG_ACCESS_READ_ONLY;
    arg->is_const =
        address == CL_KERNEL_ARG_ADDRESS_GLOBAL && (how & CL_KERNEL_ARG_TYPE_CONST) != 0;
    return true;
}

void
vg_cl_kinds_ask(struct vg_cl_object *kernel)
{
    struct kinds_spare spare = {.cl = kernel->track->cl, .other = kernel->context->real};
    bool is_told = true;

    for (cl_uint i = 0; i < kernel->kernel.n_args; i++) {
        is_told = is_told && kinds_query_one(kernel, &spare, i);
        if (!is_told)
            kernel->kernel.args[i].declared = (uint8_t)kinds_check(kernel, &spare, i);
    }
    if (spare.kernel)
        spare.cl->clReleaseKernel(spare.kernel);
}
