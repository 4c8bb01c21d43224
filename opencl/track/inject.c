/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>

#include "opencl/track/extract.h"
#include "opencl/track/limits.h"
#include "opencl/track/read.h"
#include "opencl/track/rebuild.h"
#include "opencl/track/remake.h"
#include "opencl/track/state.h"

/* Objects by id, because slots have another order. */
struct inject_index {
    struct vg_cl_object **objects;
    size_t n;
};

static int
inject_compare(const void *a, const void *b)
{
    uint64_t left = (*(struct vg_cl_object *const *)a)->id;
    uint64_t right = (*(struct vg_cl_object *const *)b)->id;

    return left < right ? -1 : left > right;
}

static bool
inject_index_make(struct inject_index *index)
{
    index->n = 0;
    index->objects = malloc((size_t)(vg_cl_slots_n ? vg_cl_slots_n : 1) * sizeof *index->objects);
    if (!index->objects)
        return false;
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
        index->objects[index->n++] = o;
    qsort(index->objects, index->n, sizeof *index->objects, inject_compare);
    return true;
}

static struct vg_cl_object *
inject_find(const struct inject_index *index, uint64_t id, enum vg_cl_type type)
{
    size_t low = 0, high = index->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->objects[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < index->n && index->objects[low]->id == id && index->objects[low]->type == type
               ? index->objects[low]
               : NULL;
}

/* ---- devices, contexts, queues, samplers ---- */

static cl_int
inject_device(struct vg_cl_object *device)
{
    const cl_icd_dispatch *cl = device->track->cl;
    cl_uint n = 0;
    void *parent = device->device.parent->real;

    cl_int error = cl->clCreateSubDevices(parent, device->device.partition, 0, NULL, &n);
    cl_device_id *parts = calloc(n ? n : 1, sizeof *parts);
    if (error == CL_SUCCESS && parts)
        error = cl->clCreateSubDevices(parent, device->device.partition, n, parts, NULL);
    if (error == CL_SUCCESS && device->device.index >= n)
        error = CL_INVALID_DEVICE_PARTITION_COUNT;
    for (cl_uint i = 0; parts && error == CL_SUCCESS && i < n; i++) {
        if (i == device->device.index)
            device->real = parts[i];
        else
            cl->clReleaseDevice(parts[i]);
    }
    free(parts);
    return error;
}

static bool
inject_small(struct vg_cl_switch *s, struct vg_cl_object *object)
{
    const char *what = "a sub-device";
    cl_int error = CL_SUCCESS;

    if (object->type == VG_CL_DEVICE) {
        error = inject_device(object);
    } else if (object->type == VG_CL_CONTEXT) {
        what = "a context";
        error = vg_cl_context_make(object);
    } else if (object->type == VG_CL_QUEUE) {
        what = "a queue";
        error = vg_cl_queue_make(object);
    } else if (object->type == VG_CL_SAMPLER) {
        what = "a sampler";
        error = vg_cl_sampler_make(object);
    }
    return error == CL_SUCCESS ||
           vg_cl_fail(s, "%s cannot be recreated: OpenCL error %d", what, error);
}

/* ---- memory ---- */

static cl_int
inject_write_closed(const cl_icd_dispatch *cl, cl_command_queue queue,
                    const struct vg_cl_object *mem, const size_t *region, size_t size,
                    const void *bytes)
{
    const size_t zero[3] = {0, 0, 0};
    cl_int error;
    cl_mem copy = cl->clCreateBuffer(mem->context->real, CL_MEM_READ_WRITE, size, NULL, &error);

    if (error != CL_SUCCESS)
        return error;
    error = cl->clEnqueueWriteBuffer(queue, copy, CL_TRUE, 0, size, bytes, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = mem->mem.image
                    ? cl->clEnqueueCopyBufferToImage(queue, copy, mem->real, 0, zero, region, 0,
                                                     NULL, NULL)
                    : cl->clEnqueueCopyBuffer(queue, copy, mem->real, 0, 0, size, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = cl->clFinish(queue);
    cl->clReleaseMemObject(copy);
    return error;
}

static cl_int
inject_write(const struct vg_cl_object *mem, size_t size, const void *bytes)
{
    const cl_icd_dispatch *cl = mem->track->cl;
    const size_t zero[3] = {0, 0, 0};
    size_t region[3];
    cl_int error;

    if (vg_cl_content_size(mem, region) != size)
        return CL_INVALID_VALUE;
    cl_command_queue queue =
        cl->clCreateCommandQueue(mem->context->real, mem->context->ctx.devices[0]->real, 0, &error);
    if (error != CL_SUCCESS)
        return error;
    if (mem->mem.flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS))
        error = inject_write_closed(cl, queue, mem, region, size, bytes);
    else if (mem->mem.image)
        error = cl->clEnqueueWriteImage(queue, mem->real, CL_TRUE, zero, region, 0, 0, bytes, 0,
                                        NULL, NULL);
    else
        error = cl->clEnqueueWriteBuffer(queue, mem->real, CL_TRUE, 0, size, bytes, 0, NULL, NULL);
    cl->clReleaseCommandQueue(queue);
    return error;
}

/* Restores mappings: what the program has mapped in its own memory must also be mapped by the
 * vendor. */
static bool
inject_map(struct vg_cl_switch *s, const struct vg_cl_object *mem)
{
    const cl_icd_dispatch *cl = mem->track->cl;
    cl_command_queue queue = NULL;
    cl_int error = CL_SUCCESS;
    bool ok = true;

    for (const struct vg_cl_map *map = mem->mem.maps; ok && map; map = map->next) {
        if (map->is_shadow)
            continue;
        if (!queue)
            queue = cl->clCreateCommandQueue(mem->context->real, mem->context->ctx.devices[0]->real,
                                             0, &error);
        /* Memory to which the program may be writing is not read from the device again. */
        cl_map_flags flags =
            map->flags & CL_MAP_WRITE ? CL_MAP_WRITE_INVALIDATE_REGION : map->flags;
        void *pointer =
            queue ? cl->clEnqueueMapBuffer(queue, mem->real, CL_TRUE, flags, map->origin[0],
                                           map->size, 0, NULL, NULL, &error)
                  : NULL;
        if (pointer != map->pointer)
            ok = vg_cl_fail(s, "memory cannot be mapped at its previous address: OpenCL error %d",
                            error);
    }
    if (queue)
        cl->clReleaseCommandQueue(queue);
    return ok;
}

static bool
inject_mem(struct vg_cl_switch *s, struct vg_cl_object *mem, struct vg_cl_reader *content)
{
    struct vg_cl_state_mem state;

    if (!vg_cl_state_get_mem(content, &state))
        return vg_cl_fail(s, "the saved state is damaged: a memory object");
    cl_int error = vg_cl_mem_make(mem, NULL, true);
    if (error == CL_SUCCESS && state.n_content)
        error = inject_write(mem, state.n_content, state.content);
    s->n_bytes += state.n_content;
    if (error != CL_SUCCESS)
        return vg_cl_fail(s, "a memory object of %zu bytes cannot be recreated: OpenCL error %d",
                          mem->mem.size, error);
    return inject_map(s, mem);
}

/* ---- kernels and events ---- */

static cl_int
inject_arg(struct vg_cl_object *kernel, cl_uint i, const struct vg_cl_state_arg *arg,
           const struct inject_index *index)
{
    const cl_icd_dispatch *cl = kernel->track->cl;
    struct vg_cl_object *object = NULL;

    if (arg->kind == VG_CL_ARG_UNSET)
        return CL_SUCCESS;
    if (arg->kind == VG_CL_ARG_BYTES)
        return cl->clSetKernelArg(kernel->real, i, arg->size, arg->bytes);
    if (arg->kind == VG_CL_ARG_EMPTY)
        return cl->clSetKernelArg(kernel->real, i, arg->size, NULL);
    object = inject_find(index, arg->id, VG_CL_MEM);
    if (!object)
        object = inject_find(index, arg->id, VG_CL_SAMPLER);
    return object ? cl->clSetKernelArg(kernel->real, i, sizeof object->real, &object->real)
                  : CL_SUCCESS;
}

static bool
inject_kernel(struct vg_cl_switch *s, struct vg_cl_object *kernel, struct vg_cl_reader *content,
              const struct inject_index *index)
{
    struct vg_cl_state_kernel state;
    cl_int error = CL_SUCCESS;

    if (!vg_cl_state_get_kernel(content, &state))
        return vg_cl_fail(s, "the saved state is damaged: a kernel");
    kernel->real =
        kernel->track->cl->clCreateKernel(kernel->kernel.program->real, state.name, &error);
    kernel->kernel.set = kernel->track->cl->clSetKernelArg;
    for (uint64_t i = 0; error == CL_SUCCESS && i < state.n_args; i++) {
        struct vg_cl_state_arg arg;
        if (!vg_cl_state_get_arg(content, &arg))
            return vg_cl_fail(s, "the saved state is damaged: an argument of '%s'", state.name);
        error = inject_arg(kernel, (cl_uint)i, &arg, index);
    }
    return error == CL_SUCCESS ||
           vg_cl_fail(s, "kernel '%s' cannot be recreated: OpenCL error %d", state.name, error);
}

/* An event that is over has no vendor's event, unless others may still wait for it to fail. */
static bool
inject_event(struct vg_cl_switch *s, struct vg_cl_object *event, struct vg_cl_reader *content)
{
    struct vg_cl_state_event state;
    cl_int error = CL_SUCCESS;

    if (!vg_cl_state_get_event(content, &state))
        return vg_cl_fail(s, "the saved state is damaged: an event");
    if (state.status == CL_COMPLETE)
        return true;
    event->real = event->track->cl->clCreateUserEvent(event->context->real, &error);
    if (error == CL_SUCCESS && state.status < 0)
        error = event->track->cl->clSetUserEventStatus(event->real, (cl_int)state.status);
    return error == CL_SUCCESS ||
           vg_cl_fail(s, "an event cannot be recreated: OpenCL error %d", error);
}

/* ---- all ---- */

/* Returns whether an object is created in this walk. Memory that is a part of other memory, or a
 * view of it, comes after the whole. */
static bool
inject_is_now(const struct vg_cl_object *object, int walk)
{
    return object->type != VG_CL_MEM || (object->mem.parent != NULL) == (walk == 1);
}

static bool
inject_record(struct vg_cl_switch *s, struct vg_cl_object *object, struct vg_cl_record *record,
              const struct inject_index *index)
{
    switch (object->type) {
    case VG_CL_MEM:
        return inject_mem(s, object, &record->content);
    case VG_CL_KERNEL:
        return inject_kernel(s, object, &record->content, index);
    case VG_CL_EVENT:
        return inject_event(s, object, &record->content);
    default:
        return inject_small(s, object);
    }
}

static bool
inject_all_of(struct vg_cl_switch *s, const struct vg_cl_reader *start,
              const struct inject_index *index, enum vg_cl_type type, int walk)
{
    struct vg_cl_reader reader = *start;
    struct vg_cl_record record;

    while (vg_cl_reader_next(&reader, &record)) {
        if (record.type != type)
            continue;
        struct vg_cl_object *object = inject_find(index, record.id, type);
        if (!object)
            return vg_cl_fail(s,
                              "the saved state contains an object that the program does not have");
        if (!object->real && inject_is_now(object, walk) &&
            !inject_record(s, object, &record, index))
            return false;
    }
    return !reader.failed || vg_cl_fail(s, "the saved state is damaged");
}

/* Lists the programs that do not exist yet. */
static bool
inject_list_programs(struct vg_cl_switch *s, const struct vg_cl_reader *start,
                     const struct inject_index *index, struct vg_cl_rebuild *rebuild)
{
    struct vg_cl_reader reader = *start;
    struct vg_cl_record record;

    rebuild->programs = calloc(index->n ? index->n : 1, sizeof *rebuild->programs);
    if (!rebuild->programs)
        return vg_cl_fail(s, "out of memory");
    while (vg_cl_reader_next(&reader, &record)) {
        struct vg_cl_object *object =
            record.type == VG_CL_PROGRAM ? inject_find(index, record.id, VG_CL_PROGRAM) : NULL;
        if (record.type == VG_CL_PROGRAM && (!object || rebuild->n == index->n))
            return vg_cl_fail(s, "the saved state contains an unknown or duplicate OpenCL program");
        if (object && !object->real)
            rebuild->programs[rebuild->n++] =
                (struct vg_cl_rebuilt){.object = object, .content = record.content};
    }
    return !reader.failed || vg_cl_fail(s, "the saved state is damaged");
}

static bool
inject_types(struct vg_cl_switch *s, const struct vg_cl_reader *reader,
             const struct inject_index *index, const enum vg_cl_type *types, size_t n)
{
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++)
        for (int walk = 0; ok && walk < (types[i] == VG_CL_MEM ? 2 : 1); walk++)
            ok = inject_all_of(s, reader, index, types[i], walk);
    return ok;
}

/* Writes memory while programs are built. */
static bool
inject_with_programs(struct vg_cl_switch *s, const struct vg_cl_reader *reader,
                     const struct inject_index *index)
{
    static const enum vg_cl_type beside[] = {VG_CL_QUEUE, VG_CL_SAMPLER, VG_CL_MEM};
    struct vg_cl_rebuild rebuild = {.n = 0};
    bool ok = inject_list_programs(s, reader, index, &rebuild);

    if (ok) {
        vg_cl_rebuild_begin(&rebuild);
        ok = !rebuild.failed &&
             inject_types(s, reader, index, beside, sizeof beside / sizeof *beside);
        vg_cl_step(s, "memory");
        if (!vg_cl_rebuild_end(&rebuild))
            ok = vg_cl_fail(s, "%s", rebuild.reason);
        vg_cl_step(s, "programs");
    }
    free(rebuild.programs);
    return ok;
}

bool
vg_cl_inject(struct vg_cl_switch *s, const void *base, size_t size)
{
    static const enum vg_cl_type first[] = {VG_CL_DEVICE, VG_CL_CONTEXT};
    static const enum vg_cl_type last[] = {VG_CL_KERNEL, VG_CL_EVENT};
    struct vg_cl_reader reader;
    struct inject_index index;

    if (!vg_cl_reader_open(&reader, base, size))
        return vg_cl_fail(s, "the saved state is damaged or belongs to another version");
    if (!inject_index_make(&index))
        return vg_cl_fail(s, "out of memory");
    bool ok = inject_types(s, &reader, &index, first, 2);
    vg_cl_step(s, "contexts");
    ok =
        ok && inject_with_programs(s, &reader, &index) && inject_types(s, &reader, &index, last, 2);
    vg_cl_step(s, "kernels");
    free(index.objects);
    return ok;
}
