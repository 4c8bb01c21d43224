/* SPDX-License-Identifier: Apache-2.0
 *
 * A course of time in one line of text.
 */
#ifndef VG_CLI_SPARKLINE_H
#define VG_CLI_SPARKLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* A rate that holds for a while. */
struct vg_spark_point {
    int64_t begin_ns;
    int64_t end_ns;
    double value;
};

/* Cuts since_ns..until_ns into n equal parts; each gets the mean of the points, struct
 * vg_spark_point, that are in it, weighted by how long they are, or NAN where nothing is known. */
void vg_spark_resample(const GArray *points, int64_t since_ns, int64_t until_ns, double *ret,
                       size_t n);

/* The largest, at least 0. */
double vg_spark_max(const double *values, size_t n);

/* A character for each value, as high as it is between 0 and max, blank where it is NAN: block
 * elements, or ASCII without utf8. The caller frees it. */
char *vg_spark_text(const double *values, size_t n, double max, bool utf8);

#endif
