/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that runs jobs of requests that may block, one after the other.
 */
#ifndef VG_API_WORKER_H
#define VG_API_WORKER_H

#include <stdbool.h>

#include "api/request.h"
#include "base/thread.h"

/* Jobs that may wait for the thread; more are refused. */
#define VG_WORKER_QUEUE_MAX 64

typedef struct vg_worker vg_worker;

struct vg_worker_hooks {
    /* Suspends the connection until resume(); called with the worker's lock, before the job can
     * run. */
    void (*suspend)(struct vg_request *request);
    void (*run)(struct vg_request *request);    /* on the worker's thread: runs the job, and what
                                                 * follows */
    void (*resume)(struct vg_request *request); /* on the worker's thread; the answer is set */
};

vg_worker *vg_worker_new(const char *name, const struct vg_worker_hooks *hooks, GError **err);

/* Suspends the request and runs its job; false: the queue is full, and nothing was done. */
bool vg_worker_put(vg_worker *worker, struct vg_request *request);

/* Ends the running job, and answers the others that they will not be done. Nothing can be put
 * afterwards. */
void vg_worker_stop(vg_worker *worker);
void vg_worker_free(vg_worker *worker); /* NULL is fine */

const vg_thread *vg_worker_thread(const vg_worker *worker);

#endif
