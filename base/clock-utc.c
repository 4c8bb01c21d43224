/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

const char *
vg_utc_format(int64_t epoch_ns, char buf[VG_UTC_LEN])
{
    int64_t rest_ns = epoch_ns % VG_NS_PER_S;
    time_t seconds = (time_t)(epoch_ns / VG_NS_PER_S);
    struct tm tm;

    if (rest_ns < 0) {
        rest_ns += VG_NS_PER_S;
        seconds--;
    }
    gmtime_r(&seconds, &tm);
    size_t used = strftime(buf, VG_UTC_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
    int decimals = rest_ns == 0 ? 0 : rest_ns % VG_NS_PER_MS == 0 ? 3 : rest_ns % 1000 == 0 ? 6 : 9;
    for (int i = decimals; i < 9; i++)
        rest_ns /= 10;
    if (decimals > 0)
        used += (size_t)snprintf(buf + used, VG_UTC_LEN - used, ".%0*" PRId64, decimals, rest_ns);
    snprintf(buf + used, VG_UTC_LEN - used, "Z");
    return buf;
}
