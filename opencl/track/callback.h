/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the program that the vendor calls.
 */
#ifndef VG_OPENCL_TRACK_CALLBACK_H
#define VG_OPENCL_TRACK_CALLBACK_H

#include "opencl/track/object.h"

/* Adds a function before those that are called at the end of an object. Returns an OpenCL error
 * code. */
cl_int vg_cl_destructor_add(struct vg_cl_destructor **list, void (*call)(void), void *user_data);

/* Makes the vendor call DONE with DATA when its event REAL has reached STATUS, and then ends this
 * use of EVENT, which may be NULL. vg_cl_callbacks_n is the number of calls that are still to come.
 */
cl_int vg_cl_callback_add(const cl_icd_dispatch *cl, cl_event real, cl_int status,
                          struct vg_cl_object *event,
                          void (*done)(struct vg_cl_object *event, cl_int status, void *data),
                          void *data);

extern atomic_uint vg_cl_user_events_n;  /* that the program has made and not set yet */
extern atomic_uint vg_cl_callbacks_n;    /* that the vendor still has to call */
extern atomic_uint vg_cl_callbacks_done; /* that ran, since the start */

/* True in a thread that runs a function of the program for the vendor. */
extern _Thread_local unsigned vg_cl_in_callback;

#endif
