/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides what becomes of each VM of a host that is being emptied, given where it can go and how
 * its moves have ended so far. Pure; any thread.
 */
#ifndef VG_POLICY_DRAIN_H
#define VG_POLICY_DRAIN_H

#include "model/drain.h"
#include "model/migration.h"
#include "policy/evacuate.h"

/* Why the move of a VM did not begin. */
struct vg_drain_refusal {
    char *reason;
    int64_t until_ns; /* CLOCK_MONOTONIC; when it is tried again */
};

struct vg_drain_facts {
    const char *host;
    const char *asked_by;    /* NULL: a dry run */
    int64_t since_ns;        /* epoch; when the drain began */
    int64_t now_ns;          /* epoch */
    const GPtrArray *places; /* struct vg_evacuation */
    const GPtrArray *moves;  /* struct vg_migration, newest first */
    GHashTable *refusals;    /* UUID: struct vg_drain_refusal; NULL: a dry run */
};

/* Returns how far the drain is; the caller frees it. */
vg_drain *vg_drain_judge(const struct vg_drain_facts *facts);

/* Sets that a VM has a move that has not ended. */
void vg_drain_note_move(const struct vg_migration *move, struct vg_drain_vm *vm);

#endif
