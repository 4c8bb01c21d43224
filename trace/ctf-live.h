/* SPDX-License-Identifier: Apache-2.0
 *
 * A live session of an LTTng relay daemon as a recording that goes on. babeltrace2 merges its
 * streams by time; the times come out on CLOCK_MONOTONIC of the machine that reads: of the same
 * boot they are that, of another machine they are mapped by what both call the epoch.
 *
 * babeltrace2 waits for the relay daemon in blocking calls. A signal whose handler calls
 * vg_ctf_live_interrupt() ends them.
 *
 * One thread at a time, but for what is said below.
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

/* The first vg_recording_next() connects, and fails where nobody answers; a session that is not
 * there, or is destroyed, is the end. NULL and *err if babeltrace2 has no live source. */
vg_recording *vg_ctf_live_open(const struct vg_ctf_live_options *options, GError **err);

/* Whether the session is traced by the kernel that runs here; false as long as nothing was read. */
bool vg_ctf_live_is_here(const vg_recording *live);

/* Takes leave of the relay daemon, which may not answer; then the recording can only be freed. */
void vg_ctf_live_close(vg_recording *live);

/* For a handler of a signal on the reading thread. pull: a number that differs for each time
 * babeltrace2 is called, also to close; 0: it is not being called. interrupt: the next call that a
 * signal interrupts returns; the recording can then only be closed. */
unsigned int vg_ctf_live_pull(const vg_recording *live);
void vg_ctf_live_interrupt(vg_recording *live);

#endif
