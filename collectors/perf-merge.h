/* SPDX-License-Identifier: Apache-2.0
 *
 * The rings of all CPUs as one sequence of events in the order of time. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_MERGE_H
#define VG_COLLECTORS_PERF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/event.h"
#include "trace/perf-format.h"

typedef struct vg_perf_merge vg_perf_merge;

/* Since it was made. */
struct vg_perf_counts {
    uint64_t records;
    uint64_t rejected; /* that cannot be true; a ring whose rest was thrown away is one */
    uint64_t switches;
    uint64_t gaps; /* switches that no sched_switch told of, though nothing was lost */
};

vg_perf_merge *vg_perf_merge_new(void);
void vg_perf_merge_free(vg_perf_merge *merge); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_perf_merge, vg_perf_merge_free)

/* The names that its events have; they last as long as it does, or as somebody holds them. */
vg_names *vg_perf_merge_names(const vg_perf_merge *merge);

/* Samples of this tracepoint become events; of others they are passed over. */
void vg_perf_merge_add_format(vg_perf_merge *merge, vg_perf_format *take_format);

/* The ring of a CPU, mapped: a page and data_bytes behind it, borrowed until it is removed. What is
 * in there and not yet handed out is then lost. */
void vg_perf_merge_add_cpu(vg_perf_merge *merge, int32_t cpu, void *mapped, size_t page_bytes,
                           size_t data_bytes);
void vg_perf_merge_remove_cpu(vg_perf_merge *merge, int32_t cpu);

/* Sees what was written into the rings by now. is_full is called for each that is, or nearly: the
 * kernel may have lost records in the end of which it has not told yet. Its answer is how many it
 * has lost there so far, all in all. May be NULL. */
void vg_perf_merge_look(vg_perf_merge *merge, uint64_t (*is_full)(void *data, int32_t cpu),
                        void *data);

/* The next event, in the order of time and not after until_ns; false: what else was seen is later.
 * Losses are VG_EVENT_LOST, from the last record before to the first one after. */
bool vg_perf_merge_next(vg_perf_merge *merge, int64_t until_ns, struct vg_event *ret);

/* Gives the kernel the room of all that was handed out. */
void vg_perf_merge_release(vg_perf_merge *merge);

const struct vg_perf_counts *vg_perf_merge_counts(const vg_perf_merge *merge);

#endif
