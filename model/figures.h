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

#include <glib.h>

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

/* What is not known of the CPU side of a VM or thread. No figures are 0 for that reason: those that
 * a lack makes unknown, or lower bounds, have what was counted all the same. */
enum vg_cpu_lack {
    VG_CPU_NO_SWITCHES = 1 << 0, /* sched_switch was not recorded */
    VG_CPU_NO_WAKEUPS = 1 << 1,  /* neither sched_wakeup nor sched_waking was */
    VG_CPU_NO_ENTRIES = 1 << 2,  /* kvm_entry was not */
    VG_CPU_NO_EXITS = 1 << 3,    /* kvm_exit was not */
    VG_CPU_NO_GUEST = 1 << 4,    /* one of the two was not, of this VM: see guest_known */
    VG_CPU_ABSENT_CPUS = 1 << 5, /* some CPUs of the host have no records */
    VG_CPU_NO_GPU_ENDS = 1 << 6, /* of the GPU side: requests begin, and no end was recorded */
};
#define VG_CPU_NO_STAYS (VG_CPU_NO_ENTRIES | VG_CPU_NO_EXITS | VG_CPU_NO_GUEST)
#define VG_CPU_NO_CLIPS                                                                            \
 (VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS | VG_CPU_NO_ENTRIES | VG_CPU_NO_EXITS)
#define VG_CPU_NO_WAITS (VG_CPU_NO_SWITCHES | VG_CPU_NO_WAKEUPS | VG_CPU_ABSENT_CPUS)

/* Each figure has one of these, given what is lacking. */
enum vg_known {
    VG_KNOWN,
    VG_KNOWN_BOUND, /* the true figure is not less */
    VG_KNOWN_NOT
};

struct vg_figure {
    const char *name; /* the member, also in documents */
    enum vg_figure_unit unit;
    size_t offset;           /* of the member; of a DERIVED row, of the one that it is made of */
    size_t less;             /* DERIVED: offset of a member that is subtracted; 0: none */
    unsigned int lacks;      /* enum vg_cpu_lack or vg_gpu_lack: those that make it unknown */
    unsigned int bounded_by; /* those that make it a lower bound */
    bool is_optional;        /* documents leave it out where it is unknown; else they have null */
    const char *heading;     /* of its column, with the unit; NULL: tables do not show it */
    const char *meaning;     /* of its name; NULL: that of another row says it, too */
    const char *in_tables;   /* the meaning of its heading; NULL: the same */
    int family;              /* its place among the metrics, from 1; 0: it is none */
    const char *help;        /* of the metric */
};

/* In the order of documents. */
extern const struct vg_figure vg_cpu_figure_rows[];
extern const size_t vg_cpu_figure_rows_size;
extern const struct vg_figure vg_gpu_figure_rows[];
extern const size_t vg_gpu_figure_rows_size;

/* Returns what is known of a figure. */
enum vg_known vg_figure_known(const struct vg_figure *figure, unsigned int lacks);

/* Figures of a VM that are no rows: "exits", "cpu_intensity", "class", "lost_to", and the rates of
 * answers and snapshots. */
struct vg_figure_beside {
    const char *name;
    unsigned int lacks;
    unsigned int bounded_by;
};
extern const struct vg_figure_beside vg_cpu_figures_beside[]; /* ends with NULL */
extern const struct vg_figure_beside vg_cpu_rates[];          /* likewise */
extern const struct vg_figure_beside vg_cpu_shares[];         /* likewise */

enum vg_known vg_figure_beside_known(const struct vg_figure_beside *figure, unsigned int lacks);

/* Names of the figures of a VM that are known so, rows and those beside them. The caller unrefs it;
 * the names are static. */
GPtrArray *vg_figure_names(unsigned int lacks, enum vg_known known);

/* Returns the row with this place among the metrics; NULL: there are fewer. */
const struct vg_figure *vg_figure_of_family(const struct vg_figure *rows, size_t n, int place);

/* Places of rows in vg_gpu_figure_rows. */
#define VG_FIGURE_PLACE(place, member, ...) VG_GPU_FIGURE_##member = (place),
enum vg_gpu_figure { VG_GPU_FIGURES(VG_FIGURE_PLACE) };

#endif
