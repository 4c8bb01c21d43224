/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/thread.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"

/* The interval at which a sleeping thread beats. */
#define SLEEP_BEAT_NS VG_NS_PER_S

struct vg_own_thread {
    char name[VG_THREAD_NAME_MAX + 1];
    vg_thread_run *run;
    void (*wake)(void *arg);
    void *arg;
    pthread_t id;
    bool joined;
    atomic_uint refs; /* references: the owner and the thread itself */
    atomic_bool stopping;
    atomic_bool ended;
    atomic_int_fast64_t beat_ns;
    pthread_mutex_t lock; /* protects cond, which wakes sleeping threads */
    pthread_cond_t cond;
};

void
vg_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool
vg_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t monotonic_ns)
{
    struct timespec until = {
        .tv_sec = (time_t)(monotonic_ns / VG_NS_PER_S),
        .tv_nsec = (long)(monotonic_ns % VG_NS_PER_S),
    };

    return pthread_cond_timedwait(cond, mutex, &until) == 0;
}

static void
thread_unref(vg_thread *thread)
{
    if (atomic_fetch_sub(&thread->refs, 1) > 1)
        return;
    pthread_cond_destroy(&thread->cond);
    pthread_mutex_destroy(&thread->lock);
    g_free(thread);
}

static void *
thread_start(void *data)
{
    vg_thread *thread = data;

    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread, thread->arg);
    atomic_store(&thread->ended, true);
    thread_unref(thread);
    return NULL;
}

vg_thread *
vg_thread_new(const char *name, vg_thread_run *run, void (*wake)(void *arg), void *arg,
              GError **err)
{
    vg_thread *thread = g_new0(vg_thread, 1);
    sigset_t all, old;

    g_strlcpy(thread->name, name, sizeof(thread->name));
    thread->run = run;
    thread->wake = wake;
    thread->arg = arg;
    atomic_store(&thread->refs, 2);
    atomic_store(&thread->beat_ns, vg_clock_monotonic_ns());
    pthread_mutex_init(&thread->lock, NULL);
    vg_cond_init(&thread->cond);

    /* A thread inherits the mask, so all signals are blocked from the start. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int status = pthread_create(&thread->id, NULL, thread_start, thread);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (status == 0)
        return thread;
    atomic_store(&thread->refs, 1);
    thread_unref(thread);
    vg_error_errno(err, status, "cannot start thread '%s'", name);
    return NULL;
}

bool
vg_thread_stopping(vg_thread *self)
{
    return atomic_load(&self->stopping);
}

void
vg_thread_beat(vg_thread *self)
{
    atomic_store(&self->beat_ns, vg_clock_monotonic_ns());
}

bool
vg_thread_sleep_until(vg_thread *self, int64_t monotonic_ns)
{
    VG_LOCK_SCOPE(&self->lock);
    while (!atomic_load(&self->stopping)) {
        int64_t now = vg_clock_monotonic_ns();
        atomic_store(&self->beat_ns, now);
        if (now >= monotonic_ns)
            return true;
        vg_cond_wait_until(&self->cond, &self->lock, MIN(monotonic_ns, now + SLEEP_BEAT_NS));
    }
    return false;
}

const char *
vg_thread_name(const vg_thread *thread)
{
    return thread->name;
}

bool
vg_thread_ended(const vg_thread *thread)
{
    return atomic_load(&thread->ended);
}

int64_t
vg_thread_silence_ns(const vg_thread *thread)
{
    if (atomic_load(&thread->ended))
        return 0;
    return MAX(vg_clock_monotonic_ns() - (int64_t)atomic_load(&thread->beat_ns), 0);
}

void
vg_thread_stop(vg_thread *thread)
{
    if (!thread || thread->joined)
        return;
    pthread_mutex_lock(&thread->lock);
    atomic_store(&thread->stopping, true);
    pthread_cond_broadcast(&thread->cond);
    pthread_mutex_unlock(&thread->lock);
    if (thread->wake)
        thread->wake(thread->arg);
}

void
vg_thread_join(vg_thread *thread)
{
    if (!thread || thread->joined)
        return;
    vg_thread_stop(thread);
    pthread_join(thread->id, NULL);
    thread->joined = true;
}

void
vg_thread_free(vg_thread *thread)
{
    if (!thread)
        return;
    vg_thread_join(thread);
    thread_unref(thread);
}

void
vg_thread_leave(vg_thread *thread)
{
    pthread_detach(thread->id);
    thread_unref(thread);
}
