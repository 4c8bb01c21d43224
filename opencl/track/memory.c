/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <stdatomic.h>

#include "opencl/track/callback.h"
#include "opencl/track/calls.h"
#include "opencl/track/enqueue.h"
#include "opencl/track/remake.h"

static _Atomic uint64_t memory_bytes;

uint64_t
vg_cl_mem_bytes(void)
{
    return atomic_load_explicit(&memory_bytes, memory_order_relaxed);
}

/* Counts the vendor's memory for a new object, including an image's actual size. */
static void
memory_count(struct vg_cl_object *mem)
{
    size_t size = mem->mem.size;

    if (mem->mem.parent || mem->mem.host_ptr)
        return;
    if (mem->mem.image)
        mem->track->cl->clGetMemObjectInfo(mem->real, CL_MEM_SIZE, sizeof size, &size, NULL);
    mem->mem.counted = size;
    atomic_fetch_add_explicit(&memory_bytes, size, memory_order_relaxed);
}

void
vg_cl_mem_uncount(struct vg_cl_object *mem)
{
    atomic_fetch_sub_explicit(&memory_bytes, mem->mem.counted, memory_order_relaxed);
    mem->mem.counted = 0;
}

/* ---- the end ---- */

static void
memory_end(struct vg_cl_mem_end *end)
{
    struct vg_cl_destructor *next;

    for (struct vg_cl_destructor *d = end->destructors; d; d = next) {
        next = d->next;
        ((vg_cl_mem_notify)d->call)((cl_mem)end->object, d->user_data);
        free(d);
    }
    if (end->own)
        munmap(end->own, end->own_size);
    free(end);
}

/* The vendor has released a memory object, either finally or only to create it again. */
static void CL_CALLBACK
memory_on_end(cl_mem real, void *data)
{
    struct vg_cl_mem_end *end = data;

    (void)real;
    if (!atomic_load(&end->is_over))
        return;
    vg_cl_in_callback++;
    memory_end(end);
    vg_cl_in_callback--;
}

/* Requests a notification from the vendor when it has released MEM, if any is needed. */
static cl_int
memory_watch(struct vg_cl_object *mem)
{
    struct vg_cl_mem_end *end = mem->mem.end;

    if (!end || end->is_known)
        return CL_SUCCESS;
    cl_int result = mem->track->cl->clSetMemObjectDestructorCallback(mem->real, memory_on_end, end);
    end->is_known = result == CL_SUCCESS;
    return result;
}

static struct vg_cl_mem_end *
memory_get_end(struct vg_cl_object *mem)
{
    if (!mem->mem.end)
        mem->mem.end = calloc(1, sizeof *mem->mem.end);
    if (mem->mem.end)
        mem->mem.end->object = mem;
    return mem->mem.end;
}

void
vg_cl_mem_leave_end(struct vg_cl_object *mem)
{
    struct vg_cl_mem_end *end = mem->mem.end;

    if (!end || !end->is_known || !mem->real)
        return;
    mem->mem.end = NULL;
    atomic_store(&end->is_over, true);
}

void
vg_cl_mem_free(struct vg_cl_object *mem)
{
    while (mem->mem.maps) {
        struct vg_cl_map *map = mem->mem.maps;
        mem->mem.maps = map->next;
        if (map->is_shadow)
            munmap(map->pointer, map->size);
        free(map);
    }
    if (mem->mem.end)
        memory_end(mem->mem.end);
    vg_cl_mem_uncount(mem);
    free(mem->mem.image);
    free(mem->mem.properties);
    vg_cl_unuse(mem->mem.parent);
}

cl_int
vg_cl_SetMemObjectDestructorCallback(struct vg_cl_object *memobj, vg_cl_mem_notify pfn_notify,
                                     void *user_data)
{
    if (!memobj)
        return CL_INVALID_MEM_OBJECT;
    if (!pfn_notify)
        return CL_INVALID_VALUE;
    vg_cl_lock();
    struct vg_cl_mem_end *end = memory_get_end(memobj);
    cl_int result = end ? memory_watch(memobj) : CL_OUT_OF_HOST_MEMORY;
    vg_cl_unlock();
    if (result != CL_SUCCESS)
        return result;
    return vg_cl_destructor_add(&end->destructors, (void (*)(void))pfn_notify, user_data);
}

/* ---- creation ---- */

/* Memory that the vendor would place where the program can see it is in our memory instead: what
 * the program has mapped keeps its address when the vendor's object is created again. */
static bool
memory_takes_own(struct vg_cl_object *mem, void *first)
{
    if (!(mem->mem.flags & CL_MEM_ALLOC_HOST_PTR) || (mem->mem.flags & CL_MEM_USE_HOST_PTR) ||
        mem->mem.image || mem->mem.size == 0 ||
        ((mem->mem.flags & CL_MEM_COPY_HOST_PTR) != 0) != (first != NULL))
        return false;
    void *own =
        mmap(NULL, mem->mem.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        return false;
    if (!memory_get_end(mem)) {
        munmap(own, mem->mem.size);
        return false;
    }
    mem->mem.end->own = own;
    mem->mem.end->own_size = mem->mem.size;
    return true;
}

static void *
memory_make_buffer(struct vg_cl_object *mem, cl_mem_flags flags, void *first, cl_int *error)
{
    const cl_icd_dispatch *cl = mem->track->cl;
    void *context = mem->context->real;

    if (mem->mem.is_sub) {
        cl_buffer_region region = {mem->mem.origin, mem->mem.size};
        return cl->clCreateSubBuffer(mem->mem.parent->real, flags, CL_BUFFER_CREATE_TYPE_REGION,
                                     &region, error);
    }
    if (mem->mem.n_properties)
        return cl->clCreateBufferWithProperties(context, mem->mem.properties, flags, mem->mem.size,
                                                first, error);
    return cl->clCreateBuffer(context, flags, mem->mem.size, first, error);
}

static void *
memory_make_image(struct vg_cl_object *mem, cl_mem_flags flags, void *first, bool is_back,
                  cl_int *error)
{
    const cl_icd_dispatch *cl = mem->track->cl;
    const struct vg_cl_image *image = mem->mem.image;
    cl_image_desc desc = image->desc;

    desc.mem_object = vg_cl_real(mem->mem.parent);
    if (is_back && !first) {
        /* The pitches were those of the memory with which the program started. */
        desc.image_row_pitch = mem->mem.parent ? desc.image_row_pitch : 0;
        desc.image_slice_pitch = 0;
    }
    if (mem->mem.n_properties)
        return cl->clCreateImageWithProperties(mem->context->real, mem->mem.properties, flags,
                                               &image->format, &desc, first, error);
    return cl->clCreateImage(mem->context->real, flags, &image->format, &desc, first, error);
}

static const struct vg_cl_object *
memory_root(const struct vg_cl_object *mem)
{
    while (mem->mem.parent)
        mem = mem->mem.parent;
    return mem;
}

cl_int
vg_cl_mem_make(struct vg_cl_object *mem, void *first, bool is_back)
{
    cl_mem_flags flags = mem->mem.flags;
    struct vg_cl_mem_end *end = mem->mem.end;
    cl_int error = CL_SUCCESS;

    if (end)
        end->is_known = false;
    if (end && end->own) {
        flags = (flags & ~(cl_mem_flags)(CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR)) |
                CL_MEM_USE_HOST_PTR;
        if (first)
            memcpy(end->own, first, end->own_size);
        first = end->own;
    } else if (mem->mem.host_ptr) {
        first = mem->mem.host_ptr;
    } else if (is_back) {
        flags &= ~(cl_mem_flags)CL_MEM_COPY_HOST_PTR;
    }
    mem->real = mem->mem.image ? memory_make_image(mem, flags, first, is_back, &error)
                               : memory_make_buffer(mem, flags, first, &error);
    if (error == CL_SUCCESS && !is_back)
        memory_count(mem);
    if (error == CL_SUCCESS && is_back && vg_cl_mem_is_in_place(memory_root(mem)))
        mem->mem.is_written = false;
    return error == CL_SUCCESS ? memory_watch(mem) : error;
}

static struct vg_cl_object *
memory_new(struct vg_cl_object *context, const cl_mem_properties *properties, cl_mem_flags flags,
           void *host_ptr, cl_int *errcode_ret)
{
    if (!context)
        vg_cl_set_error(errcode_ret, CL_INVALID_CONTEXT);
    else if (properties && properties[0] != 0)
        vg_cl_set_error(errcode_ret, CL_INVALID_PROPERTY);
    struct vg_cl_object *mem =
        context && (!properties || properties[0] == 0)
            ? vg_cl_object_new(VG_CL_MEM, context->track, context, NULL, errcode_ret)
            : NULL;
    if (!mem)
        return NULL;
    mem->mem.flags = flags;
    mem->mem.properties = vg_cl_copy(properties, properties ? 1 : 0, sizeof *properties);
    mem->mem.n_properties = mem->mem.properties ? 1 : 0;
    if (flags & CL_MEM_USE_HOST_PTR)
        mem->mem.host_ptr = host_ptr;
    return mem;
}

struct vg_cl_object *
vg_cl_CreateBufferWithProperties(struct vg_cl_object *context, const cl_mem_properties *properties,
                                 cl_mem_flags flags, size_t size, void *host_ptr,
                                 cl_int *errcode_ret)
{
    struct vg_cl_object *mem = memory_new(context, properties, flags, host_ptr, errcode_ret);

    if (!mem)
        return NULL;
    mem->mem.kind = CL_MEM_OBJECT_BUFFER;
    mem->mem.size = size;
    memory_takes_own(mem, host_ptr);
    cl_int error = vg_cl_mem_make(mem, host_ptr, false);
    mem->mem.is_written = host_ptr && !vg_cl_mem_is_in_place(mem);
    return vg_cl_made(mem, error, errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateBuffer(struct vg_cl_object *context, cl_mem_flags flags, size_t size, void *host_ptr,
                   cl_int *errcode_ret)
{
    return vg_cl_CreateBufferWithProperties(context, NULL, flags, size, host_ptr, errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateSubBuffer(struct vg_cl_object *buffer, cl_mem_flags flags,
                      cl_buffer_create_type buffer_create_type, const void *buffer_create_info,
                      cl_int *errcode_ret)
{
    const cl_buffer_region *region = buffer_create_info;
    cl_int error = CL_SUCCESS;

    if (!buffer || buffer->mem.image || buffer->mem.is_sub)
        error = CL_INVALID_MEM_OBJECT;
    else if (buffer_create_type != CL_BUFFER_CREATE_TYPE_REGION || !region)
        error = CL_INVALID_VALUE;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *mem =
        error == CL_SUCCESS ? memory_new(buffer->context, NULL, flags, NULL, errcode_ret) : NULL;
    if (!mem)
        return NULL;
    mem->mem.kind = CL_MEM_OBJECT_BUFFER;
    mem->mem.is_sub = true;
    mem->mem.parent = vg_cl_use(buffer);
    mem->mem.origin = region->origin;
    mem->mem.size = region->size;
    return vg_cl_made(mem, vg_cl_mem_make(mem, NULL, false), errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateImageWithProperties(struct vg_cl_object *context, const cl_mem_properties *properties,
                                cl_mem_flags flags, const cl_image_format *image_format,
                                const cl_image_desc *image_desc, void *host_ptr,
                                cl_int *errcode_ret)
{
    cl_int error = CL_SUCCESS;

    if (context && !image_format)
        error = CL_INVALID_IMAGE_FORMAT_DESCRIPTOR;
    else if (context && (!image_desc ||
                         (image_desc->mem_object && !vg_cl_as(image_desc->mem_object, VG_CL_MEM))))
        error = CL_INVALID_IMAGE_DESCRIPTOR;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *mem =
        error == CL_SUCCESS ? memory_new(context, properties, flags, host_ptr, errcode_ret) : NULL;
    if (!mem)
        return NULL;
    mem->mem.image = calloc(1, sizeof *mem->mem.image);
    if (!mem->mem.image)
        return vg_cl_made(mem, CL_OUT_OF_HOST_MEMORY, errcode_ret);
    mem->mem.image->format = *image_format;
    mem->mem.image->desc = *image_desc;
    mem->mem.kind = image_desc->image_type;
    mem->mem.parent = vg_cl_use(vg_cl_as(image_desc->mem_object, VG_CL_MEM));
    error = vg_cl_mem_make(mem, host_ptr, false);
    mem->mem.is_written = host_ptr && !vg_cl_mem_is_in_place(mem);
    return vg_cl_made(mem, error, errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateImage(struct vg_cl_object *context, cl_mem_flags flags,
                  const cl_image_format *image_format, const cl_image_desc *image_desc,
                  void *host_ptr, cl_int *errcode_ret)
{
    return vg_cl_CreateImageWithProperties(context, NULL, flags, image_format, image_desc, host_ptr,
                                           errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateImage2D(struct vg_cl_object *context, cl_mem_flags flags,
                    const cl_image_format *image_format, size_t image_width, size_t image_height,
                    size_t image_row_pitch, void *host_ptr, cl_int *errcode_ret)
{
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE2D,
                          .image_width = image_width,
                          .image_height = image_height,
                          .image_row_pitch = image_row_pitch};

    return vg_cl_CreateImage(context, flags, image_format, &desc, host_ptr, errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateImage3D(struct vg_cl_object *context, cl_mem_flags flags,
                    const cl_image_format *image_format, size_t image_width, size_t image_height,
                    size_t image_depth, size_t image_row_pitch, size_t image_slice_pitch,
                    void *host_ptr, cl_int *errcode_ret)
{
    cl_image_desc desc = {.image_type = CL_MEM_OBJECT_IMAGE3D,
                          .image_width = image_width,
                          .image_height = image_height,
                          .image_depth = image_depth,
                          .image_row_pitch = image_row_pitch,
                          .image_slice_pitch = image_slice_pitch};

    return vg_cl_CreateImage(context, flags, image_format, &desc, host_ptr, errcode_ret);
}

/* ---- commands with lists of memory ---- */

/* Returns the vendor's handles of N objects of LIST, or NULL with *ERROR. The caller frees them. */
static cl_mem *
memory_reals(cl_uint n, struct vg_cl_object *const *list, cl_int *error)
{
    cl_mem *reals = calloc(n && list ? n : 1, sizeof *reals);

    *error = reals ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; reals && list && i < n; i++) {
        struct vg_cl_object *mem = vg_cl_as(list[i], VG_CL_MEM);
        if (!mem)
            *error = CL_INVALID_MEM_OBJECT;
        else
            reals[i] = mem->real;
    }
    return reals;
}

cl_int
vg_cl_EnqueueMigrateMemObjects(struct vg_cl_object *command_queue, cl_uint num_mem_objects,
                               struct vg_cl_object *const *mem_objects,
                               cl_mem_migration_flags flags, cl_uint num_events_in_wait_list,
                               struct vg_cl_object *const *event_wait_list,
                               struct vg_cl_object **event)
{
    struct vg_cl_enqueue e;
    cl_int error;
    cl_mem *reals = memory_reals(num_mem_objects, mem_objects, &error);
    cl_int result =
        vg_cl_enqueue_begin(&e, command_queue, num_events_in_wait_list, event_wait_list, event);

    if (result == CL_SUCCESS)
        result = error;
    if (result == CL_SUCCESS)
        result = e.cl->clEnqueueMigrateMemObjects(
            e.queue, num_mem_objects, mem_objects ? reals : NULL, flags, e.n, e.list, e.event);
    free(reals);
    return vg_cl_enqueue_end(&e, result, CL_COMMAND_MIGRATE_MEM_OBJECTS, event);
}

cl_int
vg_cl_EnqueueNativeKernel(struct vg_cl_object *command_queue, vg_cl_native_kernel user_func,
                          void *args, size_t cb_args, cl_uint num_mem_objects,
                          struct vg_cl_object *const *mem_list, const void **args_mem_loc,
                          cl_uint num_events_in_wait_list,
                          struct vg_cl_object *const *event_wait_list, struct vg_cl_object **event)
{
    struct vg_cl_enqueue e;
    cl_int error;
    cl_mem *reals = memory_reals(num_mem_objects, mem_list, &error);
    cl_int result =
        vg_cl_enqueue_begin(&e, command_queue, num_events_in_wait_list, event_wait_list, event);

    if (result == CL_SUCCESS)
        result = error;
    if (result == CL_SUCCESS)
        result = e.cl->clEnqueueNativeKernel(e.queue, user_func, args, cb_args, num_mem_objects,
                                             mem_list ? reals : NULL, args_mem_loc, e.n, e.list,
                                             e.event);
    for (cl_uint i = 0; result == CL_SUCCESS && i < num_mem_objects; i++)
        vg_cl_written(mem_list[i]);
    free(reals);
    return vg_cl_enqueue_end(&e, result, CL_COMMAND_NATIVE_KERNEL, event);
}
