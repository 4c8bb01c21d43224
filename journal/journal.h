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

/* Plans that are kept: the newest. */
#define VG_JOURNAL_PLANS_MAX 1000
/* Moves that are kept: the newest, and those that have not ended. */
#define VG_JOURNAL_MIGRATIONS_MAX 1000
/* Tokens, expired ones included. */
#define VG_JOURNAL_TOKENS_MAX 1000

struct vg_journal_options {
    const char *directory; /* made if its parent is there; mode 0750 */
    const char *vfs;       /* sqlite VFS to use, for tests; NULL: the default */
    int64_t audit_days;    /* how long audit entries are kept; >= 1 */
    int64_t audit_entries; /* at most so many, the newest; >= 1 */
    int64_t event_days;    /* the same of events; >= 1 */
    int64_t event_entries;
};

typedef struct vg_journal vg_journal;

/* Starts the thread, which opens the file, and waits for that, up to a second. options is copied.
 * What is wrong with the file is told by vg_journal_read_health(). NULL and *err only if there is
 * no thread to be had. */
vg_journal *vg_journal_new(const struct vg_journal_options *options, GError **err);

/* Those of the audit and of events; the rest of options is not looked at. */
void vg_journal_set_limits(vg_journal *journal, const struct vg_journal_options *options);

/* Ends what is being done; nobody may be waiting in a call. NULL is fine. */
void vg_journal_free(vg_journal *journal);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_journal, vg_journal_free)

/* true: the file is open. Else *ret_reason says why not; the caller frees it. Does not block. */
bool vg_journal_read_health(vg_journal *journal, char **ret_reason);

/* The thread, for its heartbeat. */
const vg_thread *vg_journal_thread(const vg_journal *journal);

/* ---- plans: all of these block ---- */

/* The same id again changes nothing. *ret_made_ns: when the plan was first made. */
int vg_journal_save_plan(vg_journal *journal, const struct vg_saved_plan *plan,
                         int64_t *ret_made_ns, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* NULL and VG_E_NOT_FOUND. */
struct vg_saved_plan *vg_journal_read_plan(vg_journal *journal, const char *id, GError **err);

/* The newest first, at most limit, made before before_ns (INT64_MAX: all), without their text;
 * struct vg_saved_plan. */
GPtrArray *vg_journal_list_plans(vg_journal *journal, int64_t before_ns, size_t limit,
                                 GError **err);

/* ---- moves: all of these block ---- */

/* A new one. VG_E_CONFLICT: its VM is being moved already. key, request: Idempotency-Key with the
 * identity before it, and what was asked for with it; or NULL. */
int vg_journal_begin_migration(vg_journal *journal, const struct vg_migration *migration,
                               const char *key, const char *request,
                               GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The same as it is now; once its state is one of the end, the VM may be moved again. */
int vg_journal_save_migration(vg_journal *journal, const struct vg_migration *migration,
                              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* NULL and VG_E_NOT_FOUND. */
struct vg_migration *vg_journal_read_migration(vg_journal *journal, const char *id, GError **err);

/* By its key; *ret NULL: the key is new. VG_E_CONFLICT: it was used for another request. */
int vg_journal_find_migration(vg_journal *journal, const char *key, const char *request,
                              struct vg_migration **ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The newest first, at most limit, made before before_ns; active: only those that have not ended.
 * struct vg_migration. */
GPtrArray *vg_journal_list_migrations(vg_journal *journal, bool active, int64_t before_ns,
                                      size_t limit, GError **err);

/* ---- reservations: all of these block ---- */

/* A new one, or the same with another end of its lease. A move has one. */
int vg_journal_save_reservation(vg_journal *journal, const struct vg_reservation *reservation,
                                GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* VG_E_NOT_FOUND. */
int vg_journal_delete_reservation(vg_journal *journal, const char *id,
                                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* struct vg_reservation, the oldest first; those whose lease is over are removed. */
GPtrArray *vg_journal_list_reservations(vg_journal *journal, int64_t now_ns, GError **err);

/* ---- tokens ---- */

/* Makes a token of 256 random bits and returns its text, which is not kept; the caller frees it.
 * name: 1 to 64 characters of [A-Za-z0-9._-], VG_E_CONFLICT if there is one of that name. at_ns:
 * now; expires_ns: 0 for never. Blocks. */
char *vg_journal_create_token(vg_journal *journal, const char *name, enum vg_role role,
                              int64_t at_ns, int64_t expires_ns, GError **err);

/* From now on it is not let in. VG_E_NOT_FOUND. Blocks. */
int vg_journal_revoke_token(vg_journal *journal, const char *name,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* All of them by name, struct vg_token; from memory: does not block. */
GPtrArray *vg_journal_list_tokens(vg_journal *journal);

/* Whose token is this text? Compares in a time that does not depend on how much of it is right;
 * notes the use. VG_E_DENIED: nobody's, or it has expired; VG_E_BUSY: the file could not be read
 * yet, so that nobody knows. From memory: does not block. */
int vg_journal_check_token(vg_journal *journal, const char *text, int64_t at_ns,
                           struct vg_identity *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* ---- audit ---- */

/* Blocks. */
int vg_journal_audit(vg_journal *journal, const struct vg_audit_entry *entry,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* A request without a known identity was refused. One entry a minute for each origin; of more than
 * VG_JOURNAL_ORIGINS_MAX origins in a minute the rest is counted as one. Does not block. */
#define VG_JOURNAL_ORIGINS_MAX 1024
void vg_journal_note_refusal(vg_journal *journal, const char *origin, unsigned status,
                             int64_t at_ns);

/* The newest first, at most limit, with a seq below before (INT64_MAX: all); struct vg_audit_entry.
 * Blocks. */
GPtrArray *vg_journal_list_audit(vg_journal *journal, int64_t before, size_t limit, GError **err);

/* ---- events ---- */

/* Keeps it, soon: does not block. While the file does not work, so many wait, the newest. */
#define VG_JOURNAL_EVENTS_WAITING_MAX 4096
void vg_journal_note_event(vg_journal *journal, const struct vg_happening *event);

/* The oldest first, all that were noted before; struct vg_happening. VG_E_NOT_FOUND: no event of
 * the run after_boot is kept. Blocks. */
GPtrArray *vg_journal_list_events(vg_journal *journal, const struct vg_happening_query *query,
                                  GError **err);

#endif
