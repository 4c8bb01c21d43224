/* SPDX-License-Identifier: Apache-2.0
 *
 * The points where vgpud itself can be traced. A tracer is a shared object that daemon/trace.c
 * loads if it is configured. Without a tracer, a point is a branch on a NULL pointer, and the
 * process contains no tracer code. Only the daemon, which connects the other directories, has such
 * points. Any thread.
 *
 * vgpud and the tracer both include this file, so that they agree on the structs.
 */
#ifndef VG_DAEMON_TRACE_POINT_H
#define VG_DAEMON_TRACE_POINT_H

#include <stdbool.h>
#include <stdint.h>

/* Strings are borrowed for the call and never NULL; times are since the epoch. */

struct vg_traced_window {
    const char *source; /* "procfs" or "replay:NAME", the source of the most reliable collector */
    int64_t begin_ns;
    int64_t end_ns; /* as in the log's `window committed` */
    uint32_t vms;
    uint64_t lost_events;
    int64_t cost_ns; /* CPU time that all collectors spent on it */
    /* the time from the window's end until it was closed; VG_TRACED_NOT_LATE in replay */
    int64_t late_ns;
};

/* In a replay, windows use the recording's clock, not this machine's. */
#define VG_TRACED_NOT_LATE (-1)

struct vg_traced_score {
    const char *vm;
    const char *uuid; /* "" if it is unknown */
    int64_t end_ns;   /* end of the newest window included */
    double cpu_intensity;
    double gpu_intensity;
    const char *from; /* the previous class; "none" if the VM is new */
    const char *to;
};

struct vg_traced_plan {
    const char *id;
    const char *rule;
    const char *verdict;
    uint32_t actions;
    int64_t lost_cpu_ns_per_s; /* the gain of all actions, as in struct vg_plan_gain */
    int64_t gpu_wait_ns_per_s;
    const char
        *reason; /* the reason for the first action; without actions, the reason for not acting */
};

struct vg_traced_queue {
    const char *name; /* "windows", "control", "store" */
    uint64_t length;  /* the new maximum number of items */
    uint64_t limit;
};

struct vg_traced_loss {
    const char *source;
    int64_t end_ns; /* the end of the window in which events were lost */
    uint64_t count;
};

/* The table that a tracer exports as VG_TRACER_SYMBOL. Its functions do not block, and any thread
 * may call them. */
struct vg_tracer {
    const char *version; /* PACKAGE_VERSION of the matching vgpud */
    void (*window_closed)(const struct vg_traced_window *window);
    void (*score_changed)(const struct vg_traced_score *score);
    void (*plan_made)(const struct vg_traced_plan *plan);
    void (*queue_high_water)(const struct vg_traced_queue *queue);
    void (*events_lost)(const struct vg_traced_loss *loss);
};

#define VG_TRACER_SYMBOL "vg_tracer_of_vgpud"

/* NULL if no tracer is loaded. vg_trace_start() sets it before vgpud starts other threads. */
extern const struct vg_tracer *vg_tracer;

/* Returns whether the values for a point need to be computed. */
static inline bool
vg_trace_is_on(void)
{
    return __builtin_expect(vg_tracer != NULL, 0);
}

#endif
