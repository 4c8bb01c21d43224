/* SPDX-License-Identifier: Apache-2.0
 *
 * The streams of one clock as one stream of events in time order; and what only shows where all
 * streams are seen together: times in which nobody recorded, and CPUs of which nothing is recorded.
 * One thread at a time.
 */
#ifndef VG_TRACE_CTF_MERGE_H
#define VG_TRACE_CTF_MERGE_H

#include <glib.h>

#include "trace/recording.h"

struct ctf_merge;

/* streams (struct ctf_stream) are borrowed and must not change any more. Problems are told to
 * recording. */
struct ctf_merge *ctf_merge_new(vg_recording *recording, const GPtrArray *streams);
void ctf_merge_free(struct ctf_merge *merge);

/* The next event; false at the end. */
bool ctf_merge_next(struct ctf_merge *merge, struct vg_event *ret_event);

#endif
