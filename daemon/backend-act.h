/* SPDX-License-Identifier: Apache-2.0
 *
 * Acts automatically while this host is the leader of the cluster: carries out the plans that it
 * proposes, and reverses moves that made things worse. policy/acts.h makes the decisions. Each
 * decision is stored in etcd before it is carried out.
 */
#ifndef VG_DAEMON_BACKEND_ACT_H
#define VG_DAEMON_BACKEND_ACT_H

#include "cluster/acts.h"
#include "daemon/backend-private.h"
#include "policy/acts.h"

struct backend_act;

/* Creates the part that makes automatic moves. The backend frees it. */
struct backend_act *backend_act_new(const struct vg_daemon_config *config);
void backend_act_free(struct backend_act *act);      /* NULL is fine */
void backend_act_interrupt(struct backend_act *act); /* NULL is fine */

/* Stores a plan of the leader, which is applied later if the policy allows it. Called on the thread
 * "leader-plan". */
void backend_act_take(vg_daemon_backend *backend, const vg_plan *plan);

/* Checks all automatic moves, and starts those that may start. See vg_leader_act. */
void backend_act_look(void *data, vg_leader *leader, int64_t revision);

/* Returns the current configuration of automatic moves. */
void backend_act_rules(vg_daemon_backend *backend, struct vg_act_rules *ret);

/* Adds the number of automatic moves that this host has started and reversed as the leader. */
void backend_act_count(const vg_daemon_backend *backend, struct vg_daemon_stats *ret);

/* of struct vg_backend */
extern const struct vg_backend_acts backend_acts;

#endif
