/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendor's memory objects.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/opencl-vendor-private.h"

static cl_mem
memory_refuse(cl_int why, cl_int *error)
{
    vg_cl_set_error(error, why);
    return NULL;
}

/* An object of SIZE bytes that begins with what is at HOST. */
static struct fake_object *
memory_make(struct fake_object *context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    const cl_mem_flags needs = CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR;

    if (!context)
        return (void *)memory_refuse(CL_INVALID_CONTEXT, error);
    if ((flags & CL_MEM_USE_HOST_PTR) && (flags & (CL_MEM_COPY_HOST_PTR | CL_MEM_ALLOC_HOST_PTR)))
        return (void *)memory_refuse(CL_INVALID_VALUE, error);
    if (size == 0 || size > FAKE_MEM_MAX)
        return (void *)memory_refuse(CL_INVALID_BUFFER_SIZE, error);
    if (!(flags & needs) != !host)
        return (void *)memory_refuse(CL_INVALID_HOST_PTR, error);
    struct fake_object *mem = fake_new(VG_CL_MEM, context, error);
    if (!mem)
        return NULL;
    mem->kind = CL_MEM_OBJECT_BUFFER;
    mem->flags = flags;
    mem->size = size;
    mem->is_own = !(flags & CL_MEM_USE_HOST_PTR);
    mem->bytes = mem->is_own ? calloc(1, size) : host;
    if (!mem->bytes)
        fake_die("there is no memory for this test");
    fake_read(host, host ? size : 0);
    if (host && mem->is_own)
        memcpy(mem->bytes, host, size);
    return mem;
}

static cl_mem CL_API_CALL
fake_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    return (cl_mem)memory_make(fake_as(context, VG_CL_CONTEXT), flags, size, host, error);
}

static cl_mem CL_API_CALL
fake_clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties,
                                  cl_mem_flags flags, size_t size, void *host, cl_int *error)
{
    fake_read(properties, properties ? sizeof *properties : 0);
    return fake_clCreateBuffer(context, flags, size, host, error);
}

static cl_mem CL_API_CALL
fake_clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                       const void *info, cl_int *error)
{
    struct fake_object *whole = fake_as(buffer, VG_CL_MEM);
    const cl_buffer_region *region = info;

    if (!whole || whole->kind != CL_MEM_OBJECT_BUFFER)
        return memory_refuse(CL_INVALID_MEM_OBJECT, error);
    if (type != CL_BUFFER_CREATE_TYPE_REGION || region->size == 0 || region->origin > whole->size ||
        region->size > whole->size - region->origin)
        return memory_refuse(CL_INVALID_VALUE, error);
    struct fake_object *part = fake_new(VG_CL_MEM, whole, error);
    if (!part)
        return NULL;
    part->kind = CL_MEM_OBJECT_BUFFER;
    part->flags = flags;
    part->size = region->size;
    part->bytes = whole->bytes + region->origin;
    return (cl_mem)part;
}

/* Returns 0 of a format that it does not have. */
static size_t
memory_element(const cl_image_format *format)
{
    bool is_four = format->image_channel_order == CL_RGBA;

    if (!is_four && format->image_channel_order != CL_R)
        return 0;
    return format->image_channel_data_type == CL_UNSIGNED_INT8 ? (is_four ? 4 : 1)
           : format->image_channel_data_type == CL_FLOAT       ? (is_four ? 16 : 4)
                                                               : 0;
}

/* How many elements an image has in each direction; false: it cannot be. */
static bool
memory_extent(const cl_image_desc *desc, size_t extent[3])
{
    cl_mem_object_type type = desc->image_type;
    bool is_flat = type == CL_MEM_OBJECT_IMAGE1D || type == CL_MEM_OBJECT_IMAGE1D_BUFFER;

    extent[0] = desc->image_width;
    extent[1] = is_flat                               ? 1
                : type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? desc->image_array_size
                                                      : desc->image_height;
    extent[2] = type == CL_MEM_OBJECT_IMAGE3D         ? desc->image_depth
                : type == CL_MEM_OBJECT_IMAGE2D_ARRAY ? desc->image_array_size
                                                      : 1;
    if (type < CL_MEM_OBJECT_IMAGE2D || type > CL_MEM_OBJECT_IMAGE1D_BUFFER)
        return false;
    for (int i = 0; i < 3; i++)
        if (extent[i] == 0 || extent[i] > 4096)
            return false;
    return true;
}

static cl_mem CL_API_CALL
fake_clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                   const cl_image_desc *desc, void *host, cl_int *error)
{
    size_t extent[3];

    fake_read(format, sizeof *format);
    fake_read(desc, sizeof *desc);
    size_t element = memory_element(format);
    if (!element)
        return memory_refuse(CL_IMAGE_FORMAT_NOT_SUPPORTED, error);
    if (!memory_extent(desc, extent) ||
        (desc->mem_object && !fake_as(desc->mem_object, VG_CL_MEM)) ||
        (host && (desc->image_row_pitch || desc->image_slice_pitch)))
        return memory_refuse(CL_INVALID_IMAGE_DESCRIPTOR, error);
    size_t size = extent[0] * extent[1] * extent[2] * element;
    struct fake_object *image =
        memory_make(fake_as(context, VG_CL_CONTEXT), flags, size, host, error);
    if (!image)
        return NULL;
    image->kind = desc->image_type;
    image->format = *format;
    image->element = element;
    image->width = extent[0];
    image->height = extent[1];
    image->depth = extent[2];
    return (cl_mem)image;
}

static cl_mem CL_API_CALL
fake_clCreateImageWithProperties(cl_context context, const cl_mem_properties *properties,
                                 cl_mem_flags flags, const cl_image_format *format,
                                 const cl_image_desc *desc, void *host, cl_int *error)
{
    fake_read(properties, properties ? sizeof *properties : 0);
    return fake_clCreateImage(context, flags, format, desc, host, error);
}

static cl_int CL_API_CALL
fake_clGetSupportedImageFormats(cl_context context, cl_mem_flags flags, cl_mem_object_type type,
                                cl_uint n, cl_image_format *formats, cl_uint *n_ret)
{
    (void)flags;
    (void)type;
    if (!fake_as(context, VG_CL_CONTEXT))
        return CL_INVALID_CONTEXT;
    if (formats && n == 0)
        return CL_INVALID_VALUE;
    if (formats)
        fake_write(formats, n * sizeof *formats);
    if (n_ret)
        *n_ret = 3;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetMemObjectInfo(cl_mem handle, cl_mem_info param, size_t size, void *value,
                        size_t *size_ret)
{
    const struct fake_object *mem = fake_as(handle, VG_CL_MEM);
    const cl_ulong none = 0;

    if (!mem)
        return CL_INVALID_MEM_OBJECT;
    if (param == CL_MEM_TYPE)
        return fake_give(&mem->kind, sizeof mem->kind, size, value, size_ret);
    if (param == CL_MEM_SIZE)
        return fake_give(&mem->size, sizeof mem->size, size, value, size_ret);
    return fake_give(&none, sizeof none, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clGetImageInfo(cl_mem handle, cl_image_info param, size_t size, void *value, size_t *size_ret)
{
    const struct fake_object *mem = fake_as(handle, VG_CL_MEM);
    const size_t none = 0;

    if (!mem || !mem->element)
        return CL_INVALID_MEM_OBJECT;
    if (param == CL_IMAGE_ELEMENT_SIZE)
        return fake_give(&mem->element, sizeof mem->element, size, value, size_ret);
    return fake_give(&none, sizeof none, size, value, size_ret);
}

static cl_int CL_API_CALL
fake_clSetMemObjectDestructorCallback(cl_mem handle, vg_cl_mem_notify call, void *data)
{
    struct fake_object *mem = fake_as(handle, VG_CL_MEM);
    struct fake_destructor *destructor = mem && call ? malloc(sizeof *destructor) : NULL;

    if (!destructor)
        return CL_INVALID_VALUE;
    *destructor = (struct fake_destructor){mem->destructors, call, data};
    mem->destructors = destructor;
    return CL_SUCCESS;
}

void
fake_add_memory(cl_icd_dispatch *table)
{
    table->clCreateBuffer = fake_clCreateBuffer;
    table->clCreateBufferWithProperties = fake_clCreateBufferWithProperties;
    table->clCreateSubBuffer = fake_clCreateSubBuffer;
    table->clCreateImage = fake_clCreateImage;
    table->clCreateImageWithProperties = fake_clCreateImageWithProperties;
    table->clGetSupportedImageFormats = fake_clGetSupportedImageFormats;
    table->clGetMemObjectInfo = fake_clGetMemObjectInfo;
    table->clGetImageInfo = fake_clGetImageInfo;
    table->clSetMemObjectDestructorCallback = fake_clSetMemObjectDestructorCallback;
}
