/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/profile-clock.h"

/* Windows at the ends of a recording are cut, and an operator may change the length. A longer
 * window of a recording therefore restarts the profile. Other odd windows are ignored until several
 * come, because a long live window only means that the collector was late. Lengths that differ by
 * up to 1 % count as equal. */
bool
vg_profile_clock_takes(struct vg_profile_clock *clock, int64_t window_ns, enum vg_engine_mode mode,
                       bool empty, bool *ret_anew)
{
    int64_t slack_ns = clock->window_ns / 100;
    bool shorter = window_ns < clock->window_ns - slack_ns;
    bool longer = window_ns > clock->window_ns + slack_ns;
    bool odd = !empty && (shorter || (longer && mode == VG_ENGINE_LIVE));

    *ret_anew = false;
    clock->odd_windows = odd ? clock->odd_windows + 1 : 0;
    if (odd && clock->odd_windows < VG_ENGINE_ODD_WINDOWS)
        return false;
    if (shorter || longer) {
        clock->odd_windows = 0;
        clock->window_ns = window_ns;
        *ret_anew = true;
    }
    return true;
}

void
vg_profile_push(GArray *profile, guint max, double value)
{
    if (profile->len >= max)
        g_array_remove_index(profile, 0);
    g_array_append_val(profile, value);
}
