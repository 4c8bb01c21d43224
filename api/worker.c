/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/worker.h"

#include "base/clock.h"

#define BEAT_NS (2 * VG_NS_PER_S)

struct vg_worker {
    struct vg_worker_hooks hooks;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    GQueue jobs; /* struct vg_request, borrowed */
    bool stopping;
    vg_thread *thread;
};

static struct vg_request *
next_job(vg_worker *worker, bool *ret_stopping)
{
    VG_LOCK_SCOPE(&worker->lock);
    if (g_queue_is_empty(&worker->jobs) && !worker->stopping)
        vg_cond_wait_until(&worker->wake, &worker->lock, vg_clock_monotonic_ns() + BEAT_NS);
    *ret_stopping = worker->stopping;
    return g_queue_pop_head(&worker->jobs);
}

static void
worker_run(vg_thread *self, void *arg)
{
    vg_worker *worker = arg;
    bool stopping = false;
    struct vg_request *request;

    do {
        vg_thread_beat(self);
        request = next_job(worker, &stopping);
        if (!request)
            continue;
        if (stopping)
            vg_answer_problem(request, VG_E_BUSY, "the daemon is ending");
        else
            worker->hooks.run(request);
        worker->hooks.resume(request);
    } while (!stopping || request);
}

static void
worker_wake(void *arg)
{
    vg_worker *worker = arg;

    VG_LOCK_SCOPE(&worker->lock);
    worker->stopping = true;
    pthread_cond_broadcast(&worker->wake);
}

vg_worker *
vg_worker_new(const char *name, const struct vg_worker_hooks *hooks, GError **err)
{
    vg_worker *worker = g_new0(vg_worker, 1);

    worker->hooks = *hooks;
    pthread_mutex_init(&worker->lock, NULL);
    vg_cond_init(&worker->wake);
    g_queue_init(&worker->jobs);
    worker->thread = vg_thread_new(name, worker_run, worker_wake, worker, err);
    if (!worker->thread) {
        vg_worker_free(worker);
        return NULL;
    }
    return worker;
}

bool
vg_worker_put(vg_worker *worker, struct vg_request *request)
{
    VG_LOCK_SCOPE(&worker->lock);
    if (worker->stopping || g_queue_get_length(&worker->jobs) >= VG_WORKER_QUEUE_MAX)
        return false;
    worker->hooks.suspend(request);
    g_queue_push_tail(&worker->jobs, request);
    pthread_cond_signal(&worker->wake);
    return true;
}

void
vg_worker_stop(vg_worker *worker)
{
    vg_thread_join(worker->thread);
}

void
vg_worker_free(vg_worker *worker)
{
    if (!worker)
        return;
    vg_thread_free(worker->thread);
    g_queue_clear(&worker->jobs);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    g_free(worker);
}

const vg_thread *
vg_worker_thread(const vg_worker *worker)
{
    return worker->thread;
}
