/* SPDX-License-Identifier: Apache-2.0
 *
 * Who leads a cluster, and what he proposes for all of it. Plain data.
 */
#ifndef VG_MODEL_PROPOSAL_H
#define VG_MODEL_PROPOSAL_H

#include <stdint.h>

#include "base/record.h"
#include "model/plan.h"

/* The moves of a plan that a proposal has; the plan itself has all. */
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
    int64_t lost_cpu_ns_per_s; /* what is no longer lost */
};

struct vg_proposal {
    char *plan; /* its id, which the vgpud of the host knows */
    char *host; /* who made it */
    int64_t made_ns;
    enum vg_plan_verdict verdict;
    int64_t moves_all;
    GPtrArray *moves; /* struct vg_proposal_move, the first of them */
};

extern const struct vg_record_type vg_proposal_record;

/* Makes a proposal of a plan; the caller frees it. */
struct vg_proposal *vg_proposal_of(const vg_plan *plan, const char *host, int64_t made_ns);
void vg_proposal_free(void *proposal);     /* NULL is fine */
void vg_cluster_leader_free(void *leader); /* NULL is fine */

#endif
