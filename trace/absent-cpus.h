/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUs of the recorded host without records although sched_switch was recorded, which means that
 * their activity was not observed. A CPU is known to exist in three cases:
 *
 * - a record says that a thread is woken on it, or moved to or from it;
 * - the header of a text states more CPUs than have records;
 * - without a header, CPUs with lower and with higher numbers have records.
 *
 * One thread at a time.
 */
#ifndef VG_TRACE_ABSENT_CPUS_H
#define VG_TRACE_ABSENT_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"
#include "trace/recording.h"

typedef struct vg_absent_cpus vg_absent_cpus;

vg_absent_cpus *vg_absent_cpus_new(void);
void vg_absent_cpus_free(vg_absent_cpus *cpus);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_absent_cpus, vg_absent_cpus_free)

/* Records the CPU of an event and the CPUs that it refers to. */
void vg_absent_cpus_note(vg_absent_cpus *cpus, const struct vg_event *event);

/* Returns whether there are any, according to the events read. CPUs that no record refers to are
 * included only at the end. */
bool vg_absent_cpus_any(const vg_absent_cpus *cpus, const vg_recording *recording, bool at_end);

/* Lists the absent CPUs after all events were read: int32_t, ascending. The caller unrefs the
 * array. */
GArray *vg_absent_cpus_list(const vg_absent_cpus *cpus, const vg_recording *recording);

/* Returns the CPU that a thread is woken on or moved to, or VG_NONE if the event has none. */
int32_t vg_absent_cpus_target(const struct vg_event *event);

/* Returns an event for the loss of all records of a CPU from ts_ns on. The lost records may not
 * concern GPUs. */
struct vg_event vg_absent_cpu_loss(int32_t cpu, int64_t ts_ns);

/* Formats the list, as in "1, 2 and 5 more". The caller frees the text. */
char *vg_absent_cpus_text(const GArray *list);

/* After all events were read, adds a problem to the recording if records refer to absent CPUs. */
void vg_absent_cpus_report(const vg_absent_cpus *cpus, vg_recording *recording);

#endif
