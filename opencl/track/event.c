/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>

#include "opencl/track/callback.h"
#include "opencl/track/calls.h"
#include "opencl/track/enqueue.h"
#include "opencl/track/remake.h"

cl_int
vg_cl_WaitForEvents(cl_uint num_events, struct vg_cl_object *const *event_list)
{
    cl_event few[VG_CL_WAITS], *reals = few;
    cl_uint n = 0;
    cl_int result = CL_SUCCESS;
    const struct vg_cl_object *first = NULL;

    if (num_events == 0 || !event_list)
        return CL_INVALID_VALUE;
    if (num_events > VG_CL_WAITS)
        reals = malloc(num_events * sizeof *reals);
    if (!reals)
        return CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < num_events && result != CL_INVALID_EVENT; i++) {
        const struct vg_cl_object *event = vg_cl_as(event_list[i], VG_CL_EVENT);
        if (!event) {
            result = CL_INVALID_EVENT;
        } else if (event->real) {
            first = first ? first : event;
            if (event->context != first->context)
                result = CL_INVALID_CONTEXT;
            reals[n++] = event->real;
        } else if (event->event.status < 0) {
            result = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
        }
    }
    if (n && result != CL_INVALID_EVENT && result != CL_INVALID_CONTEXT) {
        cl_int waited = first->track->cl->clWaitForEvents(n, reals);
        result = waited == CL_SUCCESS ? result : waited;
    }
    if (reals != few)
        free(reals);
    return result;
}

cl_int
vg_cl_EnqueueMarker(struct vg_cl_object *command_queue, struct vg_cl_object **event)
{
    if (command_queue && !event)
        return CL_INVALID_VALUE;
    return vg_cl_EnqueueMarkerWithWaitList(command_queue, 0, NULL, event);
}

cl_int
vg_cl_EnqueueWaitForEvents(struct vg_cl_object *command_queue, cl_uint num_events,
                           struct vg_cl_object *const *event_list)
{
    if (command_queue && (num_events == 0 || !event_list))
        return CL_INVALID_VALUE;
    cl_int result = vg_cl_EnqueueBarrierWithWaitList(command_queue, num_events, event_list, NULL);
    return result == CL_INVALID_EVENT_WAIT_LIST ? CL_INVALID_EVENT : result;
}

/* ---- the program's own events ---- */

atomic_uint vg_cl_user_events_n;

struct vg_cl_object *
vg_cl_CreateUserEvent(struct vg_cl_object *context, cl_int *errcode_ret)
{
    cl_int error = CL_SUCCESS;

    if (!context) {
        vg_cl_set_error(errcode_ret, CL_INVALID_CONTEXT);
        return NULL;
    }
    struct vg_cl_object *event =
        vg_cl_object_new(VG_CL_EVENT, context->track, context, NULL, errcode_ret);
    if (!event)
        return NULL;
    event->event.command = CL_COMMAND_USER;
    event->event.status = CL_SUBMITTED;
    event->real = context->track->cl->clCreateUserEvent(context->real, &error);
    if (error == CL_SUCCESS)
        atomic_fetch_add(&vg_cl_user_events_n, 1);
    return vg_cl_made(event, error, errcode_ret);
}

cl_int
vg_cl_SetUserEventStatus(struct vg_cl_object *event, cl_int execution_status)
{
    if (!event || event->event.command != CL_COMMAND_USER)
        return CL_INVALID_EVENT;
    if (!event->real)
        return execution_status <= CL_COMPLETE ? CL_INVALID_OPERATION : CL_INVALID_VALUE;
    cl_int result = event->track->cl->clSetUserEventStatus(event->real, execution_status);
    if (result != CL_SUCCESS)
        return result;
    /* NVIDIA's library accepts another status for an event that is already set. */
    vg_cl_lock();
    bool is_first = event->event.status > CL_COMPLETE;
    if (is_first)
        event->event.status = execution_status;
    vg_cl_unlock();
    if (is_first)
        atomic_fetch_sub(&vg_cl_user_events_n, 1);
    return result;
}

/* ---- callbacks ---- */

struct event_notify {
    vg_cl_event_notify call;
    void *user_data;
};

static void
event_on_status(struct vg_cl_object *event, cl_int status, void *data)
{
    struct event_notify *notify = data;

    notify->call((cl_event)event, status, notify->user_data);
    free(notify);
}

cl_int
vg_cl_SetEventCallback(struct vg_cl_object *event, cl_int command_exec_callback_type,
                       vg_cl_event_notify pfn_notify, void *user_data)
{
    if (!event)
        return CL_INVALID_EVENT;
    if (!pfn_notify || command_exec_callback_type < CL_COMPLETE ||
        command_exec_callback_type > CL_SUBMITTED)
        return CL_INVALID_VALUE;
    if (!event->real) {
        cl_int status = event->event.status < 0 ? event->event.status : command_exec_callback_type;
        pfn_notify((cl_event)event, status, user_data);
        return CL_SUCCESS;
    }
    struct event_notify *notify = malloc(sizeof *notify);
    if (!notify)
        return CL_OUT_OF_HOST_MEMORY;
    notify->call = pfn_notify;
    notify->user_data = user_data;
    cl_int result = vg_cl_callback_add(event->track->cl, event->real, command_exec_callback_type,
                                       event, event_on_status, notify);
    if (result != CL_SUCCESS)
        free(notify);
    return result;
}
