/* SPDX-License-Identifier: Apache-2.0
 *
 * For a thread that calls a library which waits in system calls and cannot be told to stop: while
 * an alarm runs, a signal interrupts the thread at regular times. System calls then return EINTR,
 * and a function runs in the handler. The signal is SIGURG, which nobody misses.
 */
#ifndef VG_BASE_ALARM_H
#define VG_BASE_ALARM_H

#include <stdint.h>

#include <glib.h>

typedef struct vg_alarm vg_alarm;

/* For the calling thread, which has no other alarm. on_ring is called on it within a handler of a
 * signal: it may only do what is safe there (signal-safety(7)); vg_thread_beat() and
 * vg_thread_stopping() are. NULL and *err if the system has no timer left. */
vg_alarm *vg_alarm_start(int64_t period_ns, void (*on_ring)(void *data), void *data, GError **err);

/* By the same thread. NULL is fine. */
void vg_alarm_stop(vg_alarm *alarm);

#endif
