/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracepoints of the scheduler and of KVM as perf events of every CPU, each CPU's with a ring
 * of its own. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_EVENTS_H
#define VG_COLLECTORS_PERF_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/perf-merge.h"

typedef struct vg_perf_events vg_perf_events;

/* Opens and enables them, and hands their formats and rings to merge, which is borrowed and must
 * outlive them. Those of KVM only with_guests, and only if they are there. NULL and *err: what is
 * missing, and what would help. */
vg_perf_events *vg_perf_events_open(vg_perf_merge *merge, bool with_guests, GError **err);
void vg_perf_events_free(vg_perf_events *events); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_events, vg_perf_events_free)

/* An epoll descriptor: readable when a ring is a quarter full. */
int vg_perf_events_fd(const vg_perf_events *events);

/* CPUs come and go: those of a CPU that is gone are closed, after its ring was emptied. */
int vg_perf_events_follow_cpus(vg_perf_events *events, GError **err);

/* Whether entries into guests and exits are recorded, which can be switched. KVM may have been
 * loaded after they were opened: it then takes opening them anew. */
bool vg_perf_events_see_guests(const vg_perf_events *events);
bool vg_perf_events_could_see_guests(const vg_perf_events *events);
int vg_perf_events_switch_guests(vg_perf_events *events, bool on, GError **err);

/* Whether each switch is recorded a second time, by the thread that comes, whatever thread left.
 * They are at first. */
bool vg_perf_events_see_arrivals(const vg_perf_events *events);
int vg_perf_events_switch_arrivals(vg_perf_events *events, bool on, GError **err);

/* How many records found no room in the ring of a CPU; 0 where the kernel does not count them (it
 * does since 6.0). data is the vg_perf_events; for vg_perf_merge_look(). */
uint64_t vg_perf_events_lost(void *data, int32_t cpu);

#endif
