/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which calls are not waited for. A kernel can be launched, or an argument set, without
 * waiting if an earlier call succeeded that was the same in everything on which its result depends.
 * The earlier call was waited for; later ones are only sent.
 */
#include "config.h"

#include "opencl/client/later.h"

#include <stdlib.h>
#include <string.h>

#define LATER_ARGS     64
#define LATER_LAUNCHES 16

/* What has succeeded with a kernel. A launch depends on the kinds of the arguments, so it is
 * forgotten if an argument changes its kind. */
struct vg_wire_kernel {
    _Atomic uint64_t args[LATER_ARGS]; /* kind of each argument; 0: none yet */
    _Atomic uint64_t launches[LATER_LAUNCHES];
    _Atomic uint64_t kinds; /* incremented when an argument changes its kind */
};

/* Mixes NUMBER into HASH, whose values do not collide in practice. */
static uint64_t
later_mix(uint64_t hash, uint64_t number)
{
    hash ^= number + UINT64_C(0x9E3779B97F4A7C15) + (hash << 6) + (hash >> 2);
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94D049BB133111EB);
    return hash ^ (hash >> 31);
}

static struct vg_wire_kernel *
later_kernel(cl_kernel handle)
{
    struct vg_wire_object *object = vg_wire_object(handle);

    vg_wire_lock(object->client);
    if (!object->kernel)
        object->kernel = calloc(1, sizeof *object->kernel);
    struct vg_wire_kernel *kernel = object->kernel;
    vg_wire_unlock(object->client);
    return kernel;
}

/* Returns whether a value is not the handle of any object. */
static bool
later_is_nothing(size_t size, const void *value)
{
    uint64_t number = 1;

    if (size == sizeof number && value)
        memcpy(&number, value, sizeof number);
    return number == 0;
}

/* Returns the kind of an argument: everything that the vendor checks. */
static uint64_t
later_kind(size_t size, const struct vg_wire_object *object, const void *value)
{
    uint64_t kind = later_mix(later_mix(1, size), object ? 3 : value ? 2 : 1);

    if (!object)
        return later_mix(kind, later_is_nothing(size, value));
    kind = later_mix(kind, object->type);
    kind = later_mix(kind, object->mem.flags);
    kind = later_mix(kind, object->mem.kind);
    kind = later_mix(kind, object->mem.origin);
    return later_mix(kind, object->context ? object->context->serial : 0);
}

void
vg_wire_later_SetKernelArg(struct vg_wire_call *call, cl_kernel handle, cl_uint i, size_t size,
                           const struct vg_wire_object *object, const void *value)
{
    struct vg_wire_kernel *kernel = later_kernel(handle);

    if (!kernel)
        return;
    uint64_t kind = i < LATER_ARGS ? later_kind(size, object, value) : 0;
    if (kind && kernel->args[i] == kind) {
        call->is_later = true;
        return;
    }
    atomic_fetch_add(&kernel->kinds, 1);
    if (i < LATER_ARGS) {
        kernel->args[i] = 0;
        call->learns = &kernel->args[i];
        call->learned = kind;
    }
}

/* Returns whether all events belong to the queue's context. */
static bool
later_can_wait(cl_command_queue queue, cl_uint n, const cl_event *list)
{
    const struct vg_wire_object *context = vg_wire_object(queue)->context;

    for (cl_uint i = 0; i < n; i++)
        if (!context || vg_wire_object(list[i])->context != context)
            return false;
    return true;
}

static uint64_t
later_mix_sizes(uint64_t hash, cl_uint n, const size_t *sizes)
{
    hash = later_mix(hash, sizes != NULL);
    for (cl_uint i = 0; sizes && i < n; i++)
        hash = later_mix(hash, sizes[i]);
    return hash;
}

void
vg_wire_later_EnqueueNDRangeKernel(struct vg_wire_call *call, cl_command_queue queue,
                                   cl_kernel handle, cl_uint dimensions, const size_t *offset,
                                   const size_t *global, const size_t *local, cl_uint n,
                                   const cl_event *list)
{
    struct vg_wire_kernel *kernel = handle ? later_kernel(handle) : NULL;

    if (!kernel || dimensions < 1 || dimensions > 3 || !later_can_wait(queue, n, list))
        return;
    uint64_t launch = later_mix(kernel->kinds + 1, vg_wire_object(queue)->serial);
    launch = later_mix(launch, dimensions);
    launch = later_mix_sizes(launch, dimensions, offset);
    launch = later_mix_sizes(launch, dimensions, global);
    launch = later_mix_sizes(launch, dimensions, local);
    _Atomic uint64_t *slot = &kernel->launches[launch % LATER_LAUNCHES];
    call->is_later = *slot == launch && launch;
    call->learns = slot;
    call->learned = launch;
}

void
vg_wire_later_EnqueueMarkerWithWaitList(struct vg_wire_call *call, cl_command_queue queue,
                                        cl_uint n, const cl_event *list)
{
    call->is_later = later_can_wait(queue, n, list);
}

void
vg_wire_later_EnqueueBarrierWithWaitList(struct vg_wire_call *call, cl_command_queue queue,
                                         cl_uint n, const cl_event *list)
{
    call->is_later = later_can_wait(queue, n, list);
}

static bool
later_has(cl_command_queue queue, cl_mem handle, size_t offset, size_t size)
{
    const struct vg_wire_object *mem = vg_wire_object(handle);

    /* Sub-buffers must be aligned as the device requires. */
    return mem && !mem->mem.element && !mem->mem.origin &&
           mem->context == vg_wire_object(queue)->context && size > 0 && offset <= mem->mem.size &&
           size <= mem->mem.size - offset;
}

void
vg_wire_later_EnqueueCopyBuffer(struct vg_wire_call *call, cl_command_queue queue, cl_mem from,
                                cl_mem to, size_t from_offset, size_t to_offset, size_t size,
                                cl_uint n, const cl_event *list)
{
    call->is_later = from != to && later_has(queue, from, from_offset, size) &&
                     later_has(queue, to, to_offset, size) && later_can_wait(queue, n, list);
}

void
vg_wire_later_EnqueueFillBuffer(struct vg_wire_call *call, cl_command_queue queue, cl_mem buffer,
                                const void *pattern, size_t pattern_size, size_t offset,
                                size_t size, cl_uint n, const cl_event *list)
{
    call->is_later = pattern && pattern_size > 0 && pattern_size <= 128 &&
                     (pattern_size & (pattern_size - 1)) == 0 && offset % pattern_size == 0 &&
                     size % pattern_size == 0 && later_has(queue, buffer, offset, size) &&
                     later_can_wait(queue, n, list);
}

bool
vg_wire_later_write(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size, cl_uint n,
                    const cl_event *list)
{
    const cl_mem_flags closed =
        CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS;

    return later_has(queue, buffer, offset, size) &&
           !(vg_wire_object(buffer)->mem.flags & closed) && later_can_wait(queue, n, list);
}
