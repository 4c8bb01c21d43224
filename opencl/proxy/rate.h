/* SPDX-License-Identifier: Apache-2.0
 *
 * A rate limiter (token bucket): an event may occur in a burst up to a limit, and then at a steady
 * rate per second.
 */
#ifndef VG_OPENCL_PROXY_RATE_H
#define VG_OPENCL_PROXY_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct proxy_rate {
    double used; /* burst capacity in use; it recovers at the steady rate */
    int64_t at;  /* time of the last update of USED, in ns */
};

struct proxy_rate_limit {
    double at_once, a_second;
};

/* Returns whether the event may occur at NOW, by vg_cl_now(). */
bool vg_rate_may(const struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now);

/* Does the same, and counts the event if it may occur. */
bool vg_rate_take(struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now);

#endif
