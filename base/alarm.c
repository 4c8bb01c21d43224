/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/alarm.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

/* glibc has this name for the member since 2.37. */
#ifndef sigev_notify_thread_id
# define sigev_notify_thread_id _sigev_un._tid
#endif

struct vg_alarm {
    timer_t timer;
    sigset_t mask; /* the thread's previous mask */
    void (*on_ring)(void *data);
    void *data;
};

static _Thread_local struct vg_alarm *volatile current;

static void
alarm_on_signal(int signum)
{
    struct vg_alarm *alarm = current;
    int saved = errno;

    (void)signum;
    if (alarm)
        alarm->on_ring(alarm->data);
    errno = saved;
}

/* Installs the handler, without SA_RESTART, so that system calls return. */
static void
install(void)
{
    struct sigaction action = {.sa_handler = alarm_on_signal};

    sigemptyset(&action.sa_mask);
    sigaction(SIGURG, &action, NULL);
}

vg_alarm *
vg_alarm_start(int64_t period_ns, void (*on_ring)(void *data), void *data, GError **err)
{
    static pthread_once_t installed = PTHREAD_ONCE_INIT;
    vg_alarm *alarm = g_new0(vg_alarm, 1);
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = SIGURG,
        .sigev_notify_thread_id = gettid(),
    };
    const struct timespec period = {.tv_sec = (time_t)(period_ns / VG_NS_PER_S),
                                    .tv_nsec = (long)(period_ns % VG_NS_PER_S)};
    const struct itimerspec times = {.it_interval = period, .it_value = period};
    sigset_t ours;

    pthread_once(&installed, install);
    alarm->on_ring = on_ring;
    alarm->data = data;
    if (timer_create(CLOCK_MONOTONIC, &event, &alarm->timer) < 0) {
        vg_error_errno(err, errno, "cannot create a timer");
        g_free(alarm);
        return NULL;
    }
    current = alarm;
    sigemptyset(&ours);
    sigaddset(&ours, SIGURG);
    pthread_sigmask(SIG_UNBLOCK, &ours, &alarm->mask);
    timer_settime(alarm->timer, 0, &times, NULL);
    return alarm;
}

void
vg_alarm_stop(vg_alarm *alarm)
{
    if (!alarm)
        return;
    timer_delete(alarm->timer);
    pthread_sigmask(SIG_SETMASK, &alarm->mask, NULL);
    current = NULL;
    g_free(alarm);
}
