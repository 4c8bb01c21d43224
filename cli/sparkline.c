/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/sparkline.h"

#include <math.h>

#define N_LEVELS 8

void
vg_spark_resample(const GArray *points, int64_t since_ns, int64_t until_ns, double *ret, size_t n)
{
    double part_ns = ((double)until_ns - (double)since_ns) / (double)n;
    g_autofree double *known = g_new0(double, n);

    for (size_t i = 0; i < n; i++)
        ret[i] = 0;
    for (guint p = 0; points && part_ns > 0 && p < points->len; p++) {
        const struct vg_spark_point *point = &g_array_index(points, struct vg_spark_point, p);
        double begin = ((double)point->begin_ns - (double)since_ns) / part_ns;
        double end = ((double)point->end_ns - (double)since_ns) / part_ns;
        if (!(end > 0) || begin >= (double)n)
            continue;
        for (size_t i = (size_t)MAX(begin, 0); i < n && (double)i < end; i++) {
            double share = MIN(end, (double)(i + 1)) - MAX(begin, (double)i);
            ret[i] += MAX(share, 0) * point->value;
            known[i] += MAX(share, 0);
        }
    }
    for (size_t i = 0; i < n; i++)
        ret[i] = known[i] > 0 ? ret[i] / known[i] : (double)NAN;
}

double
vg_spark_max(const double *values, size_t n)
{
    double max = 0;

    for (size_t i = 0; i < n; i++)
        max = values[i] > max ? values[i] : max;
    return max;
}

char *
vg_spark_text(const double *values, size_t n, double max, bool utf8)
{
    static const char *const blocks[N_LEVELS] = {
        "\xe2\x96\x81", "\xe2\x96\x82", "\xe2\x96\x83", "\xe2\x96\x84",
        "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87", "\xe2\x96\x88",
    };
    static const char *const ascii[N_LEVELS] = {"_", ".", "-", ":", "=", "+", "*", "#"};
    GString *text = g_string_new(NULL);

    for (size_t i = 0; i < n; i++) {
        if (isnan(values[i])) {
            g_string_append_c(text, ' ');
            continue;
        }
        double height = max > 0 ? CLAMP(values[i] / max, 0.0, 1.0) : 0;
        size_t level = MIN((size_t)(height * N_LEVELS), N_LEVELS - 1);
        g_string_append(text, utf8 ? blocks[level] : ascii[level]);
    }
    return g_string_free(text, FALSE);
}
