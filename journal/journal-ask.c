/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes tasks to the journal's thread, and runs them there: in a transaction, with a file that is
 * reopened after errors.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "journal/journal-private.h"

#define VG_LOG_TAG "journal"

#define ASK_TIMEOUT_NS (5 * VG_NS_PER_S)
#define ASKS_MAX       256
#define RETRY_NS       VG_NS_PER_S

/* ---- the file ---- */

/* Called under the lock. */
static void
journal_set_state(vg_journal *journal, const GError *error)
{
    bool is_new = error ? g_strcmp0(journal->reason, error->message) != 0 : journal->reason != NULL;
    g_free(journal->reason);
    journal->reason = error ? g_strdup(error->message) : NULL;
    journal->reason_code = error ? (enum vg_error_code)error->code : VG_E_BUSY;
    journal->is_open = !error;
    if (is_new && error)
        vg_log_turn(&journal->turns, VG_LOG_ERR, VG_LOG_TAG, "%s, trying again", error->message);
    else if (is_new)
        vg_log_turn(&journal->turns, VG_LOG_NOTICE, VG_LOG_TAG, "the journal works again");
}

/* Records whether the file could be opened. If writing fails, for example because the disk is full,
 * opening the file does not prove that the journal works. */
static void
journal_note_open(vg_journal *journal, const GError *error)
{
    VG_LOCK_SCOPE(&journal->lock);
    journal->tried = true;
    if (error || !journal->write_failed)
        journal_set_state(journal, error);
    pthread_cond_broadcast(&journal->done);
}

/* Records whether a write has succeeded. */
static void
journal_note_write(vg_journal *journal, const GError *error)
{
    VG_LOCK_SCOPE(&journal->lock);
    if (!error && !journal->write_failed)
        return;
    journal->write_failed = error != NULL;
    journal_set_state(journal, error);
    pthread_cond_broadcast(&journal->done);
}

static void
journal_close_file(vg_journal *journal)
{
    g_clear_pointer(&journal->db, journal_db_close);
    journal->next_open_ns = vg_clock_monotonic_ns() + RETRY_NS;
}

/* Opens the file if it is closed, or reopens it if it was deleted or replaced. */
static int
journal_need_file(vg_journal *journal, GError **err)
{
    GError *error = NULL;

    if (journal->db && !journal_db_is_current(journal->db))
        g_clear_pointer(&journal->db, journal_db_close);
    if (journal->db)
        return 0;
    journal->db = journal_db_open(journal->directory, journal->vfs, &error);
    if (journal->db &&
        (journal_tokens_load(journal, &error) != 0 || journal_room_begin(journal->db, &error) != 0))
        g_clear_pointer(&journal->db, journal_db_close);
    if (error)
        journal->next_open_ns = vg_clock_monotonic_ns() + RETRY_NS;
    journal_note_open(journal, error);
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
    const int changes = journal_db_changes(journal->db);
    int status = journal_db_run(journal->db, NULL, &error, "BEGIN IMMEDIATE", "");
    bool begun = status == 0;
    if (status == 0)
        status = task(journal->db, arg, ret, &error);
    if (status == 0)
        status = journal_db_run(journal->db, NULL, &error, "COMMIT", "");
    if (status == 0) {
        if (journal_db_changes(journal->db) != changes)
            journal_note_write(journal, NULL);
        return 0;
    }
    /* If the task itself refused, or could not parse a row, the connection is good: roll back and
     * retain it. After any other error, close it. */
    bool refused = g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) ||
                   g_error_matches(error, VG_ERROR, VG_E_CONFLICT) ||
                   g_error_matches(error, VG_ERROR, VG_E_REFUSED) ||
                   g_error_matches(error, VG_ERROR, VG_E_INVALID);
    if (!begun || !refused || journal_db_run(journal->db, NULL, NULL, "ROLLBACK", "") != 0) {
        journal_note_write(journal, error);
        journal_close_file(journal);
    }
    g_propagate_error(err, error);
    return -1;
}

static int
journal_try_write(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    (void)arg, (void)ret;
    return journal_db_try_write(db, err);
}

void
journal_try(vg_journal *journal)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (!journal->db && now_ns >= journal->next_open_ns)
        (void)!journal_need_file(journal, NULL);
    if (journal->db && journal->write_failed &&
        journal_transact(journal, journal_try_write, NULL, NULL, NULL) == 0)
        journal_note_write(journal, NULL);
    VG_LOCK_SCOPE(&journal->lock);
    vg_log_turns_settle(&journal->turns, VG_LOG_TAG);
}

static void
journal_ask_free(struct journal_ask *ask)
{
    ask->free_arg(ask->arg);
    if (ask->result && ask->free_result)
        ask->free_result(ask->result);
    g_clear_error(&ask->error);
    g_free(ask);
}

void
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

/* ---- the callers ---- */

/* Abandons a task. Called under the lock. Returns true if the thread has not started it. */
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
        return vg_error(err, VG_E_BUSY, "%d requests already wait for the journal", ASKS_MAX);
    }
    g_queue_push_tail(&journal->asks, ask);
    pthread_cond_signal(&journal->work);
    while (!ask->done) {
        if (vg_cond_wait_until(&journal->done, &journal->lock, until_ns) || ask->done)
            continue;
        return vg_error(
            err, VG_E_TIMEOUT, "the journal in '%s' does not answer: %s", journal->directory,
            journal_abandon(journal, ask) ? "nothing changed" : "the change may still be made");
    }
    int status = ask->status;
    if (ask->error)
        g_propagate_error(err, g_steal_pointer(&ask->error));
    if (status == 0 && ret_result)
        *ret_result = g_steal_pointer(&ask->result);
    journal_ask_free(ask);
    return status;
}

/* Frees a list whose caller no longer waits for it. */
static void
journal_free_list(void *list)
{
    g_ptr_array_unref(list);
}

GPtrArray *
journal_ask_list(vg_journal *journal, journal_task *task, void *take_arg, GDestroyNotify free_arg,
                 GError **err)
{
    void *list = NULL;

    return journal_ask_thread(journal, task, take_arg, free_arg, &list, journal_free_list, err) == 0
               ? list
               : NULL;
}

struct journal_page *
journal_page_new(int64_t before, size_t limit, size_t limit_max)
{
    struct journal_page *page = g_new0(struct journal_page, 1);

    page->before = before;
    page->limit = (int64_t)MIN(limit, limit_max);
    return page;
}
