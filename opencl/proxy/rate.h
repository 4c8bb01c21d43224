/* SPDX-License-Identifier: Apache-2.0
 *
 * How often something may happen: so many times at once, and then so many times a second.
 */
#ifndef VG_OPENCL_PROXY_RATE_H
#define VG_OPENCL_PROXY_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct proxy_rate {
    double used; /* of the times at once; each second, as many are free again as it may be */
    int64_t at;  /* when USED was so, in ns */
};

struct proxy_rate_limit {
    double at_once, a_second;
};

/* Whether it may happen at NOW, by vg_cl_now(). */
bool vg_rate_may(const struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now);

/* The same, and counts it if so. */
bool vg_rate_take(struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now);

#endif
