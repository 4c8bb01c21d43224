/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor's commands.
 */
#include "config.h"

#include "tests/fuzz/opencl-vendor-private.h"

static bool
command_is_inside(const struct fake_object *mem, size_t offset, size_t size)
{
    return mem && !mem->element && size > 0 && offset <= mem->size && size <= mem->size - offset;
}

static cl_int CL_API_CALL
fake_clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset,
                         size_t size, void *to, cl_uint n, const cl_event *list, cl_event *event)
{
    struct fake_object *mem = fake_as(buffer, VG_CL_MEM);

    if (!command_is_inside(mem, offset, size) || !to)
        return CL_INVALID_VALUE;
    struct fake_rows copy = {to, mem->bytes + offset, size, 1, 1, 0, 0, 0, 0};
    return fake_add(queue, mem, FAKE_READ, &copy, is_blocking, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking, size_t offset,
                          size_t size, const void *from, cl_uint n, const cl_event *list,
                          cl_event *event)
{
    struct fake_object *mem = fake_as(buffer, VG_CL_MEM);

    if (!command_is_inside(mem, offset, size) || !from)
        return CL_INVALID_VALUE;
    struct fake_rows copy = {
        (unsigned char *)(uintptr_t)from, mem->bytes + offset, size, 1, 1, 0, 0, 0, 0};
    return fake_add(queue, mem, FAKE_WRITE, &copy, is_blocking, n, list, event);
}

/* The rows of a part that begins at ORIGIN, which are to lie in SIZE bytes; false: they do not. */
static bool
command_part(size_t size, const size_t *origin, const size_t *region, size_t *row, size_t *slice,
             size_t *at)
{
    for (int i = 0; i < 3; i++)
        if (region[i] == 0 || region[i] > FAKE_MEM_MAX || origin[i] > FAKE_MEM_MAX)
            return false;
    *row = *row ? *row : region[0];
    if (*row < region[0] || *row > FAKE_MEM_MAX)
        return false;
    *slice = *slice ? *slice : *row * region[1];
    if (*slice < *row * region[1] || *slice > (UINT64_C(1) << 40) || *slice % *row)
        return false;
    *at = origin[2] * *slice + origin[1] * *row + origin[0];
    return *at + (region[2] - 1) * *slice + (region[1] - 1) * *row + region[0] <= size;
}

static cl_int
command_rect(cl_command_queue queue, cl_mem buffer, enum fake_kind kind, cl_bool is_blocking,
             const size_t *origin, const size_t *host_origin, const size_t *region, size_t row,
             size_t slice, size_t host_row, size_t host_slice, unsigned char *host, cl_uint n,
             const cl_event *list, cl_event *event)
{
    struct fake_object *mem = fake_as(buffer, VG_CL_MEM);
    size_t at, host_at;

    fake_read(origin, 3 * sizeof *origin);
    fake_read(host_origin, 3 * sizeof *host_origin);
    fake_read(region, 3 * sizeof *region);
    if (!mem || mem->element || !host ||
        !command_part(mem->size, origin, region, &row, &slice, &at) ||
        !command_part(SIZE_MAX, host_origin, region, &host_row, &host_slice, &host_at))
        return CL_INVALID_VALUE;
    struct fake_rows copy = {host + host_at, mem->bytes + at, region[0], region[1], region[2],
                             host_row,       host_slice,      row,       slice};
    return fake_add(queue, mem, kind, &copy, is_blocking, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueReadBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking,
                             const size_t *origin, const size_t *host_origin, const size_t *region,
                             size_t row, size_t slice, size_t host_row, size_t host_slice, void *to,
                             cl_uint n, const cl_event *list, cl_event *event)
{
    return command_rect(queue, buffer, FAKE_READ, is_blocking, origin, host_origin, region, row,
                        slice, host_row, host_slice, to, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking,
                              const size_t *origin, const size_t *host_origin, const size_t *region,
                              size_t row, size_t slice, size_t host_row, size_t host_slice,
                              const void *from, cl_uint n, const cl_event *list, cl_event *event)
{
    return command_rect(queue, buffer, FAKE_WRITE, is_blocking, origin, host_origin, region, row,
                        slice, host_row, host_slice, (unsigned char *)(uintptr_t)from, n, list,
                        event);
}

/* Where a part of an image lies in its memory; false: it is none. */
static bool
command_image(const struct fake_object *mem, const size_t *origin, const size_t *region,
              struct fake_rows *copy)
{
    fake_read(origin, 3 * sizeof *origin);
    fake_read(region, 3 * sizeof *region);
    if (!mem || !mem->element)
        return false;
    const size_t most[3] = {mem->width, mem->height, mem->depth};
    for (int i = 0; i < 3; i++)
        if (region[i] == 0 || origin[i] > most[i] || region[i] > most[i] - origin[i])
            return false;
    copy->row = region[0] * mem->element;
    copy->rows = region[1];
    copy->slices = region[2];
    copy->mem_row = mem->width * mem->element;
    copy->mem_slice = copy->mem_row * mem->height;
    copy->mem = mem->bytes + origin[2] * copy->mem_slice + origin[1] * copy->mem_row +
                origin[0] * mem->element;
    return true;
}

static cl_int
command_image_copy(cl_command_queue queue, cl_mem image, enum fake_kind kind, cl_bool is_blocking,
                   const size_t *origin, const size_t *region, size_t row, size_t slice,
                   unsigned char *host, cl_uint n, const cl_event *list, cl_event *event)
{
    struct fake_object *mem = fake_as(image, VG_CL_MEM);
    struct fake_rows copy = {.host = host};

    if (!command_image(mem, origin, region, &copy) || !host || (row && row < copy.row))
        return CL_INVALID_VALUE;
    copy.host_row = row ? row : copy.row;
    copy.host_slice = slice ? slice : copy.host_row * copy.rows;
    return fake_add(queue, mem, kind, &copy, is_blocking, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueReadImage(cl_command_queue queue, cl_mem image, cl_bool is_blocking,
                        const size_t *origin, const size_t *region, size_t row, size_t slice,
                        void *to, cl_uint n, const cl_event *list, cl_event *event)
{
    return command_image_copy(queue, image, FAKE_READ, is_blocking, origin, region, row, slice, to,
                              n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool is_blocking,
                         const size_t *origin, const size_t *region, size_t row, size_t slice,
                         const void *from, cl_uint n, const cl_event *list, cl_event *event)
{
    return command_image_copy(queue, image, FAKE_WRITE, is_blocking, origin, region, row, slice,
                              (unsigned char *)(uintptr_t)from, n, list, event);
}

/* ---- mapping ---- */

static void *
command_map(cl_command_queue queue, struct fake_object *mem, unsigned char *at, cl_bool is_blocking,
            cl_uint n, const cl_event *list, cl_event *event, cl_int *error)
{
    cl_int result = fake_add(queue, mem, FAKE_NOTHING, NULL, is_blocking, n, list, event);

    vg_cl_set_error(error, result);
    return result == CL_SUCCESS ? at : NULL;
}

static void *CL_API_CALL
fake_clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool is_blocking,
                        cl_map_flags flags, size_t offset, size_t size, cl_uint n,
                        const cl_event *list, cl_event *event, cl_int *error)
{
    struct fake_object *mem = fake_as(buffer, VG_CL_MEM);

    (void)flags;
    if (!command_is_inside(mem, offset, size)) {
        vg_cl_set_error(error, CL_INVALID_VALUE);
        return NULL;
    }
    return command_map(queue, mem, mem->bytes + offset, is_blocking, n, list, event, error);
}

static void *CL_API_CALL
fake_clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_bool is_blocking,
                       cl_map_flags flags, const size_t *origin, const size_t *region, size_t *row,
                       size_t *slice, cl_uint n, const cl_event *list, cl_event *event,
                       cl_int *error)
{
    struct fake_object *mem = fake_as(image, VG_CL_MEM);
    struct fake_rows copy;

    (void)flags;
    if (!row || !command_image(mem, origin, region, &copy)) {
        vg_cl_set_error(error, CL_INVALID_VALUE);
        return NULL;
    }
    *row = copy.mem_row;
    if (slice)
        *slice = mem->kind == CL_MEM_OBJECT_IMAGE1D_ARRAY ? copy.mem_row : copy.mem_slice;
    return command_map(queue, mem, copy.mem, is_blocking, n, list, event, error);
}

static cl_int CL_API_CALL
fake_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem handle, void *at, cl_uint n,
                             const cl_event *list, cl_event *event)
{
    struct fake_object *mem = fake_as(handle, VG_CL_MEM);
    const unsigned char *byte = at;

    if (!mem || byte < mem->bytes || byte >= mem->bytes + mem->size)
        return CL_INVALID_VALUE;
    return fake_add(queue, mem, FAKE_NOTHING, NULL, false, n, list, event);
}

/* ---- commands that touch no memory of the program's ---- */

static cl_int CL_API_CALL
fake_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                         size_t to_offset, size_t size, cl_uint n, const cl_event *list,
                         cl_event *event)
{
    struct fake_object *source = fake_as(from, VG_CL_MEM), *target = fake_as(to, VG_CL_MEM);

    if (!command_is_inside(source, from_offset, size) ||
        !command_is_inside(target, to_offset, size))
        return CL_INVALID_VALUE;
    return fake_add(queue, target, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem from, cl_mem to,
                             const size_t *from_origin, const size_t *to_origin,
                             const size_t *region, size_t from_row, size_t from_slice,
                             size_t to_row, size_t to_slice, cl_uint n, const cl_event *list,
                             cl_event *event)
{
    struct fake_object *source = fake_as(from, VG_CL_MEM), *target = fake_as(to, VG_CL_MEM);
    size_t at;

    if (!from_origin || !to_origin || !region)
        return CL_INVALID_VALUE;
    fake_read(from_origin, 3 * sizeof *from_origin);
    fake_read(to_origin, 3 * sizeof *to_origin);
    fake_read(region, 3 * sizeof *region);
    if (!source || !target ||
        !command_part(source->size, from_origin, region, &from_row, &from_slice, &at) ||
        !command_part(target->size, to_origin, region, &to_row, &to_slice, &at))
        return CL_INVALID_VALUE;
    return fake_add(queue, target, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueCopyImage(cl_command_queue queue, cl_mem from, cl_mem to, const size_t *from_origin,
                        const size_t *to_origin, const size_t *region, cl_uint n,
                        const cl_event *list, cl_event *event)
{
    struct fake_object *target = fake_as(to, VG_CL_MEM);
    struct fake_rows copy;

    if (!from_origin || !to_origin || !region ||
        !command_image(fake_as(from, VG_CL_MEM), from_origin, region, &copy) ||
        !command_image(target, to_origin, region, &copy))
        return CL_INVALID_VALUE;
    return fake_add(queue, target, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem image, cl_mem buffer,
                                const size_t *origin, const size_t *region, size_t offset,
                                cl_uint n, const cl_event *list, cl_event *event)
{
    struct fake_object *target = fake_as(buffer, VG_CL_MEM);
    struct fake_rows copy;

    if (!origin || !region || !command_image(fake_as(image, VG_CL_MEM), origin, region, &copy) ||
        !command_is_inside(target, offset, copy.row * copy.rows * copy.slices))
        return CL_INVALID_VALUE;
    return fake_add(queue, target, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem buffer, cl_mem image, size_t offset,
                                const size_t *origin, const size_t *region, cl_uint n,
                                const cl_event *list, cl_event *event)
{
    return fake_clEnqueueCopyImageToBuffer(queue, image, buffer, origin, region, offset, n, list,
                                           event);
}

static cl_int CL_API_CALL
fake_clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer, const void *pattern,
                         size_t pattern_size, size_t offset, size_t size, cl_uint n,
                         const cl_event *list, cl_event *event)
{
    struct fake_object *mem = fake_as(buffer, VG_CL_MEM);

    if (!pattern || pattern_size == 0 || pattern_size > 128 || (pattern_size & (pattern_size - 1)))
        return CL_INVALID_VALUE;
    fake_read(pattern, pattern_size);
    if (!command_is_inside(mem, offset, size))
        return CL_INVALID_VALUE;
    return fake_add(queue, mem, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void *color,
                        const size_t *origin, const size_t *region, cl_uint n, const cl_event *list,
                        cl_event *event)
{
    struct fake_object *mem = fake_as(image, VG_CL_MEM);
    struct fake_rows copy;

    if (!color || !origin || !region)
        return CL_INVALID_VALUE;
    fake_read(color, 16);
    if (!command_image(mem, origin, region, &copy))
        return CL_INVALID_VALUE;
    return fake_add(queue, mem, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                            const size_t *offset, const size_t *global, const size_t *local,
                            cl_uint n, const cl_event *list, cl_event *event)
{
    if (!fake_as(kernel, VG_CL_KERNEL))
        return CL_INVALID_KERNEL;
    if (dimensions < 1 || dimensions > 3)
        return CL_INVALID_WORK_DIMENSION;
    fake_read(offset, offset ? dimensions * sizeof *offset : 0);
    fake_read(global, global ? dimensions * sizeof *global : 0);
    fake_read(local, local ? dimensions * sizeof *local : 0);
    return fake_add(queue, NULL, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint n, const cl_event *list,
                   cl_event *event)
{
    return fake_as(kernel, VG_CL_KERNEL)
               ? fake_add(queue, NULL, FAKE_NOTHING, NULL, false, n, list, event)
               : CL_INVALID_KERNEL;
}

static cl_int CL_API_CALL
fake_clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint n_mems, const cl_mem *mems,
                                cl_mem_migration_flags flags, cl_uint n, const cl_event *list,
                                cl_event *event)
{
    (void)flags;
    if (n_mems == 0 || !mems || !fake_are((const void *const *)mems, n_mems, VG_CL_MEM))
        return CL_INVALID_VALUE;
    return fake_add(queue, NULL, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n, const cl_event *list,
                                 cl_event *event)
{
    return fake_add(queue, NULL, FAKE_NOTHING, NULL, false, n, list, event);
}

static cl_int CL_API_CALL
fake_clEnqueueBarrier(cl_command_queue queue)
{
    return fake_add(queue, NULL, FAKE_NOTHING, NULL, false, 0, NULL, NULL);
}

void
fake_add_commands(cl_icd_dispatch *table)
{
    table->clEnqueueReadBuffer = fake_clEnqueueReadBuffer;
    table->clEnqueueWriteBuffer = fake_clEnqueueWriteBuffer;
    table->clEnqueueReadBufferRect = fake_clEnqueueReadBufferRect;
    table->clEnqueueWriteBufferRect = fake_clEnqueueWriteBufferRect;
    table->clEnqueueReadImage = fake_clEnqueueReadImage;
    table->clEnqueueWriteImage = fake_clEnqueueWriteImage;
    table->clEnqueueMapBuffer = fake_clEnqueueMapBuffer;
    table->clEnqueueMapImage = fake_clEnqueueMapImage;
    table->clEnqueueUnmapMemObject = fake_clEnqueueUnmapMemObject;
    table->clEnqueueCopyBuffer = fake_clEnqueueCopyBuffer;
    table->clEnqueueCopyBufferRect = fake_clEnqueueCopyBufferRect;
    table->clEnqueueCopyImage = fake_clEnqueueCopyImage;
    table->clEnqueueCopyImageToBuffer = fake_clEnqueueCopyImageToBuffer;
    table->clEnqueueCopyBufferToImage = fake_clEnqueueCopyBufferToImage;
    table->clEnqueueFillBuffer = fake_clEnqueueFillBuffer;
    table->clEnqueueFillImage = fake_clEnqueueFillImage;
    table->clEnqueueNDRangeKernel = fake_clEnqueueNDRangeKernel;
    table->clEnqueueTask = fake_clEnqueueTask;
    table->clEnqueueMigrateMemObjects = fake_clEnqueueMigrateMemObjects;
    table->clEnqueueMarkerWithWaitList = fake_clEnqueueMarkerWithWaitList;
    table->clEnqueueBarrierWithWaitList = fake_clEnqueueMarkerWithWaitList;
    table->clEnqueueBarrier = fake_clEnqueueBarrier;
}
