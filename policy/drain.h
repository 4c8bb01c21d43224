/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides the next step for each VM of a host in a drain, given its possible targets and the
 * results of its moves until now. Pure; any thread.
 */
#ifndef VG_POLICY_DRAIN_H
#define VG_POLICY_DRAIN_H

#include "model/drain.h"
#include "model/migration.h"
#include "policy/evacuate.h"

/* Why the move of a VM did not start. */
struct vg_drain_refusal {
    char *reason;
    int64_t until_ns; /* CLOCK_MONOTONIC; time of the next try */
};

struct vg_drain_facts {
    const char *host;
    const char *asked_by;    /* NULL in a dry run */
    int64_t since_ns;        /* epoch; start of the drain */
    int64_t now_ns;          /* epoch */
    const GPtrArray *places; /* struct vg_evacuation */
    const GPtrArray *moves;  /* struct vg_migration, newest first */
    GHashTable *refusals;    /* UUID -> struct vg_drain_refusal; NULL in a dry run */
};

/* Returns the state of the drain; the caller frees it. */
vg_drain *vg_drain_judge(const struct vg_drain_facts *facts);

/* Records that a VM has an unfinished move. */
void vg_drain_note_move(const struct vg_migration *move, struct vg_drain_vm *vm);

#endif
