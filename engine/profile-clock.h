/* SPDX-License-Identifier: Apache-2.0
 *
 * The windows that profiles consist of: all of one length, so that the profiles of a host have the
 * same windows. Used only inside the engine. One thread at a time.
 */
#ifndef VG_ENGINE_PROFILE_CLOCK_H
#define VG_ENGINE_PROFILE_CLOCK_H

#include "engine/engine.h"

struct vg_profile_clock {
    int64_t window_ns;    /* the length of the windows */
    uint32_t odd_windows; /* consecutive windows that the profile omits */
};

/* Returns whether a window belongs to a profile. *ret_anew: its length is new, so that the profile
 * restarts. */
bool vg_profile_clock_takes(struct vg_profile_clock *clock, int64_t window_ns,
                            enum vg_engine_mode mode, bool empty, bool *ret_anew);

/* Appends a value, and removes the oldest one if there are more than max. */
void vg_profile_push(GArray *profile, guint max, double value);

#endif
