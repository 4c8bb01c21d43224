/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/fake-clock.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/clock.h"

#define FDS_MAX   8
#define HANGS_S   100
#define EPOCH_NS  (INT64_C(1795200000) * VG_NS_PER_S)
#define NOBODY_NS INT64_MIN
#define START_NS  (1000 * VG_NS_PER_S) /* a multiple of it, and a nanosecond */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool on;
    int64_t now_ns;
    int64_t until_ns; /* the thread waits for that; NOBODY_NS: it does not wait */
    int over_fd;      /* readable: the wait is over */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int64_t
read_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * VG_NS_PER_S + t.tv_nsec;
}

static int64_t
read_either(clockid_t id, int64_t offset_ns)
{
    pthread_mutex_lock(&fake.lock);
    int64_t now_ns = fake.on ? fake.now_ns + offset_ns : read_clock(id);
    pthread_mutex_unlock(&fake.lock);
    return now_ns;
}

int64_t
vg_clock_monotonic_ns(void)
{
    return read_either(CLOCK_MONOTONIC, 0);
}

int64_t
vg_clock_realtime_ns(void)
{
    return read_either(CLOCK_REALTIME, EPOCH_NS);
}

/* Nothing that runs takes any time. */
int64_t
vg_clock_thread_cpu_ns(void)
{
    return fake.on ? 0 : read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int
vg_clock_poll(struct pollfd *fds, unsigned n, int64_t until_ns)
{
    struct pollfd all[FDS_MAX + 1];
    uint64_t over;

    if (!fake.on) {
        int64_t left_ns = until_ns - vg_clock_monotonic_ns();
        return poll(fds, n, left_ns > 0 ? (int)(left_ns / VG_NS_PER_MS) + 1 : 0);
    }
    assert_in_range(n, 0, FDS_MAX);
    memcpy(all, fds, n * sizeof(*fds));
    all[n] = (struct pollfd){.fd = fake.over_fd, .events = POLLIN};
    pthread_mutex_lock(&fake.lock);
    fake.until_ns = until_ns;
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
    int ready = poll(all, n + 1, -1);
    pthread_mutex_lock(&fake.lock);
    fake.until_ns = NOBODY_NS;
    if (read(fake.over_fd, &over, sizeof(over)) == sizeof(over) && all[n].revents)
        ready--;
    pthread_mutex_unlock(&fake.lock);
    memcpy(fds, all, n * sizeof(*fds));
    return ready;
}

void
fake_clock_start(void)
{
    /* Not before the real time, for which other threads may wait. */
    fake.now_ns = (read_clock(CLOCK_MONOTONIC) / START_NS + 1) * START_NS + 1;
    fake.until_ns = NOBODY_NS;
    fake.over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(fake.over_fd >= 0);
    fake.on = true;
}

/* With the lock held. */
static void
wait_for_waiter(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HANGS_S;
    while (fake.until_ns == NOBODY_NS) {
        if (pthread_cond_timedwait(&fake.changed, &fake.lock, &until) != 0) {
            pthread_mutex_unlock(&fake.lock);
            fail_msg("the thread does not wait within %d s", HANGS_S);
        }
    }
}

void
fake_clock_step(void)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&fake.lock);
    wait_for_waiter();
    if (fake.until_ns > fake.now_ns)
        fake.now_ns = fake.until_ns;
    fake.until_ns = NOBODY_NS;
    assert_int_equal(write(fake.over_fd, &one, sizeof(one)), sizeof(one));
    wait_for_waiter();
    pthread_mutex_unlock(&fake.lock);
}

void
fake_clock_pass(int64_t ns)
{
    pthread_mutex_lock(&fake.lock);
    fake.now_ns += ns;
    pthread_mutex_unlock(&fake.lock);
}

void
fake_clock_stop(void)
{
    fake.on = false;
    close(fake.over_fd);
}

struct collector_run *
fake_clock_run(vg_collector *take_collector)
{
    fake_clock_start();
    struct collector_run *run = collector_run_start(take_collector);
    collector_run_step_with(run, fake_clock_step);
    return run;
}

void
fake_clock_end(struct collector_run *run)
{
    collector_run_stop(run);
    fake_clock_stop();
}
