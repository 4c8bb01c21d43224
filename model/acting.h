/* SPDX-License-Identifier: Apache-2.0
 *
 * The automatic moves of a cluster's leader: the plan that it carries out, move by move, and why it
 * is not acting at the moment. Plain data described by records. It is stored in etcd, so that the
 * next leader can continue.
 */
#ifndef VG_MODEL_ACTING_H
#define VG_MODEL_ACTING_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"

/* The maximum number of moves of a plan that are carried out; the others are left to the next plan.
 */
#define VG_ACTING_MOVES_MAX 32
#define VG_ACTING_UNDOS_MAX 16
/* The maximum length of the document when the leader starts to carry out a plan. etcd stores 65536
 * bytes; the difference is for moves that reverse others, and for reasons. */
#define VG_ACTING_TAKE_BYTES 32768

enum vg_policy_mode {
    VG_POLICY_UNSET, /* not configured; a VM then has the mode of its host */
    VG_POLICY_NEVER, /* a VM that no plan moves */
    VG_POLICY_OBSERVE,
    VG_POLICY_PROPOSE,
    VG_POLICY_ACT,
    VG_POLICY_MODE_MAX
};

extern const char *const vg_policy_mode_names[]; /* "", "never", "observe", ... */

/* Name of the alert that is raised when the error budget is spent. */
#define VG_ACT_ALERT "policy-stopped"

enum vg_act_step {
    VG_ACT_WAITS,
    VG_ACT_STARTING, /* the order to its source has been stored */
    VG_ACT_MOVING,   /* its source has a move that has not ended */
    VG_ACT_DONE,
    VG_ACT_FAILED,
    VG_ACT_DROPPED, /* it was not started, and will not be */
    VG_ACT_STEP_MAX
};

extern const char *const vg_act_step_names[]; /* "waits", "starting", ... */

struct vg_act_move {
    char *act; /* identifies it; also stored in the record of the move */
    char *vm;
    char *uuid;
    char *from; /* hosts */
    char *to;
    int64_t wave; /* 0 for a move that reverses another */
    int64_t group;
    bool undo_rest; /* if another move of its group fails, it is reversed */
    enum vg_act_step step;
    char *undo_of;           /* id of the move that it reverses, or NULL */
    char *move;              /* id of the move, once known */
    char *why;               /* what it waits for, or why it failed or was dropped; or NULL */
    int64_t asked_ns;        /* epoch, when the order was stored; 0 before that */
    int64_t until_ns;        /* its source does not start it after this time */
    int64_t unseen_since_ns; /* epoch, since when its VM or a host is missing; 0 if they exist */
};

struct vg_acting {
    char *host; /* the leader that wrote this */
    enum vg_policy_mode mode;
    bool acts;
    char *why; /* why it is not acting now, one sentence; NULL if it is */
    int64_t at_ns;
    int64_t errors;   /* automatic moves of the last day that failed or made things worse */
    int64_t budget;   /* number of errors that makes the leader stop acting */
    bool spent;       /* the budget is spent */
    int64_t spent_ns; /* epoch, when it was last spent; 0 if never */
    /* When a user last resumed the moves, by the leader's clock, and the request's etcd revision; 0
     * if unknown. */
    int64_t resumed_ns;
    int64_t resume_revision;
    char *plan_id; /* of the plan that is carried out, or was last; or NULL */
    char *plan_hash;
    char *plan;       /* its document, without the parts that are only for people */
    GPtrArray *moves; /* struct vg_act_move */
};
typedef struct vg_acting vg_acting;

/* A stop of all automatic moves by a user. */
struct vg_act_mark {
    char *by;
    int64_t at_ns;
};

extern const struct vg_record_type vg_act_move_record;
extern const struct vg_record_type vg_acting_record;
extern const struct vg_record_type vg_act_mark_record;

void vg_acting_free(void *acting); /* NULL is fine */
void vg_act_mark_free(void *mark); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_acting, vg_acting_free)

static inline bool
vg_act_has_ended(const struct vg_act_move *move)
{
    return move->step >= VG_ACT_DONE;
}

static inline bool
vg_act_undo_waits(const struct vg_act_move *move)
{
    return move->undo_of && move->step == VG_ACT_WAITS;
}

/* Returns whether a move has not ended. */
bool vg_acting_is_busy(const struct vg_acting *acting);

/* Returns whether a move prevents the next plan. A move that reverses another and only waits does
 * not, because it can wait for a day. */
bool vg_acting_is_blocked(const struct vg_acting *acting);

/* Returns a copy of a reason, truncated so that the document with all moves does not become too
 * long; NULL for NULL. The caller frees it. */
char *vg_act_shorten(const char *text);

/* Sets `why` of a move, shortened. */
void vg_act_set_why(struct vg_act_move *move, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

#endif
