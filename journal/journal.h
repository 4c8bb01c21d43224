/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal: what must never be lost. state.db in the state directory, with a connection and a
 * thread of its own (`journal`), WAL and synchronous=FULL. A call that changes something returns 0
 * when the change is committed, or -1 and an error; nothing waits in memory for a better time.
 *
 * The file gets the newest version of its tables when it is opened. One that is damaged, of a newer
 * version, or that another vgpud uses stays as it is: every call fails with that reason, and
 * opening is tried again once a second.
 *
 * Times are nanoseconds since the epoch. Any thread may call any function but for free; those that
 * block say so. Errors: VG_E_TIMEOUT if the thread does not answer within 5 s (the message says
 * whether the change may still be made), VG_E_BUSY if too many callers wait or another program
 * has the file, VG_E_IO if it is damaged or of a newer version; VG_E_DENIED and VG_E_IO as the disk
 * says.
 */
#ifndef VG_JOURNAL_JOURNAL_H
#define VG_JOURNAL_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/happening.h"
#include "model/history.h"
#include "model/identity.h"
#include "model/migration.h"
#include "model/reservation.h"

/* The number of plans that are kept, the newest ones. */
#define VG_JOURNAL_PLANS_MAX 1000
/* The number of moves that are kept, the newest ones; those that have not ended are always kept. */
#define VG_JOURNAL_MIGRATIONS_MAX 1000
/* The maximum number of tokens, including expired ones. */
#define VG_JOURNAL_TOKENS_MAX 1000

struct vg_journal_options {
    const char *directory; /* made if its parent is there; mode 0750 */
    const char *vfs;       /* the sqlite VFS to use, for tests; NULL for the default */
    int64_t audit_days;    /* how long audit entries are kept; >= 1 */
    int64_t audit_entries; /* the number of audit entries that are kept, the newest ones; >= 1 */
    int64_t event_days;    /* the same for events; >= 1 */
    int64_t event_entries;
};

typedef struct vg_journal vg_journal;

/* Starts the thread and waits until it has opened the file, up to a second. options is copied.
 * vg_journal_read_health() reports trouble with the file. Returns NULL and sets *err only if no
 * thread can be started. */
vg_journal *vg_journal_new(const struct vg_journal_options *options, GError **err);

/* Sets the limits of the audit and of events; the rest of options is ignored. */
void vg_journal_set_limits(vg_journal *journal, const struct vg_journal_options *options);

/* Ends the running task; no caller may be waiting. NULL is fine. */
void vg_journal_free(vg_journal *journal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_journal, vg_journal_free)

/* Returns whether the file is open; if not, *ret_reason has the reason, and the caller frees it.
 * Does not block. */
bool vg_journal_read_health(vg_journal *journal, char **ret_reason);

/* Returns the thread, whose heartbeat is watched. */
const vg_thread *vg_journal_thread(const vg_journal *journal);

/* ---- whether this host is to be emptied: these block ---- */

struct vg_drain_mark {
    char *asked_by;
    int64_t since_ns;
};

/* Records that it is, or, with NULL, that it no longer is. One that is recorded already stays as it
 * is. */
int vg_journal_set_drain(vg_journal *journal, const struct vg_drain_mark *mark,
                         GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns 1 and the mark, whose text the caller frees, 0 if there is none, or -1. */
int vg_journal_read_drain(vg_journal *journal, struct vg_drain_mark *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* ---- plans: all of these block ---- */

/* Keeps a plan; the same id again changes nothing. *ret_made_ns: when the plan was first made. */
int vg_journal_save_plan(vg_journal *journal, const struct vg_saved_plan *plan,
                         int64_t *ret_made_ns, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a plan. Fails with VG_E_NOT_FOUND. */
struct vg_saved_plan *vg_journal_read_plan(vg_journal *journal, const char *id, GError **err);

/* Lists plans without their text (struct vg_saved_plan), newest first, at most limit, that were
 * made before before_ns (INT64_MAX for all). */
GPtrArray *vg_journal_list_plans(vg_journal *journal, int64_t before_ns, size_t limit,
                                 GError **err);

/* ---- moves: all of these block ---- */

/* Fails with VG_E_REFUSED if the disk has no room for the records of one more move. */
int vg_journal_check_room(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Keeps a new move, and room on the disk for its records, so that a full disk cannot stop it once
 * it has begun. A move that is queued gets no room yet. Fails with VG_E_REFUSED if there is no such
 * room, or with VG_E_CONFLICT if its VM has a move that has not ended. key is the Idempotency-Key,
 * preceded by the identity; request is the request that was made; both may be NULL. */
int vg_journal_begin_migration(vg_journal *journal, const struct vg_migration *migration,
                               const char *key, const char *request,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Keeps the present state of a move. Once the move has ended, the VM may be moved again. */
int vg_journal_save_migration(vg_journal *journal, const struct vg_migration *migration,
                              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Adds to a move that has ended its effect on the VM, its verdict, or both. Either may be NULL. */
int vg_journal_save_outcome(vg_journal *journal, const char *id,
                            const struct vg_migration_effect *after,
                            const struct vg_move_verdict *verdict,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Keeps a move that was queued as one that begins, and room for its records, also if an earlier
 * call did so without an answer. Fails with VG_E_REFUSED if there is no such room, unless it is
 * taken up again; with VG_E_CONFLICT if its VM has another move that has not ended; or with
 * VG_E_NOT_FOUND. */
int vg_journal_start_queued(vg_journal *journal, const struct vg_migration *migration,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A move that waits for its turn. */
struct vg_journal_queued {
    struct vg_migration *migration;
    char *request; /* what was asked for; empty: that is not known */
};

/* Lists the moves that are queued (struct vg_journal_queued), oldest first. */
GPtrArray *vg_journal_list_queued(vg_journal *journal, GError **err);

/* Keeps a move that had ended as one that has not, or as one that is queued. Fails with
 * VG_E_CONFLICT if its VM has a move that has not ended. */
int vg_journal_reopen_migration(vg_journal *journal, const struct vg_migration *migration,
                                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a move. Fails with VG_E_NOT_FOUND. */
struct vg_migration *vg_journal_read_migration(vg_journal *journal, const char *id, GError **err);

/* Records to which peer a request with this key is passed on; what is recorded stays. */
int vg_journal_save_passed_on(vg_journal *journal, const char *key, const char *request,
                              const char *peer, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Finds that peer; *ret is NULL if the key is new. Fails with VG_E_CONFLICT if it was used for
 * another request. */
int vg_journal_find_passed_on(vg_journal *journal, const char *key, const char *request, char **ret,
                              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Finds a move by its key; *ret is NULL if the key is new. Fails with VG_E_CONFLICT if it was used
 * for another request. */
int vg_journal_find_migration(vg_journal *journal, const char *key, const char *request,
                              struct vg_migration **ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists moves (struct vg_migration), newest first, at most limit, that were made before before_ns;
 * active: only those that have not ended. */
GPtrArray *vg_journal_list_migrations(vg_journal *journal, bool active, int64_t before_ns,
                                      size_t limit, GError **err);

/* ---- reservations: all of these block ---- */

/* Keeps a new reservation, or a new end of its lease. A move has one reservation. */
int vg_journal_save_reservation(vg_journal *journal, const struct vg_reservation *reservation,
                                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Removes a reservation. Fails with VG_E_NOT_FOUND. */
int vg_journal_delete_reservation(vg_journal *journal, const char *id,
                                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists reservations (struct vg_reservation), oldest first, whether their lease is over or not. */
GPtrArray *vg_journal_list_reservations(vg_journal *journal, GError **err);

/* ---- tokens ---- */

/* Makes a token of 256 random bits and returns its text, which is not kept; the caller frees it.
 * name has 1 to 64 characters of [A-Za-z0-9._-]; fails with VG_E_CONFLICT if there is one of that
 * name. at_ns is now; expires_ns is 0 for never. Blocks. */
char *vg_journal_create_token(vg_journal *journal, const char *name, enum vg_role role,
                              int64_t at_ns, int64_t expires_ns, GError **err);

/* Revokes a token, which is no longer valid from now on. Fails with VG_E_NOT_FOUND. Blocks. */
int vg_journal_revoke_token(vg_journal *journal, const char *name,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists all tokens by name (struct vg_token), from memory; does not block. */
GPtrArray *vg_journal_list_tokens(vg_journal *journal);

/* Finds the owner of a token, in a time that does not depend on how much of the text is right, and
 * records its use. Fails with VG_E_DENIED if the token is nobody's or has expired, or with
 * VG_E_BUSY if the file could not be read yet. From memory; does not block. */
int vg_journal_check_token(vg_journal *journal, const char *text, int64_t at_ns,
                           struct vg_identity *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* ---- audit ---- */

/* Adds an entry to the audit. Blocks. */
int vg_journal_audit(vg_journal *journal, const struct vg_audit_entry *entry,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Records that a request without a known identity was refused. Each origin gets one entry a
 * minute; beyond VG_JOURNAL_ORIGINS_MAX origins in a minute, the rest is counted together. Does
 * not block. */
#define VG_JOURNAL_ORIGINS_MAX 1024
void vg_journal_note_refusal(vg_journal *journal, const char *origin, unsigned status,
                             int64_t at_ns);

/* Lists entries of the audit (struct vg_audit_entry), newest first, at most limit, with a seq below
 * before (INT64_MAX for all). Blocks. */
GPtrArray *vg_journal_list_audit(vg_journal *journal, int64_t before, size_t limit, GError **err);

/* ---- events ---- */

/* Keeps an event soon, without blocking. While the file does not work, this many wait, the newest
 * ones. */
#define VG_JOURNAL_EVENTS_WAITING_MAX 4096
void vg_journal_note_event(vg_journal *journal, const struct vg_happening *event);

/* Lists all events so far (struct vg_happening), oldest first. Fails with VG_E_NOT_FOUND if no
 * event of the run after_boot is kept. Blocks. */
GPtrArray *vg_journal_list_events(vg_journal *journal, const struct vg_happening_query *query,
                                  GError **err);

#endif
