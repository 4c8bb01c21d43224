/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/ends.h"

#include <stdlib.h>

#include "opencl/track/memory.h"
#include "opencl/track/program.h"

static void
ends_free_device(struct vg_cl_object *device)
{
    free(device->device.partition);
    vg_cl_unuse(device->device.parent);
}

static void
ends_call_context_destructors(struct vg_cl_object *context)
{
    struct vg_cl_destructor *next;

    for (struct vg_cl_destructor *d = context->ctx.destructors; d; d = next) {
        next = d->next;
        ((vg_cl_context_destructor)d->call)((cl_context)context, d->user_data);
        free(d);
    }
}

static void
ends_free_context(struct vg_cl_object *context)
{
    ends_call_context_destructors(context);
    for (cl_uint i = 0; i < context->ctx.n_devices; i++)
        vg_cl_unuse(context->ctx.devices[i]);
    free(context->ctx.devices);
    free(context->ctx.properties);
}

static void
ends_free_queue(struct vg_cl_object *queue)
{
    free(queue->queue.properties);
    vg_cl_unuse(queue->queue.device);
}

static void
ends_free_sampler(struct vg_cl_object *sampler)
{
    free(sampler->sampler.properties);
}

static void
ends_free_program(struct vg_cl_object *program)
{
    vg_cl_program_free(program->program);
}

static void
ends_free_kernel(struct vg_cl_object *kernel)
{
    for (cl_uint i = 0; i < kernel->kernel.n_args; i++)
        if (kernel->kernel.args[i].is_long)
            free(kernel->kernel.args[i].bytes);
    free(kernel->kernel.args);
    free(kernel->kernel.name);
    vg_cl_unuse(kernel->kernel.program);
}

static void
ends_free_event(struct vg_cl_object *event)
{
    free(event->event.profile);
    vg_cl_unuse(event->event.queue);
}

const struct vg_cl_end vg_cl_ends[VG_CL_TYPES] = {
    [VG_CL_DEVICE] = {NULL, ends_free_device},
    [VG_CL_CONTEXT] = {NULL, ends_free_context},
    [VG_CL_QUEUE] = {NULL, ends_free_queue},
    [VG_CL_MEM] = {vg_cl_mem_leave_end, vg_cl_mem_free},
    [VG_CL_SAMPLER] = {NULL, ends_free_sampler},
    [VG_CL_PROGRAM] = {NULL, ends_free_program},
    [VG_CL_KERNEL] = {NULL, ends_free_kernel},
    [VG_CL_EVENT] = {NULL, ends_free_event},
};
