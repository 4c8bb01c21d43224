/* SPDX-License-Identifier: Apache-2.0
 *
 * All settings of the policy. The keys, defaults, ranges and help texts are in vg_policy_keys;
 * vgpud-policy(7) is written from them. Plain data without strings: copy by assignment, nothing to
 * free.
 */
#ifndef VG_POLICY_POLICY_CONF_H
#define VG_POLICY_POLICY_CONF_H

#include <stdint.h>

#include "base/conf.h"
#include "model/score.h"

enum vg_rule_id { VG_RULE_COMPLEMENT, VG_RULE_PAPER_THRESHOLD, VG_RULE_MAX };

/* The thresholds for proposing another mode of a GPU's scheduler. */
struct vg_gpumode_config {
    double min_gain;            /* seconds of waiting per second, for modes that can be set live */
    double min_gain_disruptive; /* the same for modes for which vGPUs have to go */
    /* for any VM, the part by which p95 latency rises or requests/s fall */
    double max_worsening;
    int64_t ignore_worsening_ns; /* a p95 latency that rises by less than this has not worsened */
    double max_model_error;
    int64_t min_requests;
};

struct vg_policy_config {
    struct vg_score_config score;

    enum vg_rule_id rule;
    double contention_threshold; /* cores, or engines */
    int64_t hold_ns;
    int64_t hold_long_ns;
    double hold_fraction; /* ignored; negative: not set */
    double min_gain;      /* cores, after the cost */
    double min_gain_fraction;
    int64_t stale_ns;           /* the age of a host's figures that doubles both; 0: none does */
    double gpu_weight;          /* the number of cores that one lost GPU engine is worth */
    int64_t max_moves;          /* negative: a share of the hosts, see VG_CONF_COUNT */
    int64_t max_moves_per_host; /* in a wave, in and out together */
    int64_t horizon_ns;

    double preempt_threshold; /* preemptions per second */
    int64_t paper_max_moves;

    int64_t bandwidth; /* bytes per second */
    int64_t stun_ns;
    double copy_cores; /* CPU used by the copying itself */
    int64_t assumed_memory_bytes;

    struct vg_gpumode_config gpu_mode;
};

extern const struct vg_conf_key vg_policy_keys[];
extern const size_t vg_policy_n_keys;
extern const char *const vg_rule_names[]; /* "complement", "paper-threshold" */

void vg_policy_config_init(struct vg_policy_config *config);

/* Returns how many moves a plan for so many hosts may have. */
int64_t vg_policy_max_moves(const struct vg_policy_config *config, size_t n_hosts);

/* VG_E_INVALID where two keys do not fit together, with a line for each such two. */
int vg_policy_config_check(const struct vg_policy_config *config,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Defaults overridden by text. VG_E_INVALID as vg_conf_parse(), also where two keys do not fit
 * together; *ret is then untouched. */
int vg_policy_config_parse(const char *text, size_t size, struct vg_policy_config *ret,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The caller frees it. */
char *vg_policy_config_dump(const struct vg_policy_config *config);

/* The same of what plans depend on: all but [gpu-mode], which comes last. */
char *vg_policy_config_dump_of_plans(const struct vg_policy_config *config);

/* VG_E_NOT_FOUND, naming the rules that there are. */
int vg_rule_from_name(const char *name, enum vg_rule_id *ret,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
