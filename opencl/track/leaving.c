/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/leaving.h"

#include <stdlib.h>

struct leaving {
    struct leaving *next;
    const cl_icd_dispatch *cl;
    cl_event end; /* the vendor's event */
};

static struct leaving *leaving_all; /* protected by the lock of details */

static bool
leaving_is_done(const struct leaving *leaving)
{
    cl_int status = CL_COMPLETE;

    leaving->cl->clGetEventInfo(leaving->end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                &status, NULL);
    return status <= CL_COMPLETE;
}

/* Forgets completed ones. */
static void
leaving_sweep(void)
{
    struct leaving **link = &leaving_all;

    while (*link) {
        struct leaving *leaving = *link;
        if (leaving_is_done(leaving)) {
            *link = leaving->next;
            leaving->cl->clReleaseEvent(leaving->end);
            free(leaving);
        } else {
            link = &leaving->next;
        }
    }
}

void
vg_cl_leaving_add(struct vg_cl_object *queue)
{
    struct leaving *leaving = malloc(sizeof *leaving);

    const cl_icd_dispatch *cl = queue->track->cl;
    cl_int error = leaving ? cl->clEnqueueMarkerWithWaitList(queue->real, 0, NULL, &leaving->end)
                           : CL_OUT_OF_HOST_MEMORY;
    if (error != CL_SUCCESS) {
        /* Without a marker, the commands must end now. A lost device, or one that a forked child
         * inherited, has none that could end. */
        if (error != CL_DEVICE_NOT_AVAILABLE)
            cl->clFinish(queue->real);
        free(leaving);
        return;
    }
    leaving->cl = cl;
    leaving->cl->clFlush(queue->real);
    vg_cl_lock();
    leaving_sweep();
    leaving->next = leaving_all;
    leaving_all = leaving;
    vg_cl_unlock();
}

bool
vg_cl_leaving_done(void)
{
    vg_cl_lock();
    leaving_sweep();
    bool done = !leaving_all;
    vg_cl_unlock();
    return done;
}
