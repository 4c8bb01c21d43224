/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU time that a host itself uses, window by window; used only inside the engine. One thread
 * at a time.
 */
#ifndef VG_ENGINE_OWN_TRACK_H
#define VG_ENGINE_OWN_TRACK_H

#include "engine/engine.h"
#include "engine/profile-clock.h"

struct vg_own_track {
    int64_t ns;         /* sum over the windows whose time is known */
    int64_t covered_ns; /* the total length of these windows */
    double ewma;        /* in cores */
    guint unknown;      /* the number of newest windows whose time is unknown */
    struct vg_profile_clock clock;
    GArray *profile; /* double, the newest last; -1 where the time is unknown */
};

void vg_own_track_init(struct vg_own_track *track);
void vg_own_track_clear(struct vg_own_track *track);

void vg_own_track_feed(struct vg_own_track *track, const struct vg_window *window,
                       enum vg_engine_mode mode, int64_t half_life_ns);

/* Sets the host's own use if it is known. In live mode, it is unknown if the newest windows lack
 * it. Other windows without it get the mean, which the planner would use for them. */
void vg_own_track_read(const struct vg_own_track *track, enum vg_engine_mode mode,
                       struct vg_snap_host *host);

#endif
