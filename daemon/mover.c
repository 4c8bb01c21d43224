/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/mover.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/mover-private.h"
#include "model/arrival.h"
#include "move/standstill.h"

#define VG_LOG_TAG "mover"

/* Unless the journal has recorded it, a move takes nothing from a VM, and does not let it change
 * hosts. Writing is tried this many times, a second apart. */
#define JOURNAL_TRIES 30
/* The same for verbs that give something back to the VM, or only look; these are run even if
 * writing fails. A vgpud that resumes the move finds out with a look. */
#define JOURNAL_TRIES_BACK 5

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
mover_tell(const struct mover_move *move)
{
    const struct vg_migration *record = move->record;
    json_object *data = vg_migration_summary(record);

    vg_json_add_string(data, "step", record->step);
    vg_json_add_string(data, "cause", record->cause);
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
    mover_tell(move);
    vg_log_notice("move state=%s id=%s vm=\"%s\" from=\"%s\" to=\"%s\"",
                  vg_migration_state_names[state], record->id, record->vm, record->from,
                  record->to);
}

/* ---- the journal ---- */

/* Ends vgpud where a test wants it, as if it had been killed just after this write. */
static void
mover_count_write(struct mover_move *move)
{
    unsigned n = atomic_fetch_add(&move->mover->writes, 1) + 1;

    if (move->settings->fault_writes > 0 && n == (unsigned)move->settings->fault_writes) {
        vg_log_warn("killing vgpud, as [fault] move_writes says");
        kill(getpid(), SIGKILL);
    }
}

static struct vg_migration *
mover_copy(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    return vg_migration_copy(move->record);
}

/* Writes the record to the journal. Returns -1 if the journal did not take it; the caller must then
 * not do what the record says. */
static int
mover_save(struct mover_move *move, int tries, GError **err)
{
    g_autoptr(vg_migration) copy = mover_copy(move);
    g_autoptr(GError) error = NULL;

    for (int i = 0; i < tries; i++) {
        g_clear_error(&error);
        if (vg_journal_save_migration(move->mover->parts.journal, copy, &error) == 0) {
            mover_count_write(move);
            mover_go_on(move);
            return 0;
        }
        g_autofree char *what =
            g_strconcat("what it does to be written down: ", error->message, NULL);
        mover_wait(move, what);
        if (!vg_thread_sleep_until(move->thread, vg_clock_monotonic_ns() + VG_NS_PER_S))
            break;
    }
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
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
    /* A long move looks many times. One of the looks in the middle is dropped, so that the first
     * and the last steps stay. */
    if (move->record->steps->len > VG_MIGRATION_STEPS_MAX)
        vg_record_free(&vg_migration_step_record,
                       g_ptr_array_remove_index(move->record->steps, VG_MIGRATION_STEPS_MAX / 2));
    g_free(move->record->step);
    move->record->step = g_strdup(step->verb);
}

/* Adds to the cause what is left over, and replaces an earlier addition. */
static void
mover_note_leftover(struct vg_migration *record, const char *what)
{
    static const char mark[] = "; left over: ";
    char *end = record->cause ? strstr(record->cause, mark) : NULL;

    if (end)
        *end = '\0';
    if (!what)
        return;
    char *cause = record->cause;
    record->cause = g_strconcat(cause ? cause : "", cause ? mark : "", what, NULL);
    g_free(cause);
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
    vg_move_told(&move->machine, outcome->ok,
                 outcome->ok && verb == VG_MOVE_LOOK ? &outcome->facts : NULL);
    vg_standstill_end(record, &move->machine, verb, outcome->ok, step->ended_ns);
    if (!record->cause && move->machine.aborted)
        record->cause = g_strdup("it was aborted");
    else if (!record->cause && move->machine.failed && !had_failed)
        record->cause = g_strdup_printf("%s: %s", step->verb, step->answer);
    if (verb == VG_MOVE_TIDY)
        mover_note_leftover(record, outcome->ok ? NULL : step->answer);
    record->vm_on = move->machine.facts.place;
    record->gpu = move->machine.facts.gpu;
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
}

/* Returns whether a verb only looks, or gives the VM back what it had. */
static bool
mover_gives_back(enum vg_move_verb verb)
{
    return verb == VG_MOVE_LOOK || verb == VG_MOVE_ATTACH || verb == VG_MOVE_RESUME ||
           verb == VG_MOVE_VERIFY || verb == VG_MOVE_REATTACH || verb == VG_MOVE_REVIVE;
}

/* Commits the intent before anything is done, and the outcome after it. */
static void
mover_step(struct mover_move *move, enum vg_move_verb verb)
{
    const bool gives_back = mover_gives_back(verb);
    const int tries = gives_back ? JOURNAL_TRIES_BACK : JOURNAL_TRIES;
    struct mover_outcome outcome = {0};
    g_autoptr(GError) error = NULL;

    mover_begin_step(move, verb);
    if ((gives_back || mover_check_lock(move, &error) == 0) &&
        (mover_save(move, tries, &error) == 0 || (gives_back && !vg_thread_stopping(move->thread))))
        mover_do(move, verb, &outcome);
    else
        outcome.text = g_strdup(error->message);
    vg_log_info("move id=%s verb=%s ok=%d: %s", move->record->id, vg_move_verb_names[verb],
                outcome.ok, outcome.text ? outcome.text : "");
    /* vgpud is ending and did not wait for the outcome. The next start finds the intent without
     * one, as after a kill. */
    if (atomic_load(&move->leave)) {
        g_free(outcome.text);
        return;
    }
    mover_end_step(move, verb, &outcome);
    g_clear_error(&error);
    (void)!mover_save(move, tries, &error);
    g_free(outcome.text);
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
    if (state == VG_MIGRATION_DONE)
        g_clear_pointer(&record->cause, g_free); /* the VM has arrived all the same */
    mover_set_state(move, state);
    mover_note_end(move);
    pthread_mutex_unlock(&move->mover->lock);
    /* Before the journal lets this host begin another move of the VM. */
    mover_unlock(move);
    while (mover_save(move, JOURNAL_TRIES, &error) < 0 && !vg_thread_stopping(move->thread))
        g_clear_error(&error);
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
        /* An abort was meant for the verb that has just ended, not for the one that begins now. */
        atomic_store(&move->cancel, atomic_load(&move->leave));
        pthread_mutex_unlock(&mover->lock);
        if (verb == VG_MOVE_VERB_MAX || atomic_load(&move->leave))
            break;
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

    vg_virt_reboots_unref(move->reboots);
    vg_thread_free(move->thread);
    vg_thread_free(move->renewing);
    vg_migration_free(move->record);
    vg_move_settings_unref(move->settings);
    g_free(move->peer_uri);
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
    move->reboots = vg_virt_reboots_new(migration->uuid);

    move->mover = mover;
    move->executor = mover_executor_of(migration->executor);
    move->settings = vg_mover_settings(mover);
    move->record = vg_migration_copy(migration);
    pthread_mutex_init(&move->leasing, NULL);
    pthread_mutex_init(&move->holding, NULL);
    const bool native = migration->mode == VG_MODE_NATIVE;
    vg_move_init(&move->machine, migration->devices->len > 0,
                 !migration->no_agent && migration->devices->len > 0 && !native);
    move->machine.native = native;
    /* Nova keeps the definitions of its instances. */
    move->machine.tidies = migration->executor == VG_EXECUTOR_LIBVIRT;
    return move;
}

/* Counts the moves that have not ended, and those of them that go to a host. */
static unsigned
mover_count(vg_mover *mover, const char *to, unsigned *ret_there)
{
    unsigned running = 0;

    *ret_there = 0;
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        running += !move->ended;
        *ret_there += !move->ended && strcmp(move->record->to, to) == 0;
    }
    return running;
}

int
mover_check_number(vg_mover *mover, const char *to, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(GPtrArray) others = vg_peers_moving_to(mover->parts.peers, to);
    unsigned there;

    mover_forget_ended(mover);
    pthread_mutex_lock(&mover->lock);
    const bool ending = mover->ending;
    pthread_mutex_unlock(&mover->lock);
    if (ending)
        return vg_error(err, VG_E_BUSY, "vgpud is ending");
    const unsigned running = mover_count(mover, to, &there);
    if (running >= settings->moves)
        return vg_error(err, VG_E_CONFLICT,
                        "%u moves are under way already, the most that [actions] moves allows",
                        running);
    if (others->len > 0 && there + others->len >= settings->moves)
        return vg_error(err, VG_E_CONFLICT,
                        "%u moves to '%s' are under way already, of which other hosts make %u; "
                        "[actions] moves allows %" PRId64,
                        there + others->len, to, others->len, settings->moves);
    return 0;
}

int
vg_mover_start(vg_mover *mover, struct vg_migration *migration, const struct vg_mover_order *order,
               GError **err)
{
    VG_LOCK_SCOPE(&mover->beginning);
    if (mover_check_number(mover, migration->to, err) < 0 ||
        (order->check && order->check(order->data, migration, err) < 0) ||
        mover_begin_locked(mover, migration, order, err) < 0)
        return -1;
    struct mover_move *move = mover_new_move(mover, migration);
    mover_count_write(move);
    vg_log_notice("move begins id=%s vm=\"%s\" from=\"%s\" to=\"%s\" by=\"%s\"", migration->id,
                  migration->vm, migration->from, migration->to,
                  migration->asked_by ? migration->asked_by : "");
    return mover_launch(mover, move, err);
}

/* ---- calls from outside ---- */

/* Finds a move. Returns NULL if it is not here. A resumed move is here twice while its first thread
 * ends; the last one counts. Called under the lock. */
static struct mover_move *
mover_find(vg_mover *mover, const char *id)
{
    for (guint i = mover->moves->len; i > 0; i--) {
        struct mover_move *move = mover->moves->pdata[i - 1];
        if (strcmp(move->record->id, id) == 0)
            return move;
    }
    return NULL;
}

struct vg_migration *
vg_mover_read(vg_mover *mover, const char *id, GError **err)
{
    pthread_mutex_lock(&mover->lock);
    struct mover_move *move = mover_find(mover, id);
    struct vg_migration *copy = move ? vg_migration_copy(move->record) : NULL;
    pthread_mutex_unlock(&mover->lock);
    return copy ? copy : vg_journal_read_migration(mover->parts.journal, id, err);
}

void
vg_mover_refresh(vg_mover *mover, GPtrArray *moves)
{
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *known = moves->pdata[i];
        const struct mover_move *move = mover_find(mover, known->id);
        if (!move || move->ended)
            continue;
        struct vg_migration *now = vg_migration_copy(move->record);
        vg_migration_free(moves->pdata[i]);
        moves->pdata[i] = now;
    }
}

static int
mover_turn_back(struct mover_move *move, GError **err)
{
    if (move->ended || move->machine.ended)
        return vg_error(err, VG_E_CONFLICT, "the move has ended: it is %s",
                        vg_migration_state_names[move->record->state]);
    if (!vg_move_abort(&move->machine)) {
        if (!move->record->waits_for)
            return vg_error(err, VG_E_CONFLICT,
                            move->machine.back
                                ? "the move goes back already"
                                : "it is too late: the VM is on '%s'; once the move is done, it "
                                  "can be undone",
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
    VG_LOCK_SCOPE(&mover->lock);
    struct mover_move *move = mover_find(mover, id);
    if (!move) {
        vg_error(err, VG_E_CONFLICT, "the move has ended: it is %s",
                 vg_migration_state_names[known->state]);
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
}

GPtrArray *
vg_mover_moving(vg_mover *mover)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended)
            g_ptr_array_add(list, g_strdup(move->record->uuid));
    }
    return list;
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
}

vg_move_settings *
vg_mover_settings(vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    return vg_move_settings_ref(mover->settings);
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
    for (guint i = 0; i < mover->moves->len; i++)
        mover_leave(mover->moves->pdata[i]);
    for (guint i = 0; i < mover->moves->len; i++)
        mover_move_free(mover->moves->pdata[i]);
    g_ptr_array_unref(mover->moves);
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
