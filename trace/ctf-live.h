/* SPDX-License-Identifier: Apache-2.0
 *
 * A live session of an LTTng relay daemon as a recording. babeltrace2 merges its streams by time.
 * Times are converted to CLOCK_MONOTONIC of this machine: times of the same boot are unchanged,
 * and times of another machine are mapped through the epoch of both.
 *
 * babeltrace2 waits for the relay daemon in blocking calls. A signal handler that calls
 * vg_ctf_live_interrupt() ends them.
 *
 * One thread at a time, except as stated below.
 */
#ifndef VG_TRACE_CTF_LIVE_H
#define VG_TRACE_CTF_LIVE_H

#include "trace/recording.h"

struct vg_ctf_live_options {
    const char *url;           /* net://RELAY[:PORT]/host/HOST/SESSION */
    const char *boot_id;       /* of this machine, a UUID; copied */
    int64_t epoch_at_clock_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC of this machine */
    vg_aliases *aliases;       /* other names of events, or NULL */
};

/* The first vg_recording_next() connects, and fails if the relay daemon does not answer. A session
 * that does not exist or is destroyed ends the recording. Returns NULL and *err if babeltrace2 has
 * no live source. */
vg_recording *vg_ctf_live_open(const struct vg_ctf_live_options *options, GError **err);

/* Returns whether the session traces this machine's running kernel. Returns false until something
 * has been read. */
bool vg_ctf_live_is_here(const vg_recording *live);

/* Disconnects from the relay daemon, which may not answer. Afterwards the recording can only be
 * freed. */
void vg_ctf_live_close(vg_recording *live);

/* For a signal handler on the reading thread. pull returns a different number for each call into
 * babeltrace2, including the closing one, or 0 outside of calls. After interrupt, the next call
 * that a signal interrupts returns; the recording can then only be closed. */
unsigned int vg_ctf_live_pull(const vg_recording *live);
void vg_ctf_live_interrupt(vg_recording *live);

#endif
