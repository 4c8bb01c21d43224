/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts how long a move takes, step by step, from what is known before it begins. Pure.
 */
#ifndef VG_MOVE_FORECAST_H
#define VG_MOVE_FORECAST_H

#include "move/move.h"

/* The sizes and rates that determine the duration. */
struct vg_forecast_facts {
    int64_t memory_bytes;          /* the VM's memory */
    int64_t gpu_bytes;             /* the GPU memory of its programs */
    int64_t link_bytes_per_s;      /* the rate of the network between the hosts, > 0 */
    int64_t bandwidth_bytes_per_s; /* the limit for a migration; 0 for all of the link */
    int64_t stun_ns;               /* the pause at the end of the copying */
};

/* The time limits, in nanoseconds, of the steps for which they can be configured. */
struct vg_forecast_limits {
    int64_t guest_ns;
    int64_t unplug_ns;
    int64_t migrate_ns;
};

struct vg_forecast_step {
    enum vg_move_verb verb;
    double expected_s;
    double deadline_s;
};

struct vg_forecast {
    size_t n;
    struct vg_forecast_step steps[VG_MOVE_VERB_MAX];
    double expected_s; /* the sum of all steps */
};

/* Fills in the steps of a move that goes forward without a failure. */
void vg_forecast_make(bool has_gpus, bool has_agent, const struct vg_forecast_facts *facts,
                      const struct vg_forecast_limits *limits, struct vg_forecast *ret);

#endif
