/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up the CPU time that a VM lost to waiting before a move, and after it. Pure.
 */
#ifndef VG_MOVE_EFFECT_H
#define VG_MOVE_EFFECT_H

#include "model/migration.h"

/* The minimum measured time. A mean over less time is meaningless. */
#define VG_EFFECT_MIN_NS INT64_C(5000000000)

struct vg_effect_sum {
    int64_t lost_ns;
    int64_t measured_ns;
};

/* Adds a window, or a minute. */
void vg_effect_add(struct vg_effect_sum *sum, int64_t preempt_ns, int64_t wake_wait_ns,
                   int64_t measured_ns);

/* Sets the mean. If less than VG_EFFECT_MIN_NS was measured, the mean is unknown, and the rest of
 * *ret is unchanged. */
void vg_effect_set(const struct vg_effect_sum *sum, struct vg_migration_effect *ret);

#endif
