/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads trace text: tracefs `trace` and `trace_pipe`, `trace-cmd report`, and `perf script`, plain
 * or packed (trace/unpack.h). Lines are read one at a time; memory does not grow with the file.
 *
 * A line that says that a CPU's records were dropped becomes VG_EVENT_LOST, which is not counted
 * in recording->events. A file with such lines is looked at once before: the loss begins at the
 * CPU's last event before the line, and ends at its next. Of a pipe or a tracefs file, which can
 * only be read once, and before the first event of the CPU, it is told where the line stands, and
 * ends at that CPU's next event if that is the next line.
 * A line between events that is no line of trace text, or whose columns cannot be true, becomes one
 * of all CPUs, from the event before it to the one behind: what was there is not known. The first
 * sched_waking before any sched_wakeup has the file searched once for a sched_wakeup, so that
 * recording->has_wakeup is right when that event is delivered; a pipe or a tracefs file can only be
 * read once, there it is set when the first sched_wakeup comes.
 */
#ifndef VG_TRACE_TEXT_READ_H
#define VG_TRACE_TEXT_READ_H

#include "trace/recording.h"

/* Longest line; what is longer is skipped and reported. */
#define VG_TEXT_LINE_MAX 8192

/* A file whose first event comes later than this is no trace text. */
#define VG_TEXT_PROBE_MAX (1024 * 1024)

/* More event names than this in one file are all taken for events of no interest. */
#define VG_TEXT_EVENT_NAMES_MAX 4096

/* NULL and *err if the file cannot be opened, holds no line of any known format, or was recorded
 * with a clock that does not count seconds. */
vg_recording *vg_text_open(const char *path, vg_aliases *aliases, GError **err);

/* The same on memory (packed, too), for tests and fuzzers; text is borrowed. */
vg_recording *vg_text_open_memory(const char *name, const char *text, size_t size, GError **err);

#endif
