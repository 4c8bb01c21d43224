/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/rate.h"

static double
rate_used(const struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now)
{
    const double used = rate->used - (double)(now - rate->at) / 1e9 * limit->a_second;

    return used > 0 ? used : 0;
}

bool
vg_rate_may(const struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now)
{
    return rate_used(rate, limit, now) + 1 <= limit->at_once;
}

bool
vg_rate_take(struct proxy_rate *rate, const struct proxy_rate_limit *limit, int64_t now)
{
    if (!vg_rate_may(rate, limit, now))
        return false;
    rate->used = rate_used(rate, limit, now) + 1;
    rate->at = now;
    return true;
}
