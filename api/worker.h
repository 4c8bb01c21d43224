/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that run jobs of requests that may block. An unresponsive host occupies a limited share
 * of the threads and of the queue, so that it does not delay jobs for other hosts. A job is refused
 * before it starts if its client has disconnected, or it has waited for too long.
 */
#ifndef VG_API_WORKER_H
#define VG_API_WORKER_H

#include <stdbool.h>

#include "api/request.h"
#include "base/thread.h"

/* The number of jobs that may wait in total, and for one host; further jobs are refused. */
#define VG_WORKER_QUEUE_MAX      64
#define VG_WORKER_HOST_QUEUE_MAX 16

/* The number of jobs that may run concurrently for one host. */
#define VG_WORKER_HOST_MAX 4

/* Jobs that readers can request have half of each of these limits, and of the threads, so that the
 * other half remains for moves. A worker with one thread does not distinguish them. */
#define VG_WORKER_READER_SHARE 2

/* The maximum time that a job may wait. It is less than the time that clients and other vgpuds wait
 * for an answer. */
#define VG_WORKER_WAIT_NS (INT64_C(15) * 1000000000)

typedef struct vg_worker vg_worker;

struct vg_worker_hooks {
    /* Suspends the connection until resume(). Called with the worker's lock held, before the job
     * can run. */
    void (*suspend)(struct vg_request *request);
    /* Runs the job and its follow-up on one of the threads. */
    void (*run)(struct vg_request *request);
    /* Resumes the connection; the answer is set. Any thread. */
    void (*resume)(struct vg_request *request);
};

/* Creates a worker with at most this many threads, whose jobs wait for at most wait_ns. The first
 * thread is started immediately, the others when needed. */
vg_worker *vg_worker_new(const char *name, unsigned threads_max, int64_t wait_ns,
                         const struct vg_worker_hooks *hooks, GError **err);

/* Suspends the request and schedules its job. Fails with VG_E_BUSY if too many jobs are waiting;
 * the request is then not suspended. */
int vg_worker_put(vg_worker *worker, struct vg_request *request,
                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Refuses jobs that have waited for too long, or whose clients have disconnected. Returns when to
 * call it again; INT64_MAX means after the next job is put. */
int64_t vg_worker_tick(vg_worker *worker, int64_t now_ns);

/* Completes the running jobs, and answers the other requests that their jobs will not be done. No
 * job can be put afterwards. */
void vg_worker_stop(vg_worker *worker);
void vg_worker_free(vg_worker *worker); /* NULL is fine */

/* Returns the first thread. */
const vg_thread *vg_worker_thread(const vg_worker *worker);

#endif
