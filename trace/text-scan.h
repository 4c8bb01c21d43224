/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at a whole text before it is read, for where records are missing: text tells of a loss
 * only where the records of its CPU go on, which is after what the other CPUs recorded meanwhile.
 * One thread at a time.
 */
#ifndef VG_TRACE_TEXT_SCAN_H
#define VG_TRACE_TEXT_SCAN_H

#include "trace/recording.h"
#include "trace/text-source.h"

/* More losses than these are told where they stand. */
#define VG_TEXT_LOSSES_MAX 262144

/* Reads what source does, once more, if it tells of losses at all. What CPUs lost that had recorded
 * something before becomes *ret_losses, struct vg_event in the order of their begins; the others
 * are late, and recording's length and GPU events are learnt. False: nothing is missing, or too
 * much. */
bool vg_text_scan(vg_text_source *source, vg_recording *recording, GArray *ret_losses);

#endif
