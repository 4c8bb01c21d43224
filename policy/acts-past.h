/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a VM and a host that follow from the moves of all hosts; for policy/acts.c and
 * acts-take.c only.
 */
#ifndef VG_POLICY_ACTS_PAST_H
#define VG_POLICY_ACTS_PAST_H

#include "policy/acts.h"

/* Finds a VM on a host. Returns NULL if it is not there. */
const struct vg_snap_vm *acts_find_on(const struct vg_snap_host *host, const char *uuid);

/* Finds the VM of a move on its source. Returns NULL if it is not there. */
const struct vg_snap_vm *acts_find_vm(const struct vg_acts_facts *facts,
                                      const struct vg_act_move *move);

/* Returns why the modes of a VM and its hosts do not allow a move, or NULL; the caller frees it. */
char *acts_why_mode(const struct vg_acts_facts *facts, const struct vg_act_move *move);

/* Finds the record of an automatic move, or NULL. */
const struct vg_migration *acts_find(const struct vg_acts_facts *facts, const char *act);

/* Return the reason as a sentence, which the caller frees, or NULL if it does not apply. The
 * reasons are that a move of the VM has not ended, that its cooldown has not passed, that it was on
 * the host recently, and that a move of it was reversed within a day. */
char *acts_why_moving(const struct vg_acts_facts *facts, const struct vg_act_move *move);
char *acts_why_rests(const struct vg_acts_facts *facts, const struct vg_act_move *move);
char *acts_why_cycle(const struct vg_acts_facts *facts, const struct vg_act_move *move);
char *acts_why_undone(const struct vg_acts_facts *facts, const char *uuid);

/* Returns a sentence if the maximum number of moves is in progress, otherwise NULL. */
char *acts_why_limit(const struct vg_acts_facts *facts, const struct vg_acting *acting,
                     const struct vg_act_move *move);

/* Returns whether a move was dropped that may be attempted again: its order was stored, or its VM
 * or a host was missing. Others that were dropped are obsolete. */
static inline bool
acts_is_missed(const struct vg_act_move *move)
{
    return move->step == VG_ACT_DROPPED && (move->asked_ns > 0 || move->unseen_since_ns > 0);
}

/* Returns whether the VM of a move was moved again later. Moves that left the VM on their source do
 * not count. */
bool acts_has_later(const struct vg_acts_facts *facts, const struct vg_migration *move);

/* Counts the automatic moves of the last day that failed, hang, or made things worse, and sets the
 * budget. Errors can disappear with the journal of a host that fails. A spent budget therefore
 * stays spent for a day, unless a user resumes the moves. */
void acts_count_budget(const struct vg_acts_facts *facts, vg_acting *acting);

#endif
