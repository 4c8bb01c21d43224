/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that wants its binaries asks how large they are, and then for themselves. Where it is
 * stopped in between, the vendor's object is made again, and its binaries may be of other sizes:
 * the program gets those that it was told of.
 */
#ifndef VG_OPENCL_TRACK_BINARIES_H
#define VG_OPENCL_TRACK_BINARIES_H

#include "opencl/track/program.h"

/* Notes BINARIES, of SIZES, one per device of OBJECT, which are those that the program can ask for
 * until the next stop: they are copied if it knows their sizes. Called while it is stopped. */
void vg_cl_binaries_keep(struct vg_cl_object *object, const size_t *sizes,
                         unsigned char *const *binaries);

/* The program was built again, or ends: what it was told holds no longer. */
void vg_cl_binaries_forget(struct vg_cl_program *program);

#endif
