/* SPDX-License-Identifier: Apache-2.0
 *
 * A short form of the moves of the last days. The leader of a cluster stores them in etcd, host by
 * host. Cooldowns, cycles and errors are therefore still known after a host has failed or has lost
 * its journal. Plain data described by records.
 */
#ifndef VG_MODEL_ACT_PAST_H
#define VG_MODEL_ACT_PAST_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/record.h"
#include "model/migration.h"

/* The maximum number of moves of a host. Older ones are dropped. */
#define VG_ACT_PAST_MAX 100

/* The members have the same meaning as in struct vg_migration. */
struct vg_act_past_move {
    char *id;
    char *vm;
    char *uuid;
    char *from;
    char *to;
    char *act;                     /* or NULL */
    char *undo_of;                 /* or NULL */
    enum vg_migration_state state; /* VG_MIGRATION_PENDING if it has not ended */
    bool not_started;
    int64_t made_ns;
    int64_t ended_ns;
    enum vg_verdict_result verdict;
    int64_t judged_ns;
};

struct vg_act_past {
    char *host;
    GPtrArray *moves; /* struct vg_act_past_move, newest first */
};
typedef struct vg_act_past vg_act_past;

extern const struct vg_record_type vg_act_past_record;

/* Removes moves that a host reports although it is not their source. Only the source of a move has
 * its record. Another host could thus have moves counted or reversed that never took place. Returns
 * the number of these moves. */
guint vg_act_past_keep_own(struct vg_host_moves *host);

/* Returns the moves of a host since `since_ns` (epoch). `before` is the earlier list, or NULL;
 * moves from this host in it that the host no longer reports are included. The caller frees the
 * list. */
vg_act_past *vg_act_past_update(const vg_act_past *before, const struct vg_host_moves *host,
                                int64_t since_ns);

/* Returns a move with the members of struct vg_act_past_move. A move that has not ended counts as
 * failed, because its host can no longer end it. The caller frees it. */
struct vg_migration *vg_act_past_to_move(const struct vg_act_past_move *past);

/* Drops all moves except the newest n. */
void vg_act_past_truncate(vg_act_past *past, guint n);

void vg_act_past_free(void *past); /* NULL is allowed */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_act_past, vg_act_past_free)

#endif
