/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan: what the policy proposes for one snapshot, and everything one needs to judge it: reason,
 * gain, cost, the runner-up, what was skipped, and if nothing is proposed, why. "Nothing to do" and
 * "infeasible" are results, not errors. Text for people is made by the CLI, but for the reason
 * sentences, which the policy writes because it knows them.
 *
 * The same snapshot content, configuration and rule give the same plan, id included. A plan is
 * plain data and owned by its holder; any thread may read it.
 */
#ifndef VG_MODEL_PLAN_H
#define VG_MODEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"

#define VG_PLAN_SCHEMA  "vgpud.plan"
#define VG_PLAN_VERSION 1

/* Sentences kept in `why`; more of them are counted in the last one. */
#define VG_PLAN_WHY_MAX 20

enum vg_plan_verdict {
    VG_PLAN_NOTHING_TO_DO, /* no contention, not long enough, or no move that is worth it */
    VG_PLAN_CHANGES,       /* there are actions */
    VG_PLAN_INFEASIBLE,    /* contention that should be ended, but every move is forbidden */
    VG_PLAN_VERDICT_MAX
};

enum vg_action_kind { VG_ACTION_MIGRATE, VG_ACTION_KIND_MAX };

/* A number that the reason rests on. The unit is part of the name ("pool_lost_cores"). */
struct vg_plan_input {
    char *name;
    double value;
};

struct vg_plan_reason {
    char *rule;
    char *text;        /* one or two sentences */
    GPtrArray *inputs; /* struct vg_plan_input */
};

/* What is no longer lost, over all hosts, per second; negative: more is lost. */
struct vg_plan_gain {
    int64_t lost_cpu_ns_per_s; /* 1e9 is one core */
    int64_t gpu_wait_ns_per_s; /* 1e9 is one GPU engine */
};

struct vg_plan_cost {
    double migration_s;   /* memory / bandwidth */
    double stun_s;        /* the VM stands still */
    int64_t lost_cpu_ns;  /* CPU time that the move itself loses, once */
    int64_t memory_bytes; /* to be copied */
    bool memory_assumed;  /* the snapshot does not know the VM's memory */
};

/* The best other move of the same step. */
struct vg_plan_runner_up {
    char *what; /* NULL: there was none */
    char *why;  /* it lost */
    struct vg_plan_gain gain;
};

/* Hashes of facts at planning time, to detect drift: vg_snap_vm_facts_hash() and host likewise. */
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
    char *role; /* "aggressor", "victim" or "third": of the VM in the contention */
    struct vg_plan_reason reason;
    struct vg_plan_gain gain; /* with the earlier actions of the plan done */
    struct vg_plan_cost cost;
    struct vg_plan_runner_up runner_up;
    struct vg_plan_facts facts;
    int64_t wave;  /* from 1: what is of one wave may run at the same time, when the waves before it
                      are done; 0 in plans of before */
    int64_t group; /* from 1: what is of one group has one gain; 0 in plans of before */
};

/* What is done for a remoted VM, whose programs use a GPU by a vgpu-proxy, before any VM moves. */
struct vg_plan_proxy_action {
    char *kind; /* "proxy-move": its programs go on at another GPU; "proxy-weight": it gets more of
                   it */
    char *vm;
    char *uuid; /* or NULL */
    char *host; /* of the VM */
    char *from; /* the socket of a proxy by which its programs come now */
    char *from_host;
    char *from_gpu;
    char *to; /* proxy-move: the place, as in struct vg_proxy_move_request; otherwise NULL */
    char *to_host;
    char *to_gpu;
    char *price; /* "live": VMs go on running */
    int64_t weight_before;
    int64_t weight; /* that it has afterwards */
    struct vg_plan_reason reason;
    struct vg_plan_gain gain;
    struct vg_plan_cost cost; /* of a move: its programs stand still, and their memory is copied */
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
    enum vg_plan_verdict verdict;
    GPtrArray *actions;      /* struct vg_plan_action, in the order in which to run them */
    GPtrArray *proxies;      /* struct vg_plan_proxy_action, to be done before the actions */
    GPtrArray *skipped;      /* struct vg_plan_skip, by host, then VM */
    GPtrArray *why;          /* char *: why nothing, or nothing more, is proposed */
    GPtrArray *notes;        /* char *: assumptions and doubts about the input */
    uint64_t n_whys_dropped; /* private: counted in the last of `why` */
};
typedef struct vg_plan vg_plan;

/* What the policy thinks of one VM on one host. */
enum vg_candidate_verdict {
    VG_CANDIDATE_CURRENT,   /* it is there now */
    VG_CANDIDATE_FORBIDDEN, /* by a hard constraint */
    VG_CANDIDATE_NO_GAIN,   /* allowed, but not worth it */
    VG_CANDIDATE_USEFUL,    /* allowed and worth it */
    VG_CANDIDATE_BEST,      /* the most useful one */
    VG_CANDIDATE_VERDICT_MAX
};

struct vg_plan_candidate {
    char *host;
    enum vg_candidate_verdict verdict;
    char *constraint; /* FORBIDDEN: id of the constraint ("gpu-type"), else NULL */
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
    char *reason;          /* why it can or cannot be moved at all, and if its host is contended */
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

/* A plan as vg_plan_to_json() wrote it; NULL and VG_E_INVALID otherwise. */
vg_plan *vg_plan_from_json(const char *text, size_t size, GError **err);

/* For whoever makes plans. Sentences beyond VG_PLAN_WHY_MAX are counted, not kept; drop_whys counts
 * n that the caller did not even keep that long. */
void vg_plan_add_why(vg_plan *plan, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_plan_drop_whys(vg_plan *plan, uint64_t n);
void vg_plan_add_note(vg_plan *plan, const char *fmt, ...) G_GNUC_PRINTF(2, 3);
void vg_plan_reason_add_input(struct vg_plan_reason *reason, const char *name, double value);

/* Derives id from input_hash, config_hash and rule, which must be set. */
void vg_plan_set_id(vg_plan *plan);

#endif
