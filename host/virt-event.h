/* SPDX-License-Identifier: Apache-2.0
 *
 * libvirt's event loop: one per process, on a separate thread, virt-ev. It uses GLib's default main
 * context. No other code may iterate this context, because callbacks would then run on the wrong
 * thread.
 *
 * Callbacks run on virt-ev. They copy data into a queue and return. A libvirt call from a callback
 * would block the loop that must deliver the call's answer.
 */
#ifndef VG_HOST_VIRT_EVENT_H
#define VG_HOST_VIRT_EVENT_H

#include <glib.h>

#include "base/thread.h"

/* Starts the loop, before the first connection is opened; also keeps libvirt from writing to
 * standard error. Does nothing if the loop is already running. Any thread. */
int vg_virt_event_start(GError **err);

/* Returns the thread, for its supervisor; NULL if it is not running. Valid until
 * vg_virt_event_stop(). */
const vg_thread *vg_virt_event_thread(void);

/* Stops the loop when all connections are closed, at the end of the process. Called by the
 * supervisor. */
void vg_virt_event_stop(void);

/* Sets *err to the text, followed by libvirt's last error on this thread. Returns -1. */
int vg_virt_error(GError **err, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

#endif
