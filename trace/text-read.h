/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads trace text: tracefs `trace` and `trace_pipe`, `trace-cmd report`, and `perf script`, plain
 * or compressed (trace/unpack.h). Lines are read one at a time; memory use does not depend on the
 * file size.
 *
 * A line that reports dropped records of a CPU becomes VG_EVENT_LOST, which is not counted in
 * recording->events. A file with such lines is scanned in advance, so that the loss starts at the
 * CPU's last event before the line and ends at its next. A pipe or a tracefs file can be read only
 * once. There, and before the CPU's first event, the loss is reported at the line's position. It
 * ends at the CPU's next event if that is the next line.
 *
 * A line between events that is not trace text, or whose columns are impossible, becomes a loss on
 * all CPUs from the previous event to the next, because its content is unknown.
 *
 * If a sched_waking comes before any sched_wakeup, the file is searched once for a sched_wakeup,
 * so that recording->has_wakeup is correct when that event is delivered. For a pipe or a tracefs
 * file it is set at the first sched_wakeup.
 */
#ifndef VG_TRACE_TEXT_READ_H
#define VG_TRACE_TEXT_READ_H

#include "trace/recording.h"

/* Maximum length of a line; longer lines are skipped and reported. */
#define VG_TEXT_LINE_MAX 8192

/* A file without an event in its first bytes up to this size is not trace text. */
#define VG_TEXT_PROBE_MAX (1024 * 1024)

/* Further event names in one file are treated as events of no interest. */
#define VG_TEXT_EVENT_NAMES_MAX 4096

/* Returns NULL and *err if the file cannot be opened, has no line in a known format, or was
 * recorded with a clock that does not count seconds. */
vg_recording *vg_text_open(const char *path, vg_aliases *aliases, GError **err);

/* The same for text in memory, which may be compressed, for tests and fuzzers. text is borrowed. */
vg_recording *vg_text_open_memory(const char *name, const char *text, size_t size, GError **err);

#endif
