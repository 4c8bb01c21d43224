/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's functions that the vendor calls.
 */
#ifndef VG_OPENCL_TRACK_CALLBACK_H
#define VG_OPENCL_TRACK_CALLBACK_H

#include "opencl/track/object.h"

/* Puts a function before those that are called at the end of an object. Returns an error of OpenCL.
 */
cl_int vg_cl_destructor_add(struct vg_cl_destructor **list, void (*call)(void), void *user_data);

/* Has DONE called with DATA when the vendor's event REAL has reached STATUS, and ends this use of
 * EVENT after it; EVENT may be NULL. vg_cl_callbacks_n counts what was not called yet. */
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
