/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at a whole text before it is read, for where records are missing: text tells of a loss
 * only where the records of its CPU go on, which is after what the other CPUs recorded meanwhile.
 * One thread at a time.
 */
#ifndef VG_TRACE_TEXT_SCAN_H
#define VG_TRACE_TEXT_SCAN_H

#include "trace/recording.h"
#include "trace/text-files.h"
#include "trace/text-lines.h"

/* More losses than these are told where they stand. */
#define VG_TEXT_LOSSES_MAX 262144

/* Reads the lines, but for lines of files that are not to be read, once more, if it tells of
 * losses at all: the marks of trace-cmd, tracefs and perf ("CPU:3 [LOST 17 EVENTS]"), and
 * "entries-in-buffer/entries-written" of tracefs. What CPUs lost that had recorded something before
 * becomes *ret_losses, struct vg_event in the order of their begins; the others are added to the
 * recording's late CPUs, and its length and GPU events are learnt. *ret_begin_ns: of the text, if
 * there are late CPUs. False: *ret_losses has not all.
 */
bool vg_text_scan(vg_text_lines *lines, struct vg_text_files *files, vg_recording *recording,
                  GArray *ret_losses, int64_t *ret_begin_ns);

#endif
