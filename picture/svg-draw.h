/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing functions for the charts of picture/svg.h. Lengths are in pixels, y increases downwards.
 * Pure.
 */
#ifndef VG_PICTURE_SVG_DRAW_H
#define VG_PICTURE_SVG_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define VG_SVG_WIDTH       1200
#define VG_SVG_EDGE        24 /* margin on all sides */
#define VG_SVG_TEXT_SIZE   12
#define VG_SVG_LEGEND_LINE 20

/* Grey, in addition to the colours of picture/svg.h. */
#define VG_SVG_COLOUR_OTHERS VG_SVG_COLOURS

enum vg_svg_style {
    VG_SVG_TITLE,
    VG_SVG_SUBTITLE, /* bold */
    VG_SVG_TEXT,
    VG_SVG_TEXT_MIDDLE, /* centred at x */
    VG_SVG_TEXT_END,    /* right-aligned at x */
    VG_SVG_NOTE,
    VG_SVG_NOTE_END,
    VG_SVG_ON_DARK, /* text in a coloured area, centred at x */
    VG_SVG_ON_LIGHT
};

/* A period, and its position. */
struct vg_svg_axis {
    int64_t begin_ns;
    int64_t end_ns; /* after begin_ns */
    double x;
    double width;
};

struct vg_svg_legend_item {
    unsigned int colour;
    bool pale;
    bool line; /* a dark line, instead of an area */
    const char *name;
    const char *note; /* for example "mean 43 %"; or NULL */
};

/* Writes a number with at most one decimal. */
void vg_svg_put_number(GString *out, double value);

/* " NAME='VALUE'" */
void vg_svg_put_attribute(GString *out, const char *name, double value);

/* Returns the part of a text that fits, with an ellipsis if the text was truncated. The width of
 * letters is estimated, rather too large than too small. The caller frees it. */
char *vg_svg_fit(const char *text, double size, double width);
double vg_svg_text_width(const char *text, double size);

/* Return "18.2 ms" and "12.5 %". The caller frees it. */
char *vg_svg_duration(uint64_t ns);
char *vg_svg_percent(double share);

/* Chooses the colours of n identities: those with the largest weights get a colour, and the others
 * are grey. A weight below 0 means that the identity does not occur. */
void vg_svg_choose_colours(const double *weights, size_t n, unsigned int *ret);

/* _put_colour writes "#rrggbb". _is_dark returns whether white text is legible on it. */
void vg_svg_put_colour(GString *out, unsigned int colour, bool pale);
bool vg_svg_colour_is_dark(unsigned int colour, bool pale);

void vg_svg_put_text(GString *out, double x, double y, enum vg_svg_style style, const char *text);

/* Does the same with the part of the text that fits. If the text is truncated, a tooltip contains
 * all of it. */
void vg_svg_put_fitting(GString *out, double x, double y, enum vg_svg_style style, double width,
                        const char *text);

void vg_svg_put_tooltip(GString *out, const char *text);

/* class: "grid", "axis" or "tick". */
void vg_svg_put_line(GString *out, double x1, double y1, double x2, double y2, const char *class);

double vg_svg_x(const struct vg_svg_axis *axis, int64_t t_ns);

/* Draws lines at round times since begin_ns (steps of 1, 2 or 5), from top to bottom. */
void vg_svg_put_time_grid(GString *out, const struct vg_svg_axis *axis, double top, double bottom);

/* Draws the axis below the grid, with numbers and their unit. Returns its height. */
double vg_svg_put_time_axis(GString *out, const struct vg_svg_axis *axis, double y);

/* Draws the legend in as many lines as necessary. Returns its height. */
double vg_svg_put_legend(GString *out, double x, double y, const struct vg_svg_legend_item *items,
                         size_t n);

/* Writes the whole image; body is the output of the functions above. */
void vg_svg_finish(GString *out, const char *title, double height, const GString *body);

#endif
