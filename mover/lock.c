/* SPDX-License-Identifier: Apache-2.0
 *
 * Prevents other hosts of the cluster from moving a VM that this host is moving. The journal
 * defines which moves exist. The lock in etcd only excludes a second vgpud.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "model/vm-name.h"
#include "mover/private.h"

/* Returns whether this host is moving the VM. */
static bool
mover_has(vg_mover *mover, const char *uuid)
{
    g_autoptr(GPtrArray) moving = vg_mover_moving(mover);

    for (guint i = 0; i < moving->len; i++) {
        if (vg_vm_is(uuid, NULL, moving->pdata[i]))
            return true;
    }
    return false;
}

int
mover_start_queued(vg_mover *mover, const struct vg_migration *migration, GError **err)
{
    g_autoptr(GError) error = NULL;
    const int status = vg_journal_start_queued(mover->parts.journal, migration, &error);

    mover_note_answer(mover, error);
    if (error)
        g_propagate_error(err, g_steal_pointer(&error));
    return status;
}

/* Records in the journal that a new or queued move starts. */
static int
lock_record(vg_mover *mover, struct vg_migration *migration, const struct vg_mover_order *order,
            GError **err)
{
    if (!order)
        return mover_start_queued(mover, migration, err);
    migration->made_ns = vg_clock_realtime_ns();
    return vg_journal_begin_migration(mover->parts.journal, migration, order->key, order->request,
                                      err);
}

/* Checks that an automatic move may still start. Its leader relies on this check. */
static int
lock_check_act(const vg_mover *mover, const struct vg_migration *migration, GError **err)
{
    if (!migration->act)
        return 0;
    if (!mover->parts.region || migration->act_revision <= 0)
        return vg_error(err, VG_E_REFUSED,
                        "an automatic move must come from the leader of a cluster with etcd");
    if (vg_clock_realtime_ns() > migration->act_until_ns)
        return vg_error(err, VG_E_REFUSED,
                        "the time limit for starting the automatic move has passed");
    return 0;
}

int
mover_begin_locked(vg_mover *mover, struct vg_migration *migration,
                   const struct vg_mover_order *order, GError **err)
{
    vg_region *region = mover->parts.region;

    if (lock_check_act(mover, migration, err) < 0 ||
        (region && vg_region_lock_move(region, migration->uuid, migration->act_revision, err) < 0))
        return -1;
    /* Waiting for the lock may have taken a long time. */
    if (lock_check_act(mover, migration, err) == 0 &&
        lock_record(mover, migration, order, err) == 0)
        return 0;
    /* The lock may belong to a running move. */
    if (region && !mover_has(mover, migration->uuid))
        vg_region_unlock_move(region, migration->uuid);
    return -1;
}

int
mover_check_lock(const struct mover_move *move, GError **err)
{
    vg_region *region = move->mover->parts.region;
    g_autofree char *other = NULL;

    if (!region || !vg_region_other_moves(region, move->record->uuid, &other))
        return 0;
    return vg_error(err, VG_E_CONFLICT, "host '%s' of the cluster is also moving this VM", other);
}

void
mover_unlock(const struct mover_move *move)
{
    if (move->mover->parts.region)
        vg_region_unlock_move(move->mover->parts.region, move->record->uuid);
}
