/* SPDX-License-Identifier: Apache-2.0
 *
 * A program queries the sizes of its binaries and then the binaries. If it is stopped in between,
 * the vendor's object is re-created, and the new binaries may have other sizes. The program then
 * gets the binaries whose sizes it queried.
 */
#ifndef VG_OPENCL_TRACK_BINARIES_H
#define VG_OPENCL_TRACK_BINARIES_H

#include "opencl/track/program.h"

/* Keeps BINARIES with SIZES, one per device of OBJECT, which the program could query until now.
 * They are copied if the program knows their sizes. Called while the program is stopped. */
void vg_cl_binaries_keep(struct vg_cl_object *object, const size_t *sizes,
                         unsigned char *const *binaries);

/* Drops the kept binaries when the program is rebuilt or ends. */
void vg_cl_binaries_forget(struct vg_cl_program *program);

#endif
