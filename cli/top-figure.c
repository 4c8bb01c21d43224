/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/top-draw.h"

const char *
vg_top_figure(char buf[VG_TOP_FIGURE_LEN], double value, int decimals)
{
    if (isnan(value))
        g_strlcpy(buf, "-", VG_TOP_FIGURE_LEN);
    else if (value >= 1e9)
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.2g", value);
    else if (value >= 99999.5)
        snprintf(buf, VG_TOP_FIGURE_LEN, value >= 99.95e6 ? "%.0fM" : "%.1fM", value / 1e6);
    else if (value >= 9999.5)
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.1fk", value / 1e3);
    else
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.*f", value >= 99.95 ? 0 : decimals, value);
    return buf;
}

const char *
vg_top_duration(char buf[VG_TOP_FIGURE_LEN], int64_t ns)
{
    double s = (double)ns / (double)VG_NS_PER_S;

    if (s < 99.95)
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.1f s", s);
    else if (s < 2 * 3600)
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.0f min", s / 60);
    else if (s < 2 * 86400)
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.0f h", s / 3600);
    else
        snprintf(buf, VG_TOP_FIGURE_LEN, "%.0f d", s / 86400);
    return buf;
}
