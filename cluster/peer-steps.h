/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the past of a peer's host, step by step.
 */
#ifndef VG_CLUSTER_PEER_STEPS_H
#define VG_CLUSTER_PEER_STEPS_H

#include "cluster/peers.h"

/* The figures of all VMs of the host in a step. */
struct vg_peer_step {
    int64_t begin_ns, end_ns;
    int64_t measured_ns; /* if it is zero, the members below are unknown */
    bool known;          /* the lost time is known exactly, not only a lower bound */
    double vms;          /* the average number of VMs */
    int64_t run_ns;
    int64_t lost_ns;       /* preempt_ns + wake_wait_ns */
    double gpu_wait_share; /* the average number of GPU requests that waited; negative if unknown */
};

/* A period, in seconds since the epoch. Both ends are multiples of step_s, which is at least 10. */
struct vg_peer_period {
    int64_t since_s, until_s, step_s;
};

/* Returns an array of struct vg_peer_step, which the caller unrefs. Errors are as in
 * cluster/peer-moves.h. Any thread except "peers". Blocks up to the limit. */
GArray *vg_peer_steps(vg_peers *peers, const char *peer, const struct vg_peer_period *period,
                      int64_t limit_ns, GError **err);

#endif
