/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/virt-link.h"

#include <libvirt/virterror.h>

#include "actuators/virt-hang.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "host/virt-event.h"

/* The interval at which a caller checks its limits. */
#define CHECK_NS (20 * VG_NS_PER_MS)
/* The time for libvirt to answer after a job was cancelled. After that, the job is abandoned. */
#define CANCEL_NS (2 * VG_NS_PER_S)
/* The time limit for closing a link. */
#define CLOSE_NS (2 * VG_NS_PER_S)

struct virt_worker {
    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t cond;
    struct vg_virt_job *job;   /* NULL if there is no job */
    bool begun;                /* the thread has taken the job */
    bool done;                 /* the job is done */
    bool leaving;              /* the link no longer exists, and the thread is to end */
    bool closed;               /* the connection is closed, and no call hangs any more */
    struct vg_virt_hang *hang; /* the record of the hang after the worker was abandoned */
    unsigned refs;             /* one each for the link and the thread */
    vg_virt_host host;         /* only the thread uses it, except for the atomics */
};

struct vg_virt_link {
    char *uri;
    char *root;
    vg_virt_reboots *reboots;   /* may be NULL */
    struct virt_worker *worker; /* NULL if the next job must start a worker */
    vg_thread *thread;          /* the worker's thread */
};

static atomic_bool link_ending;

/* ---- jobs ---- */

static void
link_free_job(struct vg_virt_job *job)
{
    g_clear_error(&job->error);
    job->free(job);
}

/* Reports a job's progress, unless the caller no longer waits for it. */
static void
link_report(void *data, const struct vg_migration_progress *progress, const char *text)
{
    struct vg_virt_job *job = data;

    VG_LOCK_SCOPE(&job->worker->lock);
    if (!atomic_load(&job->worker->host.given_up))
        job->limits->tell(job->limits->data, progress, text);
}

void
vg_virt_job_init(struct vg_virt_job *job, const char *what,
                 int (*run)(struct vg_virt_job *job, vg_virt_host *host, GError **err),
                 void (*free)(struct vg_virt_job *job), const struct vg_verb *limits)
{
    job->what = what;
    job->run = run;
    job->free = free;
    job->call_ns = VG_VIRT_CALL_NS;
    job->limits = limits;
    job->verb = (struct vg_verb){
        .deadline_ns = limits ? limits->deadline_ns : INT64_MAX,
        .cancel = &job->cancel,
        .tell = limits && limits->tell ? link_report : NULL,
        .data = job,
    };
}

/* ---- the thread ---- */

static void
worker_forget_despair(struct virt_worker *worker)
{
    GError *why = atomic_exchange(&worker->host.hopeless, NULL);

    g_clear_error(&why);
}

static void
worker_unref(struct virt_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    const bool last = --worker->refs == 0;
    pthread_mutex_unlock(&worker->lock);
    if (!last)
        return;
    pthread_cond_destroy(&worker->cond);
    pthread_mutex_destroy(&worker->lock);
    vg_virt_reboots_unref(worker->host.reboots);
    g_free(worker->host.root);
    g_free(worker->host.uri);
    worker_forget_despair(worker);
    g_free(worker);
}

/* Waits for a job. Returns NULL if the link was closed. */
static struct vg_virt_job *
worker_next(struct virt_worker *worker)
{
    VG_LOCK_SCOPE(&worker->lock);
    while (!worker->leaving && (!worker->job || worker->done))
        pthread_cond_wait(&worker->cond, &worker->lock);
    if (worker->leaving)
        return NULL;
    worker->begun = true;
    worker_forget_despair(worker);
    vg_virt_host_goes_on(&worker->host);
    return worker->job;
}

static void
worker_do(struct virt_worker *worker, struct vg_virt_job *job)
{
    job->status = job->run(job, &worker->host, &job->error);
    pthread_mutex_lock(&worker->lock);
    worker->done = true;
    const bool given_up = atomic_load(&worker->host.given_up);
    pthread_cond_broadcast(&worker->cond);
    pthread_mutex_unlock(&worker->lock);
    if (given_up)
        link_free_job(job);
}

static void
worker_close(struct virt_worker *worker)
{
    vg_virt_host_goes_on(&worker->host);
    vg_virt_host_close(&worker->host);
    pthread_mutex_lock(&worker->lock);
    worker->closed = true;
    struct vg_virt_hang *hang = g_steal_pointer(&worker->hang);
    pthread_cond_broadcast(&worker->cond);
    pthread_mutex_unlock(&worker->lock);
    if (hang)
        vg_virt_hang_ended(hang);
}

static void
worker_run(vg_thread *self, void *arg)
{
    struct virt_worker *worker = arg;
    struct vg_virt_job *job;

    (void)self;
    while ((job = worker_next(worker)))
        worker_do(worker, job);
    worker_close(worker);
    worker_unref(worker);
}

/* ---- abandoning a job ---- */

/* Abandons the worker and its thread. Called with the worker's lock, which it releases. */
static void
link_abandon(vg_virt_link *link, const char *what)
{
    struct virt_worker *worker = g_steal_pointer(&link->worker);
    vg_virt_host *host = &worker->host;

    atomic_store(&host->given_up, true);
    worker->leaving = true;
    worker->hang = vg_virt_hang_begin(link->uri, what, (int64_t)atomic_load(&host->beat_ns),
                                      atomic_load(&host->connecting));
    if (worker->job && !worker->begun)
        link_free_job(g_steal_pointer(&worker->job));
    else if (worker->job && !worker->done)
        atomic_store(&worker->job->cancel, true);
    pthread_cond_broadcast(&worker->cond);
    pthread_mutex_unlock(&worker->lock);
    worker_unref(worker);
    vg_thread_leave(g_steal_pointer(&link->thread));
}

/* Returns whether to leave the job immediately, whatever libvirt is doing. */
static bool
link_is_left(const struct vg_virt_job *job)
{
    return atomic_load(&link_ending) ||
           (job->limits && job->limits->leave && atomic_load(job->limits->leave));
}

/* Returns whether to abandon the running job. Called with the worker's lock. */
static bool
link_is_over(const struct virt_worker *worker, const struct vg_virt_job *job)
{
    const int64_t silent_ns = vg_clock_monotonic_ns() - (int64_t)atomic_load(&worker->host.beat_ns);
    const bool is_cancelled = atomic_load(&job->cancel);

    /* If the thread has not taken the job yet, libvirt is not to blame. */
    return link_is_left(job) || atomic_load(&worker->host.hopeless) ||
           (worker->begun && (silent_ns > job->call_ns || (is_cancelled && silent_ns > CANCEL_NS)));
}

/* Waits until the job is done. Called with the worker's lock. Returns false if the job was
 * abandoned: the lock is then released, and *ret_why is set if the worker gave a reason. */
static bool
link_wait(vg_virt_link *link, struct vg_virt_job *job, GError **ret_why)
{
    struct virt_worker *worker = link->worker;

    while (!worker->done) {
        /* If both are set, `leave` was set first, and nothing is cancelled. */
        const bool is_cancelled =
            job->limits && job->limits->cancel && atomic_load(job->limits->cancel);
        if (is_cancelled && !link_is_left(job))
            atomic_store(&job->cancel, true);
        if (link_is_over(worker, job)) {
            *ret_why = atomic_exchange(&worker->host.hopeless, NULL);
            link_abandon(link, job->what);
            return false;
        }
        vg_cond_wait_until(&worker->cond, &worker->lock, vg_clock_monotonic_ns() + CHECK_NS);
    }
    return true;
}

/* ---- a call ---- */

static int
link_start_worker(vg_virt_link *link, GError **err)
{
    if (vg_virt_event_start(err) < 0)
        return -1;
    struct virt_worker *worker = g_new0(struct virt_worker, 1);
    worker->refs = 2;
    worker->host.uri = g_strdup(link->uri);
    worker->host.root = g_strdup(link->root);
    worker->host.reboots = vg_virt_reboots_ref(link->reboots);
    pthread_mutex_init(&worker->lock, NULL);
    vg_cond_init(&worker->cond);
    link->thread = vg_thread_new("virt-call", worker_run, NULL, worker, err);
    if (link->thread) {
        link->worker = worker;
        return 0;
    }
    worker->refs = 1;
    worker_unref(worker);
    return -1;
}

/* Passes the job to the link's thread. Returns -1 if this is not possible now. */
static int
link_begin(vg_virt_link *link, struct vg_virt_job *job, GError **err)
{
    if (atomic_load(&link_ending))
        return vg_error(err, VG_E_BUSY, "vgpud is stopping");
    if (vg_virt_hang_check(link->uri, false, err) < 0 ||
        (!link->worker && link_start_worker(link, err) < 0))
        return -1;
    job->worker = link->worker;
    job->verb.beat_ns = &link->worker->host.beat_ns;
    VG_LOCK_SCOPE(&link->worker->lock);
    link->worker->job = job;
    link->worker->begun = false;
    link->worker->done = false;
    pthread_cond_broadcast(&link->worker->cond);
    return 0;
}

int
vg_virt_call(vg_virt_link *link, struct vg_virt_job *take_job, GError **err)
{
    struct vg_virt_job *job = take_job;
    const char *what = job->what;
    g_autoptr(GError) why = NULL;

    if (link_begin(link, job, err) < 0) {
        link_free_job(job);
        return -1;
    }
    struct virt_worker *worker = link->worker;
    const int64_t began_ns = vg_clock_monotonic_ns();
    pthread_mutex_lock(&worker->lock);
    /* The thread owns the job from now on. */
    const atomic_bool *leave = job->limits ? job->limits->leave : NULL;
    if (!link_wait(link, job, &why)) {
        if (!why)
            vg_error(&why,
                     atomic_load(&link_ending) || (leave && atomic_load(leave)) ? VG_E_BUSY
                                                                                : VG_E_TIMEOUT,
                     "libvirt at '%s' has not answered the request %s for %.0f s", link->uri, what,
                     (double)(vg_clock_monotonic_ns() - began_ns) / (double)VG_NS_PER_S);
        g_propagate_error(err, g_steal_pointer(&why));
        return -1;
    }
    worker->job = NULL;
    pthread_mutex_unlock(&worker->lock);
    if (job->status == 0)
        return 0;
    g_propagate_error(err, g_steal_pointer(&job->error));
    link_free_job(job);
    return -1;
}

/* ---- the public side ---- */

static int
link_do_connect(struct vg_virt_job *job, vg_virt_host *host, GError **err)
{
    (void)job;
    return vg_virt_host_connect(host, err);
}

static void
link_free_plain(struct vg_virt_job *job)
{
    g_free(job);
}

vg_virt_link *
vg_virt_link_open(const char *uri, GError **err)
{
    return vg_virt_link_open_for(uri, NULL, err);
}

vg_virt_link *
vg_virt_link_open_for(const char *uri, vg_virt_reboots *reboots, GError **err)
{
    g_autoptr(vg_virt_link) link = g_new0(vg_virt_link, 1);
    struct vg_virt_job *job = g_new0(struct vg_virt_job, 1);

    link->uri = g_strdup(uri);
    link->root = g_strdup("/");
    link->reboots = vg_virt_reboots_ref(reboots);
    vg_virt_job_init(job, "to connect", link_do_connect, link_free_plain, NULL);
    if (vg_virt_call(link, job, err) < 0)
        return NULL;
    link_free_job(job);
    return g_steal_pointer(&link);
}

/* Closes the connection on the link's thread, since closing also queries libvirt. */
void
vg_virt_link_close(vg_virt_link *link)
{
    struct virt_worker *worker = link ? link->worker : NULL;

    if (worker) {
        const int64_t until_ns = vg_clock_monotonic_ns() + CLOSE_NS;
        pthread_mutex_lock(&worker->lock);
        worker->leaving = true;
        pthread_cond_broadcast(&worker->cond);
        while (!worker->closed && !atomic_load(&link_ending) && vg_clock_monotonic_ns() < until_ns)
            vg_cond_wait_until(&worker->cond, &worker->lock, vg_clock_monotonic_ns() + CHECK_NS);
        if (worker->closed) {
            pthread_mutex_unlock(&worker->lock);
            vg_thread_free(link->thread);
            worker_unref(worker);
        } else {
            link_abandon(link, "to close a connection");
        }
    }
    if (link) {
        vg_virt_reboots_unref(link->reboots);
        g_free(link->root);
        g_free(link->uri);
        g_free(link);
    }
}

void
vg_virt_link_set_root(vg_virt_link *link, const char *root)
{
    g_free(link->root);
    link->root = g_strdup(root);
    if (!link->worker)
        return;
    VG_LOCK_SCOPE(&link->worker->lock);
    g_free(link->worker->host.root);
    link->worker->host.root = g_strdup(root);
}

void
vg_virt_links_end(void)
{
    atomic_store(&link_ending, true);
}
