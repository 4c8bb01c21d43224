/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-time.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#define DAY_NS (86400 * VG_NS_PER_S)

static const struct {
    const char *prefix;
    int digits;
    int64_t unit_ns;
} kinds[] = {
    [VG_STORE_WINDOWS] = {"ts-", 8, 0},
    [VG_STORE_MINUTES] = {"ts1m-", 6, 60 * VG_NS_PER_S},
    [VG_STORE_HOURS] = {"ts1h-", 4, 3600 * VG_NS_PER_S},
};

static int64_t
floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

int64_t
vg_store_unit_ns(enum vg_store_kind kind)
{
    return kinds[kind].unit_ns;
}

int64_t
vg_store_period_end(int64_t t_ns, int64_t unit_ns)
{
    return (floor_div(t_ns - 1, unit_ns) + 1) * unit_ns;
}

int64_t
vg_store_period_begin(int64_t t_ns, int64_t unit_ns)
{
    return floor_div(t_ns, unit_ns) * unit_ns;
}

/* Convert between dates and days since the epoch, in the Gregorian calendar with years that start
 * in March, so that the leap day is the last day. An era has 400 years. */
static int64_t
days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = floor_div(y, 400);
    int64_t of_era = y - era * 400;
    int64_t of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void
date_of(int64_t days, int64_t *ret_year, int64_t *ret_month, int64_t *ret_day)
{
    int64_t era = floor_div(days + 719468, 146097);
    int64_t of_era = days + 719468 - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    int64_t m = (5 * of_year + 2) / 153;

    *ret_day = of_year - (153 * m + 2) / 5 + 1;
    *ret_month = m < 10 ? m + 3 : m - 9;
    *ret_year = y + era * 400 + (*ret_month <= 2);
}

int64_t
vg_store_stamp(enum vg_store_kind kind, int64_t t_ns)
{
    int64_t days = floor_div(t_ns, DAY_NS);
    int64_t year, month, day;

    if (kind == VG_STORE_WINDOWS)
        return days;
    date_of(days, &year, &month, &day);
    return kind == VG_STORE_MINUTES ? year * 12 + month - 1 : year;
}

int64_t
vg_store_stamp_begin_ns(enum vg_store_kind kind, int64_t stamp)
{
    int64_t days = stamp;
    int64_t ns;

    if (kind == VG_STORE_MINUTES)
        days = days_of(floor_div(stamp, 12), stamp - floor_div(stamp, 12) * 12 + 1, 1);
    else if (kind == VG_STORE_HOURS)
        days = days_of(stamp, 1, 1);
    if (__builtin_mul_overflow(days, DAY_NS, &ns))
        return days < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

const char *
vg_store_file_name(enum vg_store_kind kind, int64_t stamp, char buf[VG_STORE_NAME_MAX])
{
    int64_t number = stamp;

    if (kind == VG_STORE_WINDOWS) {
        int64_t year, month, day;
        date_of(stamp, &year, &month, &day);
        number = year * 10000 + month * 100 + day;
    } else if (kind == VG_STORE_MINUTES) {
        number = stamp / 12 * 100 + stamp % 12 + 1;
    }
    snprintf(buf, VG_STORE_NAME_MAX, "%s%0*" PRId64 ".db", kinds[kind].prefix, kinds[kind].digits,
             number);
    return buf;
}

bool
vg_store_parse_name(const char *name, enum vg_store_kind *ret_kind, int64_t *ret_stamp)
{
    char again[VG_STORE_NAME_MAX];

    for (enum vg_store_kind kind = VG_STORE_WINDOWS; kind <= VG_STORE_HOURS; kind++) {
        size_t prefix = strlen(kinds[kind].prefix);
        if (strncmp(name, kinds[kind].prefix, prefix) != 0 ||
            strlen(name) != prefix + (size_t)kinds[kind].digits + strlen(".db"))
            continue;
        int64_t number = g_ascii_strtoll(name + prefix, NULL, 10);
        int64_t stamp = number;
        if (kind == VG_STORE_WINDOWS)
            stamp = days_of(number / 10000, number / 100 % 100, number % 100);
        else if (kind == VG_STORE_MINUTES)
            stamp = number / 100 * 12 + number % 100 - 1;
        /* Names with a month 13, a sign or a letter would be written differently. */
        if (strcmp(vg_store_file_name(kind, stamp, again), name) != 0)
            continue;
        *ret_kind = kind;
        *ret_stamp = stamp;
        return true;
    }
    return false;
}

bool
vg_store_range_cut(enum vg_store_kind kind, struct vg_store_range *range, GArray *edges)
{
    const struct vg_store_range all = *range;
    int64_t unit = vg_store_unit_ns(kind);

    if (unit > 0) {
        range->from_ns = vg_store_period_end(all.from_ns, unit);
        range->to_ns = vg_store_period_begin(all.to_ns, unit);
    }
    if (range->from_ns >= range->to_ns) {
        g_array_append_val(edges, all);
        return false;
    }
    const struct vg_store_range before = {all.from_ns, range->from_ns};
    const struct vg_store_range after = {range->to_ns, all.to_ns};
    if (before.from_ns < before.to_ns)
        g_array_append_val(edges, before);
    if (after.from_ns < after.to_ns)
        g_array_append_val(edges, after);
    return true;
}
