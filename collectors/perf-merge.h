/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the rings of all CPUs into one sequence of events in the order of time. One thread at a
 * time.
 */
#ifndef VG_COLLECTORS_PERF_MERGE_H
#define VG_COLLECTORS_PERF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "trace/perf-format.h"

typedef struct vg_perf_merge vg_perf_merge;

/* Counts since the merge was made. */
struct vg_perf_counts {
    uint64_t records;
    uint64_t rejected; /* impossible records; a ring whose rest was thrown away counts as one */
    uint64_t switches;
    uint64_t gaps; /* switches that no sched_switch told of, though nothing was lost */
};

vg_perf_merge *vg_perf_merge_new(void);
void vg_perf_merge_free(vg_perf_merge *merge); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_merge, vg_perf_merge_free)

/* Returns the names that its events have; they last as long as it does, or as somebody holds
 * them. */
vg_names *vg_perf_merge_names(const vg_perf_merge *merge);

/* Adds a tracepoint whose samples become events; samples of others are skipped. */
void vg_perf_merge_add_format(vg_perf_merge *merge, vg_perf_format *take_format);

/* Add the ring of a CPU, mapped: a page and data_bytes behind it, borrowed until it is removed.
 * Removing loses what is in there and was not handed out. */
void vg_perf_merge_add_cpu(vg_perf_merge *merge, int32_t cpu, void *mapped, size_t page_bytes,
                           size_t data_bytes);
void vg_perf_merge_remove_cpu(vg_perf_merge *merge, int32_t cpu);

/* Looks what was written into the rings by now. is_full is called for each ring that is full, or
 * nearly: the kernel may have lost records at the end that it has not told yet. Its answer is the
 * total that was lost there so far. May be NULL. */
void vg_perf_merge_look(vg_perf_merge *merge, uint64_t (*is_full)(void *data, int32_t cpu),
                        void *data);

/* Returns the next event in the order of time that is not after until_ns; false: all others seen
 * are later. Losses are VG_EVENT_LOST, from the last record before to the first one after. */
bool vg_perf_merge_next(vg_perf_merge *merge, int64_t until_ns, struct vg_event *ret);

/* Gives the room of everything handed out back to the kernel. */
void vg_perf_merge_release(vg_perf_merge *merge);

const struct vg_perf_counts *vg_perf_merge_counts(const vg_perf_merge *merge);

#endif
