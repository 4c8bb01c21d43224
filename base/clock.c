/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/clock.h"

#include <poll.h>
#include <time.h>

static int64_t
read_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * VG_NS_PER_S + t.tv_nsec;
}

int64_t
vg_clock_monotonic_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t
vg_clock_realtime_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t
vg_clock_thread_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int
vg_clock_poll(struct pollfd *fds, unsigned n, int64_t until_ns)
{
    int64_t left_ns = until_ns - vg_clock_monotonic_ns();
    const struct timespec timeout = {.tv_sec = (time_t)(left_ns > 0 ? left_ns / VG_NS_PER_S : 0),
                                     .tv_nsec = (long)(left_ns > 0 ? left_ns % VG_NS_PER_S : 0)};

    return ppoll(fds, n, &timeout, NULL);
}
