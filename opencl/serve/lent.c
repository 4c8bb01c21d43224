/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/lent.h"

#include "opencl/icd/entries.h"
#include "opencl/serve/private.h"
#include "opencl/track/callback.h"

#define LENT_SIZE  ((size_t)64 << 10) /* maximum size of a write, in bytes */
#define LENT_SHARE 4                  /* maximum part of the limit for data */

static uint64_t
lent_id(cl_command_queue queue)
{
    return ((const struct vg_cl_object *)queue)->id;
}

/* Returns whether WRITE has failed. Frees its data. */
static bool
lent_end(struct vg_serve *serve, const struct serve_lent_write *write)
{
    cl_int status = CL_COMPLETE;

    vg_cl_dispatch.clGetEventInfo(write->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                  &status, NULL);
    vg_cl_dispatch.clReleaseEvent(write->event);
    vg_serve_free_data(serve, write->data, write->size);
    return status < CL_COMPLETE;
}

/* Ends the writes, which are done. Called under their lock. */
static void
lent_end_all(struct vg_serve *serve)
{
    struct serve_lent *lent = &serve->lent;
    bool has_failed = false;

    for (unsigned i = 0; i < lent->n; i++)
        has_failed |= lent_end(serve, &lent->writes[i]);
    lent->n = 0;
    if (!has_failed)
        return;
    pthread_mutex_lock(&serve->lock);
    serve->late = serve->late == CL_SUCCESS ? CL_OUT_OF_RESOURCES : serve->late;
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_lent_wait(struct vg_serve *serve)
{
    struct serve_lent *lent = &serve->lent;

    pthread_mutex_lock(&lent->lock);
    /* The queue executes in order, and nothing in it waits for the program. */
    if (lent->n)
        vg_cl_dispatch.clWaitForEvents(1, &lent->writes[lent->n - 1].event);
    lent_end_all(serve);
    pthread_mutex_unlock(&lent->lock);
}

void
vg_serve_lent_before(struct vg_serve *serve, cl_command_queue queue)
{
    /* Another thread that waits for the writes has not reset the number yet. */
    if (serve->lent.n && serve->lent.queue != lent_id(queue))
        vg_serve_lent_wait(serve);
}

void
vg_serve_lent_done(const struct vg_serve_call *call)
{
    struct serve_lent *lent = &call->serve->lent;

    /* While that thread waited, the serving thread may have submitted more writes. */
    if (call->is_beside || lent->n == 0)
        return;
    pthread_mutex_lock(&lent->lock);
    lent_end_all(call->serve);
    pthread_mutex_unlock(&lent->lock);
}

bool
vg_serve_lent_may(const struct vg_serve_call *call, cl_command_queue queue, size_t size)
{
    struct vg_serve *serve = call->serve;

    if (!(call->head.flags & VG_WIRE_LATER) || call->is_beside || vg_cl_user_events_n > 0 ||
        size > LENT_SIZE || size > serve->limits.data / (LENT_SHARE * SERVE_LENT_MAX) ||
        (vg_cl_queue_bits((const struct vg_cl_object *)queue) &
         CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE))
        return false;
    if (serve->lent.n == SERVE_LENT_MAX)
        vg_serve_lent_wait(serve);
    return true;
}

void
vg_serve_lent_keep(struct vg_serve_call *call, cl_command_queue queue, cl_event event)
{
    struct serve_lent *lent = &call->serve->lent;

    vg_cl_dispatch.clRetainEvent(event);
    pthread_mutex_lock(&lent->lock);
    lent->queue = lent_id(queue);
    lent->writes[lent->n] = (struct serve_lent_write){call->data, call->head.data, event};
    lent->n++;
    pthread_mutex_unlock(&lent->lock);
    call->data = NULL;
}
