/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/mover.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "model/arrival.h"
#include "move/standstill.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* The pause before a verb is tried again. It doubles with each attempt. */
#define AGAIN_NS            (2 * VG_NS_PER_S)
#define AGAIN_DOUBLINGS_MAX 4
#define AGAIN_CHECK_NS      (100 * VG_NS_PER_MS)

const struct mover_executor *
mover_executor_of(enum vg_migration_executor executor)
{
    static const struct mover_executor *const executors[] = {
        [VG_EXECUTOR_LIBVIRT] = &mover_libvirt,
        [VG_EXECUTOR_NOVA] = &mover_nova,
    };

    return executors[executor];
}

/* ---- publishing ---- */

/* Publishes the state of a move. Called under the lock. */
static void
mover_publish(const struct mover_move *move)
{
    const struct vg_migration *record = move->record;
    json_object *data = vg_migration_summary(record);
    g_autofree char *cause = vg_migration_cause(record);

    vg_json_add_string(data, "step", record->step);
    vg_json_add_string(data, "cause", cause);
    vg_event_log_add(move->mover->parts.events, "migration", data);
}

/* Sets and publishes the state. Called under the lock. */
static void
mover_set_state(struct mover_move *move, enum vg_migration_state state)
{
    struct vg_migration *record = move->record;

    if (record->state == state)
        return;
    record->state = state;
    mover_publish(move);
    vg_log_notice("move state=%s id=%s vm=\"%s\" from=\"%s\" to=\"%s\"",
                  vg_migration_state_names[state], record->id, record->vm, record->from,
                  record->to);
}

/* ---- a step ---- */

static void
mover_begin_step(struct mover_move *move, enum vg_move_verb verb)
{
    struct vg_migration_step *step = vg_record_new(&vg_migration_step_record);

    step->verb = g_strdup(vg_move_verb_names[verb]);
    step->began_ns = vg_clock_realtime_ns();
    step->asked = move->executor->describe(move, verb);
    VG_LOCK_SCOPE(&move->mover->lock);
    vg_standstill_begin(move->record, &move->machine, verb, step->began_ns);
    step->undoes = move->machine.back;
    step->attempt = move->record->retries;
    g_ptr_array_add(move->record->steps, step);
    /* A long move checks the VM's place many times. Dropping a step in the middle keeps the first
     * and the last steps. */
    if (move->record->steps->len > VG_MIGRATION_STEPS_MAX)
        vg_record_free(&vg_migration_step_record,
                       g_ptr_array_remove_index(move->record->steps, VG_MIGRATION_STEPS_MAX / 2));
    g_free(move->record->step);
    move->record->step = g_strdup(step->verb);
}

static void
mover_end_step(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *outcome)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    struct vg_migration *record = move->record;
    struct vg_migration_step *step = record->steps->pdata[record->steps->len - 1];
    const bool had_failed = move->machine.failed;

    g_clear_pointer(&record->guest.doing, g_free);
    step->ended_ns = vg_clock_realtime_ns();
    step->ok = outcome->ok;
    step->answer = g_steal_pointer(&outcome->text);
    g_clear_pointer(&record->step, g_free);
    if (!outcome->ok && outcome->is_final)
        vg_move_failed_finally(&move->machine);
    else if (!outcome->ok && outcome->may_pass)
        vg_move_failed_for_now(&move->machine);
    else
        vg_move_report(&move->machine, outcome->ok,
                       outcome->ok && verb == VG_MOVE_LOOK ? &outcome->facts : NULL);
    vg_standstill_end(record, &move->machine, verb, outcome->ok, step->ended_ns);
    if (!record->cause && move->machine.aborted)
        record->cause = g_strdup("it was aborted");
    else if (!record->cause && move->machine.failed && !had_failed)
        record->cause = g_strdup_printf("%s: %s", step->verb, step->answer);
    if (verb == VG_MOVE_TIDY) {
        g_free(record->left_over);
        record->left_over = outcome->ok ? NULL : g_strdup(step->answer);
    }
    record->vm_on = move->machine.facts.place;
    record->gpu = move->machine.facts.gpu;
    if (outcome->ok && verb == VG_MOVE_LOOK) {
        g_free(record->stands);
        record->stands = g_strdup(outcome->stands);
    }
}

static void
mover_do(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret)
{
    g_autoptr(GError) error = NULL;

    ret->ok = move->executor->do_verb(move, verb, ret, &error) == 0;
    if (ret->ok)
        return;
    g_free(ret->text);
    ret->text = g_strdup(error ? error->message : "it failed");
    /* An unreachable host may come back. For a failed migration, libvirt gives no better error. */
    ret->may_pass = g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
                    (verb == VG_MOVE_RETURN && !move->called_off &&
                     g_error_matches(error, VG_ERROR, VG_E_EXTERNAL));
}

/* Returns whether a verb only checks the VM, or gives it back what it had. */
static bool
mover_gives_back(enum vg_move_verb verb)
{
    return verb == VG_MOVE_LOOK || verb == VG_MOVE_ATTACH || verb == VG_MOVE_RESUME ||
           verb == VG_MOVE_VERIFY || verb == VG_MOVE_REATTACH || verb == VG_MOVE_REVIVE;
}

/* Returns whether another verb has changed the VM, which may be without its GPUs. */
static bool
mover_has_touched(const struct mover_move *move, enum vg_move_verb but)
{
    static const enum vg_move_verb touching[] = {VG_MOVE_QUIESCE, VG_MOVE_DETACH, VG_MOVE_MIGRATE};

    for (size_t i = 0; i < G_N_ELEMENTS(touching); i++) {
        if (touching[i] != but && move->machine.asked[touching[i]])
            return true;
    }
    return false;
}

/* Records the intent in the journal before the action, and the outcome after it. */
static void
mover_step(struct mover_move *move, enum vg_move_verb verb)
{
    const bool gives_back = mover_gives_back(verb);
    const bool is_touched = mover_has_touched(move, verb);
    struct mover_outcome outcome = {0};
    g_autoptr(GError) error = NULL;

    mover_begin_step(move, verb);
    if ((gives_back || mover_check_lock(move, &error) == 0) &&
        (mover_save(move, gives_back || is_touched, &error) == 0 ||
         (gives_back && !vg_thread_stopping(move->thread))))
        mover_do(move, verb, &outcome);
    else
        outcome.text = g_strdup(error->message);
    vg_log_info("move id=%s verb=%s ok=%d: %s", move->record->id, vg_move_verb_names[verb],
                outcome.ok, outcome.text ? outcome.text : "");
    /* vgpud is ending and did not wait for the outcome. At its next start it finds only the intent,
     * as after a kill. */
    if (atomic_load(&move->leave)) {
        g_free(outcome.text);
        return;
    }
    mover_end_step(move, verb, &outcome);
    g_clear_error(&error);
    (void)!mover_save(move, gives_back || mover_has_touched(move, VG_MOVE_VERB_MAX), &error);
    g_free(outcome.text);
}

/* Waits before a verb is tried again whose failure may be temporary. Each wait is longer. */
static void
mover_wait_retry(struct mover_move *move, enum vg_move_verb verb)
{
    const unsigned n = move->machine.passing[verb];
    const int64_t until_ns =
        vg_clock_monotonic_ns() + (AGAIN_NS << MIN(n, AGAIN_DOUBLINGS_MAX)) / 2;

    if (n == 0)
        return;
    g_autofree char *what =
        g_strdup_printf("the next attempt of '%s', which failed", vg_move_verb_names[verb]);
    mover_wait(move, what);
    while (vg_clock_monotonic_ns() < until_ns && !atomic_load(&move->cancel) &&
           vg_thread_sleep_until(move->thread, vg_clock_monotonic_ns() + AGAIN_CHECK_NS))
        continue;
    mover_go_on(move);
}

/* ---- a move ---- */

static void
mover_finish(struct mover_move *move)
{
    g_autoptr(GError) error = NULL;

    pthread_mutex_lock(&move->mover->lock);
    struct vg_migration *record = move->record;
    record->ended_ns = vg_clock_realtime_ns();
    g_clear_pointer(&record->step, g_free);
    record->vm_on = move->machine.looked ? move->machine.facts.place : VG_PLACE_UNKNOWN;
    record->gpu = move->machine.looked ? move->machine.facts.gpu : VG_GPU_UNKNOWN;
    const enum vg_migration_state state = vg_move_state(&move->machine);
    if (state == VG_MIGRATION_DONE) { /* the VM has arrived despite the failure */
        g_clear_pointer(&record->cause, g_free);
        g_clear_pointer(&record->left_over, g_free);
        g_clear_pointer(&record->not_resumed, g_free);
    }
    mover_set_state(move, state);
    mover_note_end(move);
    pthread_mutex_unlock(&move->mover->lock);
    /* Unlock before the journal lets this host start another move of the VM. */
    mover_unlock(move);
    while (mover_save(move, false, &error) < 0 && !vg_thread_stopping(move->thread))
        g_clear_error(&error);
    atomic_fetch_add(&move->mover->ends, 1);
}

static void
mover_run(vg_thread *self, void *arg)
{
    struct mover_move *move = arg;
    vg_mover *mover = move->mover;
    enum vg_move_verb verb = VG_MOVE_LOOK;

    pthread_mutex_lock(&mover->lock); /* held until `thread` is set */
    pthread_mutex_unlock(&mover->lock);
    while (!vg_thread_stopping(self)) {
        pthread_mutex_lock(&mover->lock);
        verb = vg_move_next(&move->machine);
        if (mover->ending && mover_is_left_alone(verb))
            mover_leave(move);
        else if (verb != VG_MOVE_VERB_MAX)
            mover_set_state(move, vg_move_state(&move->machine));
        /* An abort was meant for the verb that has just ended, not for the next one. */
        atomic_store(&move->cancel, atomic_load(&move->leave));
        pthread_mutex_unlock(&mover->lock);
        if (verb == VG_MOVE_VERB_MAX || atomic_load(&move->leave))
            break;
        mover_wait_retry(move, verb);
        mover_step(move, verb);
    }
    vg_thread_stop(move->renewing);
    if (verb == VG_MOVE_VERB_MAX)
        mover_finish(move);
    vg_virt_link_close(g_steal_pointer(&move->source));
    vg_virt_link_close(g_steal_pointer(&move->target));
    vg_nova_free(g_steal_pointer(&move->nova));
    VG_LOCK_SCOPE(&mover->lock);
    move->ended = true;
    mover_queue_note_end(mover, move->record->to);
}

static void
mover_wake(void *arg)
{
    struct mover_move *move = arg;

    atomic_store(&move->cancel, true);
}

static void
mover_move_free(void *data)
{
    struct mover_move *move = data;

    vg_thread_free(move->thread);
    vg_thread_free(move->renewing);
    vg_migration_free(move->record);
    vg_move_settings_unref(move->settings);
    g_free(move->peer_uri);
    vg_virt_reboots_unref(move->reboots);
    vg_reservation_free(move->given);
    pthread_mutex_destroy(&move->holding);
    pthread_mutex_destroy(&move->leasing);
    g_free(move);
}

/* Frees moves that have ended, and their threads. */
static void
mover_forget_ended(vg_mover *mover)
{
    g_autoptr(GPtrArray) ended = g_ptr_array_new_with_free_func(mover_move_free);

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = mover->moves->len; i > 0; i--) {
        struct mover_move *move = mover->moves->pdata[i - 1];
        if (move->ended && vg_thread_ended(move->thread) && vg_thread_ended(move->renewing))
            g_ptr_array_add(ended, g_ptr_array_steal_index(mover->moves, i - 1));
    }
}

int
mover_launch(vg_mover *mover, struct mover_move *take_move, GError **err)
{
    struct mover_move *move = take_move;

    pthread_mutex_lock(&mover->lock);
    move->renewing = vg_thread_new("move-renew", mover_renew_run, NULL, move, err);
    if (move->renewing)
        move->thread = vg_thread_new("move", mover_run, mover_wake, move, err);
    if (move->thread)
        g_ptr_array_add(mover->moves, move);
    if (move->thread && mover->parts.region)
        vg_region_take_up_move(mover->parts.region, move->record->uuid);
    pthread_mutex_unlock(&mover->lock);
    if (move->thread)
        return 0;
    mover_move_free(move);
    return -1;
}

struct mover_move *
mover_new_move(vg_mover *mover, const struct vg_migration *migration)
{
    struct mover_move *move = g_new0(struct mover_move, 1);

    move->mover = mover;
    move->executor = mover_executor_of(migration->executor);
    move->settings = vg_mover_settings(mover);
    move->record = vg_migration_copy(migration);
    move->reboots = vg_virt_reboots_new(migration->uuid);
    pthread_mutex_init(&move->leasing, NULL);
    pthread_mutex_init(&move->holding, NULL);
    const bool native = migration->mode == VG_MODE_NATIVE;
    vg_move_init(&move->machine, migration->devices->len > 0,
                 !migration->no_agent && migration->devices->len > 0 && !native);
    move->machine.native = native;
    /* Nova itself manages the definitions of its instances. */
    move->machine.tidies = migration->executor == VG_EXECUTOR_LIBVIRT;
    return move;
}

int
mover_check_open(vg_mover *mover, GError **err)
{
    mover_forget_ended(mover);
    VG_LOCK_SCOPE(&mover->lock);
    return mover->ending ? vg_error(err, VG_E_BUSY, "vgpud is stopping") : 0;
}

int
vg_mover_start(vg_mover *mover, struct vg_migration *migration, const struct vg_mover_order *order,
               GError **err)
{
    VG_LOCK_SCOPE(&mover->beginning);
    if (mover_check_open(mover, err) < 0 ||
        (order->check && order->check(order->data, migration, err) < 0))
        return -1;
    g_autofree char *why = mover_queue_why(mover, migration->to);
    if (why)
        return mover_queue_add(mover, migration, order, why, err);
    if (mover_begin_locked(mover, migration, order, err) < 0)
        return -1;
    struct mover_move *move = mover_new_move(mover, migration);
    mover_count_write(mover);
    vg_log_notice("move started id=%s vm=\"%s\" from=\"%s\" to=\"%s\" by=\"%s\"", migration->id,
                  migration->vm, migration->from, migration->to,
                  migration->asked_by ? migration->asked_by : "");
    return mover_launch(mover, move, err);
}

/* ---- calls from outside ---- */

struct vg_migration *
vg_mover_read(vg_mover *mover, const char *id, GError **err)
{
    pthread_mutex_lock(&mover->lock);
    const struct vg_migration *now = mover_find_record(mover, id);
    const struct mover_move *move = mover_find(mover, id);
    g_autoptr(vg_migration) copy = now ? vg_migration_copy(now) : NULL;
    /* After the end of a move, the journal may know more, such as the verdict. */
    const bool is_kept = move && move->ended && move->record == now;
    pthread_mutex_unlock(&mover->lock);
    if (copy && (!is_kept || atomic_load(&mover->is_silent)))
        return g_steal_pointer(&copy);
    struct vg_migration *kept =
        vg_journal_read_migration(mover->parts.journal, id, copy ? NULL : err);
    return kept ? kept : g_steal_pointer(&copy);
}

unsigned
vg_mover_ends(vg_mover *mover)
{
    return atomic_load(&mover->ends);
}

/* Reports that a move can no longer be turned back, or that this is unknown at the moment. */
static int
mover_report_ended(const struct vg_migration *record, GError **err)
{
    if (!vg_migration_has_ended(record->state))
        return vg_error(err, VG_E_BUSY,
                        "vgpud is starting or stopping, and the move is not running at the moment "
                        "(it is %s); try again",
                        vg_migration_state_names[record->state]);
    return vg_error(err, VG_E_CONFLICT, "the move has ended: it is %s",
                    vg_migration_state_names[record->state]);
}

static int
mover_turn_back(struct mover_move *move, GError **err)
{
    if (move->ended || move->machine.ended)
        return mover_report_ended(move->record, err);
    if (!vg_move_abort(&move->machine)) {
        if (!move->record->waits_for)
            return vg_error(err, VG_E_CONFLICT,
                            move->machine.back ? "the move is already being rolled back"
                                               : "it is too late to abort the move: the VM is on "
                                                 "'%s'; the move can be undone once it is done",
                            move->record->to);
        atomic_store(&move->given_up, true);
    }
    move->record->abort_asked = true;
    atomic_store(&move->cancel, true);
    return 0;
}

struct vg_migration *
vg_mover_abort(vg_mover *mover, const char *id, GError **err)
{
    g_autoptr(vg_migration) known = vg_mover_read(mover, id, err);

    if (!known)
        return NULL;
    struct vg_migration *removed = mover_queue_abort(mover, id);
    if (removed)
        return removed;
    VG_LOCK_SCOPE(&mover->lock);
    struct mover_move *move = mover_find(mover, id);
    if (!move) {
        mover_report_ended(known, err);
        return NULL;
    }
    if (mover_turn_back(move, err) < 0)
        return NULL;
    return vg_migration_copy(move->record);
}

void
vg_mover_add_approvals(vg_mover *mover, GPtrArray *list)
{
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended)
            g_ptr_array_add(list, vg_approval_new(move->record->uuid, move->record->to, true));
    }
    mover_queue_add_approvals(mover, list);
}

/* ---- making and freeing ---- */

vg_mover *
vg_mover_new(const struct vg_mover_parts *parts, vg_move_settings *take_settings)
{
    vg_mover *mover = g_new0(vg_mover, 1);

    mover->parts = *parts;
    mover->settings = take_settings;
    mover->moves = g_ptr_array_new();
    mover->bare = g_ptr_array_new_with_free_func(vg_bare_vm_free);
    pthread_mutex_init(&mover->lock, NULL);
    pthread_mutex_init(&mover->beginning, NULL);
    mover_queue_init(mover);
    mover->asked = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    mover->unkept = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    vg_cond_init(&mover->answered);
    vg_cond_init(&mover->raised);
    return mover;
}

void
vg_mover_configure(vg_mover *mover, vg_move_settings *take_settings)
{
    VG_LOCK_SCOPE(&mover->lock);
    vg_move_settings_unref(mover->settings);
    mover->settings = take_settings;
    mover_queue_wake(mover);
}

const char *
vg_mover_host(const vg_mover *mover)
{
    return mover->parts.host;
}

void
vg_mover_free(vg_mover *mover)
{
    if (!mover)
        return;
    vg_thread_free(mover->resuming);
    vg_thread_free(mover->watching);
    vg_thread_free(mover->queueing);
    for (guint i = 0; i < mover->moves->len; i++)
        mover_leave(mover->moves->pdata[i]);
    for (guint i = 0; i < mover->moves->len; i++)
        mover_move_free(mover->moves->pdata[i]);
    g_ptr_array_unref(mover->moves);
    mover_queue_end(mover);
    g_ptr_array_unref(mover->bare);
    vg_move_settings_unref(mover->settings);
    g_hash_table_destroy(mover->asked);
    g_hash_table_destroy(mover->unkept);
    pthread_cond_destroy(&mover->answered);
    pthread_cond_destroy(&mover->raised);
    pthread_mutex_destroy(&mover->beginning);
    pthread_mutex_destroy(&mover->lock);
    g_free(mover);
}
