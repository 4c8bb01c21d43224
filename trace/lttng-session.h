/* SPDX-License-Identifier: Apache-2.0
 *
 * A session of the LTTng kernel tracer. It records the events of vg_wanted_events_find(), with the
 * contexts pid, tid and procname, to a local directory or, live, through a relay daemon. The clock
 * is CLOCK_MONOTONIC, LTTng's default. Requires a running lttng-sessiond, root privileges (or
 * membership in the group `tracing`) and LTTng's kernel modules. If the process is killed, the
 * session continues; `lttng list` shows it under a name that starts with the prefix. One thread at
 * a time.
 */
#ifndef VG_TRACE_LTTNG_SESSION_H
#define VG_TRACE_LTTNG_SESSION_H

#include <stdint.h>

#include <glib.h>

/* Buffers for bursts: 8 MiB per CPU. */
#define VG_LTTNG_SUBBUF_BYTES (UINT64_C(1) << 20)
#define VG_LTTNG_SUBBUFS      8

struct vg_lttng_options {
    const char *prefix; /* of the session's name, which is made unique */
    const char
        *dir; /* absolute path; LTTng creates it and `kernel` below it. NULL for a live session */
    const char *relayd_url;    /* live: net://HOST[:CONTROL_PORT[:DATA_PORT]] */
    uint32_t live_interval_us; /* live: interval for sending records, > 0 */
    uint64_t subbuf_bytes; /* bytes of a sub-buffer, a power of 2; 0 for VG_LTTNG_SUBBUF_BYTES */
    uint64_t subbufs;      /* sub-buffers per CPU, a power of 2 from 2; 0 for VG_LTTNG_SUBBUFS */
};

typedef struct vg_lttng_session vg_lttng_session;

/* Creates the session with everything enabled. Recording starts with vg_lttng_session_start().
 * options are copied. Fails with VG_E_EXTERNAL and LTTng's reason, VG_E_DENIED without these
 * privileges, or VG_E_NOT_FOUND without sched_switch; the session is then removed. */
vg_lttng_session *vg_lttng_session_new(const struct vg_lttng_options *options, GError **err);

/* Destroys the session in the daemon, which also stops it if it is running. NULL is allowed. */
void vg_lttng_session_free(vg_lttng_session *session);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_lttng_session, vg_lttng_session_free)

/* Returns the session's name in the daemon, which a live viewer needs. */
const char *vg_lttng_session_name(const vg_lttng_session *session);

/* Returns descriptions of the data for which the kernel has no tracepoints: char *, for users;
 * borrowed. */
const GPtrArray *vg_lttng_session_missing(const vg_lttng_session *session);

int vg_lttng_session_start(vg_lttng_session *session, GError **err);

/* Stops recording and waits at most timeout_ns until everything is written. Fails with
 * VG_E_TIMEOUT after that. */
int vg_lttng_session_stop(vg_lttng_session *session, int64_t timeout_ns, GError **err);

/* Returns the number of events dropped since the start because the buffers were full. */
int vg_lttng_session_lost(const vg_lttng_session *session, uint64_t *ret_events, GError **err);

#endif
