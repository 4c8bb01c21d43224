/* SPDX-License-Identifier: Apache-2.0
 *
 * Pictures for reports, as stand-alone SVG: 1200 pixels wide, without scripts or fonts of their
 * own, on white, in colours that people tell apart who do not see all of them. Names may be
 * anything; what is too long for its place is cut and whole in a tooltip. Pure: plain arrays in,
 * text out, whatever the locale. All that is passed is borrowed. Any thread.
 */
#ifndef VG_PICTURE_SVG_H
#define VG_PICTURE_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* So many colours are told apart. Where there are more VMs, those that matter most in a picture
 * have one, and the rest is grey. */
#define VG_SVG_COLOURS 7

/* No picture is larger, whatever it shows. */
#define VG_SVG_BYTES_MAX (INT64_C(2) << 20)

/* What has no place in a picture any more. */
#define VG_SVG_PANELS_MAX 8
#define VG_SVG_ROWS_MAX   64

/* Identities from here on are always grey. */
#define VG_SVG_IDENTITIES_MAX 65536

/* ---- utilisation over time ---- */

/* identity: the same number has the same colour in all of a picture; those below VG_SVG_COLOURS
 * have theirs in every picture in which they have one. values: one for each step, 1 is 100 %; what
 * is no number is a gap. */
struct vg_svg_series {
    const char *name;
    uint32_t identity;
    const double *values;
    size_t n;
};

/* What has no colour is put together as "others". From 0 to at least 100 %. */
struct vg_svg_panel {
    const char *title;
    bool stacked; /* areas, one upon the other; else lines */
    const struct vg_svg_series *series;
    size_t n_series;
    const struct vg_svg_series *total; /* a dark line above all; NULL: none */
};

/* Panels below each other, which have one time axis. The first value is that of
 * begin_ns..begin_ns + step_ns, in raw trace clock. */
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
    uint32_t identity; /* as of a series */
    int64_t begin_ns;
    int64_t end_ns;
    enum vg_svg_kind kind;
    const char *label; /* or NULL */
};

/* Rows from top to bottom with the intervals in begin_ns..end_ns, which may come in any order and
 * reach beyond; those without length are left out. Some that overlap are drawn one above the other;
 * where more do, the height is their number. Where they are too close together to tell them apart,
 * the height is the share of time. */
struct vg_svg_timegraph {
    const char *title;
    int64_t begin_ns;
    int64_t end_ns;
    const char *const *rows;
    size_t n_rows;
    const char *const *names; /* of identities */
    size_t n_names;
    const struct vg_svg_interval *intervals;
    size_t n_intervals;
};

void vg_svg_timegraph(GString *out, const struct vg_svg_timegraph *what);

#endif
