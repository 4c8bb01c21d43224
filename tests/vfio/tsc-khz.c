/* SPDX-License-Identifier: Apache-2.0
 *
 * Says how many thousand ticks a second this machine's TSC makes. An emulated host has the same
 * one, and a busy machine does not let it count them by itself.
 */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <x86intrin.h>

#define TRIES    64
#define APART_MS 200

struct moment {
    int64_t ns;
    uint64_t ticks;
};

static int64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Of several readings, that with the least time between the two clocks. */
static struct moment
read_both(void)
{
    struct moment best = {0, 0};
    int64_t least_ns = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        const int64_t before_ns = now_ns();
        const uint64_t ticks = __rdtsc();
        const int64_t took_ns = now_ns() - before_ns;
        if (took_ns < least_ns) {
            least_ns = took_ns;
            best = (struct moment){before_ns + took_ns / 2, ticks};
        }
    }
    return best;
}

int
main(void)
{
    const struct moment begin = read_both();

    nanosleep(&(struct timespec){.tv_nsec = APART_MS * 1000000L}, NULL);
    const struct moment end = read_both();
    printf("%.0f\n", (double)(end.ticks - begin.ticks) / (double)(end.ns - begin.ns) * 1e6);
    return 0;
}
