/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides which moves of a plan may start automatically now, and which moves that made things worse
 * are reversed. If a fact is unknown or not recent, the move does not start, and the reason is
 * stored with it.
 *
 * A move that is waiting for its turn, a window or a limit remains in the plan. A move that no
 * longer matches the plan, or whose VM is in its cooldown, is dropped, because a new plan is better
 * than an old one. If a move of a wave fails or is dropped, later waves are dropped too. All of
 * this follows from the moves in the journals of all hosts. So a restart or a new leader changes
 * nothing.
 *
 * Pure; any thread.
 */
#ifndef VG_POLICY_ACTS_H
#define VG_POLICY_ACTS_H

#include "model/acting.h"
#include "model/migration.h"
#include "model/plan.h"
#include "model/snapshot.h"
#include "policy/act-window.h"
#include "policy/policy-conf.h"

#define VG_ACT_S INT64_C(1000000000)

/* How far back the moves of all hosts must be known. */
#define VG_ACT_PAST_NS (7 * 86400 * VG_ACT_S)
/* The period for counting errors. A VM's moves are reversed at most once in it. */
#define VG_ACT_DAY_NS (86400 * VG_ACT_S)
/* A VM does not return to a host within this time after it has left. */
#define VG_ACT_CYCLE_NS (3 * 86400 * VG_ACT_S)
/* The longest rest of a VM after many moves. */
#define VG_ACT_COOLDOWN_MAX_NS (86400 * VG_ACT_S)
/* A move that runs longer than this counts as failed. */
#define VG_ACT_STUCK_NS (3600 * VG_ACT_S)
/* The moves of a plan start within this time, or not at all. */
#define VG_ACT_PLAN_NS (3600 * VG_ACT_S)
/* A source starts a move within this time after the order, or not at all. */
#define VG_ACT_START_NS (60 * VG_ACT_S)

/* The settings of [policy] for acting. */
struct vg_act_rules {
    enum vg_policy_mode mode;
    struct vg_act_window window;
    int64_t moves; /* maximum number of concurrent moves: in total, from a host, and to a host */
    int64_t moves_per_host;
    int64_t moves_per_target;
    int64_t cooldown_ns;
    int64_t error_budget;
};

/* What is known when moves may start. Everything is borrowed. */
struct vg_acts_facts {
    const struct vg_act_rules *rules;
    const struct vg_policy_config *policy;
    int64_t now_ns;              /* epoch */
    int minute_of_week;          /* local time, from Monday 00:00 */
    const GPtrArray *moves;      /* struct vg_migration, of all hosts */
    const char *unknown;         /* why some moves may be missing; NULL if none are missing */
    const char *stopped;         /* another reason not to act; or NULL */
    bool vms_act;                /* the mode of some VMs is 'act' */
    int64_t resumed_ns;          /* errors before this time do not count */
    const vg_snapshot *snapshot; /* the present state of all hosts; NULL if unknown */
    const vg_plan *plan;         /* the current plan; or NULL */
};

/* Returns whether acting is configured for any host. A VM can have the mode in addition. */
bool vg_acts_is_wanted(const struct vg_act_rules *rules, const struct vg_policy_config *policy);

/* Returns a VM's cooldown after its last move, which grows with the number of its recent moves.
 * *ret_moves: this number. */
int64_t vg_acts_cooldown(const struct vg_acts_facts *facts, const char *uuid, unsigned *ret_moves);

/* Stores when a user last resumed automatic moves, by the leader's clock: the clock of the host
 * that received the request can differ. revision: changes with each request. resume: NULL if there
 * was none. */
void vg_acts_note_resume(vg_acting *acting, const struct vg_act_mark *resume, int64_t revision,
                         int64_t now_ns);

/* Starts a plan, with the groups that may start. Every earlier move must have ended,
 * except moves that reverse others and only wait, which remain in `acting`. id: precedes the number
 * of each move. Returns the number of moves of the plan. */
unsigned vg_acts_take(const struct vg_acts_facts *facts, const vg_plan *plan, const char *id,
                      struct vg_acting *acting);

/* Brings everything up to date. start receives the moves that must start now (struct vg_act_move,
 * borrowed), which count as starting from now on. The caller must store `acting` before it sends
 * the orders. A move whose order may have been lost is in start again until until_ns. Its asked_ns
 * is then before now_ns, and its source must not start it twice. */
void vg_acts_step(const struct vg_acts_facts *facts, struct vg_acting *acting, GPtrArray *start);

/* Records that a source refused to start a move. */
void vg_acts_refuse(struct vg_act_move *move, const char *reason);

#endif
