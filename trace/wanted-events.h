/* SPDX-License-Identifier: Apache-2.0
 *
 * Exactly the tracepoints that a recording needs for a complete analysis, with their names in each
 * tracer. Any thread.
 */
#ifndef VG_TRACE_WANTED_EVENTS_H
#define VG_TRACE_WANTED_EVENTS_H

#include <stdbool.h>

#include <glib.h>

enum vg_event_dialect {
    VG_DIALECT_KERNEL, /* "sched:sched_switch": perf, tracefs */
    VG_DIALECT_LTTNG,  /* "sched_switch", "kvm_x86_entry" */
    VG_DIALECT_MAX
};

/* Returns whether the tracer has an event with this name, in the dialect's spelling. */
typedef bool vg_has_event(const void *data, const char *name);

struct vg_wanted_events {
    GPtrArray *names;   /* char *, static: what to enable */
    GPtrArray *missing; /* char *, owned: what the recording will lack, for users */
};

/* Fails with VG_E_NOT_FOUND if the tracer lacks an indispensable event; *ret is then unchanged.
 * Otherwise the caller clears it. */
int vg_wanted_events_find(enum vg_event_dialect dialect, vg_has_event *has, const void *data,
                          struct vg_wanted_events *ret, GError **err);
void vg_wanted_events_clear(struct vg_wanted_events *events);

#endif
