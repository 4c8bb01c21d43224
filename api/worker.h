/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run jobs of requests that may block. A host that hangs holds a bounded share of the
 * threads and of the queue, so that jobs that do not name it are not kept waiting. A job whose
 * client has gone, or that has waited for too long, is refused before it begins.
 */
#ifndef VG_API_WORKER_H
#define VG_API_WORKER_H

#include <stdbool.h>

#include "api/request.h"
#include "base/thread.h"

/* The number of jobs that may wait, and of those that may wait for one host; more are refused. */
#define VG_WORKER_QUEUE_MAX      64
#define VG_WORKER_HOST_QUEUE_MAX 16

/* The number of jobs that may run for one host at once. */
#define VG_WORKER_HOST_MAX 4

/* Jobs that readers may ask for have half of each of these, and of the threads, so that they leave
 * the other half to those who move VMs. A worker with one thread makes no difference. */
#define VG_WORKER_READER_SHARE 2

/* The longest wait of a job: less than clients and other vgpuds wait for an answer. */
#define VG_WORKER_WAIT_NS (INT64_C(15) * 1000000000)

typedef struct vg_worker vg_worker;

struct vg_worker_hooks {
    /* Suspends the connection until resume(). Called with the worker's lock, before the job can
     * run. */
    void (*suspend)(struct vg_request *request);
    /* Runs the job, and what follows it, on one of the threads. */
    void (*run)(struct vg_request *request);
    /* Resumes the connection; the answer is set. Called on any thread. */
    void (*resume)(struct vg_request *request);
};

/* Makes a worker with this many threads at most, whose jobs wait for wait_ns at most. The first
 * thread is made at once, the others when they are needed. */
vg_worker *vg_worker_new(const char *name, unsigned threads_max, int64_t wait_ns,
                         const struct vg_worker_hooks *hooks, GError **err);

/* Suspends the request and has its job run. VG_E_BUSY: too many wait, and nothing was done. */
int vg_worker_put(vg_worker *worker, struct vg_request *request,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Refuses jobs that have waited for too long, or whose clients have gone. Returns when this is to
 * be called again; INT64_MAX: once a job was put. */
int64_t vg_worker_tick(vg_worker *worker, int64_t now_ns);

/* Ends the running jobs, and answers the others that they will not be done. Nothing can be put
 * afterwards. */
void vg_worker_stop(vg_worker *worker);
void vg_worker_free(vg_worker *worker); /* NULL is fine */

/* Returns the first thread. */
const vg_thread *vg_worker_thread(const vg_worker *worker);

#endif
