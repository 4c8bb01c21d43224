/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends a client's process that would not end by itself: one whose program is gone while the
 * vendor's library is at something, one whose build takes too long, and one that crashes. The
 * program is told why, if it is still there.
 */
#ifndef VG_OPENCL_SERVE_WATCH_H
#define VG_OPENCL_SERVE_WATCH_H

#include "opencl/serve/serve.h"

/* Begins a thread that watches, and has signals of a crash told. False: there is no thread. */
bool vg_serve_watch_begin(struct vg_serve *serve);

/* Around each call of the serving thread; nothing if nobody watches. */
void vg_serve_watch_enter(struct vg_serve *serve, unsigned op);
void vg_serve_watch_leave(struct vg_serve *serve);

#endif
