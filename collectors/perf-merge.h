/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the rings of all CPUs into one sequence of events in time order. One thread at a time.
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
    uint64_t rejected; /* impossible records; a ring whose remainder was discarded counts as one */
    uint64_t switches;
    uint64_t gaps; /* switches without a sched_switch record, although nothing was lost */
};

vg_perf_merge *vg_perf_merge_new(void);
void vg_perf_merge_free(vg_perf_merge *merge); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_merge, vg_perf_merge_free)

/* Returns the names that its events refer to. They last as long as the merge or another reference
 * to them. */
vg_names *vg_perf_merge_names(const vg_perf_merge *merge);

/* Adds a tracepoint whose samples become events. Samples of other tracepoints are skipped. */
void vg_perf_merge_add_format(vg_perf_merge *merge, vg_perf_format *take_format);

/* Add or remove the mapped ring of a CPU: a page and data_bytes after it, borrowed until removal.
 * Removal discards its records that were not returned yet. */
void vg_perf_merge_add_cpu(vg_perf_merge *merge, int32_t cpu, void *mapped, size_t page_bytes,
                           size_t data_bytes);
void vg_perf_merge_remove_cpu(vg_perf_merge *merge, int32_t cpu);

/* Reads how far the rings have been written. is_full is called for each ring that is full or nearly
 * full: the kernel may have lost records at the end without reporting it yet. It returns the total
 * number of records lost there until now. May be NULL. */
void vg_perf_merge_look(vg_perf_merge *merge, uint64_t (*is_full)(void *data, int32_t cpu),
                        void *data);

/* Returns the next event in time order that is not after until_ns, or false if all other events
 * are later. Losses are VG_EVENT_LOST, from the last record before them to the first after them. */
bool vg_perf_merge_next(vg_perf_merge *merge, int64_t until_ns, struct vg_event *ret);

/* Gives the space of all events returned until now back to the kernel. */
void vg_perf_merge_release(vg_perf_merge *merge);

const struct vg_perf_counts *vg_perf_merge_counts(const vg_perf_merge *merge);

#endif
