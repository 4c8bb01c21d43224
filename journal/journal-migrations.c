/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores moves of VMs and reservations of GPUs. Each is a row with a document, which is always
 * written completely.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "journal/journal-private.h"

#define DOCUMENT_MAX   (8 * 1024 * 1024)
#define DOCUMENT_DEPTH 8

static char *
journal_document(const struct vg_record_type *type, const void *record)
{
    g_autoptr(json_object) object = vg_record_write(type, record);

    return vg_json_to_text(object, false);
}

/* Reads the document of a row. On failure, returns NULL and sets *err, which names the row. */
static void *
journal_read_document(const struct vg_record_type *type, const char *text, const char *id,
                      GError **err)
{
    g_autoptr(json_object) object =
        vg_json_parse(text, strlen(text), DOCUMENT_MAX, DOCUMENT_DEPTH, err);
    struct vg_json_node root = vg_json_root(object);
    void *record = object ? vg_record_read(type, &root, err) : NULL;

    if (!record)
        g_prefix_error(err, "the journal's entry '%s' cannot be read: ", id);
    return record;
}

/* Reads a move from a row of id and document. */
static void *
journal_migration_row(sqlite3_stmt *statement, GError **err)
{
    return journal_read_document(&vg_migration_record, journal_db_text(statement, 1),
                                 journal_db_text(statement, 0), err);
}

static void *
journal_reservation_row(sqlite3_stmt *statement, GError **err)
{
    return journal_read_document(&vg_reservation_record, journal_db_text(statement, 1),
                                 journal_db_text(statement, 0), err);
}

/* ---- moves ---- */

/* The values of the column `active`. Earlier versions know only the first two, and end queued moves
 * when they start. */
enum journal_activity {
    JOURNAL_ENDED,
    JOURNAL_RUNS,
    JOURNAL_QUEUED, /* the move waits for its turn, and needs no disk space yet */
};

static int64_t
journal_activity_of(const struct vg_migration *migration)
{
    if (vg_migration_has_ended(migration->state))
        return JOURNAL_ENDED;
    return vg_migration_is_queued(migration) ? JOURNAL_QUEUED : JOURNAL_RUNS;
}

static int
journal_room_try(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    (void)arg, (void)ret;
    const int status = journal_keep_moves_room(db, 1, err);
    return journal_room_begin(db, status < 0 ? NULL : err) < 0 ? -1 : status;
}

int
vg_journal_check_room(vg_journal *journal, GError **err)
{
    return journal_ask_thread(journal, journal_room_try, NULL, NULL, NULL, NULL, err);
}

struct journal_migration {
    struct vg_migration *migration;
    char *key;     /* may be NULL */
    char *request; /* may be NULL */
};

static void
journal_migration_free(void *data)
{
    struct journal_migration *arg = data;

    vg_migration_free(arg->migration);
    g_free(arg->key);
    g_free(arg->request);
    g_free(arg);
}

/* Fails if another move of this VM is active. With is_new, also fails if this move itself is
 * active. */
static int
journal_migration_refuse(struct journal_db *db, const struct vg_migration *migration, bool is_new,
                         GError **err)
{
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT id FROM migration WHERE active > 0 AND uuid = ? AND id != ?", "ss",
        migration->uuid, is_new ? "" : migration->id);
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0)
        status = vg_error(err, VG_E_CONFLICT, "the VM '%s' is already being moved (%s)",
                          migration->vm, journal_db_text(statement, 0));
    journal_db_end(statement);
    return status;
}

static int
journal_migration_begin(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_migration *arg = data;
    const struct vg_migration *migration = arg->migration;
    const int64_t activity = journal_activity_of(migration);
    g_autofree char *document = journal_document(&vg_migration_record, migration);

    (void)ret;
    if (journal_migration_refuse(db, migration, true, err) < 0 ||
        (activity == JOURNAL_RUNS && journal_keep_moves_room(db, 1, err) < 0))
        return -1;
    if (journal_db_run(db, NULL, err,
                       "INSERT INTO migration VALUES (?, ?, ?, ?, NULLIF(?, ''), NULLIF(?, ''), ?)",
                       "ssiisss", migration->id, migration->uuid, migration->made_ns, activity,
                       arg->key ? arg->key : "", arg->request ? arg->request : "", document) != 0)
        return -1;
    return journal_db_run(db, NULL, err,
                          "DELETE FROM migration WHERE active = 0 AND id IN (SELECT id FROM "
                          "migration ORDER BY made_ns DESC, id DESC LIMIT -1 OFFSET ?)",
                          "i", (int64_t)VG_JOURNAL_MIGRATIONS_MAX);
}

int
vg_journal_begin_migration(vg_journal *journal, const struct vg_migration *migration,
                           const char *key, const char *request, GError **err)
{
    struct journal_migration *arg = g_new0(struct journal_migration, 1);

    arg->migration = vg_migration_copy(migration);
    arg->key = g_strdup(key);
    arg->request = g_strdup(request);
    return journal_ask_thread(journal, journal_migration_begin, arg, journal_migration_free, NULL,
                              NULL, err);
}

static int
journal_migration_save(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct vg_migration *migration = data;
    g_autofree char *document = journal_document(&vg_migration_record, migration);
    int changes = 0;

    (void)ret;
    if (journal_db_run(db, &changes, err,
                       "UPDATE migration SET active = ?, document = ? WHERE id = ?", "iss",
                       journal_activity_of(migration), document, migration->id) != 0)
        return -1;
    if (vg_migration_has_ended(migration->state) && journal_room_begin(db, err) < 0)
        return -1;
    return changes == 1 ? 0
                        : vg_error(err, VG_E_NOT_FOUND, "there is no move '%s' in the journal",
                                   migration->id);
}

int
vg_journal_save_migration(vg_journal *journal, const struct vg_migration *migration, GError **err)
{
    return journal_ask_thread(journal, journal_migration_save, vg_migration_copy(migration),
                              vg_migration_free, NULL, NULL, err);
}

static int
journal_migration_reopen(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_migration *arg = data;
    const struct vg_migration *migration = arg->migration;
    g_autofree char *document = journal_document(&vg_migration_record, migration);
    int changes = 0;

    (void)ret;
    if (journal_migration_refuse(db, migration, true, err) < 0 ||
        journal_db_run(db, &changes, err,
                       "UPDATE migration SET active = ?, document = ? WHERE id = ?", "iss",
                       journal_activity_of(migration), document, migration->id) != 0 ||
        journal_room_begin(db, err) < 0)
        return -1;
    return changes == 1 ? 0
                        : vg_error(err, VG_E_NOT_FOUND, "there is no move '%s' in the journal",
                                   migration->id);
}

int
vg_journal_reopen_migration(vg_journal *journal, const struct vg_migration *migration, GError **err)
{
    struct journal_migration *arg = g_new0(struct journal_migration, 1);

    arg->migration = vg_migration_copy(migration);
    return journal_ask_thread(journal, journal_migration_reopen, arg, journal_migration_free, NULL,
                              NULL, err);
}

static int
journal_migration_start(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct vg_migration *migration = data;
    g_autofree char *document = journal_document(&vg_migration_record, migration);
    int changes = 0;

    (void)ret;
    /* A retry may be for a VM without its GPUs, and needs no additional space. */
    if (journal_migration_refuse(db, migration, false, err) < 0 ||
        (migration->retries == 0 && journal_keep_moves_room(db, 1, err) < 0) ||
        journal_db_run(db, &changes, err,
                       "UPDATE migration SET active = 1, document = ? WHERE id = ?", "ss", document,
                       migration->id) != 0 ||
        (migration->retries > 0 && journal_room_begin(db, err) < 0))
        return -1;
    return changes == 1 ? 0
                        : vg_error(err, VG_E_NOT_FOUND, "there is no move '%s' in the journal",
                                   migration->id);
}

int
vg_journal_start_queued(vg_journal *journal, const struct vg_migration *migration, GError **err)
{
    return journal_ask_thread(journal, journal_migration_start, vg_migration_copy(migration),
                              vg_migration_free, NULL, NULL, err);
}

static int
journal_migration_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const char *id = arg;
    sqlite3_stmt *statement =
        journal_db_query(db, err, "SELECT document FROM migration WHERE id = ?", "s", id);
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0)
        *ret = journal_read_document(&vg_migration_record, journal_db_text(statement, 0), id, err);
    else if (status == 0)
        vg_error(err, VG_E_NOT_FOUND, "there is no move '%s'", id);
    journal_db_end(statement);
    return *ret ? 0 : -1;
}

struct vg_migration *
vg_journal_read_migration(vg_journal *journal, const char *id, GError **err)
{
    void *migration = NULL;

    return journal_ask_thread(journal, journal_migration_read, g_strdup(id), g_free, &migration,
                              vg_migration_free, err) == 0
               ? migration
               : NULL;
}

/* ---- the outcome of a move ---- */

struct journal_outcome {
    char *id;
    struct vg_migration_effect *after; /* may be NULL */
    struct vg_move_verdict *verdict;   /* may be NULL */
};

static void
journal_outcome_free(void *data)
{
    struct journal_outcome *arg = data;

    g_free(arg->id);
    g_free(arg->after);
    vg_move_verdict_free(arg->verdict);
    g_free(arg);
}

static int
journal_outcome_save(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_outcome *arg = data;
    void *found = NULL;

    (void)ret;
    if (journal_migration_read(db, arg->id, &found, err) < 0)
        return -1;
    g_autoptr(vg_migration) migration = found;
    if (!vg_migration_has_ended(migration->state))
        return vg_error(err, VG_E_CONFLICT, "the move '%s' has not ended", arg->id);
    if (arg->after)
        migration->after = *arg->after;
    if (arg->verdict) {
        struct vg_move_verdict *copy = vg_record_copy(&vg_move_verdict_record, arg->verdict);
        vg_record_clear(&vg_move_verdict_record, &migration->verdict);
        migration->verdict = *copy;
        g_free(copy);
    }
    return journal_migration_save(db, migration, NULL, err);
}

int
vg_journal_save_outcome(vg_journal *journal, const char *id,
                        const struct vg_migration_effect *after,
                        const struct vg_move_verdict *verdict, GError **err)
{
    struct journal_outcome *arg = g_new0(struct journal_outcome, 1);

    arg->id = g_strdup(id);
    arg->after = after ? g_memdup2(after, sizeof(*after)) : NULL;
    arg->verdict = verdict ? vg_record_copy(&vg_move_verdict_record, verdict) : NULL;
    return journal_ask_thread(journal, journal_outcome_save, arg, journal_outcome_free, NULL, NULL,
                              err);
}

static int
journal_refuse_key(GError **err)
{
    return vg_error(err, VG_E_CONFLICT,
                    "this Idempotency-Key has already been used for another request");
}

/* Finds a move by its key. *ret stays NULL if the key is new. */
static int
journal_migration_by_key(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_migration *arg = data;
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT document, request FROM migration WHERE request_key = ?", "s", arg->key);
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0 && g_strcmp0(journal_db_text(statement, 1), arg->request) != 0)
        status = journal_refuse_key(err);
    if (status > 0) {
        *ret = journal_read_document(&vg_migration_record, journal_db_text(statement, 0), arg->key,
                                     err);
        status = *ret ? 0 : -1;
    }
    journal_db_end(statement);
    return status;
}

int
vg_journal_find_migration(vg_journal *journal, const char *key, const char *request,
                          struct vg_migration **ret, GError **err)
{
    struct journal_migration *arg = g_new0(struct journal_migration, 1);
    void *migration = NULL;

    arg->key = g_strdup(key);
    arg->request = g_strdup(request);
    if (journal_ask_thread(journal, journal_migration_by_key, arg, journal_migration_free,
                           &migration, vg_migration_free, err) < 0)
        return -1;
    *ret = migration;
    return 0;
}

/* ---- requests that were passed on ---- */

struct journal_passed_on {
    char *key;
    char *request;
    char *peer;
};

static void
journal_passed_on_free(void *data)
{
    struct journal_passed_on *arg = data;

    g_free(arg->key);
    g_free(arg->request);
    g_free(arg->peer);
    g_free(arg);
}

static int
journal_passed_on_save(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_passed_on *arg = data;

    (void)ret;
    if (journal_db_run(db, NULL, err, "INSERT OR IGNORE INTO passed_on VALUES (?, ?, ?, ?)", "sssi",
                       arg->key, arg->request, arg->peer, vg_clock_realtime_ns()) != 0)
        return -1;
    return journal_db_run(db, NULL, err,
                          "DELETE FROM passed_on WHERE request_key IN (SELECT request_key FROM "
                          "passed_on ORDER BY at_ns DESC LIMIT -1 OFFSET ?)",
                          "i", (int64_t)VG_JOURNAL_MIGRATIONS_MAX);
}

int
vg_journal_save_passed_on(vg_journal *journal, const char *key, const char *request,
                          const char *peer, GError **err)
{
    struct journal_passed_on *arg = g_new0(struct journal_passed_on, 1);

    *arg = (struct journal_passed_on){g_strdup(key), g_strdup(request), g_strdup(peer)};
    return journal_ask_thread(journal, journal_passed_on_save, arg, journal_passed_on_free, NULL,
                              NULL, err);
}

/* Finds the peer to which a request was forwarded. *ret stays NULL if the key is new. */
static int
journal_passed_on_find(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct journal_passed_on *arg = data;
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT peer, request FROM passed_on WHERE request_key = ?", "s", arg->key);
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0 && strcmp(journal_db_text(statement, 1), arg->request) != 0)
        status = journal_refuse_key(err);
    if (status > 0) {
        *ret = g_strdup(journal_db_text(statement, 0));
        status = 0;
    }
    journal_db_end(statement);
    return status;
}

int
vg_journal_find_passed_on(vg_journal *journal, const char *key, const char *request, char **ret,
                          GError **err)
{
    struct journal_passed_on *arg = g_new0(struct journal_passed_on, 1);
    void *peer = NULL;

    *arg = (struct journal_passed_on){g_strdup(key), g_strdup(request), NULL};
    if (journal_ask_thread(journal, journal_passed_on_find, arg, journal_passed_on_free, &peer,
                           g_free, err) < 0)
        return -1;
    *ret = peer;
    return 0;
}

/* ---- lists of moves ---- */

static int
journal_migrations_list(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_page *page = arg;

    return journal_db_list(
        db,
        journal_db_query(db, err,
                         "SELECT id, document FROM migration WHERE made_ns < ? "
                         "AND active >= ? ORDER BY made_ns DESC, id DESC LIMIT ?",
                         "iii", page->before, (int64_t)page->active, page->limit),
        journal_migration_row, vg_migration_free, ret, err);
}

GPtrArray *
vg_journal_list_migrations(vg_journal *journal, bool active, int64_t before_ns, size_t limit,
                           GError **err)
{
    struct journal_page *page = journal_page_new(before_ns, limit, VG_JOURNAL_MIGRATIONS_MAX);

    page->active = active;
    return journal_ask_list(journal, journal_migrations_list, page, g_free, err);
}

static void
journal_queued_free(void *data)
{
    struct vg_journal_queued *queued = data;

    vg_migration_free(queued->migration);
    g_free(queued->request);
    g_free(queued);
}

static void *
journal_queued_row(sqlite3_stmt *statement, GError **err)
{
    struct vg_migration *migration = journal_migration_row(statement, err);
    const char *request = journal_db_text(statement, 2);

    if (!migration)
        return NULL;
    struct vg_journal_queued *queued = g_new0(struct vg_journal_queued, 1);
    queued->migration = migration;
    queued->request = g_strdup(request);
    return queued;
}

static int
journal_queued_list(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    (void)arg;
    return journal_db_list(db,
                           journal_db_query(db, err,
                                            "SELECT id, document, request FROM migration "
                                            "WHERE active = 2 ORDER BY made_ns, id",
                                            ""),
                           journal_queued_row, journal_queued_free, ret, err);
}

GPtrArray *
vg_journal_list_queued(vg_journal *journal, GError **err)
{
    return journal_ask_list(journal, journal_queued_list, NULL, journal_no_free, err);
}

/* ---- reservations ---- */

static int
journal_reservation_save(struct journal_db *db, const void *data, void **ret, GError **err)
{
    const struct vg_reservation *reservation = data;
    g_autofree char *document = journal_document(&vg_reservation_record, reservation);

    (void)ret;
    return journal_db_run(db, NULL, err,
                          "INSERT OR REPLACE INTO reservation VALUES (?, ?, ?, ?, ?)", "ssiis",
                          reservation->id, reservation->move_id, reservation->made_ns,
                          reservation->expires_ns, document);
}

int
vg_journal_save_reservation(vg_journal *journal, const struct vg_reservation *reservation,
                            GError **err)
{
    return journal_ask_thread(journal, journal_reservation_save, vg_reservation_copy(reservation),
                              vg_reservation_free, NULL, NULL, err);
}

static int
journal_reservation_delete(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    int changes = 0;

    (void)ret;
    if (journal_db_run(db, &changes, err, "DELETE FROM reservation WHERE id = ?", "s", arg) != 0)
        return -1;
    return changes > 0
               ? 0
               : vg_error(err, VG_E_NOT_FOUND, "there is no reservation '%s'", (const char *)arg);
}

int
vg_journal_delete_reservation(vg_journal *journal, const char *id, GError **err)
{
    return journal_ask_thread(journal, journal_reservation_delete, g_strdup(id), g_free, NULL, NULL,
                              err);
}

static int
journal_reservations_list(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    (void)arg;
    return journal_db_list(
        db,
        journal_db_query(db, err, "SELECT id, document FROM reservation ORDER BY made_ns, id", ""),
        journal_reservation_row, vg_reservation_free, ret, err);
}

GPtrArray *
vg_journal_list_reservations(vg_journal *journal, GError **err)
{
    return journal_ask_list(journal, journal_reservations_list, NULL, NULL, err);
}
