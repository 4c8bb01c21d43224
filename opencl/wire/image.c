/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/image.h"

static size_t
image_channels(cl_channel_order order)
{
    switch (order) {
    case CL_R:
    case CL_A:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case CL_DEPTH:
    case CL_Rx:
        return 1;
    case CL_RG:
    case CL_RA:
    case CL_RGx:
        return 2;
    case CL_RGB:
    case CL_RGBx:
    case CL_sRGB:
        return 3;
    case CL_RGBA:
    case CL_BGRA:
    case CL_ARGB:
    case CL_ABGR:
    case CL_sRGBx:
    case CL_sRGBA:
    case CL_sBGRA:
        return 4;
    default:
        return 0;
    }
}

size_t
vg_wire_image_element(const cl_image_format *format)
{
    size_t channels = image_channels(format->image_channel_order);

    switch (format->image_channel_data_type) {
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8:
        return channels;
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT:
        return channels * 2;
    case CL_SIGNED_INT32:
    case CL_UNSIGNED_INT32:
    case CL_FLOAT:
        return channels * 4;
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555:
        return channels ? 2 : 0;
    case CL_UNORM_INT_101010:
    case CL_UNORM_INT_101010_2:
        return channels ? 4 : 0;
    default:
        return 0;
    }
}

void
vg_wire_image_region(const cl_image_desc *desc, size_t region[3])
{
    bool is_array = desc->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY ||
                    desc->image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
    bool is_flat = desc->image_type == CL_MEM_OBJECT_IMAGE1D ||
                   desc->image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;

    region[0] = desc->image_width;
    region[1] = is_flat                                           ? 1
                : desc->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? desc->image_array_size
                                                                  : desc->image_height;
    region[2] = desc->image_type == CL_MEM_OBJECT_IMAGE3D ? desc->image_depth
                : is_array && desc->image_type != CL_MEM_OBJECT_IMAGE1D_ARRAY
                    ? desc->image_array_size
                    : 1;
}

bool
vg_wire_image_rows(struct vg_wire_rows *rows, size_t element, const size_t *region,
                   size_t row_pitch, size_t slice_pitch, bool is_flat_array)
{
    size_t row, slice;

    if (!element || __builtin_mul_overflow(region[0], element, &row))
        return false;
    row_pitch = row_pitch ? row_pitch : row;
    if (is_flat_array && slice_pitch)
        row_pitch = slice_pitch;
    if (__builtin_mul_overflow(row_pitch, region[1], &slice) || row_pitch < row)
        return false;
    slice_pitch = !slice_pitch || is_flat_array ? slice : slice_pitch;
    if (region[2] > 1 && slice_pitch < slice)
        return false;
    *rows = (struct vg_wire_rows){NULL, row, region[1], region[2], row_pitch, slice_pitch};
    return vg_wire_rows_size(rows) > 0;
}
