/* SPDX-License-Identifier: Apache-2.0
 *
 * Drains this host: moves every VM that can leave to the host where the VM causes the smallest
 * losses, and keeps this host in maintenance, so that no plan and no scheduler sends VMs here. The
 * journal stores that a drain is active. The VMs already moved, and the number of failures, are
 * read from the moves in the journal, so that vgpud continues the drain after a restart. Uses a
 * separate thread, "drain".
 */
#ifndef VG_MOVER_DRAIN_H
#define VG_MOVER_DRAIN_H

#include "cluster/region.h"
#include "journal/journal.h"
#include "model/drain.h"
#include "mover/mover.h"

/* All members are borrowed. */
struct vg_drainer_parts {
    vg_journal *journal;
    vg_mover *mover;
    vg_region *region; /* NULL if this host is not in a cluster */
    const char *host;
    void *data; /* argument of the following functions, which any thread may call */
    /* Returns where each of the host's VMs can go (struct vg_evacuation); the caller frees the
     * array. Fails with VG_E_BUSY before the first window. Blocks. */
    GPtrArray *(*evacuate)(void *data, GError **err);
    /* Starts a move, or queues it. The caller frees it. Blocks. */
    struct vg_migration *(*migrate)(void *data, const struct vg_migration_request *request,
                                    GError **err);
    void (*set_maintenance)(void *data, bool maintenance); /* does not block */
};

typedef struct vg_drainer vg_drainer;

/* Starts the thread, which continues a drain that is in the journal. */
vg_drainer *vg_drainer_new(const struct vg_drainer_parts *parts, GError **err);

/* Starts a drain. A drain already in progress continues. Blocks while the journal is written. */
int vg_drainer_begin(vg_drainer *drainer, const char *asked_by, GError **err);

/* Ends the drain: the host accepts VMs again, and moves that the drain has started are reversed if
 * possible. VMs that have already moved stay where they are. Fails with VG_E_NOT_FOUND if the host
 * is not being drained. Blocks while the journal is written. */
int vg_drainer_end(vg_drainer *drainer, GError **err);

/* Returns the progress, which may be a few seconds old. A dry run queries all peers and returns
 * what a drain would do. Fails with VG_E_NOT_FOUND if the host is not being drained. The caller
 * frees it. */
vg_drain *vg_drainer_read(vg_drainer *drainer, bool dry_run, GError **err);

void vg_drainer_stop(vg_drainer *drainer); /* NULL is fine */
void vg_drainer_free(vg_drainer *drainer); /* NULL is fine */

#endif
