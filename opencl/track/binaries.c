/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/binaries.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/calls.h"
#include "opencl/track/know.h"

/* Called under the lock, or by the only thread that has the program. */
static void
binaries_drop(struct vg_cl_program *program)
{
    for (cl_uint i = 0; program->told && i < program->n_devices; i++)
        free(program->told[i]);
    free(program->told);
    program->told = NULL;
    free(program->told_sizes);
    program->told_sizes = NULL;
}

void
vg_cl_binaries_forget(struct vg_cl_program *program)
{
    vg_cl_lock();
    binaries_drop(program);
    vg_cl_unlock();
}

void
vg_cl_binaries_keep(struct vg_cl_object *object, const size_t *sizes,
                    unsigned char *const *binaries)
{
    struct vg_cl_program *program = object->program;
    bool ok = true;

    vg_cl_lock();
    if (program->told_sizes && !program->told &&
        memcmp(program->told_sizes, sizes, program->n_devices * sizeof *sizes) == 0) {
        program->told = calloc(program->n_devices, sizeof *program->told);
        for (cl_uint i = 0; program->told && i < program->n_devices; i++) {
            program->told[i] = vg_cl_copy(binaries[i], 1, sizes[i]);
            ok = ok && (program->told[i] || sizes[i] == 0);
        }
        if (!ok)
            binaries_drop(program);
    }
    vg_cl_unlock();
}

/* The reported sizes are those of the vendor's present object. */
static cl_int
binaries_tell_sizes(struct vg_cl_object *object, size_t size, void *value, size_t *size_ret)
{
    struct vg_cl_program *program = object->program;
    cl_int result = object->track->cl->clGetProgramInfo(object->real, CL_PROGRAM_BINARY_SIZES, size,
                                                        value, size_ret);

    if (result != CL_SUCCESS || !value || size < program->n_devices * sizeof(size_t))
        return result;
    vg_cl_lock();
    binaries_drop(program);
    program->told_sizes = vg_cl_copy(value, program->n_devices, sizeof(size_t));
    vg_cl_unlock();
    return result;
}

/* Returns false if none are stored. */
static bool
binaries_tell_kept(struct vg_cl_program *program, size_t size, unsigned char **lists,
                   size_t *size_ret, cl_int *result)
{
    const size_t all = program->n_devices * sizeof *lists;

    vg_cl_lock();
    bool is_kept = program->told != NULL;
    *result = lists && size < all ? CL_INVALID_VALUE : CL_SUCCESS;
    for (cl_uint i = 0; is_kept && lists && *result == CL_SUCCESS && i < program->n_devices; i++)
        if (lists[i] && program->told[i])
            memcpy(lists[i], program->told[i], program->told_sizes[i]);
    vg_cl_unlock();
    if (is_kept && *result == CL_SUCCESS && size_ret)
        *size_ret = all;
    return is_kept;
}

cl_int
vg_cl_GetProgramInfo(struct vg_cl_object *program, cl_program_info param_name,
                     size_t param_value_size, void *param_value, size_t *param_value_size_ret)
{
    struct vg_cl_answer answer;
    cl_int result;

    if (!program)
        return CL_INVALID_PROGRAM;
    if (vg_cl_know_program(program, param_name, &answer))
        return vg_cl_answer_give(&answer, param_value_size, param_value, param_value_size_ret);
    if (param_name == CL_PROGRAM_BINARY_SIZES)
        return binaries_tell_sizes(program, param_value_size, param_value, param_value_size_ret);
    if (param_name == CL_PROGRAM_BINARIES &&
        binaries_tell_kept(program->program, param_value_size, param_value, param_value_size_ret,
                           &result))
        return result;
    return program->track->cl->clGetProgramInfo(program->real, param_name, param_value_size,
                                                param_value, param_value_size_ret);
}
