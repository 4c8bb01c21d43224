/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-spread.h"

#include <glib.h>

/* So many make up the mean; older ones count for less. */
#define RECENT_MAX 256

void
gpu_spread_add(struct gpu_spread *spread, int64_t ns)
{
    double x = (double)ns;

    if (spread->n >= RECENT_MAX) {
        spread->n /= 2;
        spread->sum_ns /= 2;
        spread->sum_of_squares /= 2;
    }
    spread->n++;
    spread->sum_ns += x;
    spread->sum_of_squares += x * x;
}

static double
mean(const struct gpu_spread *spread)
{
    return spread->sum_ns / spread->n;
}

static double
variance(const struct gpu_spread *spread)
{
    return MAX(spread->sum_of_squares / spread->n - mean(spread) * mean(spread), 0);
}

int64_t
gpu_spread_mean(const struct gpu_spread *spread)
{
    return spread->n > 0 ? (int64_t)mean(spread) : 0;
}

int64_t
gpu_spread_first_part(int64_t whole_ns, const struct gpu_spread *first,
                      const struct gpu_spread *second, int64_t else_ns)
{
    if (first->n < GPU_SPREAD_MIN || second->n < GPU_SPREAD_MIN)
        return MIN(else_ns, whole_ns);
    double variances = variance(first) + variance(second);
    double weight = variances > 0 ? variance(first) / variances : 0.5;
    double part = mean(first) + weight * ((double)whole_ns - mean(first) - mean(second));

    if (part <= 0)
        return 0;
    return part < (double)whole_ns ? (int64_t)part : whole_ns;
}
