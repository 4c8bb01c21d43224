/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues that the program has released while commands were in them: their ends are still waited for
 * before memory is read.
 */
#ifndef VG_OPENCL_TRACK_LEAVING_H
#define VG_OPENCL_TRACK_LEAVING_H

#include "opencl/track/object.h"

/* Notes QUEUE, which is about to be released, and flushes it. */
void vg_cl_leaving_add(struct vg_cl_object *queue);

/* Returns true once all that was in such queues is done. Only while no other thread is inside of
 * the gate. */
bool vg_cl_leaving_done(void);

#endif
