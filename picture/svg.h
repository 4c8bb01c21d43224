/* SPDX-License-Identifier: Apache-2.0
 *
 * Charts for reports, as stand-alone SVG. They are 1200 pixels wide, have a white background, no
 * scripts or embedded fonts, and colours that people with colour blindness can distinguish. Names
 * may contain anything. A text that is too long for its space is truncated; a tooltip has the
 * complete text. Pure: converts plain arrays to text, regardless of the locale. All arguments are
 * borrowed. Any thread.
 */
#ifndef VG_PICTURE_SVG_H
#define VG_PICTURE_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* The number of distinct colours. If there are more VMs, the most important ones in a chart get a
 * colour, and the others are grey. */
#define VG_SVG_COLOURS 7

/* The maximum size of a chart, whatever it shows. */
#define VG_SVG_BYTES_MAX (INT64_C(2) << 20)

/* Further panels and rows are left out. */
#define VG_SVG_PANELS_MAX 8
#define VG_SVG_ROWS_MAX   64

/* Identities from here on are always grey. */
#define VG_SVG_IDENTITIES_MAX 65536

/* ---- utilisation over time ---- */

/* identity: series with the same number have the same colour throughout a chart. An identity below
 * VG_SVG_COLOURS has the same colour in every chart that colours it. values: one for each
 * step, where 1 is 100 %; a value that is not a number is a gap. */
struct vg_svg_series {
    const char *name;
    uint32_t identity;
    const double *values;
    size_t n;
};

/* Series without a colour are combined as "others". The scale is from 0 to at least 100 %. */
struct vg_svg_panel {
    const char *title;
    bool stacked; /* areas, stacked; otherwise lines */
    const struct vg_svg_series *series;
    size_t n_series;
    const struct vg_svg_series *total; /* a dark line on top, or NULL */
};

/* Panels one below another, with a common time axis. The first value covers begin_ns..begin_ns +
 * step_ns, in raw trace clock. */
struct vg_svg_utilisation {
    const char *title;
    int64_t begin_ns;
    int64_t step_ns;
    const struct vg_svg_panel *panels;
    size_t n_panels;
};

void vg_svg_utilisation(GString *out, const struct vg_svg_utilisation *what);

/* ---- requests over time ---- */

enum vg_svg_kind {
    VG_SVG_WAITING, /* pale */
    VG_SVG_RUNNING
};

struct vg_svg_interval {
    uint32_t row;
    uint32_t identity; /* as in a series */
    int64_t begin_ns;
    int64_t end_ns;
    enum vg_svg_kind kind;
    const char *label; /* or NULL */
};

/* Rows from top to bottom with the intervals in begin_ns..end_ns. Intervals may be in any order and
 * extend beyond that period. Intervals without length are left out. A few overlapping intervals are
 * drawn above each other. If there are more, the height shows their number. If intervals are too
 * close together to be distinguished, the height shows the fraction of time. */
struct vg_svg_timegraph {
    const char *title;
    int64_t begin_ns;
    int64_t end_ns;
    const char *const *rows;
    size_t n_rows;
    const char *const *names; /* names of identities */
    size_t n_names;
    const struct vg_svg_interval *intervals;
    size_t n_intervals;
};

void vg_svg_timegraph(GString *out, const struct vg_svg_timegraph *what);

#endif
