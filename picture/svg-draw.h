/* SPDX-License-Identifier: Apache-2.0
 *
 * What the pictures of picture/svg.h are drawn with. Lengths are pixels, y goes down. Pure.
 */
#ifndef VG_PICTURE_SVG_DRAW_H
#define VG_PICTURE_SVG_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#define VG_SVG_WIDTH       1200
#define VG_SVG_EDGE        24 /* around everything */
#define VG_SVG_TEXT_SIZE   12
#define VG_SVG_LEGEND_LINE 20

/* Grey: one beyond those of picture/svg.h. */
#define VG_SVG_COLOUR_OTHERS VG_SVG_COLOURS

enum vg_svg_style {
    VG_SVG_TITLE,
    VG_SVG_SUBTITLE, /* bold */
    VG_SVG_TEXT,
    VG_SVG_TEXT_MIDDLE, /* around x */
    VG_SVG_TEXT_END,    /* up to x */
    VG_SVG_NOTE,
    VG_SVG_NOTE_END,
    VG_SVG_ON_DARK, /* text in a coloured area, around x */
    VG_SVG_ON_LIGHT
};

/* A part of time and where it is. */
struct vg_svg_axis {
    int64_t begin_ns;
    int64_t end_ns; /* after begin_ns */
    double x;
    double width;
};

struct vg_svg_legend_item {
    unsigned int colour;
    bool pale;
    bool line; /* dark, instead of an area */
    const char *name;
    const char *note; /* such as "mean 43 %"; or NULL */
};

/* With one decimal, fewer if it can. */
void vg_svg_put_number(GString *out, double value);

/* " NAME='VALUE'" */
void vg_svg_put_attribute(GString *out, const char *name, double value);

/* The part of a text that has room, with an ellipsis if it was cut. How wide letters are is
 * estimated, rather too wide. The caller frees it. */
char *vg_svg_fit(const char *text, double size, double width);
double vg_svg_text_width(const char *text, double size);

/* "18.2 ms"; "12.5 %". The caller frees it. */
char *vg_svg_duration(uint64_t ns);
char *vg_svg_percent(double share);

/* The colour of each of n identities: those of most weight have one, the others are grey. Less than
 * 0: this identity does not occur. */
void vg_svg_choose_colours(const double *weights, size_t n, unsigned int *ret);

/* "#rrggbb", and whether white is legible on it. */
void vg_svg_put_colour(GString *out, unsigned int colour, bool pale);
bool vg_svg_colour_is_dark(unsigned int colour, bool pale);

void vg_svg_put_text(GString *out, double x, double y, enum vg_svg_style style, const char *text);

/* The same with as much as fits; if that is not all, a tooltip has it. */
void vg_svg_put_fitting(GString *out, double x, double y, enum vg_svg_style style, double width,
                        const char *text);

void vg_svg_put_tooltip(GString *out, const char *text);

/* class: "grid", "axis" or "tick". */
void vg_svg_put_line(GString *out, double x1, double y1, double x2, double y2, const char *class);

double vg_svg_x(const struct vg_svg_axis *axis, int64_t t_ns);

/* Lines at round times since begin_ns (steps of 1, 2 or 5), from top to bottom. */
void vg_svg_put_time_grid(GString *out, const struct vg_svg_axis *axis, double top, double bottom);

/* The axis below it, with numbers and their unit; how high it is. */
double vg_svg_put_time_axis(GString *out, const struct vg_svg_axis *axis, double y);

/* In as many lines as it needs; how high it is. */
double vg_svg_put_legend(GString *out, double x, double y, const struct vg_svg_legend_item *items,
                         size_t n);

/* The whole picture; body is what the functions above made. */
void vg_svg_finish(GString *out, const char *title, double height, const GString *body);

#endif
