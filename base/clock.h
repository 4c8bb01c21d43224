/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of this machine, in nanoseconds. Code that reads a recording never calls these. Any
 * thread.
 */
#ifndef VG_BASE_CLOCK_H
#define VG_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct pollfd;

#define VG_NS_PER_S  INT64_C(1000000000)
#define VG_NS_PER_MS INT64_C(1000000)
#define VG_NS_PER_US INT64_C(1000)

int64_t vg_clock_monotonic_ns(void);
int64_t vg_clock_realtime_ns(void);   /* since the epoch, UTC */
int64_t vg_clock_thread_cpu_ns(void); /* the CPU time of the calling thread */

/* Like poll(2), but waits until a CLOCK_MONOTONIC time. */
int vg_clock_poll(struct pollfd *fds, unsigned n, int64_t until_ns);

#define VG_UTC_LEN 31 /* The size of "2026-11-20T10:00:00.000000000Z" and a NUL. */

/* Formats a time as RFC 3339 in UTC, with the decimals that whole ms, us or ns require; returns
 * buf. Years outside 1678..2262 do not fit into int64_t nanoseconds. */
const char *vg_utc_format(int64_t epoch_ns, char buf[VG_UTC_LEN]);

#endif
