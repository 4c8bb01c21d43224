/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks periodically whether an operator has manually attached the GPUs that a failed move left
 * VMs without.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The time between two checks. */
#define MANUAL_CHECK_NS (10 * VG_NS_PER_S)

/* Returns whether the VM runs on the host with at least as many GPUs as the move has unplugged. */
static bool
manual_has_gpus(const vg_move_settings *settings, const char *uri, const vg_migration *migration)
{
    g_autoptr(vg_virt_link) host = uri ? vg_virt_link_open(uri, NULL) : NULL;
    g_autoptr(GPtrArray) gpus =
        host ? vg_virt_gpus(host, migration->uuid, settings->named, settings->n_named, NULL) : NULL;

    return gpus && gpus->len >= migration->devices->len;
}

/* Finds the VM of a move that has ended. If it has its GPUs, records this and clears the alert. */
static void
manual_check(vg_mover *mover, const char *id)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(vg_migration) seen = vg_mover_read(mover, id, NULL);
    enum vg_migration_place place = VG_PLACE_SOURCE;

    if (!seen || !vg_migration_has_ended(seen->state))
        return;
    if (!manual_has_gpus(settings, settings->libvirt_uri, seen)) {
        g_autofree char *uri = mover_peer_uri(mover, seen->peer, NULL);
        place = VG_PLACE_TARGET;
        if (!manual_has_gpus(settings, uri, seen))
            return;
    }
    VG_LOCK_SCOPE(&mover->beginning);
    g_autoptr(vg_migration) migration = vg_mover_read(mover, id, NULL);
    if (!migration || !vg_migration_has_ended(migration->state))
        return; /* it is still finishing */
    migration->vm_on = place;
    migration->gpu = VG_GPU_ATTACHED;
    /* If this cannot be saved, the next vgpud checks again. */
    (void)!vg_journal_save_migration(mover->parts.journal, migration, NULL);
    pthread_mutex_lock(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (strcmp(move->record->id, id) == 0) {
            move->record->vm_on = place;
            move->record->gpu = VG_GPU_ATTACHED;
        }
    }
    pthread_mutex_unlock(&mover->lock);
    mover_note_gpus(mover, migration->uuid);
}

/* Waits until a VM is without its GPUs. */
static void
manual_wait(vg_thread *self, vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    while (mover->bare->len == 0 && !vg_thread_stopping(self))
        pthread_cond_wait(&mover->raised, &mover->lock);
}

static void
manual_watch(vg_thread *self, void *arg)
{
    vg_mover *mover = arg;

    for (;;) {
        manual_wait(self, mover);
        if (!vg_thread_sleep_until(self, vg_clock_monotonic_ns() + MANUAL_CHECK_NS))
            return;
        g_autoptr(GPtrArray) bare = vg_mover_bare(mover);
        for (guint i = 0; i < bare->len && !vg_thread_stopping(self); i++)
            manual_check(mover, ((const struct vg_bare_vm *)bare->pdata[i])->move);
    }
}

static void
manual_wake(void *arg)
{
    vg_mover *mover = arg;

    VG_LOCK_SCOPE(&mover->lock);
    pthread_cond_signal(&mover->raised);
}

void
vg_mover_watch(vg_mover *mover)
{
    g_autoptr(GError) error = NULL;

    mover->watching = vg_thread_new("moves-hand", manual_watch, manual_wake, mover, &error);
    if (!mover->watching)
        vg_log_err("%s", error->message);
}
