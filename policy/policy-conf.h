/* SPDX-License-Identifier: Apache-2.0
 *
 * All settings of the policy. vg_policy_keys has the keys, defaults, ranges and help texts;
 * vgpud-policy(7) documents them. Plain data without pointers: copy by assignment, nothing to
 * free.
 */
#ifndef VG_POLICY_POLICY_CONF_H
#define VG_POLICY_POLICY_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/conf.h"
#include "model/acting.h"
#include "model/score.h"
#include "model/snapshot.h"

/* The choice among a host's GPUs for a VM. */
enum vg_gpu_placement { VG_GPU_PLACEMENT_SPREAD, VG_GPU_PLACEMENT_PACK, VG_GPU_PLACEMENT_MAX };

enum vg_rule_id { VG_RULE_COMPLEMENT, VG_RULE_PAPER_THRESHOLD, VG_RULE_MAX };

/* Thresholds for proposing another mode of a GPU's scheduler. */
struct vg_gpumode_config {
    double min_gain; /* seconds of waiting per second, for modes that can change at run time */
    double min_gain_disruptive; /* seconds of waiting per second, for modes that require removing
                                   vGPUs */
    /* for any VM, the fraction by which p95 latency rises or requests/s fall */
    double max_worsening;
    int64_t ignore_worsening_ns; /* a smaller rise of p95 latency does not count */
    double max_model_error;
    int64_t min_requests;
};

#define VG_HOST_GROUPS_MAX      32
#define VG_HOST_GROUP_MATCH_MAX 255 /* bytes */

/* A group [hosts NAME]; see policy/host-groups.h. */
struct vg_host_group {
    char name[VG_CONF_ITEM_NAME_MAX + 1];
    char match[VG_HOST_GROUP_MATCH_MAX + 1];
    bool has_gpu_placement;
    enum vg_gpu_placement gpu_placement;
    enum vg_policy_mode mode; /* VG_POLICY_UNSET: as in [policy] */
    int64_t act_moves;        /* maximum concurrent automatic moves; 0 for no separate limit */
};

#define VG_CARD_GROUPS_MAX      64
#define VG_CARD_GROUP_MATCH_MAX 255 /* bytes */

/* A group [card NAME]; see policy/card-groups.h. */
struct vg_card_group {
    char match[VG_CARD_GROUP_MATCH_MAX + 1];
    int64_t memory_bytes; /* 0 if unknown */
    enum vg_profiles profiles;
};

struct vg_policy_config {
    struct vg_score_config score;

    enum vg_rule_id rule;
    double contention_threshold; /* cores, or engines */
    int64_t hold_ns;
    int64_t hold_long_ns;
    double hold_fraction; /* ignored; negative if not set */
    double min_gain;      /* cores, after the cost */
    double min_gain_fraction;
    int64_t stale_ns;  /* age of a host's figures that doubles both minimum gains; 0 to disable */
    double gpu_weight; /* number of cores equivalent to one lost GPU engine */
    int64_t max_moves; /* if negative, a share of the hosts, see VG_CONF_COUNT */
    int64_t max_moves_per_host; /* maximum per wave, incoming and outgoing together */
    int64_t horizon_ns;
    enum vg_gpu_placement gpu_placement;

    double preempt_threshold; /* preemptions per second */
    int64_t paper_max_moves;

    int64_t bandwidth; /* bytes per second */
    int64_t stun_ns;
    double copy_cores; /* CPU used by copying */
    int64_t assumed_memory_bytes;

    struct vg_gpumode_config gpu_mode;

    size_t n_host_groups;
    struct vg_host_group host_groups[VG_HOST_GROUPS_MAX]; /* in the order of the file */
    size_t n_card_groups;
    struct vg_card_group card_groups[VG_CARD_GROUPS_MAX]; /* the same */
};

extern const struct vg_conf_key vg_policy_keys[];
extern const size_t vg_policy_n_keys;
extern const char *const vg_gpu_placement_names[]; /* "spread", "pack" */
extern const char *const vg_rule_names[];          /* "complement", "paper-threshold" */

void vg_policy_config_init(struct vg_policy_config *config);

/* Returns the maximum number of moves in a plan for n_hosts. */
int64_t vg_policy_max_moves(const struct vg_policy_config *config, size_t n_hosts);

/* Checks combinations of keys. Fails with VG_E_INVALID and a line for each pair of keys that
 * contradict each other. */
int vg_policy_config_check(const struct vg_policy_config *config,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Parses text, starting from the defaults. Fails with VG_E_INVALID like vg_conf_parse(), and also
 * for keys that contradict each other. *ret is then unchanged. */
int vg_policy_config_parse(const char *text, size_t size, struct vg_policy_config *ret,
                           GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the configuration as text; the caller frees it. */
char *vg_policy_config_dump(const struct vg_policy_config *config);

/* Returns only the settings that plans depend on: all except [gpu-mode], which comes last. */
char *vg_policy_config_dump_of_plans(const struct vg_policy_config *config);

/* Fails with VG_E_NOT_FOUND and the names of all rules. */
int vg_rule_from_name(const char *name, enum vg_rule_id *ret,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
