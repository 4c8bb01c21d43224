/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the figures for the verdict on a move: the figures of all VMs of a host before and after
 * the move, from the store of this host or from a peer.
 */
#ifndef VG_DAEMON_JUDGE_FIGURES_H
#define VG_DAEMON_JUDGE_FIGURES_H

#include "cluster/peers.h"
#include "move/verdict.h"
#include "store/store.h"

/* The compared periods, since the epoch: length_ns from before_ns on, and length_ns from after_ns
 * on. All are multiples of VG_VERDICT_STEP_NS. */
struct judge_times {
    int64_t before_ns, after_ns, length_ns;
};

/* The sources of the figures. */
struct judge_sources {
    vg_store *store;
    vg_peers *peers;
};

/* Returns the figures of a host, which the caller frees; peer is NULL for this host. If they cannot
 * be read now, its `reason` explains why. Blocks. */
struct vg_verdict_host *judge_read_host(const struct judge_sources *sources, const char *host,
                                        const char *peer, const struct judge_times *times);

#endif
