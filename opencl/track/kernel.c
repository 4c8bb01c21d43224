/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/arg.h"
#include "opencl/track/calls.h"
#include "opencl/track/kinds.h"
#include "opencl/track/program.h"
#include "opencl/track/rebuild.h"
#include "opencl/track/remake.h"

/* Creates the object for the vendor's kernel, which is released if there is no memory. */
static struct vg_cl_object *
kernel_wrap(struct vg_cl_object *program, cl_kernel real, cl_int *errcode_ret)
{
    const cl_icd_dispatch *cl = program->track->cl;
    size_t size = 0;
    struct vg_cl_object *object =
        vg_cl_object_new(VG_CL_KERNEL, program->track, program->context, real, errcode_ret);

    if (!object) {
        cl->clReleaseKernel(real);
        return NULL;
    }
    struct vg_cl_kernel *kernel = &object->kernel;
    kernel->program = vg_cl_use(program);
    kernel->set = cl->clSetKernelArg;
    cl->clGetKernelInfo(real, CL_KERNEL_NUM_ARGS, sizeof kernel->n_args, &kernel->n_args, NULL);
    cl->clGetKernelInfo(real, CL_KERNEL_FUNCTION_NAME, 0, NULL, &size);
    kernel->name = calloc(1, size + 1);
    kernel->args = calloc(kernel->n_args ? kernel->n_args : 1, sizeof *kernel->args);
    if (!kernel->name || !kernel->args) {
        kernel->n_args = 0;
        return vg_cl_made(object, CL_OUT_OF_HOST_MEMORY, errcode_ret);
    }
    cl->clGetKernelInfo(real, CL_KERNEL_FUNCTION_NAME, size, kernel->name, NULL);
    vg_cl_kinds_ask(object);
    return object;
}

struct vg_cl_object *
vg_cl_CreateKernel(struct vg_cl_object *program, const char *kernel_name, cl_int *errcode_ret)
{
    cl_int error = CL_INVALID_PROGRAM;
    cl_kernel real =
        program ? program->track->cl->clCreateKernel(program->real, kernel_name, &error) : NULL;

    vg_cl_set_error(errcode_ret, error);
    return real ? kernel_wrap(program, real, errcode_ret) : NULL;
}

cl_int
vg_cl_CreateKernelsInProgram(struct vg_cl_object *program, cl_uint num_kernels,
                             struct vg_cl_object **kernels, cl_uint *num_kernels_ret)
{
    cl_uint n = 0;

    if (!program)
        return CL_INVALID_PROGRAM;
    const cl_icd_dispatch *cl = program->track->cl;
    cl_kernel *reals = kernels ? calloc(num_kernels ? num_kernels : 1, sizeof *reals) : NULL;
    if (kernels && !reals)
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result = cl->clCreateKernelsInProgram(program->real, num_kernels, reals, &n);
    for (cl_uint i = 0; result == CL_SUCCESS && reals && i < n; i++) {
        kernels[i] = kernel_wrap(program, reals[i], &result);
        if (kernels[i])
            continue;
        for (cl_uint left = i + 1; left < n; left++)
            cl->clReleaseKernel(reals[left]);
        while (i-- > 0)
            vg_cl_unuse(kernels[i]);
        break;
    }
    free(reals);
    if (result == CL_SUCCESS && num_kernels_ret)
        *num_kernels_ret = n;
    return result;
}

/* ---- arguments ---- */

cl_int
vg_cl_arg_keep(struct vg_cl_arg *arg, size_t size, const void *value)
{
    if (vg_cl_arg_is_long(arg))
        free(arg->bytes);
    arg->is_long = false;
    arg->kind = VG_CL_ARG_EMPTY;
    arg->size = size;
    if (!value)
        return CL_SUCCESS;
    unsigned char *to = size > sizeof arg->small ? malloc(size) : arg->small;
    if (!to) {
        arg->kind = VG_CL_ARG_UNSET;
        return CL_OUT_OF_HOST_MEMORY;
    }
    memcpy(to, value, size);
    arg->is_long = to != arg->small;
    if (arg->is_long)
        arg->bytes = to;
    arg->kind = VG_CL_ARG_BYTES;
    return CL_SUCCESS;
}

/* ---- what a kernel's arguments are ---- */

/* A kernel of a program that is built with the program's own options shows what the vendor then
 * reports. */
static enum vg_cl_native
kernel_query_native(const struct vg_cl_object *kernel)
{
    const cl_icd_dispatch *cl = kernel->track->cl;
    cl_kernel_arg_address_qualifier address;
    cl_int error = CL_SUCCESS;
    cl_program program = vg_cl_rebuild_alone(kernel->kernel.program);
    cl_kernel twin = program ? cl->clCreateKernel(program, kernel->kernel.name, &error) : NULL;

    if (twin) {
        error = cl->clGetKernelArgInfo(twin, 0, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof address,
                                       &address, NULL);
        cl->clReleaseKernel(twin);
    }
    if (program)
        cl->clReleaseProgram(program);
    return error == CL_KERNEL_ARG_INFO_NOT_AVAILABLE ? VG_CL_NATIVE_SILENT : VG_CL_NATIVE_TELLS;
}

/* If a program was linked, the data may be available for one kernel, but not for another. */
static bool
kernel_is_silent(struct vg_cl_object *kernel)
{
    struct vg_cl_program *program = kernel->kernel.program->program;
    atomic_uint *native =
        program->kind == VG_CL_PROGRAM_LINKED ? &kernel->kernel.native : &program->native;

    if (!program->is_telling)
        return false;
    if (*native == VG_CL_NATIVE_UNKNOWN)
        *native = kernel_query_native(kernel);
    return *native == VG_CL_NATIVE_SILENT;
}

cl_int
vg_cl_GetKernelArgInfo(struct vg_cl_object *kernel, cl_uint arg_index,
                       cl_kernel_arg_info param_name, size_t param_value_size, void *param_value,
                       size_t *param_value_size_ret)
{
    if (!kernel)
        return CL_INVALID_KERNEL;
    if (arg_index < kernel->kernel.n_args && kernel_is_silent(kernel))
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    return kernel->track->cl->clGetKernelArgInfo(
        kernel->real, arg_index, param_name, param_value_size, param_value, param_value_size_ret);
}

struct vg_cl_object *
vg_cl_CloneKernel(struct vg_cl_object *source_kernel, cl_int *errcode_ret)
{
    cl_int error = CL_INVALID_KERNEL;
    cl_kernel real =
        source_kernel ? source_kernel->track->cl->clCloneKernel(source_kernel->real, &error) : NULL;

    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *kernel =
        real ? kernel_wrap(source_kernel->kernel.program, real, errcode_ret) : NULL;
    for (cl_uint i = 0; kernel && i < kernel->kernel.n_args; i++) {
        struct vg_cl_arg *to = &kernel->kernel.args[i];
        const struct vg_cl_arg *from = &source_kernel->kernel.args[i];
        *to = *from;
        if (vg_cl_arg_is_long(from)) {
            to->kind = VG_CL_ARG_UNSET;
            to->is_long = false;
            if (vg_cl_arg_keep(to, from->size, from->bytes) != CL_SUCCESS)
                return vg_cl_made(kernel, CL_OUT_OF_HOST_MEMORY, errcode_ret);
        }
    }
    return kernel;
}
