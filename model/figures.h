/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of model/figures.def, one for each measure. VG_CPU_FIGURES(X) and VG_GPU_FIGURES(X)
 * expand X for each row; code that needs the rows at run time uses the tables below.
 */
#ifndef VG_MODEL_FIGURES_H
#define VG_MODEL_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "model/figures.def"

/* How a figure is summed over windows, and how it is divided when a window is cut. */
enum vg_figure_kind {
    VG_FIGURE_SUM,    /* the sum; a cut divides it in proportion to time */
    VG_FIGURE_PART,   /* the same; also a part of the table's TOTAL */
    VG_FIGURE_TOTAL,  /* the sum; in a cut, the sum of the cut parts */
    VG_FIGURE_MAX,    /* the maximum */
    VG_FIGURE_MEAN,   /* the mean over the period of the sum */
    VG_FIGURE_LAST,   /* the value of the newest window; 0 if that window has no such row */
    VG_FIGURE_MOST,   /* the value of the window with the most requests */
    VG_FIGURE_DERIVED /* no member of its own: derived from others */
};

enum vg_figure_unit {
    VG_FIGURE_NS,
    VG_FIGURE_LATENCY, /* also ns, of one request: shown to users in milliseconds */
    VG_FIGURE_COUNT,
    VG_FIGURE_BYTES,
    VG_FIGURE_RATIO,
    VG_FIGURE_SHARE /* a time as a fraction of the period */
};

#define VG_FIGURE_TYPE_NS      int64_t
#define VG_FIGURE_TYPE_LATENCY int64_t
#define VG_FIGURE_TYPE_COUNT   uint64_t
#define VG_FIGURE_TYPE_BYTES   int64_t
#define VG_FIGURE_TYPE_RATIO   double
#define VG_FIGURE_TYPE_SHARE   double

/* Expands to the code for rows that have a member, and to nothing for others. */
#define VG_FIGURE_IF_STORED(kind, ...) VG_FIGURE_IF_STORED_##kind(__VA_ARGS__)
#define VG_FIGURE_IF_STORED_SUM(...)   __VA_ARGS__
#define VG_FIGURE_IF_STORED_PART(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_TOTAL(...) __VA_ARGS__
#define VG_FIGURE_IF_STORED_MAX(...)   __VA_ARGS__
#define VG_FIGURE_IF_STORED_MEAN(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_LAST(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_MOST(...)  __VA_ARGS__
#define VG_FIGURE_IF_STORED_DERIVED(...)

/* Declares the members of a struct. */
#define VG_FIGURE_MEMBER(place, member, kind, unit, ...)                                           \
 VG_FIGURE_IF_STORED(kind, VG_FIGURE_TYPE_##unit member;)

/* What is unknown about the CPU side of a VM or thread. Figures are not set to 0 because of it: a
 * figure that is unknown or a lower bound still contains what was counted. */
enum vg_cpu_lack {
    VG_CPU_NO_SWITCHES = 1 << 0, /* sched_switch was not recorded */
    VG_CPU_NO_WAKEUPS = 1 << 1,  /* neither sched_wakeup nor sched_waking was recorded */
    VG_CPU_NO_ENTRIES = 1 << 2,  /* kvm_entry was not recorded */
    VG_CPU_NO_EXITS = 1 << 3,    /* kvm_exit was not recorded */
    VG_CPU_NO_GUEST = 1 << 4,    /* one of these two is missing for this VM: see guest_known */
    VG_CPU_ABSENT_CPUS = 1 << 5, /* some CPUs of the host have no records */
    VG_CPU_NO_GPU_ENDS = 1 << 6, /* GPU side: requests start, but no end was recorded */
};
#define VG_CPU_NO_STAYS (VG_CPU_NO_ENTRIES | VG_CPU_NO_EXITS | VG_CPU_NO_GUEST)
#define VG_CPU_NO_CLIPS                                                                            \
 (VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS | VG_CPU_NO_ENTRIES | VG_CPU_NO_EXITS)
#define VG_CPU_NO_WAITS (VG_CPU_NO_SWITCHES | VG_CPU_NO_WAKEUPS | VG_CPU_ABSENT_CPUS)

/* How well a figure is known, given what is missing. */
enum vg_known {
    VG_KNOWN,
    VG_KNOWN_BOUND, /* a lower bound: the true figure is not smaller */
    VG_KNOWN_NOT
};

struct vg_figure {
    const char *name; /* of the member; also its name in documents */
    enum vg_figure_unit unit;
    size_t offset;      /* of the member; of a DERIVED row, the member that it is derived from */
    size_t less;        /* DERIVED: offset of a member to subtract, or 0 */
    unsigned int lacks; /* enum vg_cpu_lack or vg_gpu_lack: each of these makes it unknown */
    unsigned int bounded_by; /* each of these makes it a lower bound */
    bool is_optional;        /* documents omit it if it is unknown; otherwise, they have null */
    const char *heading;     /* column heading, with the unit; NULL if no table shows it */
    const char *meaning;     /* meaning of the name; NULL if the text of another row covers it */
    const char *in_tables;   /* meaning of the heading; NULL if it is the same */
    int family;              /* position among the metrics, from 1; 0 if it is not a metric */
    const char *help;        /* help text of the metric */
};

/* In the order of documents. */
extern const struct vg_figure vg_cpu_figure_rows[];
extern const size_t vg_cpu_figure_rows_size;
extern const struct vg_figure vg_gpu_figure_rows[];
extern const size_t vg_gpu_figure_rows_size;

/* Returns how well a figure is known. */
enum vg_known vg_figure_known(const struct vg_figure *figure, unsigned int lacks);

/* Figures of a VM that are not rows: "exits", "cpu_intensity", "class", "lost_to", and the rates in
 * API answers and snapshots. */
struct vg_figure_beside {
    const char *name;
    unsigned int lacks;
    unsigned int bounded_by;
};
extern const struct vg_figure_beside vg_cpu_figures_beside[]; /* ends with NULL */
extern const struct vg_figure_beside vg_cpu_rates[];          /* ends with NULL */
extern const struct vg_figure_beside vg_cpu_shares[];         /* ends with NULL */

enum vg_known vg_figure_beside_known(const struct vg_figure_beside *figure, unsigned int lacks);

/* Returns the names of a VM's figures, rows and others, that are known to this degree. The caller
 * unrefs the array; the names are static. */
GPtrArray *vg_figure_names(unsigned int lacks, enum vg_known known);

/* Returns the row at this position among the metrics, or NULL if there are fewer. */
const struct vg_figure *vg_figure_of_family(const struct vg_figure *rows, size_t n, int place);

/* Indexes of rows in vg_gpu_figure_rows. */
#define VG_FIGURE_PLACE(place, member, ...) VG_GPU_FIGURE_##member = (place),
enum vg_gpu_figure { VG_GPU_FIGURES(VG_FIGURE_PLACE) };

#endif
