/* SPDX-License-Identifier: Apache-2.0
 *
 * Values over time in one line of text.
 */
#ifndef VG_CLI_SPARKLINE_H
#define VG_CLI_SPARKLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* A rate during a period. */
struct vg_spark_point {
    int64_t begin_ns;
    int64_t end_ns;
    double value;
};

/* Divides since_ns..until_ns into n equal parts. The value of each part is the mean of the points
 * in it (struct vg_spark_point), weighted by their durations, or NAN if nothing is known. */
void vg_spark_resample(const GArray *points, int64_t since_ns, int64_t until_ns, double *ret,
                       size_t n);

/* Returns the largest value, at least 0. */
double vg_spark_max(const double *values, size_t n);

/* Returns a character for each value: its height shows the value on a scale from 0 to max; it is a
 * blank for NAN. Uses block elements, or ASCII without utf8. The caller frees the text. */
char *vg_spark_text(const double *values, size_t n, double max, bool utf8);

#endif
