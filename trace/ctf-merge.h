/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the streams of one clock into one stream of events in time order. Also finds what only
 * the combination of all streams shows: periods without any recording, and CPUs without records.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_MERGE_H
#define VG_TRACE_CTF_MERGE_H

#include <glib.h>

#include "trace/recording.h"

struct ctf_merge;

/* streams (struct ctf_stream) are borrowed and must not change any more. Problems are added to
 * recording. */
struct ctf_merge *ctf_merge_new(vg_recording *recording, const GPtrArray *streams);
void ctf_merge_free(struct ctf_merge *merge);

/* Returns the next event, or false at the end. */
bool ctf_merge_next(struct ctf_merge *merge, struct vg_event *ret_event);

#endif
