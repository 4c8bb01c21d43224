/* SPDX-License-Identifier: Apache-2.0
 *
 * Empties this host: has every VM that can leave moved to the host where least is lost by its
 * coming, and keeps the host in maintenance, so that no plan and no scheduler sends others. That a
 * host is to be empty is in the journal; which VMs were moved, and how often that failed, is read
 * from the moves there, so that a vgpud that is started anew goes on. A thread of its own, "drain".
 */
#ifndef VG_MOVER_DRAIN_H
#define VG_MOVER_DRAIN_H

#include "cluster/region.h"
#include "journal/journal.h"
#include "model/drain.h"
#include "mover/mover.h"

/* All of this is borrowed. */
struct vg_drainer_parts {
    vg_journal *journal;
    vg_mover *mover;
    vg_region *region; /* NULL if this host is in no cluster */
    const char *host;
    void *data; /* of the functions that follow, which any thread may call */
    /* Returns where each VM of the host can go (struct vg_evacuation); the caller frees the array.
     * Fails with VG_E_BUSY before the first window. Blocks. */
    GPtrArray *(*evacuate)(void *data, GError **err);
    /* Begins a move, or has it wait for its turn. The caller frees it. Blocks. */
    struct vg_migration *(*migrate)(void *data, const struct vg_migration_request *request,
                                    GError **err);
    void (*set_maintenance)(void *data, bool maintenance); /* does not block */
};

typedef struct vg_drainer vg_drainer;

/* Starts the thread, which goes on with what the journal says. */
vg_drainer *vg_drainer_new(const struct vg_drainer_parts *parts, GError **err);

/* Begins to empty the host. One that is being emptied goes on. Blocks for the journal. */
int vg_drainer_begin(vg_drainer *drainer, const char *asked_by, GError **err);

/* Ends it: VMs may come again, and moves that it has begun turn back if they can. Those that have
 * moved stay where they are. VG_E_NOT_FOUND if the host is not being emptied. Blocks likewise. */
int vg_drainer_end(vg_drainer *drainer, GError **err);

/* Returns how far it is, a few seconds old; or, for a dry run, what would be done, for which all
 * peers are asked. VG_E_NOT_FOUND if the host is not being emptied. The caller frees it. */
vg_drain *vg_drainer_read(vg_drainer *drainer, bool dry_run, GError **err);

void vg_drainer_stop(vg_drainer *drainer); /* NULL is fine */
void vg_drainer_free(vg_drainer *drainer); /* NULL is fine */

#endif
