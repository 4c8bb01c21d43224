/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUs of the recorded host that have no records, although sched_switch was recorded: what ran
 * there was not observed. A CPU exists if a record names it as the one where a thread is woken or
 * moved to or from, if the head of a text states more CPUs than have records, or, without a head,
 * if CPUs of lower and of higher numbers have records. One thread at a time.
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

/* Notes which CPUs an event is of, and which it names. */
void vg_absent_cpus_note(vg_absent_cpus *cpus, const struct vg_event *event);

/* Tells whether there are any, as far as the events so far show. Only when all are read does a CPU
 * count that no record names. */
bool vg_absent_cpus_any(const vg_absent_cpus *cpus, const vg_recording *recording, bool at_end);

/* Lists the CPUs that are absent when all events are read: int32_t, ascending. The caller unrefs
 * the array. */
GArray *vg_absent_cpus_list(const vg_absent_cpus *cpus, const vg_recording *recording);

/* The CPU that a thread is woken on or moved to; VG_NONE: the event names none. */
int32_t vg_absent_cpus_target(const struct vg_event *event);

/* The loss of all records of a CPU from ts_ns on. It may have nothing to do with GPUs. */
struct vg_event vg_absent_cpu_loss(int32_t cpu, int64_t ts_ns);

/* "1, 2 and 5 more". The caller frees it. */
char *vg_absent_cpus_text(const GArray *list);

/* Makes a problem of those that records name, if there are any, when all events are read. */
void vg_absent_cpus_tell(const vg_absent_cpus *cpus, vg_recording *recording);

#endif
