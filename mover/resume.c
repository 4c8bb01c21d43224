/* SPDX-License-Identifier: Apache-2.0
 *
 * Resumes moves that were running when vgpud ended, and retries failed moves.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The pause between two attempts to read the journal. */
#define RESUME_PAUSE_NS (2 * VG_NS_PER_S)

/* The maximum time that a retry waits for the end of its move in the journal, and the interval of
 * its checks. */
#define SAVED_NS       VG_NS_PER_S
#define SAVED_CHECK_NS (VG_NS_PER_S / 100)

struct mover_move *
mover_replay(vg_mover *mover, const struct vg_migration *migration)
{
    struct mover_move *move = mover_new_move(mover, migration);
    int64_t attempt = 0;

    for (guint i = 0; i < migration->steps->len; i++) {
        const struct vg_migration_step *step = migration->steps->pdata[i];
        const int verb = vg_move_verb_from_name(step->verb);
        for (; attempt < MIN(step->attempt, migration->retries); attempt++)
            vg_move_retry(&move->machine);
        if (verb >= 0)
            vg_move_replay(&move->machine, (enum vg_move_verb)verb, step->ended_ns > 0, step->ok);
    }
    for (; attempt < migration->retries; attempt++)
        vg_move_retry(&move->machine);
    return move;
}

/* ---- after a restart ---- */

/* Sets the origin of a move. A vgpud too old to record tls_why shows a drain only in asked_by. */
static void
resume_set_origin(struct vg_migration *record)
{
    if (!record->tls_why && record->asked_by && g_str_has_prefix(record->asked_by, VG_DRAIN_BY))
        record->begun_by = VG_ORIGIN_DRAIN;
}

static void
resume_move(vg_mover *mover, const struct vg_migration *migration)
{
    g_autoptr(GError) error = NULL;
    struct mover_move *move = mover_replay(mover, migration);
    const struct vg_migration_step *newest =
        migration->steps->len > 0 ? migration->steps->pdata[migration->steps->len - 1] : NULL;
    const char *last = newest ? newest->verb : "nothing yet";

    resume_set_origin(move->record);
    vg_move_recover(&move->machine);
    if (move->machine.asked[VG_MOVE_RESERVE] && !move->machine.done[VG_MOVE_RELEASE])
        move->renew_ns = vg_clock_monotonic_ns(); /* it was not renewed while vgpud was stopped */
    move->machine.aborted = migration->abort_asked;
    move->machine.shown = migration->state;
    if (!move->record->cause)
        move->record->cause = g_strdup_printf("vgpud ended during the move (%s)", last);
    vg_log_notice("move continues id=%s vm=\"%s\" after=%s", migration->id, migration->vm, last);
    if (mover_launch(mover, move, &error) < 0)
        vg_log_err("%s", error->message);
}

static int
resume_all(vg_mover *mover)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) active = vg_journal_list_migrations(mover->parts.journal, true, INT64_MAX,
                                                             VG_JOURNAL_MIGRATIONS_MAX, &error);
    g_autoptr(GPtrArray) queued =
        active ? vg_journal_list_queued(mover->parts.journal, &error) : NULL;
    g_autoptr(GPtrArray) all =
        queued ? vg_journal_list_migrations(mover->parts.journal, false, INT64_MAX,
                                            VG_JOURNAL_MIGRATIONS_MAX, &error)
               : NULL;

    if (!all) {
        vg_log_warn_limited("cannot resume interrupted moves yet, retrying reason=\"%s\"",
                            error->message);
        return -1;
    }
    for (guint i = 0; i < active->len; i++) {
        if (!vg_migration_is_queued(active->pdata[i]))
            resume_move(mover, active->pdata[i]);
    }
    for (guint i = 0; i < queued->len; i++)
        mover_queue_restore(mover, queued->pdata[i]);
    mover_note_past(mover, all);
    return 0;
}

static void
resume_run(vg_thread *self, void *arg)
{
    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + RESUME_PAUSE_NS)) {
        if (resume_all(arg) == 0)
            break;
    }
}

void
vg_mover_recover(vg_mover *mover)
{
    g_autoptr(GError) error = NULL;

    if (resume_all(mover) == 0)
        return;
    mover->resuming = vg_thread_new("move-resume", resume_run, NULL, mover, &error);
    if (!mover->resuming)
        vg_log_err("%s", error->message);
}

/* ---- after a failure ---- */

/* Checks that a failed move can be retried. Refuses a move that needs a new request. */
static int
resume_check(const struct vg_migration *migration, GError **err)
{
    const bool is_whole = migration->devices->len == 0 || migration->gpu == VG_GPU_ATTACHED;
    bool is_touched = false;

    if (!vg_migration_has_ended(migration->state))
        return vg_error(err, VG_E_CONFLICT, "the move has not ended: it is %s",
                        vg_migration_state_names[migration->state]);
    for (guint i = 0; i < migration->steps->len; i++) {
        const struct vg_migration_step *step = migration->steps->pdata[i];
        const int verb = vg_move_verb_from_name(step->verb);
        is_touched = is_touched || verb == VG_MOVE_QUIESCE || verb == VG_MOVE_DETACH ||
                     verb == VG_MOVE_MIGRATE;
    }
    if (migration->state != VG_MIGRATION_FAILED ||
        (!is_touched && is_whole && migration->vm_on == VG_PLACE_SOURCE))
        return vg_error(err, VG_E_CONFLICT,
                        "the move is %s and nothing remains to be done; start a new one with "
                        "`vgpuctl migrate`",
                        vg_migration_state_names[migration->state]);
    return 0;
}

/* Resets the record for a retry. */
static void
resume_reset(struct vg_migration *migration, const char *by)
{
    migration->state = VG_MIGRATION_PENDING;
    migration->ended_ns = 0;
    migration->abort_asked = false;
    migration->retries++;
    g_free(migration->retried_by);
    migration->retried_by = g_strdup(by);
}

/* Waits until the journal has the end of a move, which is public a moment earlier. */
static int
resume_wait_saved(vg_mover *mover, const char *id, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + SAVED_NS;
    VG_LOCK_SCOPE(&mover->lock);

    for (;;) {
        const struct mover_move *move = mover_find(mover, id);
        const int64_t now_ns = vg_clock_monotonic_ns();
        if (!move || move->ended)
            return 0;
        if (now_ns >= until_ns)
            return vg_error(err, VG_E_BUSY,
                            "the end of the move is not in the journal yet; try again");
        vg_cond_wait_until(&mover->answered, &mover->lock, now_ns + SAVED_CHECK_NS);
    }
}

struct vg_migration *
vg_mover_retry(vg_mover *mover, const char *id, const char *by, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(vg_migration) migration = vg_mover_read(mover, id, err);

    if (!migration || resume_check(migration, err) < 0 || resume_wait_saved(mover, id, err) < 0)
        return NULL;
    if (!settings->enabled) {
        vg_error(err, VG_E_REFUSED,
                 "actions are disabled on this host; set [actions] enabled=yes in vgpud.conf to "
                 "enable them");
        return NULL;
    }
    resume_reset(migration, by);
    VG_LOCK_SCOPE(&mover->beginning);
    if (mover_check_open(mover, err) < 0)
        return NULL;
    g_autofree char *why = mover_queue_why_retry(mover, migration->to);
    if (why)
        return mover_queue_add(mover, migration, NULL, why, err) < 0 ? NULL
                                                                     : g_steal_pointer(&migration);
    if (vg_journal_reopen_migration(mover->parts.journal, migration, err) < 0)
        return NULL;
    struct mover_move *move = mover_replay(mover, migration);
    vg_log_notice("move restarted id=%s vm=\"%s\" by=\"%s\"", id, migration->vm, by ? by : "");
    return mover_launch(mover, move, err) < 0 ? NULL : g_steal_pointer(&migration);
}
