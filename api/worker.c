/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/worker.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define BEAT_NS (2 * VG_NS_PER_S)
/* The time after which an idle thread ends. */
#define IDLE_NS (30 * VG_NS_PER_S)
/* The interval of checks for disconnected clients. */
#define CHECK_NS VG_NS_PER_S

/* A running job. */
struct worker_run {
    char *hosts[VG_BACKEND_HOSTS]; /* owned copies of the request's hosts */
    int64_t began_ns;
    bool is_reader; /* whether a reader may make the request */
};

struct vg_worker {
    char *name;
    unsigned threads_max;
    int64_t wait_ns;
    struct vg_worker_hooks hooks;
    pthread_mutex_t lock; /* protects the following members */
    pthread_cond_t wake;
    GQueue jobs;        /* struct vg_request, borrowed */
    GPtrArray *running; /* struct worker_run, owned, oldest first */
    GPtrArray *threads; /* vg_thread, owned; the first one never ends */
    unsigned idle;      /* the number of threads waiting for a job */
    bool stopping;
};

static void
worker_run_free(void *data)
{
    struct worker_run *run = data;

    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++)
        g_free(run->hosts[i]);
    g_free(run);
}

/* ---- hosts ---- */

static bool
worker_names(char *const *hosts, const char *host)
{
    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++) {
        if (hosts[i] && strcmp(hosts[i], host) == 0)
            return true;
    }
    return false;
}

static bool
worker_is_reader(const struct vg_request *request)
{
    return request->role <= VG_ROLE_READER;
}

/* Counts the running jobs for a host, or only readers' jobs. *ret_oldest_ns is the start of the
 * oldest one. */
static unsigned
worker_count_running(const vg_worker *worker, const char *host, bool readers,
                     int64_t *ret_oldest_ns)
{
    unsigned n = 0;

    for (guint i = 0; i < worker->running->len; i++) {
        const struct worker_run *run = worker->running->pdata[i];
        if (!worker_names(run->hosts, host) || (readers && !run->is_reader))
            continue;
        if (n++ == 0)
            *ret_oldest_ns = run->began_ns;
    }
    return n;
}

/* Returns a host of the job that already has the maximum number of running jobs, or NULL. */
static const char *
worker_find_full(const vg_worker *worker, const struct vg_request *request, int64_t *ret_oldest_ns)
{
    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++) {
        const char *host = request->hosts[i];
        if (host &&
            (worker_count_running(worker, host, false, ret_oldest_ns) >= VG_WORKER_HOST_MAX ||
             (worker_is_reader(request) &&
              worker_count_running(worker, host, true, ret_oldest_ns) >=
                  VG_WORKER_HOST_MAX / VG_WORKER_READER_SHARE)))
            return host;
    }
    return NULL;
}

/* Returns whether a request is a reader's, and the maximum number of these is running. */
static bool
worker_has_enough_readers(const vg_worker *worker, const struct vg_request *request)
{
    unsigned n = 0;

    if (!worker_is_reader(request) || worker->threads_max == 1)
        return false;
    for (guint i = 0; i < worker->running->len; i++)
        n += ((const struct worker_run *)worker->running->pdata[i])->is_reader ? 1 : 0;
    return n >= worker->threads_max / VG_WORKER_READER_SHARE;
}

/* Describes a host for a message. The caller frees it. */
static char *
worker_host_words(const char *host)
{
    return *host ? g_strdup_printf("host '%s'", host) : g_strdup("this host's libvirt");
}

/* Describes what a job waits for. The caller frees it. */
static char *
worker_why(const vg_worker *worker, const struct vg_request *request)
{
    int64_t oldest_ns = vg_clock_monotonic_ns();
    const char *host = worker_find_full(worker, request, &oldest_ns);
    g_autofree char *words = host ? worker_host_words(host) : NULL;
    const double age_s = (double)(vg_clock_monotonic_ns() - oldest_ns) / (double)VG_NS_PER_S;

    if (words)
        return g_strdup_printf("%s has not answered another request for %.0f s", words, age_s);
    return g_strdup("vgpud is busy with other requests");
}

/* ---- jobs ---- */

/* Returns the next job that may run now, or NULL. */
static GList *
worker_find_job(vg_worker *worker)
{
    int64_t oldest_ns;

    for (GList *link = worker->jobs.head; link; link = link->next) {
        if (worker->stopping || (!worker_has_enough_readers(worker, link->data) &&
                                 !worker_find_full(worker, link->data, &oldest_ns)))
            return link;
    }
    return NULL;
}

/* Refuses a job whose client has disconnected or that has waited for too long. Returns false
 * otherwise. */
static bool
worker_refuse(vg_worker *worker, struct vg_request *request, int64_t now_ns)
{
    /* A request that is already answered only needs to be recorded. */
    if (request->answer.status != 0)
        return false;
    const bool waits = request->waits(request);
    if (waits && now_ns < request->begin_by_ns)
        return false;
    g_autofree char *why =
        waits ? worker_why(worker, request) : g_strdup("the client has disconnected");
    vg_log_info("not started request=%s: %s", request->request_id, why);
    vg_answer_problem(request, VG_E_TIMEOUT, "nothing was started: %s", why);
    return true;
}

static void worker_run(vg_thread *self, void *arg);

/* Wakes or starts a thread if a job can run. */
static void
worker_call_thread(vg_worker *worker)
{
    g_autoptr(GError) err = NULL;

    if (!worker_find_job(worker) || worker->stopping)
        return;
    if (worker->idle > 0) {
        pthread_cond_signal(&worker->wake);
        return;
    }
    for (guint i = worker->threads->len; i > 1; i--) {
        if (vg_thread_ended(worker->threads->pdata[i - 1]))
            g_ptr_array_remove_index_fast(worker->threads, i - 1);
    }
    if (worker->threads->len >= worker->threads_max)
        return;
    vg_thread *thread = vg_thread_new(worker->name, worker_run, NULL, worker, &err);
    if (thread)
        g_ptr_array_add(worker->threads, thread);
    else
        vg_log_warn_limited("cannot start a thread for a waiting request: %s", err->message);
}

/* Takes the next job. Waits for one if necessary. */
static struct vg_request *
worker_take(vg_worker *worker, struct worker_run **ret_run)
{
    GList *link = worker_find_job(worker);

    if (!link && !worker->stopping) {
        worker->idle++;
        vg_cond_wait_until(&worker->wake, &worker->lock, vg_clock_monotonic_ns() + BEAT_NS);
        worker->idle--;
        link = worker_find_job(worker);
    }
    if (!link)
        return NULL;
    struct vg_request *request = link->data;
    struct worker_run *run = g_new0(struct worker_run, 1);
    g_queue_delete_link(&worker->jobs, link);
    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++)
        run->hosts[i] = g_strdup(request->hosts[i]);
    run->began_ns = vg_clock_monotonic_ns();
    run->is_reader = worker_is_reader(request);
    g_ptr_array_add(worker->running, run);
    worker_call_thread(worker);
    *ret_run = run;
    return request;
}

/* Runs the next job outside the lock. Returns false if there was none. */
static bool
worker_do_next(vg_worker *worker)
{
    struct worker_run *run = NULL;
    struct vg_request *request = worker_take(worker, &run);

    if (!request)
        return false;
    const bool refused = worker->stopping || worker_refuse(worker, request, run->began_ns);
    if (worker->stopping)
        vg_answer_problem(request, VG_E_BUSY, "the daemon is stopping");
    pthread_mutex_unlock(&worker->lock);
    if (!refused)
        worker->hooks.run(request);
    worker->hooks.resume(request);
    pthread_mutex_lock(&worker->lock);
    g_ptr_array_remove(worker->running, run);
    worker_call_thread(worker);
    return true;
}

static void
worker_run(vg_thread *self, void *arg)
{
    vg_worker *worker = arg;
    int64_t idle_since_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&worker->lock);
    for (;;) {
        vg_thread_beat(self);
        if (worker_do_next(worker)) {
            idle_since_ns = vg_clock_monotonic_ns();
            continue;
        }
        const bool is_first = worker->threads->len == 0 || worker->threads->pdata[0] == self;
        if (worker->stopping || (!is_first && vg_clock_monotonic_ns() - idle_since_ns > IDLE_NS))
            return;
    }
}

/* ---- from outside ---- */

static void
worker_free_thread(void *thread)
{
    vg_thread_free(thread);
}

vg_worker *
vg_worker_new(const char *name, unsigned threads_max, int64_t wait_ns,
              const struct vg_worker_hooks *hooks, GError **err)
{
    vg_worker *worker = g_new0(vg_worker, 1);

    worker->name = g_strdup(name);
    worker->threads_max = threads_max;
    worker->wait_ns = wait_ns;
    worker->hooks = *hooks;
    pthread_mutex_init(&worker->lock, NULL);
    vg_cond_init(&worker->wake);
    g_queue_init(&worker->jobs);
    worker->running = g_ptr_array_new_with_free_func(worker_run_free);
    worker->threads = g_ptr_array_new_with_free_func(worker_free_thread);
    pthread_mutex_lock(&worker->lock); /* until the thread is in the list */
    vg_thread *thread = vg_thread_new(name, worker_run, NULL, worker, err);
    if (thread)
        g_ptr_array_add(worker->threads, thread);
    pthread_mutex_unlock(&worker->lock);
    if (!thread)
        g_clear_pointer(&worker, vg_worker_free);
    return worker;
}

/* Counts the jobs waiting for a host, or for any host if it is NULL. Counts only readers' jobs if
 * `readers` is set. */
static unsigned
worker_count_waiting(const vg_worker *worker, const char *host, bool readers)
{
    unsigned n = 0;

    for (GList *link = worker->jobs.head; link; link = link->next) {
        const struct vg_request *job = link->data;
        n += (!host || worker_names(job->hosts, host)) && (!readers || worker_is_reader(job));
    }
    return n;
}

/* Checks whether another job may wait for a host, or for any host if it is NULL. */
static int
worker_check_room(const vg_worker *worker, const struct vg_request *request, const char *host,
                  unsigned max, GError **err)
{
    const unsigned all = worker_count_waiting(worker, host, false);
    const unsigned readers = worker_count_waiting(worker, host, true);
    bool is_full = all >= max || (worker_is_reader(request) && worker->threads_max > 1 &&
                                  readers >= max / VG_WORKER_READER_SHARE);

    if (!is_full)
        return 0;
    g_autofree char *words = host ? worker_host_words(host) : g_strdup("slow operations");
    if (all >= max)
        return vg_error(err, VG_E_BUSY, "%u requests are already waiting for %s", all, words);
    return vg_error(err, VG_E_BUSY, "%u requests from readers are already waiting for %s", readers,
                    words);
}

int
vg_worker_put(vg_worker *worker, struct vg_request *request, GError **err)
{
    VG_LOCK_SCOPE(&worker->lock);
    if (worker->stopping)
        return vg_error(err, VG_E_BUSY, "the daemon is stopping");
    if (worker_check_room(worker, request, NULL, VG_WORKER_QUEUE_MAX, err) != 0)
        return -1;
    for (size_t i = 0; i < VG_BACKEND_HOSTS; i++) {
        const char *host = request->hosts[i];
        if (host && worker_check_room(worker, request, host, VG_WORKER_HOST_QUEUE_MAX, err) != 0)
            return -1;
    }
    request->begin_by_ns = vg_clock_monotonic_ns() + worker->wait_ns;
    worker->hooks.suspend(request);
    g_queue_push_tail(&worker->jobs, request);
    worker_call_thread(worker);
    return 0;
}

int64_t
vg_worker_tick(vg_worker *worker, int64_t now_ns)
{
    GQueue refused = G_QUEUE_INIT;
    int64_t next_ns = INT64_MAX;
    struct vg_request *request;

    pthread_mutex_lock(&worker->lock);
    for (GList *link = worker->jobs.head, *after; link; link = after) {
        after = link->next;
        request = link->data;
        if (worker->stopping || !worker_refuse(worker, request, now_ns)) {
            next_ns = now_ns + CHECK_NS;
            continue;
        }
        g_queue_delete_link(&worker->jobs, link);
        g_queue_push_tail(&refused, request);
    }
    pthread_mutex_unlock(&worker->lock);
    while ((request = g_queue_pop_head(&refused)))
        worker->hooks.resume(request);
    return next_ns;
}

void
vg_worker_stop(vg_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    worker->stopping = true; /* no thread is started any more */
    pthread_cond_broadcast(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    for (guint i = 0; i < worker->threads->len; i++)
        vg_thread_join(worker->threads->pdata[i]);
}

void
vg_worker_free(vg_worker *worker)
{
    if (!worker)
        return;
    if (worker->threads->len > 0)
        vg_worker_stop(worker);
    g_ptr_array_unref(worker->threads);
    g_ptr_array_unref(worker->running);
    g_queue_clear(&worker->jobs);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->lock);
    g_free(worker->name);
    g_free(worker);
}

const vg_thread *
vg_worker_thread(const vg_worker *worker)
{
    return worker->threads->pdata[0];
}
