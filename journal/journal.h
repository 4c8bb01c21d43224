/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal stores what must never be lost, in state.db in the state directory. It has its own
 * connection and thread (`journal`), and uses WAL and synchronous=FULL. A call that changes
 * something returns 0 when the change is committed, or -1 and an error. Such a change is never
 * buffered in memory.
 *
 * When the file is opened, its tables are upgraded to the newest version. A file that is damaged,
 * has a newer version, or is in use by another vgpud is left unchanged. Every call then fails with
 * that reason, and opening is retried once a second.
 *
 * Times are nanoseconds since the epoch. Any thread may call any function except free; functions
 * that block are marked. Errors: VG_E_TIMEOUT if the thread does not answer within 5 s; the message
 * says whether the change may still be made. VG_E_BUSY if too many callers are waiting or another
 * program is using the file. VG_E_IO if the file is damaged or has a newer version. Disk errors are
 * reported as VG_E_DENIED or VG_E_IO.
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

/* The number of stored plans. The newest are kept. */
#define VG_JOURNAL_PLANS_MAX 1000
/* The number of stored moves. The newest moves and all moves that have not ended are kept. */
#define VG_JOURNAL_MIGRATIONS_MAX 1000
/* The maximum number of tokens, including expired ones. */
#define VG_JOURNAL_TOKENS_MAX 1000

struct vg_journal_options {
    const char *directory; /* created if its parent exists; mode 0750 */
    const char *vfs;       /* the sqlite VFS to use, for tests; NULL for the default */
    int64_t audit_days;    /* retention of audit entries; >= 1 */
    int64_t audit_entries; /* maximum number of audit entries; the newest are kept; >= 1 */
    int64_t event_days;    /* the same for events; >= 1 */
    int64_t event_entries;
};

typedef struct vg_journal vg_journal;

/* Starts the thread and waits up to a second until it has opened the file. options is copied.
 * vg_journal_read_health() reports problems with the file. Returns NULL and sets *err only if no
 * thread can be started. */
vg_journal *vg_journal_new(const struct vg_journal_options *options, GError **err);

/* Sets the limits of the audit log and of events; the rest of options is ignored. */
void vg_journal_set_limits(vg_journal *journal, const struct vg_journal_options *options);

/* Finishes the running task and stops the thread; no caller may be waiting. NULL is fine. */
void vg_journal_free(vg_journal *journal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_journal, vg_journal_free)

/* Returns whether the file is open; if not, *ret_reason is set to the reason, which the caller
 * frees. Does not block. */
bool vg_journal_read_health(vg_journal *journal, char **ret_reason);

/* Returns the thread, for monitoring its heartbeat. */
const vg_thread *vg_journal_thread(const vg_journal *journal);

/* ---- whether this host is being drained: these block ---- */

struct vg_drain_mark {
    char *asked_by;
    int64_t since_ns;
};

/* Records that this host is being drained, or, with NULL, that it no longer is. An existing record
 * is left unchanged. */
int vg_journal_set_drain(vg_journal *journal, const struct vg_drain_mark *mark,
                         GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns 1 and the record, whose text the caller frees; 0 if there is no record; or -1. */
int vg_journal_read_drain(vg_journal *journal, struct vg_drain_mark *ret,
                          GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* ---- plans: all of these block ---- */

/* Stores a plan. Storing the same id again changes nothing. *ret_made_ns: when the plan was first
 * made. */
int vg_journal_save_plan(vg_journal *journal, const struct vg_saved_plan *plan,
                         int64_t *ret_made_ns, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a plan. Fails with VG_E_NOT_FOUND. */
struct vg_saved_plan *vg_journal_read_plan(vg_journal *journal, const char *id, GError **err);

/* Lists at most limit plans made before before_ns (INT64_MAX for all), newest first, without their
 * text (struct vg_saved_plan). */
GPtrArray *vg_journal_list_plans(vg_journal *journal, int64_t before_ns, size_t limit,
                                 GError **err);

/* ---- moves: all of these block ---- */

/* Fails with VG_E_REFUSED if the disk has no space for the records of another move. */
int vg_journal_check_room(vg_journal *journal, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Stores a new move, and reserves disk space for its records, so that a full disk cannot stop it
 * once it has started. A queued move gets no space yet. Fails with VG_E_REFUSED if there is not
 * enough space, or with VG_E_CONFLICT if its VM has a move that has not ended. key is the
 * Idempotency-Key, preceded by the identity; request is the original request; both may be NULL. */
int vg_journal_begin_migration(vg_journal *journal, const struct vg_migration *migration,
                               const char *key, const char *request,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Stores the present state of a move. Once the move has ended, the VM may be moved again. */
int vg_journal_save_migration(vg_journal *journal, const struct vg_migration *migration,
                              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Adds the effect on the VM, the verdict, or both to a move that has ended. Either may be NULL. */
int vg_journal_save_outcome(vg_journal *journal, const char *id,
                            const struct vg_migration_effect *after,
                            const struct vg_move_verdict *verdict,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Records that a queued move starts, and reserves space for its records. An earlier call that
 * received no answer may already have done so. Fails with VG_E_REFUSED if there is no space, unless
 * the move is being resumed; with VG_E_CONFLICT if another move of the VM has not ended; or with
 * VG_E_NOT_FOUND. */
int vg_journal_start_queued(vg_journal *journal, const struct vg_migration *migration,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A move that is waiting for its turn. */
struct vg_journal_queued {
    struct vg_migration *migration;
    char *request; /* the original request; empty if unknown */
};

/* Lists the queued moves (struct vg_journal_queued), oldest first. */
GPtrArray *vg_journal_list_queued(vg_journal *journal, GError **err);

/* Changes a move that had ended to a move that has not ended, or that is queued. Fails with
 * VG_E_CONFLICT if its VM has a move that has not ended. */
int vg_journal_reopen_migration(vg_journal *journal, const struct vg_migration *migration,
                                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reads a move. Fails with VG_E_NOT_FOUND. */
struct vg_migration *vg_journal_read_migration(vg_journal *journal, const char *id, GError **err);

/* Records the peer that a request with this key is forwarded to. An existing record is left
 * unchanged. */
int vg_journal_save_passed_on(vg_journal *journal, const char *key, const char *request,
                              const char *peer, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Finds the peer that a request with this key was forwarded to; *ret is NULL if the key is new.
 * Fails with VG_E_CONFLICT if the key was used for another request. */
int vg_journal_find_passed_on(vg_journal *journal, const char *key, const char *request, char **ret,
                              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Finds a move by its key; *ret is NULL if the key is new. Fails with VG_E_CONFLICT if the key was
 * used for another request. */
int vg_journal_find_migration(vg_journal *journal, const char *key, const char *request,
                              struct vg_migration **ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists at most limit moves made before before_ns (struct vg_migration), newest first. active: only
 * moves that have not ended. */
GPtrArray *vg_journal_list_migrations(vg_journal *journal, bool active, int64_t before_ns,
                                      size_t limit, GError **err);

/* ---- reservations: all of these block ---- */

/* Stores a new reservation, or a new end of its lease. A move has one reservation. */
int vg_journal_save_reservation(vg_journal *journal, const struct vg_reservation *reservation,
                                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Deletes a reservation. Fails with VG_E_NOT_FOUND. */
int vg_journal_delete_reservation(vg_journal *journal, const char *id,
                                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists all reservations (struct vg_reservation), oldest first, including those with an expired
 * lease. */
GPtrArray *vg_journal_list_reservations(vg_journal *journal, GError **err);

/* ---- tokens ---- */

/* Creates a token of 256 random bits and returns its text, which is not stored; the caller frees
 * it. name has 1 to 64 characters of [A-Za-z0-9._-]. Fails with VG_E_CONFLICT if the name is in
 * use. at_ns is the present time; expires_ns is 0 for a token that does not expire. Blocks. */
char *vg_journal_create_token(vg_journal *journal, const char *name, enum vg_role role,
                              int64_t at_ns, int64_t expires_ns, GError **err);

/* Revokes a token, which becomes invalid immediately. Fails with VG_E_NOT_FOUND. Blocks. */
int vg_journal_revoke_token(vg_journal *journal, const char *name,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Lists all tokens by name (struct vg_token), from memory; does not block. Fails with
 * VG_E_UNUSABLE if the file is damaged or of another version, with VG_E_BUSY if it has not been
 * read yet, and with VG_E_IO if it cannot be read. */
GPtrArray *vg_journal_list_tokens(vg_journal *journal, GError **err);

/* Finds the identity of a token, in a time that does not depend on how much of the text is correct,
 * and records its use. Fails with VG_E_DENIED if the token is unknown or has expired, and otherwise
 * as vg_journal_list_tokens() does. From memory; does not block. */
int vg_journal_check_token(vg_journal *journal, const char *text, int64_t at_ns,
                           struct vg_identity *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* ---- audit ---- */

/* Adds an entry to the audit log. Blocks. */
int vg_journal_audit(vg_journal *journal, const struct vg_audit_entry *entry,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Records that a request without a known identity was refused. Each origin gets one entry per
 * minute. Origins beyond VG_JOURNAL_ORIGINS_MAX in a minute share an entry. Does not block. */
#define VG_JOURNAL_ORIGINS_MAX 1024
void vg_journal_note_refusal(vg_journal *journal, const char *origin, unsigned status,
                             int64_t at_ns);

/* Lists at most limit entries of the audit log (struct vg_audit_entry) with a seq below before
 * (INT64_MAX for all), newest first. Blocks. */
GPtrArray *vg_journal_list_audit(vg_journal *journal, int64_t before, size_t limit, GError **err);

/* ---- events ---- */

/* Queues an event for writing, without blocking. While the file cannot be written, up to this
 * number of events are kept in memory; if there are more, the oldest are dropped. owed: the alert
 * command has to run for the event; vg_journal_list_owed() lists it until it is settled. */
#define VG_JOURNAL_EVENTS_WAITING_MAX 4096
void vg_journal_note_event(vg_journal *journal, const struct vg_happening *event, bool owed);

/* Queues that the alert command has run for an event, or never will. Does not block. */
void vg_journal_settle_event(vg_journal *journal, const char *boot, uint64_t seq);

/* Lists the events that still wait for the alert command (struct vg_happening), oldest
 * first. Blocks. */
GPtrArray *vg_journal_list_owed(vg_journal *journal, GError **err);

/* Lists the stored events that match (struct vg_happening), oldest first. Fails with VG_E_NOT_FOUND
 * if no event of the run after_boot is stored. Blocks. */
GPtrArray *vg_journal_list_events(vg_journal *journal, const struct vg_happening_query *query,
                                  GError **err);

#endif
