/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal's thread: opens the file, writes events, runs the callers' tasks, and removes old
 * entries.
 */
#include "config.h"

#include "journal/journal.h"

#include "base/clock.h"
#include "base/log.h"
#include "journal/journal-private.h"

#define VG_LOG_TAG "journal"

#define BEAT_NS (2 * VG_NS_PER_S)
/* the pause before another attempt to open or write the file */
#define TROUBLE_NS    (500 * VG_NS_PER_MS)
#define TIDY_NS       (60 * VG_NS_PER_S)
#define FIRST_OPEN_NS VG_NS_PER_S

/* ---- the thread ---- */

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
        journal_try(journal);
        if (now >= journal->next_tidy_ns) {
            journal->next_tidy_ns = now + TIDY_NS;
            journal_tidy(journal, false);
        }
        journal_events_write(journal);
        pthread_mutex_lock(&journal->lock);
        bool well = journal->db && !journal->events_stuck;
        bool waits = well && !g_queue_is_empty(&journal->events);
        if (g_queue_is_empty(&journal->asks) && !waits && !vg_thread_stopping(self))
            vg_cond_wait_until(&journal->work, &journal->lock, now + (well ? BEAT_NS : TROUBLE_NS));
        struct journal_ask *ask = g_queue_pop_head(&journal->asks);
        pthread_mutex_unlock(&journal->lock);
        /* Write queued events first, so that a query includes all earlier events. */
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
    vg_log_turns_clear(&journal->turns, VG_LOG_TAG);
    g_ptr_array_unref(journal->tokens);
    g_hash_table_unref(journal->refusals);
    g_queue_clear_full(&journal->events, journal_note_free);
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
