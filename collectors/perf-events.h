/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracepoints as perf events on every CPU. Each CPU has a separate ring buffer. One thread at a
 * time.
 */
#ifndef VG_COLLECTORS_PERF_EVENTS_H
#define VG_COLLECTORS_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/perf-merge.h"

#define VG_PERF_TRACEPOINTS_MAX 64

/* The cost of writing a record for the thread that causes it: the measured slowdown of two
 * processes that switch back and forth over a pipe. */
#define VG_PERF_RECORD_NS 350

struct vg_perf_tracepoint {
    const char *path; /* in `events` of tracefs: "sched/sched_switch"; static */
    bool optional;    /* may be missing; turned on and off together with the other optional ones */
};

struct vg_perf_set {
    const struct vg_perf_tracepoint *tracepoints; /* borrowed as long as they are open */
    size_t n;      /* 1..VG_PERF_TRACEPOINTS_MAX; the first, which is not optional, has the ring */
    bool arrivals; /* also record switches by the incoming thread; see below */
    size_t ring_bytes; /* ring per CPU, a power of two; smaller if less memory may be locked */
    size_t all_bytes;  /* limit for all rings together */
};

typedef struct vg_perf_events vg_perf_events;

/* Opens and enables the events, and adds their formats and rings to merge, which is borrowed and
 * must outlive them. Existing optional events are enabled only with_optional. tracefs is as
 * returned by vg_tracefs_root(). Returns NULL and *err, which says what is missing and gives
 * advice. */
vg_perf_events *vg_perf_events_open(vg_perf_merge *merge, const char *tracefs,
                                    const struct vg_perf_set *set, bool with_optional,
                                    GError **err);
void vg_perf_events_free(vg_perf_events *events); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_events, vg_perf_events_free)

/* Returns an epoll descriptor that is readable when a ring is a quarter full. */
int vg_perf_events_fd(const vg_perf_events *events);

/* Follows CPU hotplug. Events of a CPU that is offline are closed after its ring was emptied. */
int vg_perf_events_follow_cpus(vg_perf_events *events, GError **err);

/* Return whether the optional events are recorded, and turn them on or off. Always off if there
 * are no such events. */
bool vg_perf_events_see_optional(const vg_perf_events *events);
int vg_perf_events_switch_optional(vg_perf_events *events, bool on, GError **err);

/* The first function returns whether each switch is also recorded by the incoming thread,
 * regardless of the outgoing thread. The second turns this on or off. The initial value is in the
 * set. */
bool vg_perf_events_see_arrivals(const vg_perf_events *events);
int vg_perf_events_switch_arrivals(vg_perf_events *events, bool on, GError **err);

/* Returns how many records did not fit into a CPU's ring, or 0 if the kernel does not count them
 * (it does since 6.0). data is the vg_perf_events. For vg_perf_merge_look(). */
uint64_t vg_perf_events_lost(void *data, int32_t cpu);

#endif
