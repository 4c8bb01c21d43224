/* SPDX-License-Identifier: Apache-2.0
 *
 * A look at a whole text before it is read: where records are missing. Text tells of a loss only
 * where the records of its CPU go on, which is after what the other CPUs recorded meanwhile. One
 * thread at a time.
 */
#ifndef VG_TRACE_TEXT_SCAN_H
#define VG_TRACE_TEXT_SCAN_H

#include "trace/coverage.h"
#include "trace/text-source.h"

/* More losses than these are told where they stand. */
#define VG_TEXT_LOSSES_MAX 262144

/* Reads what source does, once more. False: nothing is missing, or too much. Else *ret_losses are
 * struct vg_event (VG_EVENT_LOST) of all losses that name a CPU, in the order of their begins: the
 * last record of the CPU before it, or the first one of any CPU. */
bool vg_text_scan(vg_text_source *source, struct vg_coverage *coverage, GArray *ret_losses);

#endif
