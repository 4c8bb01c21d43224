/* SPDX-License-Identifier: Apache-2.0
 *
 * clSetKernelArg(), which programs call more often than any other function, and which takes vendors
 * only a few nanoseconds. The common case therefore allocates nothing, queries nothing, and saves
 * few registers.
 */
#include "config.h"

#include "opencl/base/say.h"
#include "opencl/icd/entries.h"
#include "opencl/icd/gate.h"
#include "opencl/track/arg.h"

/* Each of these functions ends a call and leaves the gate. Their parameters are where the vendor's
 * function expects them, as far as possible. */

static __attribute__((noinline)) cl_int
set_object(cl_kernel real, cl_uint i, vg_cl_set_arg set, struct vg_cl_object *object,
           struct vg_cl_arg *arg)
{
    cl_int result = set(real, i, sizeof object->real, &object->real);

    if (__builtin_expect(result == CL_SUCCESS, 1))
        vg_cl_arg_keep_object(arg, object);
    vg_cl_gate_leave();
    return result;
}

static __attribute__((noinline)) cl_int
set_number(cl_kernel real, cl_uint i, vg_cl_set_arg set, const void *value, struct vg_cl_arg *arg)
{
    cl_int result = set(real, i, 4, value);

    if (__builtin_expect(result == CL_SUCCESS, 1))
        vg_cl_arg_keep_number(arg, value);
    vg_cl_gate_leave();
    return result;
}

/* Frees a long argument. */
static __attribute__((noinline)) cl_int
set_object_for_long(cl_kernel real, cl_uint i, vg_cl_set_arg set, struct vg_cl_object *object,
                    struct vg_cl_arg *arg)
{
    cl_int result = set(real, i, sizeof object->real, &object->real);

    if (result == CL_SUCCESS) {
        vg_cl_arg_keep(arg, 0, NULL);
        vg_cl_arg_keep_object(arg, object);
    }
    vg_cl_gate_leave();
    return result;
}

static __attribute__((noinline)) cl_int
set_other(cl_kernel real, cl_uint i, size_t size, const void *value, struct vg_cl_arg *arg,
          vg_cl_set_arg set)
{
    cl_int result = set(real, i, size, value);

    if (result == CL_SUCCESS)
        result = vg_cl_arg_keep(arg, size, value);
    vg_cl_gate_leave();
    return result;
}

/* Warns once that a number is replaced if it equals the address of one of the program's images or
 * samplers. This only happens if the vendor does not reveal which arguments are numbers. */
static void
set_tell(struct vg_cl_object *kernel, cl_uint i, const struct vg_cl_object *object)
{
    if (kernel->track->numbers != VG_CL_NUMBERS_SEEN &&
        !atomic_exchange(&kernel->kernel.is_told, true))
        vg_cl_say("kernel %s: argument %u equals the address of %s and is treated as this object; "
                  "if it is a number, results are wrong, because the vendor does not report "
                  "argument types",
                  kernel->kernel.name, i, object->type == VG_CL_MEM ? "an image" : "a sampler");
}

/* For an argument that is not known to be a number, an image, or a sampler. */
static __attribute__((noinline)) cl_int
set_opaque(struct vg_cl_object *kernel, cl_uint i, size_t size, const void *value,
           struct vg_cl_arg *arg, vg_cl_set_arg set)
{
    struct vg_cl_object *object = NULL;

    if (size == sizeof object && value)
        memcpy(&object, value, sizeof object);
    object = vg_cl_any(object);
    if (object &&
        (object->type == VG_CL_SAMPLER || (object->type == VG_CL_MEM && object->mem.image))) {
        set_tell(kernel, i, object);
        return set_object_for_long(kernel->real, i, set, object, arg);
    }
    return set_other(kernel->real, i, size, value, arg, set);
}

static __attribute__((noinline)) cl_int
set_wrong(const struct vg_cl_object *kernel, cl_uint i, size_t size, const void *value)
{
    cl_int result = kernel ? kernel->track->cl->clSetKernelArg(vg_cl_real(kernel), i, size, value)
                           : CL_INVALID_KERNEL;

    vg_cl_gate_leave();
    return result;
}

static inline __attribute__((always_inline)) cl_int
set_any(cl_kernel handle, cl_uint i, size_t size, const void *value)
{
    struct vg_cl_object *kernel = vg_cl_as(handle, VG_CL_KERNEL), *object;

    if (__builtin_expect(!kernel || i >= kernel->kernel.n_args, 0))
        return set_wrong(kernel, i, size, value);
    vg_cl_set_arg set = kernel->kernel.set;
    struct vg_cl_arg *arg = &kernel->kernel.args[i];
    bool is_plain = value && !vg_cl_arg_is_long(arg);
    if (size == 4 && is_plain)
        return set_number(kernel->real, i, set, value, arg);
    /* A handle, unless the declaration or the size exclude that. */
    if (size == sizeof object && value && arg->declared == VG_CL_DECLARED_UNKNOWN) {
        memcpy(&object, value, sizeof object);
        object = vg_cl_any(object);
        if (object)
            return is_plain ? set_object(kernel->real, i, set, object, arg)
                            : set_object_for_long(kernel->real, i, set, object, arg);
    }
    if (__builtin_expect(arg->declared == VG_CL_DECLARED_OPAQUE, 0))
        return set_opaque(kernel, i, size, value, arg, set);
    return set_other(kernel->real, i, size, value, arg, set);
}

static __attribute__((noinline)) cl_int
set_after_waiting(cl_kernel handle, cl_uint i, size_t size, const void *value)
{
    vg_cl_gate_enter_slowly(VG_CL_GATE_QUIET);
    return set_any(handle, i, size, value);
}

cl_int CL_API_CALL
vg_cl_entry_SetKernelArg(cl_kernel kernel, cl_uint arg_index, size_t arg_size,
                         const void *arg_value)
{
    if (!vg_cl_gate_try(VG_CL_GATE_QUIET))
        return set_after_waiting(kernel, arg_index, arg_size, arg_value);
    return set_any(kernel, arg_index, arg_size, arg_value);
}
