/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/enqueue.h"

#include <stdlib.h>

/* Does not wait for events that succeeded before the vendor's events were released. */
static cl_int
enqueue_translate(struct vg_cl_enqueue *e, cl_uint n, struct vg_cl_object *const *list)
{
    cl_event *to = e->few;

    if (n > VG_CL_WAITS) {
        to = e->many = malloc(n * sizeof *to);
        if (!to)
            return CL_OUT_OF_HOST_MEMORY;
    }
    for (cl_uint i = 0; i < n; i++) {
        struct vg_cl_object *event = vg_cl_as(list[i], VG_CL_EVENT);
        if (!event)
            return CL_INVALID_EVENT_WAIT_LIST;
        if (event->real)
            to[e->n++] = event->real;
    }
    e->list = e->n ? to : NULL;
    return CL_SUCCESS;
}

cl_int
vg_cl_enqueue_begin(struct vg_cl_enqueue *e, struct vg_cl_object *queue, cl_uint n,
                    struct vg_cl_object *const *list, struct vg_cl_object **event)
{
    e->object = queue;
    e->many = NULL;
    e->real = NULL;
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    e->cl = queue->track->cl;
    e->queue = queue->real;
    e->n = 0;
    e->list = NULL;
    e->event = event ? &e->real : NULL;
    if ((n == 0) != (list == NULL))
        return CL_INVALID_EVENT_WAIT_LIST;
    return n ? enqueue_translate(e, n, list) : CL_SUCCESS;
}

cl_int
vg_cl_enqueue_end(struct vg_cl_enqueue *e, cl_int result, cl_command_type command,
                  struct vg_cl_object **event)
{
    free(e->many);
    if (!event || !e->real)
        return result;
    struct vg_cl_object *object =
        vg_cl_object_new(VG_CL_EVENT, e->object->track, e->object->context, e->real, NULL);
    if (!object) {
        e->cl->clReleaseEvent(e->real);
        return result == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : result;
    }
    object->event.queue = vg_cl_use(e->object);
    object->event.command = command;
    *event = object;
    return result;
}

/* Returns whether a kernel cannot write to memory, because nothing may. A pointer to const is no
 * proof: the kernel may cast it. */
static bool
enqueue_is_const(const struct vg_cl_object *mem)
{
    const cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_WRITE_ONLY | CL_MEM_READ_ONLY;

    /* A sub-buffer has its parent's access flags unless it has its own. */
    while (!(mem->mem.flags & access) && mem->mem.parent)
        mem = mem->mem.parent;
    return (mem->mem.flags & access) == CL_MEM_READ_ONLY;
}

static void
enqueue_written_by(const struct vg_cl_kernel *kernel)
{
    for (cl_uint i = 0; i < kernel->n_args; i++) {
        const struct vg_cl_arg *arg = &kernel->args[i];
        /* If the argument is unknown, a number may have been taken for any object. */
        if (arg->kind == VG_CL_ARG_OBJECT && !arg->is_read && arg->object->id == arg->id &&
            arg->object->type == VG_CL_MEM && !(arg->is_const && enqueue_is_const(arg->object)))
            vg_cl_written(arg->object);
    }
}

void
vg_cl_written(struct vg_cl_object *object)
{
    if (!object)
        return;
    if (object->type == VG_CL_KERNEL)
        enqueue_written_by(&object->kernel);
    else if (object->type == VG_CL_MEM && !object->mem.is_written)
        for (; object; object = object->mem.parent)
            atomic_store_explicit(&object->mem.is_written, true, memory_order_relaxed);
}
