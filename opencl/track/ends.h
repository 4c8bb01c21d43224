/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that free the data of an object when it ends, by type.
 */
#ifndef VG_OPENCL_TRACK_ENDS_H
#define VG_OPENCL_TRACK_ENDS_H

#include "opencl/track/object.h"

extern const struct vg_cl_end vg_cl_ends[VG_CL_TYPES];

#endif
