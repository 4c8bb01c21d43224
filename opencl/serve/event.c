/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's side: the events of a client's commands.
 */
#include "config.h"

#include "opencl/icd/entries.h"
#include "opencl/serve/meter.h"

cl_event *
vg_serve_event(const struct vg_serve_call *call, uint64_t id, cl_event *made)
{
    return id || call->is_metered ? made : NULL;
}

void
vg_serve_made_event(struct vg_serve_call *call, uint64_t id, cl_command_queue queue, cl_event event,
                    cl_int result)
{
    cl_context context = NULL;

    if (result == CL_SUCCESS)
        vg_serve_meter_given(call, queue, event);
    if (!id && event)
        vg_cl_dispatch.clReleaseEvent(event);
    if (!id)
        return;
    if (result != CL_SUCCESS && (call->head.flags & VG_WIRE_LATER) && !event) {
        vg_cl_dispatch.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context,
                                             NULL);
        event = vg_cl_dispatch.clCreateUserEvent(context, NULL);
        if (event)
            vg_cl_dispatch.clSetUserEventStatus(event, result);
    }
    vg_serve_made(call, id, VG_CL_EVENT, event);
}
