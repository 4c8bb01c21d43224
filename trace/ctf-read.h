/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads CTF traces through libbabeltrace2. Traces that share a clock are merged into one recording
 * by time, in an own k-way merge, because babeltrace2's muxer gives up on time running backwards.
 *
 * A stream that babeltrace2 refuses or cannot decode to its end is repaired as far as its packet
 * boundaries are known (trace/ctf-repair.h); what cannot be read is a problem of the recording.
 */
#ifndef VG_TRACE_CTF_READ_H
#define VG_TRACE_CTF_READ_H

#include "trace/recording.h"

/* Appends to dirs (of char *, owned) every directory at or below path that holds a file named
 * `metadata`, sorted by name. -1 and *err if there is none. */
int vg_ctf_find_traces(const char *path, GPtrArray *dirs, GError **err);

/* Opens the traces in dirs and appends one recording for each clock. A trace that cannot be read
 * is a problem of the first recording; if none can, that is an error. */
int vg_ctf_open(const GPtrArray *dirs, GPtrArray *recordings, GError **err);

#endif
