/* SPDX-License-Identifier: Apache-2.0
 *
 * Slices that overlap without being nested, such as requests that wait at the same time, cannot be
 * on one track. Lanes are tracks of one name, as many as are needed at once; the user interface of
 * Perfetto draws tracks with the same parent and name as one. Borrows the trace. One thread at a
 * time.
 */
#ifndef VG_TRACE_PERFETTO_LANES_H
#define VG_TRACE_PERFETTO_LANES_H

#include "trace/perfetto-write.h"

/* There are no more than so many at once. */
#define VG_PERFETTO_LANES_MAX 1024

typedef struct vg_perfetto_lanes vg_perfetto_lanes;

vg_perfetto_lanes *vg_perfetto_lanes_new(vg_perfetto *trace, uint64_t parent, const char *name);
void vg_perfetto_lanes_free(vg_perfetto_lanes *lanes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perfetto_lanes, vg_perfetto_lanes_free)

/* The lowest track on which nothing is after begin_ns, for an interval whose end is not known yet:
 * nobody else gets it before it is given back. 0, which events may be given to, when all are in
 * use. */
uint64_t vg_perfetto_lanes_take(vg_perfetto_lanes *lanes, int64_t begin_ns);

/* Free again for what begins at end_ns or later. 0 is ignored. */
void vg_perfetto_lanes_give_back(vg_perfetto_lanes *lanes, uint64_t track, int64_t end_ns);

/* Both at once, for an interval whose end is known. They may come in any order; in the order of
 * their begin they need the fewest lanes. */
uint64_t vg_perfetto_lanes_place(vg_perfetto_lanes *lanes, int64_t begin_ns, int64_t end_ns);

/* How many tracks there are. */
unsigned int vg_perfetto_lanes_count(const vg_perfetto_lanes *lanes);

#endif
