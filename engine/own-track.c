/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/own-track.h"

#include "model/score.h"

void
vg_own_track_init(struct vg_own_track *track)
{
    *track = (struct vg_own_track){.profile = g_array_new(FALSE, FALSE, sizeof(double))};
}

void
vg_own_track_clear(struct vg_own_track *track)
{
    g_array_unref(track->profile);
}

void
vg_own_track_feed(struct vg_own_track *track, const struct vg_window *window,
                  enum vg_engine_mode mode, int64_t half_life_ns)
{
    const int64_t window_ns = window->end_ns - window->begin_ns;
    const bool known = window->host.own_ns >= 0;
    const double cores = known ? (double)window->host.own_ns / (double)window_ns : -1;
    bool anew = false;

    if (vg_profile_clock_takes(&track->clock, window_ns, mode, track->profile->len == 0, &anew)) {
        if (anew)
            g_array_set_size(track->profile, 0);
        vg_profile_push(track->profile, VG_SNAPSHOT_PROFILE_MAX, cores);
    }
    track->unknown = known ? 0 : track->unknown + 1;
    if (!known)
        return;
    track->ewma += track->covered_ns == 0
                       ? cores
                       : vg_ewma_weight(window_ns, half_life_ns) * (cores - track->ewma);
    track->ns = vg_time_sum(track->ns, window->host.own_ns);
    track->covered_ns += window_ns;
}

void
vg_own_track_read(const struct vg_own_track *track, enum vg_engine_mode mode,
                  struct vg_snap_host *host)
{
    if (track->covered_ns == 0 ||
        (mode == VG_ENGINE_LIVE && track->unknown >= VG_ENGINE_OWN_WINDOWS))
        return;
    const double own =
        mode == VG_ENGINE_LIVE ? track->ewma : (double)track->ns / (double)track->covered_ns;
    host->own_known = true;
    host->own_share = MIN(own, VG_SNAPSHOT_SHARE_MAX);
    host->own_profile.window_ns = track->clock.window_ns;
    for (guint i = 0; i < track->profile->len; i++) {
        double cores = g_array_index(track->profile, double, i);
        cores = cores < 0 ? host->own_share : MIN(cores, VG_SNAPSHOT_SHARE_MAX);
        g_array_append_val(host->own_profile.cpu, cores);
    }
}
