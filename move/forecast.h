/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts the duration of a move, step by step, from the facts that are known before it starts.
 * Pure.
 */
#ifndef VG_MOVE_FORECAST_H
#define VG_MOVE_FORECAST_H

#include <glib.h>

#include "move/move.h"

/* The durations of earlier moves: of the same VM if there are any, otherwise of all VMs. */
struct vg_forecast_past {
    /* For each verb, in seconds, without the part that depends on the size of GPU memory; 0 if
     * unknown. For MIGRATE, the time in addition to the copying. */
    double took_s[VG_MOVE_VERB_MAX];
    int64_t copied_bytes; /* for this VM; 0 if unknown */
    /* The rates at which the driver copied GPU memory; 0 if unknown. */
    double release_bytes_per_s, restore_bytes_per_s;
    int64_t bytes_per_s; /* the rate at which memory was copied; 0 if unknown */
};

/* Evaluates earlier moves (struct vg_migration, newest first). uuid: of the VM. */
void vg_forecast_learn(const GPtrArray *moves, const char *uuid, struct vg_forecast_past *ret);

/* The sizes and rates that determine the duration. */
struct vg_forecast_facts {
    bool native;                   /* as in struct vg_move */
    bool is_away;                  /* programs run on a proxy while the VM has no GPU */
    int64_t memory_bytes;          /* the VM's memory */
    bool has_programs;             /* some of its programs use GPUs */
    int64_t gpu_bytes;             /* their GPU memory */
    int64_t link_bytes_per_s;      /* the rate of the network between the hosts, > 0 */
    int64_t bandwidth_bytes_per_s; /* limit for a migration; 0 for the whole link */
    int64_t stun_ns;               /* the pause at the end of the copying */
    /* the part of the VM's memory that has been touched (the rest is empty); 0 if unknown */
    int64_t touched_bytes;
    /* the rate at which the guest rewrites its memory; 0 if unknown */
    int64_t dirty_bytes_per_s;
    const struct vg_forecast_past *past; /* NULL if nothing is known */
};

/* The time limits, in nanoseconds, of the steps with configurable limits. */
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
    /* the sum of the steps during which GPU programs are paused; 0 without GPUs */
    double standstill_s;
};

/* Fills in the steps of a move without failures. */
void vg_forecast_make(bool has_gpus, bool has_agent, const struct vg_forecast_facts *facts,
                      const struct vg_forecast_limits *limits, struct vg_forecast *ret);

#endif
