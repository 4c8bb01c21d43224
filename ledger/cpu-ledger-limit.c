/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises CPU quotas in a recording, which does not contain them. A vCPU whose control group has
 * used up its quota leaves its CPU idle although it could run, and gets it back when the next
 * period starts. A core scheduler also leaves CPUs idle, but not periodically.
 */
#include "config.h"

#include "base/clock.h"
#include "ledger/cpu-ledger-private.h"

/* The kernel accepts periods of 1 ms to 1 s. */
#define CPU_LIMIT_PERIOD_MIN VG_NS_PER_MS
#define CPU_LIMIT_PERIOD_MAX VG_NS_PER_S

#define CPU_LIMIT_FITS_MIN 3

/* The maximum deviation from a whole number of periods: a thread gets its CPU slightly after the
 * period started. */
#define CPU_LIMIT_TOLERANCE 20 /* 1/20 of a period */

static bool
cpu_limit_is_multiple(int64_t span, int64_t period)
{
    int64_t off = span % period;

    return span >= period - period / CPU_LIMIT_TOLERANCE &&
           MIN(off, period - off) <= period / CPU_LIMIT_TOLERANCE;
}

void
cpu_limit_add_end(struct cpu_limit *limit, int64_t now)
{
    int64_t span = limit->last_end == 0 ? 0 : now - limit->last_end;

    limit->last_end = now;
    if (span < CPU_LIMIT_PERIOD_MIN)
        return;
    if (limit->period > 0 && cpu_limit_is_multiple(span, limit->period)) {
        limit->fits++;
        return;
    }
    limit->misfits += limit->period > 0 && !cpu_limit_is_multiple(limit->period, span);
    if (span <= CPU_LIMIT_PERIOD_MAX && (limit->period == 0 || span < limit->period))
        limit->period = span;
}

bool
cpu_limit_is_regular(const struct cpu_limit *limit)
{
    return limit->fits >= CPU_LIMIT_FITS_MIN && limit->fits / CPU_LIMIT_FITS_MIN >= limit->misfits;
}
