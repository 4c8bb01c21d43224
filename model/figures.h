/* SPDX-License-Identifier: Apache-2.0
 *
 * What model/figures.def says of each measure. VG_CPU_FIGURES(X) and VG_GPU_FIGURES(X) expand X for
 * each row; what is made of the rows at run time reads the tables below.
 */
#ifndef VG_MODEL_FIGURES_H
#define VG_MODEL_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/figures.def"

/* What a sum of windows has of a figure, and a part of a window that is cut. */
enum vg_figure_kind {
    VG_FIGURE_SUM,    /* the sum; a cut divides it by time */
    VG_FIGURE_PART,   /* the same; a part of the table's TOTAL */
    VG_FIGURE_TOTAL,  /* the sum; of a cut, the sum of the parts that are cut */
    VG_FIGURE_MAX,    /* the largest */
    VG_FIGURE_MEAN,   /* the mean over the time of the sum */
    VG_FIGURE_LAST,   /* that of the newest window; 0: it has no such row */
    VG_FIGURE_MOST,   /* that of the window with most requests */
    VG_FIGURE_DERIVED /* no member of its own: follows from others */
};

enum vg_figure_unit {
    VG_FIGURE_NS,
    VG_FIGURE_LATENCY, /* ns as well, of one request: people see milliseconds */
    VG_FIGURE_COUNT,
    VG_FIGURE_BYTES,
    VG_FIGURE_RATIO,
    VG_FIGURE_SHARE /* a time as a part of the period */
};

#define VG_FIGURE_TYPE_NS      int64_t
#define VG_FIGURE_TYPE_LATENCY int64_t
#define VG_FIGURE_TYPE_COUNT   uint64_t
#define VG_FIGURE_TYPE_BYTES   int64_t
#define VG_FIGURE_TYPE_RATIO   double
#define VG_FIGURE_TYPE_SHARE   double

/* Expands to the code for rows that have a member, to nothing for others. */
#define VG_FIGURE_IF_STORED(kind, ...) VG_FIGURE_IF_STORED_##kind(__VA_ARGS__)
#define VG_FIGURE_IF_STORED_SUM(...)   __VA_ARGS__
#define VG_FIGURE_IF_STORED_PART(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_TOTAL(...) __VA_ARGS__
#define VG_FIGURE_IF_STORED_MAX(...)   __VA_ARGS__
#define VG_FIGURE_IF_STORED_MEAN(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_LAST(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_MOST(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_DERIVED(...)

/* The members of a struct. */
#define VG_FIGURE_MEMBER(place, member, kind, unit, ...)                                           \
 VG_FIGURE_IF_STORED(kind, VG_FIGURE_TYPE_##unit member;)

struct vg_figure {
    const char *name; /* the member, also in documents */
    enum vg_figure_unit unit;
    size_t offset;         /* of the member; of a DERIVED row, of the one that it is made of */
    size_t less;           /* DERIVED: offset of a member that is subtracted; 0: none */
    unsigned int lacks;    /* enum vg_gpu_lack: those that make it unknown */
    bool is_optional;      /* documents leave it out where it is unknown; else they have null */
    const char *heading;   /* of its column, with the unit; NULL: tables do not show it */
    const char *meaning;   /* of its name; NULL: that of another row says it, too */
    const char *in_tables; /* the meaning of its heading; NULL: the same */
    int family;            /* its place among the metrics, from 1; 0: it is none */
    const char *help;      /* of the metric */
};

/* In the order of documents. */
extern const struct vg_figure vg_cpu_figure_rows[];
extern const size_t vg_cpu_figure_rows_size;
extern const struct vg_figure vg_gpu_figure_rows[];
extern const size_t vg_gpu_figure_rows_size;

/* Returns the row with this place among the metrics; NULL: there are fewer. */
const struct vg_figure *vg_figure_of_family(const struct vg_figure *rows, size_t n, int place);

/* Places of rows in vg_gpu_figure_rows. */
#define VG_FIGURE_PLACE(place, member, ...) VG_GPU_FIGURE_##member = (place),
enum vg_gpu_figure { VG_GPU_FIGURES(VG_FIGURE_PLACE) };

#endif
