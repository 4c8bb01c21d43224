/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread, and how others ask it.
 */
#include "config.h"

#include "journal/journal.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "journal/journal-private.h"

#define VG_LOG_TAG "journal"

#define ASK_TIMEOUT_NS (5 * VG_NS_PER_S)
#define ASKS_MAX       256
#define RETRY_NS       VG_NS_PER_S
#define BEAT_NS        (500 * VG_NS_PER_MS)
#define TIDY_NS        (60 * VG_NS_PER_S)
#define FIRST_OPEN_NS  VG_NS_PER_S

static void
journal_ask_free(struct journal_ask *ask)
{
    ask->free_arg(ask->arg);
    if (ask->result && ask->free_result)
        ask->free_result(ask->result);
    g_clear_error(&ask->error);
    g_free(ask);
}

/* ---- the file ---- */

static void
journal_set_state(vg_journal *journal, const GError *error)
{
    VG_LOCK_SCOPE(&journal->lock);
    bool is_new = error ? g_strcmp0(journal->reason, error->message) != 0 : journal->reason != NULL;
    g_free(journal->reason);
    journal->reason = error ? g_strdup(error->message) : NULL;
    journal->is_open = !error;
    journal->tried = true;
    pthread_cond_broadcast(&journal->done);
    if (is_new && error)
        vg_log_err("%s, trying again", error->message);
    else if (is_new)
        vg_log_notice("the journal works again");
}

static void
journal_close_file(vg_journal *journal)
{
    g_clear_pointer(&journal->db, journal_db_close);
    journal->next_open_ns = vg_clock_monotonic_ns() + RETRY_NS;
}

/* 0: it is open. A file that was deleted or replaced is opened anew. */
static int
journal_need_file(vg_journal *journal, GError **err)
{
    GError *error = NULL;

    if (journal->db && !journal_db_is_current(journal->db))
        g_clear_pointer(&journal->db, journal_db_close);
    if (journal->db)
        return 0;
    journal->db = journal_db_open(journal->directory, journal->vfs, &error);
    if (journal->db && journal_tokens_load(journal, &error) != 0)
        g_clear_pointer(&journal->db, journal_db_close);
    if (error)
        journal->next_open_ns = vg_clock_monotonic_ns() + RETRY_NS;
    journal_set_state(journal, error);
    if (!error)
        return 0;
    g_propagate_error(err, error);
    return -1;
}

int
journal_transact(vg_journal *journal, journal_task *task, const void *arg, void **ret, GError **err)
{
    GError *error = NULL;

    if (journal_need_file(journal, err) != 0)
        return -1;
    int status = journal_db_run(journal->db, NULL, &error, "BEGIN IMMEDIATE", "");
    bool begun = status == 0;
    if (status == 0)
        status = task(journal->db, arg, ret, &error);
    if (status == 0)
        status = journal_db_run(journal->db, NULL, &error, "COMMIT", "");
    if (status == 0)
        return 0;
    /* What the task refuses leaves the connection as it is; what the disk refuses does not. */
    bool refused = g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) ||
                   g_error_matches(error, VG_ERROR, VG_E_CONFLICT) ||
                   g_error_matches(error, VG_ERROR, VG_E_REFUSED);
    if (!begun || !refused || journal_db_run(journal->db, NULL, NULL, "ROLLBACK", "") != 0) {
        journal_set_state(journal, error);
        journal_close_file(journal);
    }
    g_propagate_error(err, error);
    return -1;
}

/* ---- the thread ---- */

static void
journal_do(vg_journal *journal, struct journal_ask *ask)
{
    GError *error = NULL;
    void *result = NULL;
    int status = journal_transact(journal, ask->task, ask->arg, &result, &error);

    VG_LOCK_SCOPE(&journal->lock);
    ask->status = status;
    ask->error = error;
    ask->result = result;
    ask->done = true;
    if (ask->abandoned)
        journal_ask_free(ask);
    else
        pthread_cond_broadcast(&journal->done);
}

static void
journal_tidy(vg_journal *journal, bool all)
{
    g_autoptr(GError) err = NULL;

    if (journal->db &&
        (journal_tokens_tidy(journal, &err) != 0 || journal_audit_tidy(journal, all, &err) != 0 ||
         journal_events_tidy(journal, &err) != 0))
        vg_log_warn_limited("%s", err->message);
}

static void
journal_run(vg_thread *self, void *arg)
{
    vg_journal *journal = arg;

    while (!vg_thread_stopping(self)) {
        int64_t now = vg_clock_monotonic_ns();
        vg_thread_beat(self);
        if (!journal->db && now >= journal->next_open_ns)
            (void)!journal_need_file(journal, NULL);
        if (now >= journal->next_tidy_ns) {
            journal->next_tidy_ns = now + TIDY_NS;
            journal_tidy(journal, false);
        }
        journal_events_write(journal);
        pthread_mutex_lock(&journal->lock);
        bool waits = journal->db && !g_queue_is_empty(&journal->events);
        if (g_queue_is_empty(&journal->asks) && !waits && !vg_thread_stopping(self))
            vg_cond_wait_until(&journal->work, &journal->lock, now + BEAT_NS);
        struct journal_ask *ask = g_queue_pop_head(&journal->asks);
        pthread_mutex_unlock(&journal->lock);
        /* Who asks for events gets those that came before. */
        if (ask)
            journal_events_write(journal);
        if (ask)
            journal_do(journal, ask);
    }
    journal_events_write(journal);
    journal_tidy(journal, true);
    g_clear_pointer(&journal->db, journal_db_close);
}

static void
journal_wake(void *arg)
{
    vg_journal *journal = arg;

    VG_LOCK_SCOPE(&journal->lock);
    pthread_cond_broadcast(&journal->work);
}

/* ---- asking ---- */

/* Locked. The caller gives up. true: the thread has not begun it. */
static bool
journal_abandon(vg_journal *journal, struct journal_ask *ask)
{
    if (g_queue_remove(&journal->asks, ask)) {
        journal_ask_free(ask);
        return true;
    }
    ask->abandoned = true;
    return false;
}

int
journal_ask_thread(vg_journal *journal, journal_task *task, void *take_arg, GDestroyNotify free_arg,
                   void **ret_result, GDestroyNotify free_result, GError **err)
{
    int64_t until_ns = vg_clock_monotonic_ns() + ASK_TIMEOUT_NS;
    struct journal_ask *ask = g_new0(struct journal_ask, 1);

    ask->task = task;
    ask->arg = take_arg;
    ask->free_arg = free_arg ? free_arg : journal_no_free;
    ask->free_result = free_result;
    VG_LOCK_SCOPE(&journal->lock);
    if (journal->asks.length >= ASKS_MAX) {
        journal_ask_free(ask);
        return vg_error(err, VG_E_BUSY, "%d requests wait for the journal already", ASKS_MAX);
    }
    g_queue_push_tail(&journal->asks, ask);
    pthread_cond_signal(&journal->work);
    while (!ask->done) {
        if (vg_cond_wait_until(&journal->done, &journal->lock, until_ns) || ask->done)
            continue;
        return vg_error(
            err, VG_E_TIMEOUT, "the journal in '%s' does not answer: %s", journal->directory,
            journal_abandon(journal, ask) ? "nothing was changed" : "the change may still be made");
    }
    int status = ask->status;
    if (ask->error)
        g_propagate_error(err, g_steal_pointer(&ask->error));
    if (status == 0 && ret_result)
        *ret_result = g_steal_pointer(&ask->result);
    journal_ask_free(ask);
    return status;
}

/* ---- the interface ---- */

static void
journal_entry_free(void *entry)
{
    vg_audit_entry_free(entry);
}

vg_journal *
vg_journal_new(const struct vg_journal_options *options, GError **err)
{
    vg_journal *journal = g_new0(vg_journal, 1);
    int64_t until_ns = vg_clock_monotonic_ns() + FIRST_OPEN_NS;

    journal->directory = g_strdup(options->directory);
    journal->vfs = g_strdup(options->vfs);
    journal->audit_days = options->audit_days;
    journal->audit_entries = options->audit_entries;
    journal->event_days = options->event_days;
    journal->event_entries = options->event_entries;
    pthread_mutex_init(&journal->lock, NULL);
    vg_cond_init(&journal->work);
    vg_cond_init(&journal->done);
    g_queue_init(&journal->asks);
    g_queue_init(&journal->events);
    journal->tokens = g_ptr_array_new_with_free_func(journal_token_free);
    journal->refusals = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, journal_entry_free);
    journal->thread = vg_thread_new("journal", journal_run, journal_wake, journal, err);
    if (!journal->thread) {
        vg_journal_free(journal);
        return NULL;
    }
    VG_LOCK_SCOPE(&journal->lock);
    while (!journal->tried && vg_cond_wait_until(&journal->done, &journal->lock, until_ns))
        continue;
    return journal;
}

void
vg_journal_set_limits(vg_journal *journal, const struct vg_journal_options *options)
{
    VG_LOCK_SCOPE(&journal->lock);
    journal->audit_days = options->audit_days;
    journal->audit_entries = options->audit_entries;
    journal->event_days = options->event_days;
    journal->event_entries = options->event_entries;
}

void
vg_journal_free(vg_journal *journal)
{
    if (!journal)
        return;
    vg_thread_free(journal->thread);
    g_ptr_array_unref(journal->tokens);
    g_hash_table_unref(journal->refusals);
    g_queue_clear_full(&journal->events, vg_happening_free);
    pthread_cond_destroy(&journal->work);
    pthread_cond_destroy(&journal->done);
    pthread_mutex_destroy(&journal->lock);
    g_free(journal->reason);
    g_free(journal->directory);
    g_free(journal->vfs);
    g_free(journal);
}

bool
vg_journal_read_health(vg_journal *journal, char **ret_reason)
{
    VG_LOCK_SCOPE(&journal->lock);
    if (journal->is_open)
        return true;
    *ret_reason = g_strdup(journal->reason ? journal->reason : "its file is not open yet");
    return false;
}

const vg_thread *
vg_journal_thread(const vg_journal *journal)
{
    return journal->thread;
}
