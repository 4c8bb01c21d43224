/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts queued moves when their turn comes. The thread "move-queue" first checks again whether
 * each move is possible.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The interval between checks for a free place, which a peer's move may have used. */
#define TURN_CHECK_NS VG_NS_PER_S

/* A failure at a move's turn may be temporary, for example if a vgpud has just started. The move
 * is tried again at the first interval for the second time. Moves behind it may start in the
 * meantime. */
#define TURN_AGAIN_NS    (2 * VG_NS_PER_S)
#define TURN_PATIENCE_NS (60 * VG_NS_PER_S)

static bool
turn_is_retry(const struct vg_migration *record)
{
    return record->retries > 0;
}

/* Returns why a move has to wait, or NULL. The caller frees it. */
static char *
turn_why(vg_mover *mover, const struct vg_migration *record)
{
    return turn_is_retry(record) ? mover_queue_why_retry(mover, record->to)
                                 : mover_queue_why_turn(mover, record->to);
}

/* ---- starting ---- */

/* Schedules another attempt for a move that cannot start at its turn, or ends it. */
static void
turn_refuse(vg_mover *mover, const char *id, const GError *error)
{
    const bool is_final = g_error_matches(error, VG_ERROR, VG_E_REFUSED) ||
                          g_error_matches(error, VG_ERROR, VG_E_INVALID);
    const int64_t now_ns = vg_clock_monotonic_ns();
    g_autoptr(GError) unwritten = NULL;

    pthread_mutex_lock(&mover->lock);
    struct mover_queued *queued = mover_queue_find(mover, id);
    if (!queued || queued->is_busy) {
        pthread_mutex_unlock(&mover->lock);
        return;
    }
    /* An unresponsive journal does not end a move. */
    if (queued->refused_ns == 0 || atomic_load(&mover->is_silent))
        queued->refused_ns = now_ns;
    queued->again_ns = now_ns + TURN_AGAIN_NS;
    const bool is_aborted = queued->abort_asked;
    const bool ends = !mover->ending &&
                      (is_aborted || is_final || now_ns - queued->refused_ns >= TURN_PATIENCE_NS);
    queued->is_busy = ends;
    if (!ends) {
        g_free(queued->why);
        queued->why = g_strdup_printf("it cannot start now, retrying: %s", error->message);
        mover_queue_number(mover);
    }
    pthread_mutex_unlock(&mover->lock);
    if (!ends)
        return;
    vg_migration_free(
        mover_queue_remove(mover, queued, is_aborted ? NULL : error->message, &unwritten));
    if (unwritten)
        vg_log_warn_limited("a move cannot leave the queue id=%s reason=\"%s\"", id,
                            unwritten->message);
}

/* Prepares a queued move again, from its request. */
static struct vg_migration *
turn_prepare(vg_mover *mover, const struct vg_migration *queued, const char *request, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);

    if (!turn_is_retry(queued)) {
        struct vg_migration *now =
            mover->turn->prepare(mover->turn_data, queued, request ? request : "", err);
        if (!now)
            return NULL;
        g_free(now->id);
        now->id = g_strdup(queued->id);
        now->made_ns = queued->made_ns;
        return now;
    }
    if (!settings->enabled) {
        vg_error(err, VG_E_REFUSED,
                 "actions are disabled on this host; set [actions] enabled=yes in vgpud.conf to "
                 "enable them");
        return NULL;
    }
    struct vg_migration *now = vg_migration_copy(queued);
    g_clear_pointer(&now->waits_for, g_free);
    now->waits_since_ns = 0;
    return now;
}

/* Claims a move that starts. Returns NULL if it is not in the queue or already claimed. */
static struct mover_queued *
turn_claim(vg_mover *mover, const char *id)
{
    VG_LOCK_SCOPE(&mover->lock);
    struct mover_queued *queued = mover_queue_find(mover, id);
    if (!queued || queued->is_busy)
        return NULL;
    queued->is_busy = true;
    return queued;
}

/* Starts the thread of a move that has left the queue in the journal. */
static int
turn_launch(vg_mover *mover, struct mover_queued *queued, const struct vg_migration *now,
            GError **err)
{
    struct mover_move *move =
        turn_is_retry(now) ? mover_replay(mover, now) : mover_new_move(mover, now);

    mover_count_write(mover);
    vg_log_notice("queued move started id=%s vm=\"%s\" from=\"%s\" to=\"%s\"", now->id, now->vm,
                  now->from, now->to);
    if (mover_launch(mover, move, err) < 0) {
        pthread_mutex_lock(&mover->lock);
        g_autoptr(vg_migration) record = vg_migration_copy(queued->record);
        pthread_mutex_unlock(&mover->lock);
        (void)!vg_journal_save_migration(mover->parts.journal, record, NULL);
        if (mover->parts.region)
            vg_region_unlock_move(mover->parts.region, now->uuid);
        return -1;
    }
    VG_LOCK_SCOPE(&mover->lock);
    if (queued->abort_asked && vg_move_abort(&move->machine)) {
        move->record->abort_asked = true;
        atomic_store(&move->cancel, true);
    }
    mover_queue_leave(mover, queued);
    return 0;
}

static int
turn_begin(vg_mover *mover, struct vg_migration *now, GError **err)
{
    const bool is_retry = turn_is_retry(now);

    VG_LOCK_SCOPE(&mover->beginning);
    if (mover_check_open(mover, err) < 0 ||
        (!is_retry && mover->turn->check(mover->turn_data, now, err) < 0))
        return -1;
    g_autofree char *why = turn_why(mover, now);
    if (why)
        mover_queue_note(mover, now->id, why);
    struct mover_queued *queued = why ? NULL : turn_claim(mover, now->id);
    if (!queued)
        return 0;
    const int status =
        is_retry ? mover_start_queued(mover, now, err) : mover_begin_locked(mover, now, NULL, err);
    if (status == 0 && turn_launch(mover, queued, now, err) == 0)
        return 0;
    VG_LOCK_SCOPE(&mover->lock);
    queued->is_busy = false;
    return -1;
}

static void
turn_try(vg_mover *mover, const struct vg_migration *queued)
{
    g_autofree char *why = turn_why(mover, queued);
    g_autoptr(vg_migration) now = NULL;
    g_autoptr(GError) error = NULL;

    pthread_mutex_lock(&mover->lock);
    const struct mover_queued *known = mover_queue_find(mover, queued->id);
    g_autofree char *request = known ? g_strdup(known->request) : NULL;
    const bool is_aborted = known && known->abort_asked;
    pthread_mutex_unlock(&mover->lock);
    if (!known)
        return;
    if (why && !is_aborted) {
        mover_queue_note(mover, queued->id, why);
        return;
    }
    if (is_aborted)
        vg_error(&error, VG_E_CONFLICT, "it was aborted");
    else
        now = turn_prepare(mover, queued, request, &error);
    if (!now || turn_begin(mover, now, &error) < 0)
        turn_refuse(mover, queued->id, error);
}

/* ---- the thread ---- */

/* Waits until a queued move may start. */
static void
turn_wait(vg_thread *self, vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    while (!mover->is_turn && !vg_thread_stopping(self)) {
        if (mover->queue->len == 0)
            pthread_cond_wait(&mover->turned, &mover->lock);
        else if (!vg_cond_wait_until(&mover->turned, &mover->lock,
                                     vg_clock_monotonic_ns() + TURN_CHECK_NS))
            break;
    }
    mover->is_turn = false;
}

static void
turn_run(vg_thread *self, void *arg)
{
    vg_mover *mover = arg;

    while (!vg_thread_stopping(self)) {
        turn_wait(self, mover);
        g_autoptr(GPtrArray) due = mover_queue_due(mover);
        for (guint i = 0; i < due->len && !vg_thread_stopping(self); i++)
            turn_try(mover, due->pdata[i]);
    }
}

static void
turn_stop(void *arg)
{
    vg_mover *mover = arg;

    VG_LOCK_SCOPE(&mover->lock);
    mover_queue_wake(mover);
}

int
vg_mover_run_queue(vg_mover *mover, const struct vg_mover_turn *turn, void *data, GError **err)
{
    mover->turn = turn;
    mover->turn_data = data;
    mover->queueing = vg_thread_new("move-queue", turn_run, turn_stop, mover, err);
    return mover->queueing ? 0 : -1;
}
