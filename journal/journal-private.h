/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the files of the journal share, and the functions by which they ask its thread.
 */
#ifndef VG_JOURNAL_JOURNAL_PRIVATE_H
#define VG_JOURNAL_JOURNAL_PRIVATE_H

#include <pthread.h>

#include "base/log.h"
#include "journal/journal-db.h"
#include "journal/journal.h"

/* A task. It runs on the thread, inside a transaction that is committed if it returns 0, and rolled
 * back if not. *ret: the result, if the task has one. */
typedef int journal_task(struct journal_db *db, const void *arg, void **ret, GError **err);

/* A task with a caller that waits for it. It belongs to the caller until the thread has begun it; a
 * caller that gives up leaves it to the thread. */
struct journal_ask {
    journal_task *task;
    void *arg;
    GDestroyNotify free_arg;
    void *result;
    GDestroyNotify free_result; /* frees a result that no caller waits for */
    int status;
    GError *error;
    bool done;
    bool abandoned;
};

#define JOURNAL_HASH_SIZE 32

struct journal_token {
    struct vg_token token;
    uint8_t hash[JOURNAL_HASH_SIZE];
    bool used; /* used since used_ns was written */
};

struct vg_journal {
    char *directory;
    char *vfs;
    vg_thread *thread;

    /* These are used by the thread only. */
    struct journal_db *db;
    int64_t next_open_ns; /* monotonic */
    bool events_stuck;    /* the waiting events could not be written */
    /* monotonic, the next time to write last uses of tokens and refusals, and to remove old
     * entries */
    int64_t next_tidy_ns;

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t work;  /* wakes the thread */
    pthread_cond_t done;  /* wakes callers that wait for the thread */
    int64_t audit_days, audit_entries;
    int64_t event_days, event_entries;
    GQueue events; /* struct vg_happening, events to be written */
    uint64_t events_dropped;
    GQueue asks; /* struct journal_ask */
    bool tried;  /* the thread has tried to open the file */
    bool is_open;
    bool write_failed; /* since then nothing was written */
    char *reason;      /* the reason if it does not work */
    struct vg_log_turns turns;
    bool tokens_known;    /* the tokens were read */
    GPtrArray *tokens;    /* struct journal_token */
    GHashTable *refusals; /* origin and status -> struct vg_audit_entry */
};

/* journal-ask.c */

/* Has the thread run a task, and waits. Takes arg, also on failure. *ret_result, if not NULL, gets
 * the result. */
int journal_ask_thread(vg_journal *journal, journal_task *task, void *take_arg,
                       GDestroyNotify free_arg, void **ret_result, GDestroyNotify free_result,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Frees nothing: for an ask without an arg. */
static inline void
journal_no_free(void *arg)
{
    (void)arg;
}

/* Asks for a list. Returns NULL and sets *err on failure. */
GPtrArray *journal_ask_list(vg_journal *journal, journal_task *task, void *take_arg,
                            GDestroyNotify free_arg, GError **err);

/* The part of a list that is asked for. */
struct journal_page {
    int64_t before; /* a time, or a number */
    int64_t limit;
    bool active; /* for moves: only active ones */
};

/* Makes a page, freed by g_free(). */
struct journal_page *journal_page_new(int64_t before, size_t limit, size_t limit_max);

/* The functions below are for the thread only. */

/* Opens the file if it is not open and it is time, and, while nothing could be written, tries that.
 */
void journal_try(vg_journal *journal);

/* Does a task in a transaction of its own, outside of an ask. */
int journal_transact(vg_journal *journal, journal_task *task, const void *arg, void **ret,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Runs the tasks that were asked for, and wakes their callers. */
void journal_do(vg_journal *journal, struct journal_ask *ask);

/* journal-room.c */

/* Keeps room for the moves that have begun and not ended, and for `more` further ones. */
int journal_keep_moves_room(struct journal_db *db, int64_t more,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Keeps room for the records of the moves that have not ended, as far as there is any. */
int journal_room_begin(struct journal_db *db, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-load.c */

/* Reads all tokens, when the file is opened. */
int journal_tokens_load(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;
void journal_token_free(void *token);

/* journal-tokens.c */

/* Writes when tokens were used last. */
int journal_tokens_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-audit.c */

/* Writes the refusals of minutes that are over (all: of all minutes), and removes entries that are
 * too old or too many. */
int journal_audit_tidy(vg_journal *journal, bool all, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-events.c */

/* Writes the events that wait. */
void journal_events_write(vg_journal *journal);
/* Removes events that are too old or too many. */
int journal_events_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
