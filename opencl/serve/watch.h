/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends a client's process that would not end otherwise: because its program has exited while a call
 * to the vendor's library is running, because a build takes too long, or because it has crashed.
 * The program, if it is still connected, gets the reason.
 */
#ifndef VG_OPENCL_SERVE_WATCH_H
#define VG_OPENCL_SERVE_WATCH_H

#include "opencl/serve/serve.h"

/* Starts the watching thread and installs handlers for crash signals. Returns false if the thread
 * cannot be created. */
bool vg_serve_watch_begin(struct vg_serve *serve);

/* Call before and after each call of the serving thread. They do nothing without a watching
 * thread. */
void vg_serve_watch_enter(struct vg_serve *serve, unsigned op);
void vg_serve_watch_leave(struct vg_serve *serve);

#endif
