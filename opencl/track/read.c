/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/read.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/memory.h"

#define CHUNK ((size_t)256 << 20) /* bytes that are read between two checks of the clock */
#define PART  ((size_t)16 << 20)  /* bytes that are copied into the program's memory at a time */

static size_t
read_element(const struct vg_cl_object *image)
{
    size_t size = 0;

    image->track->cl->clGetImageInfo(image->real, CL_IMAGE_ELEMENT_SIZE, sizeof size, &size, NULL);
    return size;
}

static void
read_region(const cl_image_desc *desc, size_t region[3])
{
    region[0] = desc->image_width;
    region[1] = region[2] = 1;
    switch (desc->image_type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        region[1] = desc->image_array_size;
        break;
    case CL_MEM_OBJECT_IMAGE2D:
        region[1] = desc->image_height;
        break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        region[1] = desc->image_height;
        region[2] = desc->image_array_size;
        break;
    case CL_MEM_OBJECT_IMAGE3D:
        region[1] = desc->image_height;
        region[2] = desc->image_depth;
        break;
    default:
        break;
    }
}

size_t
vg_cl_content_size(const struct vg_cl_object *mem, size_t region[3])
{
    if (mem->mem.parent || !mem->mem.is_written || vg_cl_mem_is_in_place(mem))
        return 0;
    if (!mem->mem.image)
        return mem->mem.size;
    read_region(&mem->mem.image->desc, region);
    return region[0] * region[1] * region[2] * read_element(mem);
}

bool
vg_cl_copier_get(struct vg_cl_copier *copier, const struct vg_cl_object *mem)
{
    cl_int error = CL_SUCCESS;

    if (copier->context == mem->context)
        return true;
    if (copier->queue)
        copier->cl->clReleaseCommandQueue(copier->queue);
    copier->cl = mem->track->cl;
    copier->context = mem->context;
    copier->queue = copier->cl->clCreateCommandQueue(mem->context->real,
                                                     mem->context->ctx.devices[0]->real, 0, &error);
    return error == CL_SUCCESS && copier->queue;
}

/* Copies memory that the host may not read to a buffer that it may read. */
static cl_int
read_closed(const struct vg_cl_copier *copier, const struct vg_cl_object *mem, const size_t *region,
            size_t offset, size_t size, unsigned char *to)
{
    const size_t zero[3] = {0, 0, 0};
    cl_int error;
    cl_mem copy =
        copier->cl->clCreateBuffer(mem->context->real, CL_MEM_READ_WRITE, size, NULL, &error);

    if (error != CL_SUCCESS)
        return error;
    error = mem->mem.image ? copier->cl->clEnqueueCopyImageToBuffer(copier->queue, mem->real, copy,
                                                                    zero, region, 0, 0, NULL, NULL)
                           : copier->cl->clEnqueueCopyBuffer(copier->queue, mem->real, copy, offset,
                                                             0, size, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = copier->cl->clEnqueueReadBuffer(copier->queue, copy, CL_TRUE, 0, size, to, 0, NULL,
                                                NULL);
    copier->cl->clReleaseMemObject(copy);
    return error;
}

static cl_int
read_part(const struct vg_cl_copier *copier, const struct vg_cl_object *mem, const size_t *region,
          size_t offset, size_t size, unsigned char *to)
{
    const size_t zero[3] = {0, 0, 0};

    if (mem->mem.flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS))
        return read_closed(copier, mem, region, offset, size, to);
    if (mem->mem.image)
        return copier->cl->clEnqueueReadImage(copier->queue, mem->real, CL_TRUE, zero, region, 0, 0,
                                              to, 0, NULL, NULL);
    return copier->cl->clEnqueueReadBuffer(copier->queue, mem->real, CL_TRUE, offset, size, to, 0,
                                           NULL, NULL);
}

bool
vg_cl_read_content(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                   const struct vg_cl_object *mem, const size_t *region, size_t size,
                   unsigned char *to)
{
    size_t chunk = mem->mem.image ? size : CHUNK;

    for (size_t at = 0; at < size; at += chunk) {
        if (vg_cl_is_over(s))
            return false;
        size_t n = size - at < chunk ? size - at : chunk;
        cl_int error = read_part(copier, mem, region, at, n, to + at);
        if (error != CL_SUCCESS)
            return vg_cl_fail(s, "reading memory of %zu bytes failed: OpenCL error %d", size,
                              error);
        s->n_bytes += n;
    }
    return true;
}

/* ---- memory that lies with the program ---- */

/* Returns the end of the first part of ROOT, from *AT on, that the program has not mapped for
 * writing, and sets *AT to its start. The program may write to the other parts at any time: only
 * its calls are stopped. */
static size_t
read_next_part(const struct vg_cl_object *root, size_t *at)
{
    size_t end = root->mem.size;
    bool moved = false;

    for (const struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != VG_CL_MEM || (o != root && o->mem.parent != root) || o->mem.image)
            continue;
        for (const struct vg_cl_map *map = o->mem.maps; map; map = map->next) {
            size_t from = o->mem.origin + map->origin[0];
            if (map->is_shadow || !(map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)))
                continue;
            if (from <= *at && *at < from + map->size) {
                *at = from + map->size;
                moved = true;
            } else if (from > *at && from < end) {
                end = from;
            }
        }
    }
    return moved ? read_next_part(root, at) : end;
}

/* Copies the device's contents to those parts of the object's memory that are not mapped for
 * writing. */
static cl_int
read_sync_parts(const struct vg_cl_copier *copier, const struct vg_cl_object *mem)
{
    char *base = mem->mem.host_ptr ? mem->mem.host_ptr : mem->mem.end->own;
    unsigned char *copy = malloc(PART);
    cl_int error = copy ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;

    for (size_t at = 0; error == CL_SUCCESS;) {
        size_t end = read_next_part(mem, &at);
        if (at >= mem->mem.size)
            break;
        size_t n = end - at < PART ? end - at : PART;
        error = read_part(copier, mem, NULL, at, n, copy);
        if (error == CL_SUCCESS)
            memcpy(base + at, copy, n);
        at += n;
    }
    free(copy);
    return error;
}

/* Mapping and unmapping updates the memory that the object uses from the device. */
static cl_int
read_sync_whole(const struct vg_cl_copier *copier, const struct vg_cl_object *mem)
{
    const size_t zero[3] = {0, 0, 0};
    size_t region[3], row, slice;
    cl_int error;
    void *pointer;

    if (mem->mem.image) {
        read_region(&mem->mem.image->desc, region);
        pointer = copier->cl->clEnqueueMapImage(copier->queue, mem->real, CL_TRUE, CL_MAP_READ,
                                                zero, region, &row, &slice, 0, NULL, NULL, &error);
    } else {
        pointer = copier->cl->clEnqueueMapBuffer(copier->queue, mem->real, CL_TRUE, CL_MAP_READ, 0,
                                                 mem->mem.size, 0, NULL, NULL, &error);
    }
    if (error == CL_SUCCESS)
        error =
            copier->cl->clEnqueueUnmapMemObject(copier->queue, mem->real, pointer, 0, NULL, NULL);
    return error == CL_SUCCESS ? copier->cl->clFinish(copier->queue) : error;
}

bool
vg_cl_read_back(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                const struct vg_cl_object *mem)
{
    size_t at = 0, region[3];
    bool is_whole = mem->mem.image || (read_next_part(mem, &at) == mem->mem.size && at == 0);
    cl_int error = is_whole ? read_sync_whole(copier, mem) : read_sync_parts(copier, mem);

    if (error == CL_SUCCESS && mem->mem.image) {
        read_region(&mem->mem.image->desc, region);
        s->n_bytes += region[0] * region[1] * region[2] * read_element(mem);
    } else if (error == CL_SUCCESS) {
        s->n_bytes += mem->mem.size;
    }
    return error == CL_SUCCESS ||
           vg_cl_fail(s, "reading back the program's own memory failed: OpenCL error %d", error);
}
