/* SPDX-License-Identifier: Apache-2.0
 *
 * The state that the journal's files share, and the functions that send requests to its thread.
 */
#ifndef VG_JOURNAL_JOURNAL_PRIVATE_H
#define VG_JOURNAL_JOURNAL_PRIVATE_H

#include <pthread.h>

#include "base/error.h"
#include "base/log.h"
#include "journal/journal-db.h"
#include "journal/journal.h"

/* A task. It runs on the thread, in a transaction that is committed if it returns 0, and otherwise
 * rolled back. *ret: the result, if the task has one. */
typedef int journal_task(struct journal_db *db, const void *arg, void **ret, GError **err);

/* A task whose caller waits for it. It belongs to the caller until the thread has started it. If
 * the caller times out, the task belongs to the thread from then on. */
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

/* What has to be written about an event. */
enum journal_note_kind {
    JOURNAL_NOTE_EVENT,
    JOURNAL_NOTE_OWED,    /* the event, which the alert command needs */
    JOURNAL_NOTE_SETTLED, /* the command has run; the event has only boot and seq */
};

struct journal_note {
    enum journal_note_kind kind;
    struct vg_happening *event;
};

struct vg_journal {
    char *directory;
    char *vfs;
    vg_thread *thread;

    /* Only the thread uses the following members. */
    struct journal_db *db;
    int64_t next_open_ns; /* monotonic */
    bool events_stuck;    /* the pending events could not be written */
    /* monotonic, when to next write the last uses of tokens and the refusals, and to delete old
     * entries */
    int64_t next_tidy_ns;

    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t work;  /* wakes the thread */
    pthread_cond_t done;  /* wakes callers waiting for the thread */
    int64_t audit_days, audit_entries;
    int64_t event_days, event_entries;
    GQueue events; /* struct journal_note, pending events */
    uint64_t events_dropped;
    GQueue asks; /* struct journal_ask */
    bool tried;  /* the thread has tried to open the file */
    bool is_open;
    bool write_failed; /* a write failed, and none has succeeded since */
    char *reason;      /* why the journal does not work */
    enum vg_error_code reason_code;
    struct vg_log_turns turns;
    bool tokens_known;    /* the tokens have been read */
    GPtrArray *tokens;    /* struct journal_token */
    GHashTable *refusals; /* origin and status -> struct vg_audit_entry */
};

/* journal-ask.c */

/* Makes the thread run a task, and waits for it. Takes ownership of arg, even on failure.
 * *ret_result, if not NULL, receives the result. */
int journal_ask_thread(vg_journal *journal, journal_task *task, void *take_arg,
                       GDestroyNotify free_arg, void **ret_result, GDestroyNotify free_result,
                       GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Does nothing; frees the arg of a request that has none. */
static inline void
journal_no_free(void *arg)
{
    (void)arg;
}

/* Requests a list. Returns NULL and sets *err on failure. */
GPtrArray *journal_ask_list(vg_journal *journal, journal_task *task, void *take_arg,
                            GDestroyNotify free_arg, GError **err);

/* The requested part of a list. */
struct journal_page {
    int64_t before; /* a time, or a number */
    int64_t limit;
    bool active; /* for moves: only active moves */
};

/* Creates a page, freed with g_free(). */
struct journal_page *journal_page_new(int64_t before, size_t limit, size_t limit_max);

/* The functions below are only for the thread. */

/* Opens the file if it is not open and the next attempt is due. While writes fail, tests again
 * whether writing works. */
void journal_try(vg_journal *journal);

/* Runs a task in its own transaction, without a waiting caller. */
int journal_transact(vg_journal *journal, journal_task *task, const void *arg, void **ret,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Runs a requested task, and wakes its caller. */
void journal_do(vg_journal *journal, struct journal_ask *ask);

/* journal-room.c */

/* Reserves space for the moves that have started and not ended, and for `more` further moves. */
int journal_keep_moves_room(struct journal_db *db, int64_t more,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reserves as much space as is available for the records of the moves that have not ended. */
int journal_room_begin(struct journal_db *db, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-load.c */

/* Reads all tokens, when the file is opened. */
int journal_tokens_load(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;
void journal_token_free(void *token);

/* journal-tokens.c */

/* Writes when tokens were last used. */
int journal_tokens_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-audit.c */

/* Writes the refusals of past minutes (all: of all minutes), and deletes entries that exceed the
 * age or number limit. */
int journal_audit_tidy(vg_journal *journal, bool all, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* journal-events.c */

/* Writes the pending events. */
void journal_events_write(vg_journal *journal);
void journal_note_free(void *note);
/* Deletes events that exceed the age or number limit. */
int journal_events_tidy(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
