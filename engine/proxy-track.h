/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's memory of the proxies of a host; inside the engine only. One thread at a time.
 */
#ifndef VG_ENGINE_PROXY_TRACK_H
#define VG_ENGINE_PROXY_TRACK_H

#include "model/snapshot.h"
#include "model/window.h"

/* Makes what is remembered of all proxies of a host, in arrays that are freed by g_ptr_array_unref.
 */
GPtrArray *vg_proxy_tracks_new(void);

/* Feeds a window of the host. What it does not tell of a proxy that is known counts as unknown. */
void vg_proxy_tracks_feed(GPtrArray *tracks, const struct vg_window *window);

/* Appends struct vg_snap_proxy to the list of a host. */
void vg_proxy_tracks_read(const GPtrArray *tracks, GPtrArray *proxies);

#endif
