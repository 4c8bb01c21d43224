/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of images in memory.
 */
#ifndef VG_OPENCL_WIRE_IMAGE_H
#define VG_OPENCL_WIRE_IMAGE_H

#include "opencl/base/cl.h"
#include "opencl/wire/wire.h"

/* Bytes per element, or 0 if the format is not known. */
size_t vg_wire_image_element(const cl_image_format *format);

/* Returns the region of the whole image, in elements. */
void vg_wire_image_region(const cl_image_desc *desc, size_t region[3]);

/* Computes the rows of REGION with the given pitches; `at` is not set. A pitch of 0 means no gaps.
 * IS_FLAT_ARRAY is for 1D image arrays, whose rows are one slice pitch apart. Returns false if the
 * values are impossible. */
bool vg_wire_image_rows(struct vg_wire_rows *rows, size_t element, const size_t *region,
                        size_t row_pitch, size_t slice_pitch, bool is_flat_array);

#endif
