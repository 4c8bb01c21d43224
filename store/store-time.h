/* SPDX-License-Identifier: Apache-2.0
 *
 * Which time is in which file. A file is named by its kind and its stamp: a day, month or year of
 * UTC. A window is in the day of its end, a minute in the month and an hour in the year in which it
 * begins, so that a minute or hour is in the same file whatever of it has been measured. Pure; any
 * thread.
 */
#ifndef VG_STORE_STORE_TIME_H
#define VG_STORE_STORE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vg_store_kind {
    VG_STORE_WINDOWS, /* ts-YYYYMMDD.db */
    VG_STORE_MINUTES, /* ts1m-YYYYMM.db */
    VG_STORE_HOURS,   /* ts1h-YYYY.db */
    VG_STORE_KIND_MAX
};

/* Times outside are not stored: what is computed from them must not overflow. */
#define VG_STORE_TIME_LIMIT (INT64_C(1) << 62)

#define VG_STORE_NAME_MAX 32

/* What a row of such a file is a sum over: 60 s or 3600 s; 0 for windows. */
int64_t vg_store_unit_ns(enum vg_store_kind kind);

/* The multiple of unit that ends the period (end - unit, end] which t is in; that begins it. */
int64_t vg_store_period_end(int64_t t_ns, int64_t unit_ns);
int64_t vg_store_period_begin(int64_t t_ns, int64_t unit_ns);

/* The file of a time, and where the time of a file begins; that of stamp + 1 is where it ends. */
int64_t vg_store_stamp(enum vg_store_kind kind, int64_t t_ns);
int64_t vg_store_stamp_begin_ns(enum vg_store_kind kind, int64_t stamp);

/* "ts-20261122.db"; returns buf. parse: false for a name that no such file has. */
const char *vg_store_file_name(enum vg_store_kind kind, int64_t stamp, char buf[VG_STORE_NAME_MAX]);
bool vg_store_parse_name(const char *name, enum vg_store_kind *ret_kind, int64_t *ret_stamp);

#endif
