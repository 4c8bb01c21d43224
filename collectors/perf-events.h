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

/* What writing a record costs the thread that does: measured as the slowdown of two processes that
 * switch to and fro over a pipe. */
#define VG_PERF_RECORD_NS 350

struct vg_perf_tracepoint {
    const char *path; /* in `events` of tracefs: "sched/sched_switch"; static */
    bool optional;    /* may be missing, and is switched with the others that may */
};

struct vg_perf_set {
    const struct vg_perf_tracepoint *tracepoints; /* borrowed as long as they are open */
    size_t n;          /* 1..VG_PERF_TRACEPOINTS_MAX; the first one, not optional, has the ring */
    bool arrivals;     /* switches are recorded, too, by the thread that comes; see below */
    size_t ring_bytes; /* of each CPU, a power of two; smaller where it may not lock so much */
    size_t all_bytes;  /* of all CPUs together, at most */
};

typedef struct vg_perf_events vg_perf_events;

/* Opens and enables them, and hands their formats and rings to merge, which is borrowed and must
 * outlive them; the optional ones, if they are there, are enabled only with_optional. tracefs as of
 * vg_tracefs_root(). NULL and *err: what is missing, and what would help. */
vg_perf_events *vg_perf_events_open(vg_perf_merge *merge, const char *tracefs,
                                    const struct vg_perf_set *set, bool with_optional,
                                    GError **err);
void vg_perf_events_free(vg_perf_events *events); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_events, vg_perf_events_free)

/* An epoll descriptor: readable when a ring is a quarter full. */
int vg_perf_events_fd(const vg_perf_events *events);

/* CPUs come and go: those of a CPU that is gone are closed, after its ring was emptied. */
int vg_perf_events_follow_cpus(vg_perf_events *events, GError **err);

/* Whether the optional ones are recorded, which can be switched; never if there are none. */
bool vg_perf_events_see_optional(const vg_perf_events *events);
int vg_perf_events_switch_optional(vg_perf_events *events, bool on, GError **err);

/* Whether each switch is recorded a second time, by the thread that comes, whatever thread left.
 * They are at first, if the set says so. */
bool vg_perf_events_see_arrivals(const vg_perf_events *events);
int vg_perf_events_switch_arrivals(vg_perf_events *events, bool on, GError **err);

/* How many records found no room in the ring of a CPU; 0 where the kernel does not count them (it
 * does since 6.0). data is the vg_perf_events; for vg_perf_merge_look(). */
uint64_t vg_perf_events_lost(void *data, int32_t cpu);

#endif
