/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/callback.h"

#include <stdlib.h>

atomic_uint vg_cl_callbacks_n, vg_cl_callbacks_done;
_Thread_local unsigned vg_cl_in_callback;

struct callback {
    struct vg_cl_object *event;
    void (*done)(struct vg_cl_object *event, cl_int status, void *data);
    void *data;
};

cl_int
vg_cl_destructor_add(struct vg_cl_destructor **list, void (*call)(void), void *user_data)
{
    struct vg_cl_destructor *d = malloc(sizeof *d);

    if (!d)
        return CL_OUT_OF_HOST_MEMORY;
    d->call = call;
    d->user_data = user_data;
    vg_cl_lock();
    d->next = *list;
    *list = d;
    vg_cl_unlock();
    return CL_SUCCESS;
}

static void CL_CALLBACK
callback_run(cl_event real, cl_int status, void *data)
{
    struct callback *callback = data;

    (void)real;
    vg_cl_in_callback++;
    callback->done(callback->event, status, callback->data);
    vg_cl_unuse(callback->event);
    vg_cl_in_callback--;
    free(callback);
    atomic_fetch_add(&vg_cl_callbacks_done, 1);
    atomic_fetch_sub(&vg_cl_callbacks_n, 1);
}

cl_int
vg_cl_callback_add(const cl_icd_dispatch *cl, cl_event real, cl_int status,
                   struct vg_cl_object *event,
                   void (*done)(struct vg_cl_object *event, cl_int status, void *data), void *data)
{
    struct callback *callback = malloc(sizeof *callback);

    if (!callback)
        return CL_OUT_OF_HOST_MEMORY;
    *callback = (struct callback){.event = vg_cl_use(event), .done = done, .data = data};
    atomic_fetch_add(&vg_cl_callbacks_n, 1);
    cl_int result = cl->clSetEventCallback(real, status, callback_run, callback);
    if (result != CL_SUCCESS) {
        atomic_fetch_sub(&vg_cl_callbacks_n, 1);
        vg_cl_unuse(event);
        free(callback);
    }
    return result;
}
