/* SPDX-License-Identifier: Apache-2.0
 *
 * libvirt's event loop, one for the process, on a thread of its own, virt-ev. It is GLib's default
 * main context inside: nobody else may iterate that, or callbacks come on the wrong thread.
 *
 * Callbacks run on virt-ev. They copy, put into a queue and return: a libvirt call from there
 * blocks the loop that its answer needs.
 */
#ifndef VG_HOST_VIRT_EVENT_H
#define VG_HOST_VIRT_EVENT_H

#include <glib.h>

#include "base/thread.h"

/* Before the first connection is opened; also keeps libvirt from writing to standard error. Does
 * nothing if the loop runs already. Any thread. */
int vg_virt_event_start(GError **err);

/* For whoever supervises threads: NULL if it does not run. Good until vg_virt_event_stop(). */
const vg_thread *vg_virt_event_thread(void);

/* When all connections are closed, at the end of the process. By the one who supervises. */
void vg_virt_event_stop(void);

/* *err with what libvirt said last on this thread behind the text; returns -1. */
int vg_virt_error(GError **err, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

#endif
