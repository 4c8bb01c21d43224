/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that runs the jobs of requests one after the other: what may block.
 */
#ifndef VG_API_WORKER_H
#define VG_API_WORKER_H

#include <stdbool.h>

#include "api/request.h"
#include "base/thread.h"

/* Jobs that wait for the thread; more are refused. */
#define VG_WORKER_QUEUE_MAX 64

typedef struct vg_worker vg_worker;

struct vg_worker_hooks {
    /* The connection must not go on before resume(); called with the worker's lock, before the job
     * can run. */
    void (*suspend)(struct vg_request *request);
    void (*run)(struct vg_request *request); /* on the worker's thread: the job, and what follows */
    void (*resume)(struct vg_request *request); /* on the worker's thread; answer is set */
};

vg_worker *vg_worker_new(const char *name, const struct vg_worker_hooks *hooks, GError **err);

/* Suspends the request and runs its job; false: there is no room, nothing was done. */
bool vg_worker_put(vg_worker *worker, struct vg_request *request);

/* Ends the job that runs, answers the others that they are not done any more. Then nothing can be
 * put. */
void vg_worker_stop(vg_worker *worker);
void vg_worker_free(vg_worker *worker); /* NULL is fine */

const vg_thread *vg_worker_thread(const vg_worker *worker);

#endif
