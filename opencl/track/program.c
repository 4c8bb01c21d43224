/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/program.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/binaries.h"
#include "opencl/track/calls.h"
#include "opencl/track/include.h"
#include "opencl/track/rebuild.h"
#include "opencl/track/remake.h"
#include "opencl/track/tell.h"

#define PROGRAM_DEPTH_MAX 32 /* levels of libraries that were linked from libraries */

/* ---- the end ---- */

static void
program_free_strings(char **strings, cl_uint n)
{
    for (cl_uint i = 0; strings && i < n; i++)
        free(strings[i]);
    free(strings);
}

static void
program_free_objects(struct vg_cl_object **objects, cl_uint n)
{
    for (cl_uint i = 0; objects && i < n; i++)
        vg_cl_unuse(objects[i]);
    free(objects);
}

static void
program_free_binaries(struct vg_cl_program *program)
{
    for (cl_uint i = 0; program->binaries && i < program->n_devices; i++)
        free(program->binaries[i]);
    free(program->binaries);
    free(program->sizes);
    program->binaries = NULL;
    program->sizes = NULL;
}

static void
program_forget_build(struct vg_cl_program *program)
{
    for (cl_uint i = 0; program->step == VG_CL_PROGRAM_COMPILED && i < program->n_inputs; i++)
        atomic_fetch_sub(&program->inputs[i]->program->n_compiled, 1);
    program_free_objects(program->inputs, program->n_inputs);
    program_free_strings(program->names, program->n_inputs);
    free(program->built);
    free(program->options);
    program->inputs = NULL;
    program->names = NULL;
    program->n_inputs = 0;
    program->depth = 0;
    program->built = NULL;
    program->n_built = 0;
    program->options = NULL;
}

void
vg_cl_program_free(struct vg_cl_program *program)
{
    struct vg_cl_constant *next;

    if (!program)
        return;
    for (struct vg_cl_constant *c = program->constants; c; c = next) {
        next = c->next;
        free(c);
    }
    program_free_strings(program->logs, program->n_devices);
    program_free_binaries(program);
    program_forget_build(program);
    vg_cl_binaries_forget(program);
    program_free_objects(program->devices, program->n_devices);
    free(program->source);
    free(program->whole);
    free(program->made);
    free(program->il);
    free(program);
}

/* ---- creation ---- */

static bool
program_set_devices(struct vg_cl_program *program, cl_uint n, struct vg_cl_object *const *devices)
{
    program->devices = vg_cl_copy(devices, n, sizeof *devices);
    if (!program->devices)
        return n == 0;
    program->n_devices = n;
    for (cl_uint i = 0; i < n; i++)
        vg_cl_use(devices[i]);
    return true;
}

/* Sets the devices to DEVICES, or those of the context. */
static struct vg_cl_object *
program_new(struct vg_cl_object *context, enum vg_cl_program_kind kind, cl_uint n,
            struct vg_cl_object *const *devices, cl_int *errcode_ret)
{
    struct vg_cl_object *object =
        context ? vg_cl_object_new(VG_CL_PROGRAM, context->track, context, NULL, errcode_ret)
                : NULL;

    if (!context)
        vg_cl_set_error(errcode_ret, CL_INVALID_CONTEXT);
    if (!object)
        return NULL;
    object->program = calloc(1, sizeof *object->program);
    if (object->program) {
        object->program->kind = kind;
        if (program_set_devices(object->program, devices ? n : context->ctx.n_devices,
                                devices ? devices : context->ctx.devices))
            return object;
    }
    return vg_cl_made(object, CL_OUT_OF_HOST_MEMORY, errcode_ret);
}

/* Joins the program's strings to one. */
static char *
program_join(cl_uint count, const char **strings, const size_t *lengths)
{
    size_t size = 1;

    for (cl_uint i = 0; i < count; i++)
        size += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    char *source = malloc(size), *to = source;
    if (!source)
        return NULL;
    for (cl_uint i = 0; i < count; i++) {
        size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        memcpy(to, strings[i], length);
        to += length;
    }
    *to = '\0';
    return source;
}

struct vg_cl_object *
vg_cl_CreateProgramWithSource(struct vg_cl_object *context, cl_uint count, const char **strings,
                              const size_t *lengths, cl_int *errcode_ret)
{
    struct vg_cl_object *object = program_new(context, VG_CL_PROGRAM_SOURCE, 0, NULL, errcode_ret);
    cl_int error = CL_SUCCESS;

    if (!object)
        return NULL;
    object->real = object->track->cl->clCreateProgramWithSource(context->real, count, strings,
                                                                lengths, &error);
    if (error == CL_SUCCESS) {
        object->program->source = program_join(count, strings, lengths);
        error = object->program->source ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    return vg_cl_made(object, error, errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateProgramWithIL(struct vg_cl_object *context, const void *il, size_t length,
                          cl_int *errcode_ret)
{
    struct vg_cl_object *object = program_new(context, VG_CL_PROGRAM_IL, 0, NULL, errcode_ret);
    cl_int error = CL_SUCCESS;

    if (!object)
        return NULL;
    object->real = object->track->cl->clCreateProgramWithIL(context->real, il, length, &error);
    if (error == CL_SUCCESS) {
        object->program->il = vg_cl_copy(il, 1, length);
        object->program->il_size = length;
        error = object->program->il ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    }
    return vg_cl_made(object, error, errcode_ret);
}

/* Returns the vendor's handles of N devices, or NULL with *ERROR. The caller frees them. */
static cl_device_id *
program_reals(cl_uint n, struct vg_cl_object *const *devices, cl_int *error)
{
    cl_device_id *reals = calloc(n && devices ? n : 1, sizeof *reals);

    *error = reals ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; reals && devices && i < n; i++) {
        const struct vg_cl_object *device = vg_cl_as(devices[i], VG_CL_DEVICE);
        if (!device)
            *error = CL_INVALID_DEVICE;
        else
            reals[i] = device->real;
    }
    return reals;
}

static bool
program_keep_binaries(struct vg_cl_program *program, const size_t *sizes, const cl_uchar **binaries)
{
    program->sizes = vg_cl_copy(sizes, program->n_devices, sizeof *sizes);
    program->binaries = calloc(program->n_devices, sizeof *program->binaries);
    for (cl_uint i = 0; program->sizes && program->binaries && i < program->n_devices; i++)
        program->binaries[i] = vg_cl_copy(binaries[i], 1, sizes[i]);
    return program->sizes && program->binaries;
}

struct vg_cl_object *
vg_cl_CreateProgramWithBinary(struct vg_cl_object *context, cl_uint num_devices,
                              struct vg_cl_object *const *device_list, const size_t *lengths,
                              const cl_uchar **binaries, cl_int *binary_status, cl_int *errcode_ret)
{
    cl_int error;
    cl_device_id *reals = program_reals(num_devices, device_list, &error);

    if (context && (!device_list || num_devices == 0))
        error = CL_INVALID_VALUE;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *object =
        error == CL_SUCCESS
            ? program_new(context, VG_CL_PROGRAM_BINARY, num_devices, device_list, errcode_ret)
            : NULL;
    if (object) {
        object->real = vg_cl_program_load(object->track, context->real, num_devices, reals, lengths,
                                          binaries, binary_status, &error);
        if (error == CL_SUCCESS && !program_keep_binaries(object->program, lengths, binaries))
            error = CL_OUT_OF_HOST_MEMORY;
        object = vg_cl_made(object, error, errcode_ret);
    }
    free(reals);
    return object;
}

struct vg_cl_object *
vg_cl_CreateProgramWithBuiltInKernels(struct vg_cl_object *context, cl_uint num_devices,
                                      struct vg_cl_object *const *device_list,
                                      const char *kernel_names, cl_int *errcode_ret)
{
    cl_int error;
    cl_device_id *reals = program_reals(num_devices, device_list, &error);

    if (context && (!device_list || num_devices == 0))
        error = CL_INVALID_VALUE;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *object =
        error == CL_SUCCESS
            ? program_new(context, VG_CL_PROGRAM_BUILT_IN, num_devices, device_list, errcode_ret)
            : NULL;
    if (object) {
        object->real = object->track->cl->clCreateProgramWithBuiltInKernels(
            context->real, num_devices, reals, kernel_names, &error);
        object->program->source = kernel_names ? strdup(kernel_names) : NULL;
        object = vg_cl_made(object, error, errcode_ret);
    }
    free(reals);
    return object;
}

cl_int
vg_cl_SetProgramSpecializationConstant(struct vg_cl_object *program, cl_uint spec_id,
                                       size_t spec_size, const void *spec_value)
{
    if (!program)
        return CL_INVALID_PROGRAM;
    cl_int result = program->track->cl->clSetProgramSpecializationConstant(program->real, spec_id,
                                                                           spec_size, spec_value);
    struct vg_cl_constant *c = result == CL_SUCCESS ? malloc(sizeof *c) : NULL;
    if (result == CL_SUCCESS && !c)
        return CL_OUT_OF_HOST_MEMORY;
    if (!c)
        return result;
    c->id = spec_id;
    c->size = spec_size < sizeof c->value ? spec_size : sizeof c->value;
    memcpy(c->value, spec_value, c->size);
    c->next = program->program->constants;
    program->program->constants = c;
    return result;
}

/* ---- building ---- */

static bool
program_is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Adds the files that the source includes, except for HEADERS. A vendor that cannot access files
 * gets a new program with the expanded source. */
static cl_int
program_take_files(struct vg_cl_object *object, const char *options, cl_uint n,
                   const char **headers)
{
    const cl_icd_dispatch *cl = object->track->cl;
    struct vg_cl_program *program = object->program;

    if (program->kind != VG_CL_PROGRAM_SOURCE)
        return CL_SUCCESS;
    free(program->whole);
    program->whole = vg_cl_include(program->source, options, headers, n);
    const char *wanted = object->track->is_remote ? program->whole : NULL;
    if (program_is_same(wanted, program->made))
        return CL_SUCCESS;
    const char *source = wanted ? wanted : program->source;
    char *made = wanted ? strdup(wanted) : NULL;
    cl_int error = CL_OUT_OF_HOST_MEMORY;
    cl_program real = !wanted || made ? cl->clCreateProgramWithSource(object->context->real, 1,
                                                                      &source, NULL, &error)
                                      : NULL;
    if (error != CL_SUCCESS || !real) {
        free(made);
        return error == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : error;
    }
    cl->clReleaseProgram(object->real);
    object->real = real;
    free(program->made);
    program->made = made;
    return CL_SUCCESS;
}

/* Stores the arguments of a build, a compilation or a linking, if it succeeded. */
static cl_int
program_keep_build(struct vg_cl_program *program, enum vg_cl_program_step step, const char *options,
                   cl_uint n_devices, struct vg_cl_object *const *devices, cl_uint n_inputs,
                   struct vg_cl_object *const *inputs)
{
    program_forget_build(program);
    program->step = step;
    program->native = VG_CL_NATIVE_UNKNOWN;
    program->options = options ? strdup(options) : NULL;
    program->built = devices ? vg_cl_copy(devices, n_devices, sizeof *devices) : NULL;
    program->n_built = program->built ? n_devices : 0;
    program->inputs = vg_cl_copy(inputs, n_inputs, sizeof *inputs);
    program->n_inputs = program->inputs ? n_inputs : 0;
    for (cl_uint i = 0; i < program->n_inputs; i++) {
        struct vg_cl_program *input = vg_cl_use(program->inputs[i])->program;
        program->depth = input->depth >= program->depth ? input->depth + 1 : program->depth;
        if (step == VG_CL_PROGRAM_COMPILED)
            atomic_fetch_add(&input->n_compiled, 1);
    }
    return program->n_inputs == n_inputs ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/* Drops the data of the previous build. */
static void
program_is_new(struct vg_cl_program *program)
{
    program->is_remade = false;
    vg_cl_binaries_forget(program);
}

/* The vendor builds synchronously, even if the program passed a callback. It is called here, and
 * afterwards the vendor calls nothing. */
static void
program_notify(struct vg_cl_object *program, cl_int result, vg_cl_program_notify notify,
               void *user_data)
{
    bool is_told = result == CL_SUCCESS || result == CL_BUILD_PROGRAM_FAILURE ||
                   result == CL_COMPILE_PROGRAM_FAILURE || result == CL_LINK_PROGRAM_FAILURE;

    if (notify && is_told)
        notify((cl_program)program, user_data);
}

cl_int
vg_cl_BuildProgram(struct vg_cl_object *program, cl_uint num_devices,
                   struct vg_cl_object *const *device_list, const char *options,
                   vg_cl_program_notify pfn_notify, void *user_data)
{
    cl_int result;

    if (!program)
        return CL_INVALID_PROGRAM;
    if (!pfn_notify && user_data)
        return CL_INVALID_VALUE;
    cl_device_id *reals = program_reals(num_devices, device_list, &result);
    if (result == CL_SUCCESS)
        result = program_take_files(program, options, 0, NULL);
    if (result == CL_SUCCESS)
        result = vg_cl_kinds_build(program, num_devices, device_list ? reals : NULL, options);
    free(reals);
    if (result == CL_SUCCESS || result == CL_BUILD_PROGRAM_FAILURE)
        program_is_new(program->program);
    if (result == CL_SUCCESS)
        result = program_keep_build(program->program, VG_CL_PROGRAM_BUILT, options, num_devices,
                                    device_list, 0, NULL);
    program_notify(program, result, pfn_notify, user_data);
    return result;
}

/* Returns the vendor's handles of N programs, or NULL with *ERROR. The caller frees them. */
static cl_program *
program_real_programs(cl_uint n, struct vg_cl_object *const *programs, cl_int *error)
{
    cl_program *reals = calloc(n && programs ? n : 1, sizeof *reals);

    if (!reals)
        *error = CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; reals && programs && i < n; i++) {
        const struct vg_cl_object *program = vg_cl_as(programs[i], VG_CL_PROGRAM);
        if (!program)
            *error = CL_INVALID_PROGRAM;
        else
            reals[i] = program->real;
    }
    return reals;
}

static cl_int
program_keep_names(struct vg_cl_program *program, cl_uint n, const char **names)
{
    program->names = n ? calloc(n, sizeof *program->names) : NULL;
    for (cl_uint i = 0; program->names && i < n; i++)
        program->names[i] = strdup(names[i]);
    return n == 0 || program->names ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
}

/* A program keeps the headers with which it was compiled, and their headers. A program must not
 * keep itself in this way, through any others. */
static bool
program_may_take(const struct vg_cl_object *program, cl_uint n, struct vg_cl_object *const *headers)
{
    bool may = n == 0 || program->program->n_compiled == 0;

    for (cl_uint i = 0; i < n; i++) {
        const struct vg_cl_object *header = vg_cl_as(headers[i], VG_CL_PROGRAM);
        may = may && header != program && !(header && header->program->n_inputs);
    }
    return may;
}

cl_int
vg_cl_CompileProgram(struct vg_cl_object *program, cl_uint num_devices,
                     struct vg_cl_object *const *device_list, const char *options,
                     cl_uint num_input_headers, struct vg_cl_object *const *input_headers,
                     const char **header_include_names, vg_cl_program_notify pfn_notify,
                     void *user_data)
{
    cl_int result;

    if (!program)
        return CL_INVALID_PROGRAM;
    if ((!pfn_notify && user_data) ||
        (num_input_headers == 0) != (!input_headers || !header_include_names))
        return CL_INVALID_VALUE;
    if (!program_may_take(program, num_input_headers, input_headers))
        return CL_INVALID_OPERATION;
    cl_device_id *reals = program_reals(num_devices, device_list, &result);
    cl_program *headers = program_real_programs(num_input_headers, input_headers, &result);
    if (result == CL_SUCCESS)
        result = program_take_files(program, options, num_input_headers, header_include_names);
    if (result == CL_SUCCESS)
        result = vg_cl_kinds_compile(program, num_devices, device_list ? reals : NULL, options,
                                     num_input_headers, num_input_headers ? headers : NULL,
                                     header_include_names);
    free(reals);
    free(headers);
    if (result == CL_SUCCESS || result == CL_COMPILE_PROGRAM_FAILURE)
        program_is_new(program->program);
    if (result == CL_SUCCESS)
        result = program_keep_build(program->program, VG_CL_PROGRAM_COMPILED, options, num_devices,
                                    device_list, num_input_headers, input_headers);
    if (result == CL_SUCCESS)
        result = program_keep_names(program->program, num_input_headers, header_include_names);
    program_notify(program, result, pfn_notify, user_data);
    return result;
}

/* Returns whether the inputs are not nested too deeply. */
static bool
program_is_flat(cl_uint n, struct vg_cl_object *const *inputs)
{
    for (cl_uint i = 0; inputs && i < n; i++) {
        const struct vg_cl_object *input = vg_cl_as(inputs[i], VG_CL_PROGRAM);
        if (input && input->program->depth >= PROGRAM_DEPTH_MAX)
            return false;
    }
    return true;
}

struct vg_cl_object *
vg_cl_LinkProgram(struct vg_cl_object *context, cl_uint num_devices,
                  struct vg_cl_object *const *device_list, const char *options,
                  cl_uint num_input_programs, struct vg_cl_object *const *input_programs,
                  vg_cl_program_notify pfn_notify, void *user_data, cl_int *errcode_ret)
{
    cl_int error = CL_SUCCESS;
    cl_device_id *reals = program_reals(num_devices, device_list, &error);
    cl_program *inputs = program_real_programs(num_input_programs, input_programs, &error);

    if (context && (num_input_programs == 0 || !input_programs || (!pfn_notify && user_data)))
        error = CL_INVALID_VALUE;
    else if (!program_is_flat(num_input_programs, input_programs))
        error = CL_OUT_OF_RESOURCES;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *object = error == CL_SUCCESS
                                      ? program_new(context, VG_CL_PROGRAM_LINKED, num_devices,
                                                    num_devices ? device_list : NULL, errcode_ret)
                                      : NULL;
    if (object) {
        error = vg_cl_rebuild_link(object, num_devices, device_list ? reals : NULL, options,
                                   num_input_programs, inputs, input_programs);
        if (error == CL_SUCCESS)
            error = program_keep_build(object->program, VG_CL_PROGRAM_BUILT, options, num_devices,
                                       device_list, num_input_programs, input_programs);
        /* The vendor may create a program that could not be linked, whose log can be queried. */
        bool is_kept = error == CL_LINK_PROGRAM_FAILURE && object->real;
        object = vg_cl_made(object, is_kept ? CL_SUCCESS : error, errcode_ret);
        if (is_kept)
            vg_cl_set_error(errcode_ret, error);
        program_notify(object, error, pfn_notify, user_data);
    }
    free(reals);
    free(inputs);
    return object;
}
