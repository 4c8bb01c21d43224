/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the file for a time. A file is named by its kind and its stamp: a UTC day, month or year. A
 * window belongs to the day of its end. A minute belongs to the month, and an hour to the year, of
 * its start, so that it stays in the same file, no matter how much of it has been measured. Pure;
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

/* Times beyond these are not stored, to avoid overflows. */
#define VG_STORE_TIME_LIMIT (INT64_C(1) << 62)

#define VG_STORE_NAME_MAX 32

/* Returns the period that a row of such a file covers: 60 s or 3600 s; 0 for windows. */
int64_t vg_store_unit_ns(enum vg_store_kind kind);

/* Return the end or the start of the period (end - unit, end] that contains t. Both are multiples
 * of unit. */
int64_t vg_store_period_end(int64_t t_ns, int64_t unit_ns);
int64_t vg_store_period_begin(int64_t t_ns, int64_t unit_ns);

/* The first function returns the stamp of the file for a time. The second returns the start of the
 * time that a file covers; that time ends where stamp + 1 starts. */
int64_t vg_store_stamp(enum vg_store_kind kind, int64_t t_ns);
int64_t vg_store_stamp_begin_ns(enum vg_store_kind kind, int64_t stamp);

/* Formats "ts-20261122.db"; returns buf. The parser returns false if a name is not that of such a
 * file. */
const char *vg_store_file_name(enum vg_store_kind kind, int64_t stamp, char buf[VG_STORE_NAME_MAX]);
bool vg_store_parse_name(const char *name, enum vg_store_kind *ret_kind, int64_t *ret_stamp);

/* Times from < t <= to. */
struct vg_store_range {
    int64_t from_ns;
    int64_t to_ns;
};

/* Reduces a range to whole periods of a kind, and appends the parts before and after them (struct
 * vg_store_range). Returns false if there is no whole period; the whole range is then appended. */
bool vg_store_range_cut(enum vg_store_kind kind, struct vg_store_range *range, GArray *edges);

#endif
