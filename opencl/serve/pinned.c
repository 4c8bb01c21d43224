/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/pinned.h"

#include "opencl/serve/private.h"

#define PINNED_FROM ((size_t)256 << 10) /* minimum size of a copy that benefits, in bytes */

/* Only called in the receiving thread, because nothing is locked. */
static bool
pinned_is_wanted(const struct vg_serve_call *call, const struct vg_cl_object *queue, size_t size)
{
    const struct vg_serve_pinned *pinned = &call->serve->pinned;
    bool has_area = call->room || (call->head.flags & VG_WIRE_STAGED);

    return has_area && queue && !call->is_beside && !pinned->buffer && !pinned->is_refused &&
           size >= PINNED_FROM && pinned->left != queue->context;
}

void
vg_serve_pin(const struct vg_serve_call *call, cl_command_queue queue, size_t size)
{
    struct vg_serve_pinned *pinned = &call->serve->pinned;
    const struct vg_cl_object *object = vg_cl_as(queue, VG_CL_QUEUE);
    size_t all;

    if (!pinned_is_wanted(call, object, size))
        return;
    unsigned char *at = vg_wire_link_staging(call->serve->link, &all);
    all = all < call->serve->limits.pinned ? all : call->serve->limits.pinned;
    if (all) {
        pinned->cl = object->track->cl;
        pinned->buffer = pinned->cl->clCreateBuffer(
            vg_cl_real(object->context), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, all, at, NULL);
    }
    pinned->context = object->context;
    pinned->is_refused = !pinned->buffer;
}

static void
pinned_release(struct vg_serve_pinned *pinned)
{
    pinned->cl->clReleaseMemObject(pinned->buffer);
    pinned->buffer = NULL;
    pinned->is_leaving = false;
}

/* Memory that the vendor is copying at this moment, for any context, must remain pinned. */
void
vg_serve_pinned_look(struct vg_serve *serve)
{
    struct vg_serve_pinned *pinned = &serve->pinned;

    if (pinned->is_leaving && atomic_load(&pinned->n_areas) == 0)
        pinned_release(pinned);
}

void
vg_serve_pinned_leave(struct vg_serve *serve, cl_context context)
{
    struct vg_serve_pinned *pinned = &serve->pinned;

    if (!pinned->buffer || pinned->context != context)
        return;
    pinned->left = context;
    pinned->is_leaving = true;
    vg_serve_pinned_look(serve);
}

void
vg_serve_pinned_come(struct vg_serve *serve, cl_context context)
{
    if (serve->pinned.left == context)
        serve->pinned.left = NULL;
}

void
vg_serve_area_begin(struct vg_serve *serve)
{
    atomic_fetch_add(&serve->pinned.n_areas, 1);
}

void
vg_serve_area_end(struct vg_serve *serve)
{
    atomic_fetch_sub(&serve->pinned.n_areas, 1);
}
