/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/rebuild.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "opencl/base/signed.h"
#include "opencl/track/program.h"
#include "opencl/track/state.h"
#include "opencl/track/tell.h"

#define THREADS_MAX 4 /* number of build threads */

cl_program
vg_cl_program_load(const struct vg_cl_track *track, cl_context context, cl_uint n,
                   const cl_device_id *devices, const size_t *lengths, const cl_uchar **binaries,
                   cl_int *status, cl_int *error)
{
    size_t *bare = NULL;

    if (!track->is_remote && lengths && binaries)
        bare = vg_cl_copy(lengths, n, sizeof *lengths);
    for (cl_uint i = 0; bare && i < n; i++)
        bare[i] = vg_signed_bare_size(binaries[i], lengths[i]);
    cl_program made = track->cl->clCreateProgramWithBinary(
        context, n, devices, bare ? bare : lengths, binaries, status, error);
    free(bare);
    return made;
}

static cl_device_id *
rebuild_reals(struct vg_cl_object *const *devices, cl_uint n)
{
    cl_device_id *reals = calloc(n ? n : 1, sizeof *reals);

    for (cl_uint i = 0; reals && i < n; i++)
        reals[i] = devices[i]->real;
    return reals;
}

static cl_int
rebuild_create_from(struct vg_cl_object *object, const size_t *sizes, const cl_uchar **binaries)
{
    const struct vg_cl_program *program = object->program;
    cl_device_id *reals = rebuild_reals(program->devices, program->n_devices);
    cl_int error = CL_OUT_OF_HOST_MEMORY;

    if (reals)
        object->real = vg_cl_program_load(object->track, object->context->real, program->n_devices,
                                          reals, sizes, binaries, NULL, &error);
    free(reals);
    return error;
}

/* Creates the program as it was before it was built. */
static cl_int
rebuild_create(struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    const struct vg_cl_program *program = object->program;
    const char *source = program->source;
    const char *whole = program->whole ? program->whole : source;
    cl_int error = CL_SUCCESS;

    if (program->kind == VG_CL_PROGRAM_SOURCE) {
        object->real =
            cl->clCreateProgramWithSource(object->context->real, 1, &whole, NULL, &error);
    } else if (program->kind == VG_CL_PROGRAM_BINARY) {
        error = rebuild_create_from(object, program->sizes, (const cl_uchar **)program->binaries);
    } else if (program->kind == VG_CL_PROGRAM_IL) {
        object->real =
            cl->clCreateProgramWithIL(object->context->real, program->il, program->il_size, &error);
        for (struct vg_cl_constant *c = program->constants; error == CL_SUCCESS && c; c = c->next)
            error = cl->clSetProgramSpecializationConstant(object->real, c->id, c->size, c->value);
    } else if (program->kind == VG_CL_PROGRAM_BUILT_IN) {
        cl_device_id *reals = rebuild_reals(program->devices, program->n_devices);
        object->real = cl->clCreateProgramWithBuiltInKernels(
            object->context->real, program->n_devices, reals, source, &error);
        free(reals);
    }
    return error;
}

cl_int
vg_cl_rebuild_link(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                   const char *options, cl_uint n_inputs, const cl_program *inputs,
                   struct vg_cl_object *const *objects)
{
    const cl_icd_dispatch *cl = object->track->cl;
    cl_int error = vg_cl_kinds_link(object, n, devices, options, n_inputs, inputs);
    bool is_other = false;

    if (error == CL_SUCCESS || object->program->is_alone)
        return error;
    for (cl_uint i = 0; i < n_inputs; i++)
        is_other = is_other || objects[i]->program->is_telling;
    if (!is_other)
        return error;
    /* The cause may be inputs that were compiled with additional options. */
    cl_program *alone = calloc(n_inputs, sizeof *alone);
    bool ok = alone != NULL;
    for (cl_uint i = 0; ok && i < n_inputs; i++) {
        alone[i] = vg_cl_rebuild_alone(objects[i]);
        ok = alone[i] != NULL;
    }
    if (ok) {
        if (object->real)
            cl->clReleaseProgram(object->real);
        object->real = cl->clLinkProgram(object->context->real, n, devices, options, n_inputs,
                                         alone, NULL, NULL, &error);
    }
    for (cl_uint i = 0; alone && i < n_inputs; i++)
        if (alone[i])
            cl->clReleaseProgram(alone[i]);
    free(alone);
    return error;
}

/* Builds, compiles, or links like the program did. */
static cl_int
rebuild_build(struct vg_cl_object *object)
{
    const struct vg_cl_program *program = object->program;
    cl_device_id *reals = rebuild_reals(program->built, program->n_built);
    cl_device_id *list = program->n_built ? reals : NULL;
    cl_program *inputs = calloc(program->n_inputs ? program->n_inputs : 1, sizeof *inputs);
    cl_int error = reals && inputs ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;

    for (cl_uint i = 0; inputs && i < program->n_inputs; i++)
        inputs[i] = program->inputs[i]->real;
    if (error == CL_SUCCESS && program->kind == VG_CL_PROGRAM_LINKED)
        error = vg_cl_rebuild_link(object, program->n_built, list, program->options,
                                   program->n_inputs, inputs, program->inputs);
    else if (error == CL_SUCCESS && program->step == VG_CL_PROGRAM_COMPILED)
        error = vg_cl_kinds_compile(object, program->n_built, list, program->options,
                                    program->n_inputs, program->n_inputs ? inputs : NULL,
                                    program->n_inputs ? (const char **)program->names : NULL);
    else if (error == CL_SUCCESS && program->step == VG_CL_PROGRAM_BUILT)
        error = vg_cl_kinds_build(object, program->n_built, list, program->options);
    free(reals);
    free(inputs);
    return error;
}

cl_program
vg_cl_rebuild_alone(const struct vg_cl_object *object)
{
    struct vg_cl_program program = *object->program;
    struct vg_cl_object twin = *object, **list;
    cl_uint n = program.n_inputs;
    struct vg_cl_object *inputs = calloc(n ? n : 1, sizeof *inputs);
    cl_int error = CL_SUCCESS;

    list = calloc(n ? n : 1, sizeof *list);
    for (cl_uint i = 0; inputs && list && i < n; i++) {
        list[i] = &inputs[i];
        inputs[i].real = vg_cl_rebuild_alone(program.inputs[i]);
        if (!inputs[i].real)
            error = CL_INVALID_PROGRAM;
    }
    program.inputs = list;
    program.is_alone = true;
    twin.program = &program;
    twin.real = NULL;
    if (!inputs || !list)
        error = CL_OUT_OF_HOST_MEMORY;
    if (error == CL_SUCCESS)
        error = rebuild_create(&twin);
    if (error == CL_SUCCESS && program.step != VG_CL_PROGRAM_MADE)
        error = rebuild_build(&twin);
    for (cl_uint i = 0; inputs && i < n; i++)
        if (inputs[i].real)
            object->track->cl->clReleaseProgram(inputs[i].real);
    free(inputs);
    free(list);
    if (error == CL_SUCCESS)
        return twin.real;
    if (twin.real)
        object->track->cl->clReleaseProgram(twin.real);
    return NULL;
}

/* Creates the program from the binaries in the stream, which fit if the device is the same. */
static bool
rebuild_from_binaries(struct vg_cl_object *object, struct vg_cl_reader *content)
{
    const struct vg_cl_program *program = object->program;
    struct vg_cl_state_program state;
    bool ok = vg_cl_state_get_program(content, &state) && state.n_binaries == program->n_devices &&
              program->n_devices > 0;
    size_t *sizes = calloc(program->n_devices ? program->n_devices : 1, sizeof *sizes);
    const cl_uchar **binaries =
        calloc(program->n_devices ? program->n_devices : 1, sizeof *binaries);

    for (cl_uint i = 0; sizes && binaries && ok && i < program->n_devices; i++) {
        uint64_t size;
        binaries[i] = vg_cl_get_bytes(content, &size);
        sizes[i] = size;
        ok = size > 0 && !program->devices[i]->track->is_other;
    }
    ok = ok && sizes && binaries && rebuild_create_from(object, sizes, binaries) == CL_SUCCESS;
    if (ok && vg_cl_kinds_build(object, 0, NULL, program->options) != CL_SUCCESS) {
        vg_cl_object_drop(object);
        ok = false;
    }
    free(sizes);
    free(binaries);
    return ok;
}

static bool
rebuild_is_to_build(const struct vg_cl_object *object)
{
    cl_build_status status = CL_BUILD_NONE;

    /* A program that could not be linked only has its log, which is stored. */
    if (!object->real)
        return object->program->kind == VG_CL_PROGRAM_LINKED &&
               object->program->step == VG_CL_PROGRAM_BUILT;
    object->track->cl->clGetProgramBuildInfo(object->real, object->program->devices[0]->real,
                                             CL_PROGRAM_BUILD_STATUS, sizeof status, &status, NULL);
    return status == CL_BUILD_NONE && object->program->step != VG_CL_PROGRAM_MADE;
}

/* ---- side by side ---- */

enum rebuild_phase {
    REBUILD_CREATE, /* which is everything if a binary fits */
    REBUILD_PARTS,  /* those that are needed nevertheless */
    REBUILD_BUILD,
    REBUILD_LINK, /* one after the other, because a result may be linked again */
};

static void
rebuild_fail(struct vg_cl_rebuild *r, const char *what, cl_int error)
{
    pthread_mutex_lock(&r->lock);
    if (!r->failed && error == CL_INVALID_BINARY)
        snprintf(r->reason, sizeof r->reason, "%s", VG_CL_FOREIGN_BINARY);
    else if (!r->failed)
        snprintf(r->reason, sizeof r->reason, "a program cannot be %s again: OpenCL error %d", what,
                 (int)error);
    r->failed = true;
    pthread_mutex_unlock(&r->lock);
}

/* Only programs that were created from it use it. */
static void
rebuild_leave_out(struct vg_cl_rebuild *r)
{
    for (size_t i = 0; i < r->n; i++)
        r->programs[i].object->program->n_takers = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct vg_cl_program *program = r->programs[i].object->program;
        for (cl_uint j = 0; j < program->n_inputs; j++)
            program->inputs[j]->program->n_takers++;
    }
    for (size_t i = 0; i < r->n; i++) {
        struct vg_cl_object *object = r->programs[i].object;
        object->program->is_left_out = object->program->n_takers > 0 &&
                                       object->program->n_takers == atomic_load(&object->uses);
    }
}

static void
rebuild_need_inputs(struct vg_cl_program *program)
{
    for (cl_uint i = 0; i < program->n_inputs; i++) {
        struct vg_cl_program *input = program->inputs[i]->program;
        if (!input->is_left_out)
            continue;
        input->is_left_out = false;
        rebuild_need_inputs(input);
    }
}

/* A program without a suitable binary needs its inputs. */
static void
rebuild_need(struct vg_cl_rebuild *r)
{
    for (size_t i = 0; i < r->n; i++) {
        const struct vg_cl_object *object = r->programs[i].object;
        if (!object->program->is_left_out && rebuild_is_to_build(object))
            rebuild_need_inputs(object->program);
    }
}

static void
rebuild_create_one(struct vg_cl_rebuild *r, struct vg_cl_rebuilt *one)
{
    struct vg_cl_object *object = one->object;

    object->program->is_remade = true;
    if (r->phase == REBUILD_CREATE && object->program->step == VG_CL_PROGRAM_BUILT &&
        rebuild_from_binaries(object, &one->content))
        return;
    cl_int error = rebuild_create(object);
    free(object->program->made);
    object->program->made = object->program->whole ? strdup(object->program->whole) : NULL;
    if (error != CL_SUCCESS)
        rebuild_fail(r, "made", error);
}

/* Tries what a proxy may refuse before anything else is sent to it. */
static void
rebuild_create_foreign(struct vg_cl_rebuild *r)
{
    r->phase = REBUILD_CREATE;
    for (size_t i = 0; i < r->n && !r->failed; i++) {
        const struct vg_cl_object *object = r->programs[i].object;
        if (object->track->is_remote && object->program->kind == VG_CL_PROGRAM_BINARY &&
            !object->program->is_left_out)
            rebuild_create_one(r, &r->programs[i]);
    }
}

static void
rebuild_one(struct vg_cl_rebuild *r, struct vg_cl_rebuilt *one)
{
    struct vg_cl_object *object = one->object;
    cl_int error = CL_SUCCESS;

    if (object->program->is_left_out)
        return;
    if (r->phase <= REBUILD_PARTS) {
        if (!object->real)
            rebuild_create_one(r, one);
        return;
    }
    bool is_linked = object->program->kind == VG_CL_PROGRAM_LINKED;
    if (is_linked != (r->phase == REBUILD_LINK) || !rebuild_is_to_build(object))
        return;
    error = rebuild_build(object);
    if (error != CL_SUCCESS)
        rebuild_fail(r, "built", error);
}

static void *
rebuild_some(void *data)
{
    struct vg_cl_rebuild *r = data;

    for (;;) {
        size_t i = atomic_fetch_add(&r->next, 1);
        if (i >= r->n || r->failed)
            return NULL;
        rebuild_one(r, &r->programs[i]);
    }
}

static void
rebuild_phase(struct vg_cl_rebuild *r, enum rebuild_phase phase)
{
    pthread_t threads[THREADS_MAX];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = phase == REBUILD_LINK ? 1 : r->n, n = 0;

    r->phase = phase;
    atomic_store(&r->next, 0);
    /* This thread is one of them. */
    while (n + 1 < wanted && n + 1 < THREADS_MAX && (long)n + 1 < cpus &&
           pthread_create(&threads[n], NULL, rebuild_some, r) == 0)
        n++;
    rebuild_some(r);
    while (n > 0)
        pthread_join(threads[--n], NULL);
}

static void *
rebuild_all(void *data)
{
    struct vg_cl_rebuild *r = data;

    for (int phase = REBUILD_CREATE; phase <= REBUILD_LINK && !r->failed; phase++) {
        rebuild_phase(r, phase);
        if (phase == REBUILD_CREATE)
            rebuild_need(r);
    }
    return NULL;
}

static int
rebuild_compare(const void *a, const void *b)
{
    uint64_t left = ((const struct vg_cl_rebuilt *)a)->object->id;
    uint64_t right = ((const struct vg_cl_rebuilt *)b)->object->id;

    return left < right ? -1 : left > right;
}

void
vg_cl_rebuild_begin(struct vg_cl_rebuild *r)
{
    pthread_mutex_init(&r->lock, NULL);
    /* A linked program has a greater id than its inputs. */
    if (r->n > 1)
        qsort(r->programs, r->n, sizeof *r->programs, rebuild_compare);
    rebuild_leave_out(r);
    rebuild_create_foreign(r);
    r->has_thread = r->n > 0 && !r->failed && pthread_create(&r->thread, NULL, rebuild_all, r) == 0;
    if (!r->has_thread)
        rebuild_all(r);
}

bool
vg_cl_rebuild_end(struct vg_cl_rebuild *r)
{
    if (r->has_thread)
        pthread_join(r->thread, NULL);
    pthread_mutex_destroy(&r->lock);
    return !r->failed;
}
