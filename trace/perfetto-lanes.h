/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices that overlap without nesting, such as requests that wait at the same time, cannot share a
 * track. Lanes are tracks with the same name, as many as are needed at the same time. Perfetto's
 * user interface draws tracks with the same parent and name as one. Borrows the trace. One thread
 * at a time.
 */
#ifndef VG_TRACE_PERFETTO_LANES_H
#define VG_TRACE_PERFETTO_LANES_H

#include "trace/perfetto-write.h"

/* Maximum number of concurrent lanes. */
#define VG_PERFETTO_LANES_MAX 1024

typedef struct vg_perfetto_lanes vg_perfetto_lanes;

vg_perfetto_lanes *vg_perfetto_lanes_new(vg_perfetto *trace, uint64_t parent, const char *name);
void vg_perfetto_lanes_free(vg_perfetto_lanes *lanes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perfetto_lanes, vg_perfetto_lanes_free)

/* Reserves the lowest track that is empty after begin_ns, for an interval whose end is not known
 * yet. Returns 0 if all are in use; track 0 can be passed on to the event functions. */
uint64_t vg_perfetto_lanes_take(vg_perfetto_lanes *lanes, int64_t begin_ns);

/* Releases a track for intervals that start at end_ns or later. 0 is ignored. */
void vg_perfetto_lanes_give_back(vg_perfetto_lanes *lanes, uint64_t track, int64_t end_ns);

/* Reserves and releases a track for an interval whose end is known. Intervals may come in any
 * order, but need the fewest lanes when sorted by start time. */
uint64_t vg_perfetto_lanes_place(vg_perfetto_lanes *lanes, int64_t begin_ns, int64_t end_ns);

/* Returns the number of tracks. */
unsigned int vg_perfetto_lanes_count(const vg_perfetto_lanes *lanes);

#endif
