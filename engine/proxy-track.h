/* SPDX-License-Identifier: Apache-2.0
 *
 * A host's proxies as the engine stores them; used only inside the engine. One thread at a
 * time.
 */
#ifndef VG_ENGINE_PROXY_TRACK_H
#define VG_ENGINE_PROXY_TRACK_H

#include "model/snapshot.h"
#include "model/window.h"

/* Returns an empty history of a host's proxies, freed by g_ptr_array_unref(). */
GPtrArray *vg_proxy_tracks_new(void);

/* Feeds a window of the host. Missing figures of known proxies count as unknown. */
void vg_proxy_tracks_feed(GPtrArray *tracks, const struct vg_window *window);

/* Appends struct vg_snap_proxy to the list of a host. */
void vg_proxy_tracks_read(const GPtrArray *tracks, GPtrArray *proxies);

#endif
