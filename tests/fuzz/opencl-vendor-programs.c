/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor's programs, each of which has two kernels, whose arguments are of all kinds.
 */
#include "config.h"

#include <string.h>

#include "tests/fuzz/opencl-vendor-private.h"

#define PROGRAM_BINARY 24 /* bytes */

static const struct {
    const char *type;
    size_t size; /* 0: local memory */
    cl_kernel_arg_address_qualifier address;
    cl_kernel_arg_access_qualifier access;
    enum vg_cl_type object;
} program_args[] = {
    {"int*", 8, CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_MEM},
    {"uint", 4, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_NONE},
    {"int*", 0, CL_KERNEL_ARG_ADDRESS_LOCAL, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_NONE},
    {"ulong", 8, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_NONE},
    {"image2d_t", 8, CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_ACCESS_READ_ONLY, VG_CL_MEM},
    {"sampler_t", 8, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_SAMPLER},
    {"named", 8, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_SAMPLER},
    {"mine", 40, CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_ACCESS_NONE, VG_CL_NONE},
};

bool fake_is_trusting;

#define PROGRAM_ARGS (sizeof program_args / sizeof *program_args)

static cl_program CL_API_CALL
fake_clCreateProgramWithSource(cl_context context, cl_uint n, const char **strings,
                               const size_t *lengths, cl_int *error)
{
    for (cl_uint i = 0; i < n; i++)
        fake_read(strings[i], lengths && lengths[i] ? lengths[i] : strlen(strings[i]));
    return (cl_program)fake_in_context(context, VG_CL_PROGRAM, error);
}

static cl_program
program_make_silent(cl_context context, cl_int *error)
{
    struct fake_object *program = fake_in_context(context, VG_CL_PROGRAM, error);

    if (program)
        program->is_silent = true;
    return (cl_program)program;
}

static cl_program CL_API_CALL
fake_clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *devices,
                               const size_t *lengths, const unsigned char **binaries,
                               cl_int *status, cl_int *error)
{
    if (n == 0 || !devices || !fake_are((const void *const *)devices, n, VG_CL_DEVICE)) {
        vg_cl_set_error(error, CL_INVALID_DEVICE);
        return NULL;
    }
    for (cl_uint i = 0; i < n; i++)
        fake_read(binaries[i], binaries[i] ? lengths[i] : 0);
    for (cl_uint i = 0; status && i < n; i++)
        status[i] = CL_SUCCESS;
    return program_make_silent(context, error);
}

static cl_program CL_API_CALL
fake_clCreateProgramWithBuiltInKernels(cl_context context, cl_uint n, const cl_device_id *devices,
                                       const char *names, cl_int *error)
{
    if (n == 0 || !devices || !fake_are((const void *const *)devices, n, VG_CL_DEVICE) || !names) {
        vg_cl_set_error(error, CL_INVALID_VALUE);
        return NULL;
    }
    fake_read(names, strlen(names) + 1);
    return program_make_silent(context, error);
}

static cl_program CL_API_CALL
fake_clCreateProgramWithIL(cl_context context, const void *il, size_t length, cl_int *error)
{
    if (!il || length == 0) {
        vg_cl_set_error(error, CL_INVALID_VALUE);
        return NULL;
    }
    fake_read(il, length);
    return program_make_silent(context, error);
}

/* What building, compiling and linking have in common. */
static cl_int
program_check(cl_uint n, const cl_device_id *devices, const char *options)
{
    if ((n == 0) != (devices == NULL))
        return CL_INVALID_VALUE;
    if (devices && !fake_are((const void *const *)devices, n, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    fake_read(options, options ? strlen(options) + 1 : 0);
    return fake_fails() ? CL_BUILD_PROGRAM_FAILURE : CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
                    vg_cl_program_notify notify, void *data)
{
    (void)notify;
    (void)data;
    return fake_as(program, VG_CL_PROGRAM) ? program_check(n, devices, options)
                                           : CL_INVALID_PROGRAM;
}

static cl_int CL_API_CALL
fake_clCompileProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                      const char *options, cl_uint n_headers, const cl_program *headers,
                      const char **names, vg_cl_program_notify notify, void *data)
{
    (void)notify;
    (void)data;
    if (!fake_as(program, VG_CL_PROGRAM))
        return CL_INVALID_PROGRAM;
    if ((n_headers == 0) != (headers == NULL) || (headers == NULL) != (names == NULL))
        return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < n_headers; i++)
        fake_read(names[i], strlen(names[i]) + 1);
    if (!fake_are((const void *const *)headers, n_headers, VG_CL_PROGRAM))
        return CL_INVALID_PROGRAM;
    return program_check(n, devices, options);
}

static cl_program CL_API_CALL
fake_clLinkProgram(cl_context context, cl_uint n, const cl_device_id *devices, const char *options,
                   cl_uint n_inputs, const cl_program *inputs, vg_cl_program_notify notify,
                   void *data, cl_int *error)
{
    cl_int wrong = program_check(n, devices, options);

    (void)notify;
    (void)data;
    if (n_inputs == 0 || !inputs)
        wrong = CL_INVALID_VALUE;
    else if (!fake_are((const void *const *)inputs, n_inputs, VG_CL_PROGRAM))
        wrong = CL_INVALID_PROGRAM;
    if (wrong == CL_SUCCESS)
        return (cl_program)fake_in_context(context, VG_CL_PROGRAM, error);
    vg_cl_set_error(error, wrong);
    return NULL;
}

static cl_int CL_API_CALL
fake_clGetProgramInfo(cl_program handle, cl_program_info param, size_t size, void *value,
                      size_t *size_ret)
{
    const size_t sizes[2] = {PROGRAM_BINARY, 0};
    unsigned char **lists = value;
    const cl_uint n = 2;

    if (!fake_as(handle, VG_CL_PROGRAM))
        return CL_INVALID_PROGRAM;
    if (param == CL_PROGRAM_NUM_DEVICES)
        return fake_give(&n, sizeof n, size, value, size_ret);
    if (param == CL_PROGRAM_BINARY_SIZES)
        return fake_give(sizes, sizeof sizes, size, value, size_ret);
    if (param != CL_PROGRAM_BINARIES)
        return fake_give("two", 4, size, value, size_ret);
    if (value && size < 2 * sizeof *lists)
        return CL_INVALID_VALUE;
    for (int i = 0; value && i < 2; i++)
        if (lists[i])
            fake_write(lists[i], sizes[i]);
    if (size_ret)
        *size_ret = 2 * sizeof *lists;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info param,
                           size_t size, void *value, size_t *size_ret)
{
    const cl_int number = 0;

    if (!fake_as(program, VG_CL_PROGRAM))
        return CL_INVALID_PROGRAM;
    if (!fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (param == CL_PROGRAM_BUILD_LOG || param == CL_PROGRAM_BUILD_OPTIONS)
        return fake_give("well", 5, size, value, size_ret);
    return fake_give(&number, sizeof number, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clSetProgramSpecializationConstant(cl_program program, cl_uint id, size_t size,
                                        const void *value)
{
    (void)id;
    if (!fake_as(program, VG_CL_PROGRAM))
        return CL_INVALID_PROGRAM;
    if (size != 4 || !value)
        return CL_INVALID_VALUE;
    fake_read(value, size);
    return CL_SUCCESS;
}

/* ---- kernels ---- */

static cl_kernel
program_make_kernel(struct fake_object *program, cl_int *error)
{
    struct fake_object *kernel = fake_new(VG_CL_KERNEL, program, error);

    if (kernel)
        kernel->is_silent = program->is_silent;
    return (cl_kernel)kernel;
}

static cl_kernel CL_API_CALL
fake_clCreateKernel(cl_program handle, const char *name, cl_int *error)
{
    struct fake_object *program = fake_as(handle, VG_CL_PROGRAM);

    fake_read(name, name ? strlen(name) + 1 : 0);
    if (program && name && *name)
        return program_make_kernel(program, error);
    vg_cl_set_error(error, program ? CL_INVALID_KERNEL_NAME : CL_INVALID_PROGRAM);
    return NULL;
}

static cl_int CL_API_CALL
fake_clCreateKernelsInProgram(cl_program handle, cl_uint n, cl_kernel *kernels, cl_uint *n_ret)
{
    struct fake_object *program = fake_as(handle, VG_CL_PROGRAM);
    cl_int error = CL_SUCCESS;

    if (!program)
        return CL_INVALID_PROGRAM;
    if (kernels && n < 2)
        return CL_INVALID_VALUE;
    if (kernels)
        fake_write(kernels, n * sizeof *kernels);
    for (cl_uint i = 0; kernels && i < 2; i++) {
        kernels[i] = program_make_kernel(program, &error);
        if (error == CL_SUCCESS)
            continue;
        while (i-- > 0)
            fake_release((struct fake_object *)kernels[i]);
        return error;
    }
    if (n_ret)
        *n_ret = 2;
    return CL_SUCCESS;
}

static cl_kernel CL_API_CALL
fake_clCloneKernel(cl_kernel handle, cl_int *error)
{
    const struct fake_object *kernel = fake_as(handle, VG_CL_KERNEL);

    if (kernel)
        return program_make_kernel(kernel->parent, error);
    vg_cl_set_error(error, CL_INVALID_KERNEL);
    return NULL;
}

static cl_int CL_API_CALL
fake_clSetKernelArg(cl_kernel kernel, cl_uint i, size_t size, const void *value)
{
    const struct fake_object *object = fake_as(kernel, VG_CL_KERNEL);
    void *handle = NULL;

    if (!object)
        return CL_INVALID_KERNEL;
    if (i >= PROGRAM_ARGS)
        return CL_INVALID_ARG_INDEX;
    if (program_args[i].size == 0)
        return value ? CL_INVALID_ARG_VALUE : size ? CL_SUCCESS : CL_INVALID_ARG_SIZE;
    if (size != program_args[i].size)
        return CL_INVALID_ARG_SIZE;
    if (!value)
        return i == 0 ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
    fake_read(value, size);
    if (program_args[i].object == VG_CL_NONE)
        return CL_SUCCESS;
    /* Vendors look into what it names, and what is none would end the process. Of a buffer that is
     * found out; of an image and a sampler of a kernel that tells nothing it cannot be. */
    memcpy(&handle, value, sizeof handle);
    if (fake_is_trusting && object->is_silent && i > 0 && !fake_find(handle))
        return CL_INVALID_ARG_VALUE;
    if (!handle && i == 0)
        return CL_SUCCESS;
    return fake_as(handle, program_args[i].object) ? CL_SUCCESS : CL_INVALID_ARG_VALUE;
}

static cl_int CL_API_CALL
fake_clGetKernelInfo(cl_kernel kernel, cl_kernel_info param, size_t size, void *value,
                     size_t *size_ret)
{
    const cl_uint n = PROGRAM_ARGS;

    if (!fake_as(kernel, VG_CL_KERNEL))
        return CL_INVALID_KERNEL;
    if (param == CL_KERNEL_NUM_ARGS)
        return fake_give(&n, sizeof n, size, value, size_ret);
    return fake_give("first", 6, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clGetKernelArgInfo(cl_kernel handle, cl_uint i, cl_kernel_arg_info param, size_t size,
                        void *value, size_t *size_ret)
{
    const struct fake_object *kernel = fake_as(handle, VG_CL_KERNEL);
    const cl_kernel_arg_type_qualifier none = 0;

    if (!kernel)
        return CL_INVALID_KERNEL;
    if (i >= PROGRAM_ARGS)
        return CL_INVALID_ARG_INDEX;
    if (kernel->is_silent)
        return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
    if (param == CL_KERNEL_ARG_ADDRESS_QUALIFIER)
        return fake_give(&program_args[i].address, sizeof program_args[i].address, size, value,
                         size_ret);
    if (param == CL_KERNEL_ARG_ACCESS_QUALIFIER)
        return fake_give(&program_args[i].access, sizeof program_args[i].access, size, value,
                         size_ret);
    if (param == CL_KERNEL_ARG_TYPE_QUALIFIER)
        return fake_give(&none, sizeof none, size, value, size_ret);
    return fake_give(program_args[i].type, strlen(program_args[i].type) + 1, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                              cl_kernel_work_group_info param, size_t size, void *value,
                              size_t *size_ret)
{
    const size_t sizes[3] = {1, 1, 1};

    if (!fake_as(kernel, VG_CL_KERNEL))
        return CL_INVALID_KERNEL;
    if (device && !fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    return fake_give(sizes, param % 3 * 8 + 8, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clGetKernelSubGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_sub_group_info param,
                             size_t input_size, const void *input, size_t size, void *value,
                             size_t *size_ret)
{
    const size_t sizes[3] = {1, 1, 1};

    if (!fake_as(kernel, VG_CL_KERNEL))
        return CL_INVALID_KERNEL;
    if (device && !fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (!input || input_size == 0 || input_size > 3 * sizeof(size_t))
        return CL_INVALID_VALUE;
    fake_read(input, input_size);
    return fake_give(sizes, param % 3 * 8 + 8, size, value, size_ret);
}

void
fake_add_programs(cl_icd_dispatch *table)
{
    table->clCreateProgramWithSource = fake_clCreateProgramWithSource;
    table->clCreateProgramWithBinary = fake_clCreateProgramWithBinary;
    table->clCreateProgramWithBuiltInKernels = fake_clCreateProgramWithBuiltInKernels;
    table->clCreateProgramWithIL = fake_clCreateProgramWithIL;
    table->clBuildProgram = fake_clBuildProgram;
    table->clCompileProgram = fake_clCompileProgram;
    table->clLinkProgram = fake_clLinkProgram;
    table->clGetProgramInfo = fake_clGetProgramInfo;
    table->clGetProgramBuildInfo = fake_clGetProgramBuildInfo;
    table->clSetProgramSpecializationConstant = fake_clSetProgramSpecializationConstant;
    table->clCreateKernel = fake_clCreateKernel;
    table->clCreateKernelsInProgram = fake_clCreateKernelsInProgram;
    table->clCloneKernel = fake_clCloneKernel;
    table->clSetKernelArg = fake_clSetKernelArg;
    table->clGetKernelInfo = fake_clGetKernelInfo;
    table->clGetKernelArgInfo = fake_clGetKernelArgInfo;
    table->clGetKernelWorkGroupInfo = fake_clGetKernelWorkGroupInfo;
    table->clGetKernelSubGroupInfo = fake_clGetKernelSubGroupInfo;
}
