/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/verb.h"

#include <time.h>

#include "base/clock.h"
#include "base/error.h"

int
vg_verb_pause(const struct vg_verb *verb, int64_t ns, const char *what, GError **err)
{
    const int64_t left_ns = verb->deadline_ns - vg_clock_monotonic_ns();
    const int64_t pause_ns = MIN(ns, left_ns);

    if (verb->cancel && atomic_load(verb->cancel))
        return vg_error(err, VG_E_CONFLICT, "cancelled while waiting for %s", what);
    if (left_ns <= 0)
        return vg_error(err, VG_E_TIMEOUT, "timed out while waiting for %s", what);
    const struct timespec pause = {pause_ns / VG_NS_PER_S, pause_ns % VG_NS_PER_S};
    nanosleep(&pause, NULL);
    if (verb->beat_ns)
        atomic_store(verb->beat_ns, vg_clock_monotonic_ns());
    return 0;
}
