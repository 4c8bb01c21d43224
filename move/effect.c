/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/effect.h"

#include "base/clock.h"

void
vg_effect_add(struct vg_effect_sum *sum, int64_t preempt_ns, int64_t wake_wait_ns,
              int64_t measured_ns)
{
    sum->lost_ns += preempt_ns + wake_wait_ns;
    sum->measured_ns += measured_ns;
}

void
vg_effect_set(const struct vg_effect_sum *sum, struct vg_migration_effect *ret)
{
    ret->known = sum->measured_ns >= VG_EFFECT_MIN_NS;
    if (!ret->known)
        return;
    ret->seconds = sum->measured_ns / VG_NS_PER_S;
    ret->lost_cpu_ns_per_s =
        (int64_t)((double)sum->lost_ns / (double)sum->measured_ns * (double)VG_NS_PER_S);
}
