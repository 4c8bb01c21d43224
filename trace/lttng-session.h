/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of the LTTng kernel tracer that records what vg_wanted_events_find() lists, with the
 * contexts pid, tid and procname, into a local directory or, live, through a relay daemon. The
 * clock is CLOCK_MONOTONIC, which is LTTng's own choice. It needs a running lttng-sessiond, the
 * rights of root (or the group `tracing`) and the modules of LTTng. A session outlives a process
 * that is killed: `lttng list` shows it, by the name that its prefix begins. One thread at a time.
 */
#ifndef VG_TRACE_LTTNG_SESSION_H
#define VG_TRACE_LTTNG_SESSION_H

#include <stdint.h>

#include <glib.h>

/* Room for bursts: of each CPU, 8 MiB. */
#define VG_LTTNG_SUBBUF_BYTES (UINT64_C(1) << 20)
#define VG_LTTNG_SUBBUFS      8

struct vg_lttng_options {
    const char *prefix;        /* of the session's name, which is made unique */
    const char *dir;           /* absolute; LTTng makes it and `kernel` below it. NULL: live */
    const char *relayd_url;    /* live: net://HOST[:CONTROL_PORT[:DATA_PORT]] */
    uint32_t live_interval_us; /* live: how often what was recorded is sent, > 0 */
    uint64_t subbuf_bytes;     /* of a CPU's sub-buffer, a power of 2; 0: VG_LTTNG_SUBBUF_BYTES */
    uint64_t subbufs;          /* of a CPU, a power of 2 from 2; 0: VG_LTTNG_SUBBUFS */
};

typedef struct vg_lttng_session vg_lttng_session;

/* Makes the session with everything enabled; it records from start on. options are copied.
 * VG_E_EXTERNAL with LTTng's reason, VG_E_DENIED without the rights, VG_E_NOT_FOUND without
 * sched_switch; no session is then left. */
vg_lttng_session *vg_lttng_session_new(const struct vg_lttng_options *options, GError **err);

/* Ends the session in the daemon, which stops it if it runs. NULL is fine. */
void vg_lttng_session_free(vg_lttng_session *session);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_lttng_session, vg_lttng_session_free)

/* Of the session in the daemon: a live viewer asks for it. */
const char *vg_lttng_session_name(const vg_lttng_session *session);

/* What the kernel has no tracepoints for: char *, for a person to read; borrowed. */
const GPtrArray *vg_lttng_session_missing(const vg_lttng_session *session);

int vg_lttng_session_start(vg_lttng_session *session, GError **err);

/* Stops recording, and waits until all of it is written, at most timeout_ns; VG_E_TIMEOUT then. */
int vg_lttng_session_stop(vg_lttng_session *session, int64_t timeout_ns, GError **err);

/* Events that found no room in the buffers, since the start. */
int vg_lttng_session_lost(const vg_lttng_session *session, uint64_t *ret_events, GError **err);

#endif
