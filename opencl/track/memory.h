/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory objects need besides their creation.
 */
#ifndef VG_OPENCL_TRACK_MEMORY_H
#define VG_OPENCL_TRACK_MEMORY_H

#include "opencl/track/object.h"

/* Frees the details of MEM after the vendor's object was released. What waits for the vendor to be
 * done with it is freed when the vendor says so. */
void vg_cl_mem_free(struct vg_cl_object *mem);
#endif
