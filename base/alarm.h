/* SPDX-License-Identifier: Apache-2.0
 *
 * Interrupts a thread that calls a library whose blocking system calls cannot be stopped in any
 * other way. While an alarm runs, a signal interrupts the thread at regular intervals. System calls
 * then return EINTR, and a function runs in the handler. The signal is SIGURG, which is ignored by
 * default.
 */
#ifndef VG_BASE_ALARM_H
#define VG_BASE_ALARM_H

#include <stdint.h>

#include <glib.h>

typedef struct vg_alarm vg_alarm;

/* Starts an alarm for the calling thread, which must not have another alarm. on_ring is called on
 * that thread in a signal handler, so it may only do what is safe there (signal-safety(7));
 * vg_thread_beat() and vg_thread_stopping() are safe. Returns NULL and sets *err if the system has
 * no timer left. */
vg_alarm *vg_alarm_start(int64_t period_ns, void (*on_ring)(void *data), void *data, GError **err);

/* Stops the alarm. Called by the same thread. NULL is fine. */
void vg_alarm_stop(vg_alarm *alarm);

#endif
