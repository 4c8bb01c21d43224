/* SPDX-License-Identifier: Apache-2.0
 *
 * How images lie in memory.
 */
#ifndef VG_OPENCL_WIRE_IMAGE_H
#define VG_OPENCL_WIRE_IMAGE_H

#include "opencl/base/cl.h"
#include "opencl/wire/wire.h"

/* Bytes of an element; 0: the format is not known. */
size_t vg_wire_image_element(const cl_image_format *format);

/* The whole of an image, in elements. */
void vg_wire_image_region(const cl_image_desc *desc, size_t region[3]);

/* The rows of REGION with these pitches, of which 0 means that nothing lies between; `at` is left
 * out. IS_FLAT_ARRAY: of images that are rows, which the slice pitch is between. False: they cannot
 * be. */
bool vg_wire_image_rows(struct vg_wire_rows *rows, size_t element, const size_t *region,
                        size_t row_pitch, size_t slice_pitch, bool is_flat_array);

#endif
