/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracepoints as perf events of every CPU, each CPU's with a ring of its own. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_EVENTS_H
#define VG_COLLECTORS_PERF_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/perf-merge.h"

#define VG_PERF_TRACEPOINTS_MAX 64

/* The cost of writing a record for the thread that does: measured as the slowdown of two processes
 * that switch to and fro over a pipe. */
#define VG_PERF_RECORD_NS 350

struct vg_perf_tracepoint {
    const char *path; /* in `events` of tracefs: "sched/sched_switch"; static */
    bool optional;    /* may be missing; switched together with the other optional ones */
};

struct vg_perf_set {
    const struct vg_perf_tracepoint *tracepoints; /* borrowed as long as they are open */
    size_t n;          /* 1..VG_PERF_TRACEPOINTS_MAX; the first one, not optional, has the ring */
    bool arrivals;     /* record switches also by the thread that comes; see below */
    size_t ring_bytes; /* ring of each CPU, a power of two; smaller if not so much may be locked */
    size_t all_bytes;  /* limit of all rings together */
};

typedef struct vg_perf_events vg_perf_events;

/* Opens and enables the events, and gives their formats and rings to merge, which is borrowed and
 * must outlive them; optional ones that are there are enabled only with_optional. tracefs as of
 * vg_tracefs_root(). NULL and *err: what is missing, and what would help. */
vg_perf_events *vg_perf_events_open(vg_perf_merge *merge, const char *tracefs,
                                    const struct vg_perf_set *set, bool with_optional,
                                    GError **err);
void vg_perf_events_free(vg_perf_events *events); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_events, vg_perf_events_free)

/* Returns an epoll descriptor that is readable when a ring is a quarter full. */
int vg_perf_events_fd(const vg_perf_events *events);

/* Follows CPUs that come and go; events of a CPU that is gone are closed after its ring was
 * emptied. */
int vg_perf_events_follow_cpus(vg_perf_events *events, GError **err);

/* Tell if the optional events are recorded, and switch them; never if there are none. */
bool vg_perf_events_see_optional(const vg_perf_events *events);
int vg_perf_events_switch_optional(vg_perf_events *events, bool on, GError **err);

/* Tell if each switch is recorded a second time, by the thread that comes, whatever thread left,
 * and switch that. At first they are, if the set says so. */
bool vg_perf_events_see_arrivals(const vg_perf_events *events);
int vg_perf_events_switch_arrivals(vg_perf_events *events, bool on, GError **err);

/* Returns how many records found no room in the ring of a CPU; 0 if the kernel does not count them
 * (it does since 6.0). data is the vg_perf_events; for vg_perf_merge_look(). */
uint64_t vg_perf_events_lost(void *data, int32_t cpu);

#endif
