/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a client wait that has the maximum amount of data in transit.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>

#include "opencl/serve/lent.h"
#include "opencl/serve/private.h"
#include "opencl/serve/turn.h"
#include "opencl/track/callback.h"

/* Finishes all commands, and sends what they have read. Commands that wait for an event which only
 * the client can set do not finish. */
static bool
data_finish(struct vg_serve *serve)
{
    if (vg_cl_user_events_n > 0)
        return false;
    vg_serve_turn_finish(serve);
    vg_serve_lent_wait(serve);
    vg_serve_flush_reads(serve);
    return true;
}

bool
vg_serve_await_bytes(struct vg_serve *serve, size_t size)
{
    struct timespec until;
    int error = 0;

    if (vg_serve_take_bytes(serve, size))
        return true;
    if (size > serve->limits.data || !data_finish(serve))
        return false;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += VG_WIRE_OPEN_S;
    /* The vendor's threads may be about to free the data of completed commands. */
    pthread_mutex_lock(&serve->lock);
    while (size > serve->limits.data - serve->n_data && serve->n_data > serve->n_mapped &&
           error == 0)
        error = pthread_cond_timedwait(&serve->less, &serve->lock, &until);
    bool may = size <= serve->limits.data - serve->n_data;
    serve->n_data += may ? size : 0;
    pthread_mutex_unlock(&serve->lock);
    return may;
}

void *
vg_serve_take_data(struct vg_serve *serve, size_t size)
{
    if (!vg_serve_await_bytes(serve, size))
        return NULL;
    void *data = malloc(size);
    if (!data)
        vg_serve_leave_bytes(serve, size);
    return data;
}
