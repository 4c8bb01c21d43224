/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan: what the policy proposes for one snapshot, with everything that is needed to judge it.
 * This includes the reason, gain, cost, the runner-up, what was skipped, and why nothing is
 * proposed. "Nothing to do" and "infeasible" are results, not errors. The CLI makes the text for
 * users, except the reason sentences, which the policy writes itself because it has the facts.
 *
 * The same snapshot content, configuration and rule give the same plan, including its id. A plan is
 * plain data and owned by its holder; any thread may read it.
 */
#ifndef VG_MODEL_PLAN_H
#define VG_MODEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/gpu-target.h"

#define VG_PLAN_SCHEMA  "vgpud.plan"
#define VG_PLAN_VERSION 1

/* Maximum number of sentences in `why`; if there are more, the last one contains their number. */
#define VG_PLAN_WHY_MAX 20

enum vg_plan_verdict {
    VG_PLAN_NOTHING_TO_DO, /* no contention, only brief contention, or no worthwhile move */
    VG_PLAN_CHANGES,       /* the plan has actions */
    VG_PLAN_INFEASIBLE,    /* contention that should be resolved, but every move is forbidden */
    VG_PLAN_VERDICT_MAX
};

enum vg_action_kind { VG_ACTION_MIGRATE, VG_ACTION_KIND_MAX };

/* A number that the reason is based on. Its name includes the unit ("pool_lost_cores"). */
struct vg_plan_input {
    char *name;
    double value;
};

struct vg_plan_reason {
    char *rule;
    char *text;        /* one or two sentences */
    GPtrArray *inputs; /* struct vg_plan_input */
};

/* The reduction of losses over all hosts, per second; negative if losses increase. */
struct vg_plan_gain {
    int64_t lost_cpu_ns_per_s; /* 1e9 is one core */
    int64_t gpu_wait_ns_per_s; /* 1e9 is one GPU engine */
};

struct vg_plan_cost {
    double migration_s;   /* memory / bandwidth */
    double stun_s;        /* pause of the VM */
    int64_t lost_cpu_ns;  /* CPU time that the move itself costs, once */
    int64_t memory_bytes; /* to copy */
    bool memory_assumed;  /* the snapshot does not contain the VM's memory size */
};

/* The best alternative to this move. */
struct vg_plan_runner_up {
    char *what; /* NULL without alternative */
    char *why;  /* why it was not chosen */
    struct vg_plan_gain gain;
};

/* Hashes of the facts at planning time, to detect drift: vg_snap_vm_facts_hash() and
 * vg_snap_host_facts_hash(). */
struct vg_plan_facts {
    char *vm;
    char *from;
    char *to;
};

struct vg_plan_action {
    enum vg_action_kind kind;
    char *vm;
    char *uuid;         /* or NULL */
    char *display_name; /* of the VM in OpenStack, or NULL */
    char *from;         /* host */
    char *to;
    char *role; /* the VM's role in the contention: "aggressor", "victim" or "third" */
    struct vg_plan_reason reason;
    struct vg_plan_gain gain; /* after the plan's earlier actions */
    struct vg_plan_cost cost;
    struct vg_plan_runner_up runner_up;
    struct vg_plan_facts facts;
    int64_t wave; /* counted from 1. Actions of a wave may run concurrently, after the earlier waves
                   * are complete; 0 in older plans */
    int64_t group;     /* counted from 1. The actions of a group share one gain; 0 in older plans */
    bool undo_partial; /* if another action of its group fails, this action must be undone, because
                          it does not help on its own */
    GPtrArray *gpus; /* struct vg_gpu_target, one for each GPU that moves; older plans have none */
};

/* An action for a VM whose programs use a GPU through vgpu-proxy. These actions precede the moves
 * of VMs. */
struct vg_plan_proxy_action {
    char *kind; /* "proxy-move": its programs continue on another GPU; "proxy-weight": it gets a
                 * larger share of its GPU */
    char *vm;
    char *uuid; /* or NULL */
    char *host; /* of the VM */
    char *from; /* the proxy socket that its programs currently use */
    char *from_host;
    char *from_gpu;
    char *to; /* proxy-move: the place, as in struct vg_proxy_move_request; otherwise NULL */
    char *to_host;
    char *to_gpu;
    char *price; /* "live": VMs continue to run */
    int64_t weight_before;
    int64_t weight; /* the new weight */
    struct vg_plan_reason reason;
    struct vg_plan_gain gain;
    struct vg_plan_cost cost; /* of a move: its programs are paused while their memory is copied */
};

struct vg_plan_skip {
    char *vm;
    char *host;
    char *reason;
};

struct vg_plan {
    char *id;          /* "plan-" and 16 hex digits */
    char *input_hash;  /* vg_snapshot_hash() */
    char *config_hash; /* SHA-256 of the configuration's dump */
    char *rule;
    char *free_up; /* "TYPE:N", the slots that the plan frees on one host; otherwise NULL */
    enum vg_plan_verdict verdict;
    GPtrArray *actions;      /* struct vg_plan_action, in order of execution */
    GPtrArray *proxies;      /* struct vg_plan_proxy_action, to be executed before the actions */
    GPtrArray *skipped;      /* struct vg_plan_skip, by host, then VM */
    GPtrArray *why;          /* char *: why nothing, or nothing else, is proposed */
    GPtrArray *notes;        /* char *: assumptions, and doubts about the input */
    uint64_t n_whys_dropped; /* private: the number in the last sentence of `why` */
};
typedef struct vg_plan vg_plan;

/* The policy's assessment of a host for a VM. */
enum vg_candidate_verdict {
    VG_CANDIDATE_CURRENT,   /* the VM is there now */
    VG_CANDIDATE_FORBIDDEN, /* ruled out by a hard constraint */
    VG_CANDIDATE_NO_GAIN,   /* allowed, but not worthwhile */
    VG_CANDIDATE_USEFUL,    /* allowed and worthwhile */
    VG_CANDIDATE_BEST,      /* the most useful host */
    VG_CANDIDATE_VERDICT_MAX
};

struct vg_plan_candidate {
    char *host;
    enum vg_candidate_verdict verdict;
    char *constraint; /* FORBIDDEN: id of the constraint ("gpu-type"); otherwise NULL */
    char *reason;     /* one sentence */
    struct vg_plan_gain gain;
    struct vg_plan_cost cost;
};

struct vg_explanation {
    char *vm;
    char *display_name; /* of the VM in OpenStack, or NULL */
    char *uuid;
    char *host;
    bool movable;
    char *reason; /* why it can or cannot be moved at all, and whether there is contention on its
                     host */
    GPtrArray *candidates; /* struct vg_plan_candidate, by host */
};
typedef struct vg_explanation vg_explanation;

extern const struct vg_record_type vg_plan_input_record;
extern const struct vg_record_type vg_plan_action_record;
extern const struct vg_record_type vg_plan_proxy_action_record;
extern const struct vg_record_type vg_plan_skip_record;
extern const struct vg_record_type vg_plan_record;
extern const struct vg_record_type vg_plan_candidate_record;
extern const struct vg_record_type vg_explanation_record;
extern const char *const vg_plan_verdict_names[];      /* "nothing-to-do", "changes", ... */
extern const char *const vg_action_kind_names[];       /* "migrate" */
extern const char *const vg_candidate_verdict_names[]; /* "current", "forbidden", ... */

vg_plan *vg_plan_new(void);
void vg_plan_free(vg_plan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_plan, vg_plan_free)

vg_explanation *vg_explanation_new(void);
void vg_explanation_free(vg_explanation *explanation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_explanation, vg_explanation_free)

/* The caller puts the object. */
json_object *vg_plan_to_json(const vg_plan *plan);
json_object *vg_explanation_to_json(const vg_explanation *explanation);

/* Parses the output of vg_plan_to_json(). Returns NULL and VG_E_INVALID for any other text. */
vg_plan *vg_plan_from_json(const char *text, size_t size, GError **err);

/* For planners. Sentences beyond VG_PLAN_WHY_MAX are only counted. vg_plan_drop_whys() counts n
 * sentences that the caller did not write. */
void vg_plan_add_why(vg_plan *plan, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_plan_drop_whys(vg_plan *plan, uint64_t n);
void vg_plan_add_note(vg_plan *plan, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_plan_reason_add_input(struct vg_plan_reason *reason, const char *name, double value);

/* Derives id from input_hash, config_hash, rule and free_up, which must be set. */
void vg_plan_set_id(vg_plan *plan);

#endif
