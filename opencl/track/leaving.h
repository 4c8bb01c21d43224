/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues that the program released while commands were in them. Before memory is read, these
 * commands must have ended.
 */
#ifndef VG_OPENCL_TRACK_LEAVING_H
#define VG_OPENCL_TRACK_LEAVING_H

#include "opencl/track/object.h"

/* Records QUEUE, which is about to be released, and flushes it. */
void vg_cl_leaving_add(struct vg_cl_object *queue);

/* Returns true once all commands in these queues are done. Call only while no other thread is
 * inside the gate. */
bool vg_cl_leaving_done(void);

#endif
