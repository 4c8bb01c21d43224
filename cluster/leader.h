/* SPDX-License-Identifier: Apache-2.0
 *
 * One host of a cluster leads: it has the key /vgpud/CLUSTER/leader, on a lease of four seconds of
 * its own, and writes what it proposes for all hosts to /vgpud/CLUSTER/plan. The first hosts by
 * name look each second whether the key is there, and one of them makes it.
 *
 * A leader that was stopped for a while and goes on may not know that another one leads by now. So
 * it writes only in a transaction that compares the revision that made its key, and what it cannot
 * write it does not do. The thread "leader" keeps the lease, "leader-plan" makes proposals.
 */
#ifndef VG_CLUSTER_LEADER_H
#define VG_CLUSTER_LEADER_H

#include "cluster/region.h"
#include "model/proposal.h"

/* Makes a proposal, which the caller frees. Called on the thread "leader-plan"; may block. */
typedef struct vg_proposal *vg_leader_propose(void *data, GError **err);

struct vg_leader_options {
    struct vg_etcd_options etcd;
    const char *cluster;
    const char *host;
    vg_region *region;          /* borrowed: whose hosts there are */
    int64_t interval_ns;        /* the time between two proposals */
    vg_leader_propose *propose; /* NULL: the leader only observes */
    void *data;
};

typedef struct vg_leader vg_leader;

vg_leader *vg_leader_new(const struct vg_leader_options *options, GError **err);

/* Ends the threads, and gives the key back. NULL is fine. */
void vg_leader_stop(vg_leader *leader);
void vg_leader_free(vg_leader *leader); /* NULL is fine */

#endif
