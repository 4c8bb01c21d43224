/* SPDX-License-Identifier: Apache-2.0
 *
 * Stops vgpud during moves. A running migration is left to libvirt or nova, and the next vgpud
 * resumes the move. Earlier moves turn back if there is enough time.
 */
#include "config.h"

#include "base/clock.h"
#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

#define END_PAUSE_NS (20 * VG_NS_PER_MS)

bool
mover_is_left_alone(enum vg_move_verb verb)
{
    return verb == VG_MOVE_MIGRATE || verb == VG_MOVE_RETURN;
}

void
mover_leave(struct mover_move *move)
{
    atomic_store(&move->leave, true);
    vg_thread_stop(move->thread);
}

/* Turns a move back, or leaves it as it is. Called under the lock. */
static void
end_move(struct mover_move *move)
{
    struct vg_migration *record = move->record;

    vg_log_notice("vgpud is stopping during a move id=%s vm=\"%s\" step=%s", record->id, record->vm,
                  record->step ? record->step : "");
    if (mover_is_left_alone(move->machine.running)) {
        mover_leave(move);
        return;
    }
    if (!vg_move_turn_back(&move->machine))
        return;
    if (!record->cause)
        record->cause = g_strdup_printf("vgpud was stopped during the move (%s)",
                                        record->step ? record->step : "nothing yet");
    atomic_store(&move->cancel, true);
}

void
vg_mover_end_moves(vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    mover->ending = true;
    for (guint i = 0; i < mover->moves->len; i++) {
        struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended)
            end_move(move);
    }
}

static bool
end_have_all_ended(vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        if (!((const struct mover_move *)mover->moves->pdata[i])->ended)
            return false;
    }
    return true;
}

void
vg_mover_wait(vg_mover *mover, int64_t until_ns)
{
    while (!end_have_all_ended(mover) && vg_clock_monotonic_ns() < until_ns)
        vg_clock_poll(NULL, 0, vg_clock_monotonic_ns() + END_PAUSE_NS);
}
