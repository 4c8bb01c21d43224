/* SPDX-License-Identifier: Apache-2.0
 *
 * The leader of a cluster, and its proposal for the whole cluster. Plain data.
 */
#ifndef VG_MODEL_PROPOSAL_H
#define VG_MODEL_PROPOSAL_H

#include <stdint.h>

#include "base/record.h"
#include "model/plan.h"

/* Maximum number of moves in a proposal; the plan itself contains all of them. */
#define VG_PROPOSAL_MOVES 50

struct vg_cluster_leader {
    char *host;
    int64_t since_ns; /* epoch */
};

extern const struct vg_record_type vg_cluster_leader_record;

struct vg_proposal_move {
    char *vm;
    char *uuid; /* or NULL */
    char *from;
    char *to;
    int64_t lost_cpu_ns_per_s; /* reduction of losses */
};

struct vg_proposal {
    char *plan; /* id of the plan, which the host's vgpud stores */
    char *host; /* the host that made the plan */
    int64_t made_ns;
    enum vg_plan_verdict verdict;
    int64_t moves_all;
    GPtrArray *moves; /* struct vg_proposal_move, the first VG_PROPOSAL_MOVES of them */
};

extern const struct vg_record_type vg_proposal_record;

/* Returns a proposal made from a plan; the caller frees it. */
struct vg_proposal *vg_proposal_of(const vg_plan *plan, const char *host, int64_t made_ns);
void vg_proposal_free(void *proposal);     /* NULL is fine */
void vg_cluster_leader_free(void *leader); /* NULL is fine */

#endif
