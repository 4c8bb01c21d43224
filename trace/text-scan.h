/* SPDX-License-Identifier: Apache-2.0
 *
 * Scans a whole text for missing records before it is read. Text reports a loss only where the
 * records of the CPU resume, after the records of other CPUs from the same period. One thread at a
 * time.
 */
#ifndef VG_TRACE_TEXT_SCAN_H
#define VG_TRACE_TEXT_SCAN_H

#include "trace/recording.h"
#include "trace/text-files.h"
#include "trace/text-lines.h"

/* Further losses are reported at their line's position. */
#define VG_TEXT_LOSSES_MAX 262144

/* If the text reports losses, reads its lines once more, except those of ignored files. It
 * recognises the marks of trace-cmd, tracefs and perf ("CPU:3 [LOST 17 EVENTS]"), and tracefs's
 * "entries-in-buffer/entries-written".
 *
 * Losses of CPUs with earlier records are stored in *ret_losses, struct vg_event in order of their
 * starts. Other CPUs are added to the recording's late CPUs; its length and GPU events are then
 * determined, too, and *ret_begin_ns is the start of the text. Returns false if *ret_losses is
 * incomplete. */
bool vg_text_scan(vg_text_lines *lines, struct vg_text_files *files, vg_recording *recording,
                  GArray *ret_losses, int64_t *ret_begin_ns);

#endif
