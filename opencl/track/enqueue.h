/* SPDX-License-Identifier: Apache-2.0
 *
 * Code common to all commands: translates the events of the wait list to the vendor's, and wraps
 * the vendor's event in an object.
 */
#ifndef VG_OPENCL_TRACK_ENQUEUE_H
#define VG_OPENCL_TRACK_ENQUEUE_H

#include "opencl/track/object.h"

#define VG_CL_WAITS 16

struct vg_cl_enqueue {
    struct vg_cl_object *object; /* the queue */
    const cl_icd_dispatch *cl;
    cl_command_queue queue; /* the vendor's */
    cl_uint n;
    const cl_event *list; /* the vendor's, N of them */
    cl_event *event; /* where the vendor stores the command's event; NULL if it is not needed */
    cl_event real;
    cl_event few[VG_CL_WAITS], *many;
};

/* Begins a command in QUEUE that waits for N events of LIST. EVENT is NULL if the program wants no
 * event. After CL_SUCCESS and the vendor's call, vg_cl_enqueue_end() must follow; after an error,
 * it may follow. */
cl_int vg_cl_enqueue_begin(struct vg_cl_enqueue *e, struct vg_cl_object *queue, cl_uint n,
                           struct vg_cl_object *const *list, struct vg_cl_object **event);

/* Ends the command, whose vendor call returned RESULT. Stores an object in *EVENT. Returns the
 * result. */
cl_int vg_cl_enqueue_end(struct vg_cl_enqueue *e, cl_int result, cl_command_type command,
                         struct vg_cl_object **event);

/* Records that a command changes the memory OBJECT, or any memory passed to the kernel OBJECT. */
void vg_cl_written(struct vg_cl_object *object);

#endif
