/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the file for a time. A file is named by its kind and its stamp: a day, month or year of
 * UTC. A window is in the day of its end, a minute in the month and an hour in the year in which it
 * begins, so that a minute or hour is in the same file however much of it has been measured. Pure;
 * any thread.
 */
#ifndef VG_STORE_STORE_TIME_H
#define VG_STORE_STORE_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

enum vg_store_kind {
    VG_STORE_WINDOWS, /* ts-YYYYMMDD.db */
    VG_STORE_MINUTES, /* ts1m-YYYYMM.db */
    VG_STORE_HOURS,   /* ts1h-YYYY.db */
    VG_STORE_KIND_MAX
};

/* Times beyond these are not stored, so that nothing computed from them overflows. */
#define VG_STORE_TIME_LIMIT (INT64_C(1) << 62)

#define VG_STORE_NAME_MAX 32

/* Returns the period over which a row of such a file is a sum: 60 s or 3600 s; 0 for windows. */
int64_t vg_store_unit_ns(enum vg_store_kind kind);

/* Return the multiple of unit that ends the period (end - unit, end] in which t is, or begins
 * it. */
int64_t vg_store_period_end(int64_t t_ns, int64_t unit_ns);
int64_t vg_store_period_begin(int64_t t_ns, int64_t unit_ns);

/* Return the file of a time, and the beginning of the time of a file, which ends where that of
 * stamp + 1 begins. */
int64_t vg_store_stamp(enum vg_store_kind kind, int64_t t_ns);
int64_t vg_store_stamp_begin_ns(enum vg_store_kind kind, int64_t stamp);

/* Formats "ts-20261122.db"; returns buf. The parser returns false for a name that no such file
 * has. */
const char *vg_store_file_name(enum vg_store_kind kind, int64_t stamp, char buf[VG_STORE_NAME_MAX]);
bool vg_store_parse_name(const char *name, enum vg_store_kind *ret_kind, int64_t *ret_stamp);

/* Times from < t <= to. */
struct vg_store_range {
    int64_t from_ns;
    int64_t to_ns;
};

/* Leaves in a range the whole periods of a kind, and appends what it had before and behind them
 * (struct vg_store_range). Returns false if there are none: all of it is appended then. */
bool vg_store_range_cut(enum vg_store_kind kind, struct vg_store_range *range, GArray *edges);

#endif
