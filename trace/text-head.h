/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a recording's header. The caller must exclude lines with the columns of a record,
 * because a thread's name may contain the same words. Reentrant.
 */
#ifndef VG_TRACE_TEXT_HEAD_H
#define VG_TRACE_TEXT_HEAD_H

#include "trace/text-source.h"

/* Returns whether a line, without a file name, is the first of a recording's header. */
bool vg_text_head_is(struct vg_text_span text);

/* Returns whether a line of tracefs's header says that records were overwritten. */
bool vg_text_head_is_overwritten(struct vg_text_span text);

/* Returns the number of host CPUs from a header line, such as "#P:8", "cpus=8" or "# nrcpus online
 * : 8", or 0. */
int32_t vg_text_head_host_cpus(struct vg_text_span text);

#endif
