/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the journal share: its state, and how something is asked of its thread.
 */
#ifndef VG_JOURNAL_JOURNAL_PRIVATE_H
#define VG_JOURNAL_JOURNAL_PRIVATE_H

#include <pthread.h>

#include "journal/journal-db.h"
#include "journal/journal.h"

/* Runs on the thread, inside a transaction that is committed if it returns 0, and rolled back if
 * not. *ret: the result, if the task has one. */
typedef int journal_task(struct journal_db *db, const void *arg, void **ret, GError **err);

/* What is to be done, and who waits for it. It belongs to the caller until the thread has begun it;
 * a caller that gives up leaves it to the thread. */
struct journal_ask {
    journal_task *task;
    void *arg;
    GDestroyNotify free_arg;
    void *result;
    GDestroyNotify free_result; /* of a result that nobody waits for any more */
    int status;
    GError *error;
    bool done;
    bool abandoned;
};

struct journal_token; /* journal/journal-tokens.c */

struct vg_journal {
    char *directory;
    char *vfs;
    vg_thread *thread;

    /* Of the thread. */
    struct journal_db *db;
    int64_t next_open_ns; /* monotonic */
    int64_t next_tidy_ns; /* monotonic: last uses of tokens, refusals, old audit entries */

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* for those who wait for it */
    int64_t audit_days, audit_entries;
    int64_t event_days, event_entries;
    GQueue events; /* struct vg_happening, to be written */
    uint64_t events_dropped;
    GQueue asks; /* struct journal_ask */
    bool tried;  /* to open the file */
    bool is_open;
    char *reason;         /* why it is not */
    bool tokens_known;    /* they were read */
    GPtrArray *tokens;    /* struct journal_token */
    GHashTable *refusals; /* origin and status -> struct vg_audit_entry */
};

/* Has the thread do it and waits. Takes arg, also on failure. *ret_result, if not NULL, gets the
 * result. */
int journal_ask_thread(vg_journal *journal, journal_task *task, void *take_arg,
                       GDestroyNotify free_arg, void **ret_result, GDestroyNotify free_result,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Without an arg. */
static inline void
journal_no_free(void *arg)
{
    (void)arg;
}

/* Frees a result that is a GPtrArray. */
static inline void
journal_free_list(void *list)
{
    g_ptr_array_unref(list);
}

/* The thread, outside of a task: does it in a transaction of its own. */
int journal_transact(vg_journal *journal, journal_task *task, const void *arg, void **ret,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal/journal-tokens.c: reads them all when the file is opened; writes last uses. */
int journal_tokens_load(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;
int journal_tokens_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;
void journal_token_free(void *token);

/* journal/journal-audit.c: writes refusals of minutes that are over (all: of all), removes what is
 * too old or too much. */
int journal_audit_tidy(vg_journal *journal, bool all, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal/journal-events.c: writes those that wait; removes what is too old or too much. */
void journal_events_write(vg_journal *journal);
int journal_events_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
