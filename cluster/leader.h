/* SPDX-License-Identifier: Apache-2.0
 *
 * Leader election. The leader of a cluster holds the key /vgpud/CLUSTER/leader, on a separate lease
 * of four seconds, and writes its proposals for all hosts to /vgpud/CLUSTER/plan. The first hosts
 * by name check each second whether the key exists; if not, one of them creates it.
 *
 * A leader that was suspended for a while may not know that another host has become the leader. So
 * it writes only in transactions that compare the create revision of its key, and acts only after
 * it has written successfully. The thread "leader" renews the lease, and the thread "leader-plan"
 * makes proposals.
 */
#ifndef VG_CLUSTER_LEADER_H
#define VG_CLUSTER_LEADER_H

#include "cluster/region.h"
#include "model/proposal.h"

typedef struct vg_leader vg_leader;

/* Makes a proposal, which the caller frees. Returns NULL without an error if nothing is to be
 * proposed. Called on the thread "leader-plan"; may block. */
typedef struct vg_proposal *vg_leader_propose(void *data, GError **err);

/* Applies plans. Called each second on the thread "leader-plan" while this host is the leader; may
 * block. revision: the create revision of the leader's key, which shows whether this host is still
 * the leader. Called once with revision 0 after this host was the leader. */
typedef void vg_leader_act(void *data, vg_leader *leader, int64_t revision);

struct vg_leader_options {
    struct vg_etcd_options etcd;
    const char *cluster;
    const char *host;
    vg_region *region;   /* borrowed: the cluster's hosts */
    int64_t interval_ns; /* the interval between proposals */
    vg_leader_propose *propose;
    vg_leader_act *act;
    void *data;
};

vg_leader *vg_leader_new(const struct vg_leader_options *options, GError **err);

/* Returns whether this host is the leader by the key of this revision, and its lease lasts for at
 * least another second. Any thread. */
bool vg_leader_may_act(vg_leader *leader, int64_t revision);

/* Ends the threads and deletes the key. NULL is allowed. */
void vg_leader_stop(vg_leader *leader);
void vg_leader_free(vg_leader *leader); /* NULL is fine */

#endif
