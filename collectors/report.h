/* SPDX-License-Identifier: Apache-2.0
 *
 * A report from a collector to the daemon. Collector threads share nothing else. A report is
 * self-contained and has one owner at a time.
 */
#ifndef VG_COLLECTORS_REPORT_H
#define VG_COLLECTORS_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/inventory.h"
#include "model/provenance.h"
#include "model/source-state.h"
#include "model/window.h"

enum vg_report_kind {
    VG_REPORT_WINDOW,    /* a closed window */
    VG_REPORT_INVENTORY, /* a new inventory of the host */
    VG_REPORT_STATUS,    /* state of the collector */
    VG_REPORT_LIFECYCLE, /* a VM event */
    VG_REPORT_END,       /* end of a replayed recording */
    VG_REPORT_KIND_MAX
};

enum vg_collector_state {
    VG_COLLECTOR_STARTING,
    VG_COLLECTOR_OK,
    VG_COLLECTOR_DEGRADED, /* works with restrictions: `text` says what is missing and what to do */
    VG_COLLECTOR_FAILED,   /* does not work; retries automatically unless it has ended */
    VG_COLLECTOR_ENDED,    /* everything was read */
    VG_COLLECTOR_STATE_MAX
};

struct vg_report {
    enum vg_report_kind kind;
    const char *collector; /* name of the collector; static */
    /* WINDOW; END: the whole recording as one window, which differs from the sum of windows if
     * some were dropped. Times are of the raw clock; adding clock_offset_ns gives times since the
     * epoch. */
    struct vg_window window;
    struct vg_provenance provenance;
    int64_t clock_offset_ns;
    int32_t cpus; /* host CPUs where the collector saw activity; 0 if unknown */
    /* INVENTORY */
    vg_inventory *inventory;
    /* STATUS */
    enum vg_collector_state state;
    enum vg_trouble trouble; /* STATUS: the code of the reason */
    char *text;              /* STATUS: the reason; END: a closing sentence; LIFECYCLE: "started",
                              * "stopped", ... */
    GPtrArray *sources;      /* STATUS: struct vg_source_state *; NULL if it has no sources */
    /* LIFECYCLE */
    char *vm;
    char *uuid; /* or NULL */
};

extern const char *const vg_collector_state_names[]; /* "starting", "ok", "degraded", ... */

/* Creates a zeroed report. For WINDOW, call vg_window_init() or let a ledger fill it. */
struct vg_report *vg_report_new(enum vg_report_kind kind, const char *collector);
void vg_report_free(struct vg_report *report); /* NULL is fine */
typedef struct vg_report vg_report;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_report, vg_report_free)

struct vg_report *vg_report_status(const char *collector, enum vg_collector_state state,
                                   const char *fmt, ...) G_GNUC_PRINTF(3, 4);

/* Creates a deep copy, for the fault collector. */
struct vg_report *vg_report_copy(const struct vg_report *report);

/* The receiver of reports. put takes the report on the collector's thread. It may wait for
 * space. */
struct vg_report_sink {
    void (*put)(void *data, struct vg_report *take_report);
    void *data;
};

/* The last reported state of a collector; initially zeroed. text is owned. */
struct vg_reported_state {
    enum vg_collector_state state;
    char *text;
};

/* Sends a STATUS report if the state has changed. */
void vg_report_put_state(struct vg_reported_state *told, const struct vg_report_sink *sink,
                         const char *collector, enum vg_collector_state state,
                         enum vg_trouble trouble, const char *text);

/* The same with the states of its sources. Changes in these must be reflected in the text. */
void vg_report_put_sources(struct vg_reported_state *told, const struct vg_report_sink *sink,
                           const char *collector, enum vg_collector_state state, const char *text,
                           GPtrArray *take_sources);

#endif
