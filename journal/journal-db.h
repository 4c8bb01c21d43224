/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal's connection to state.db: opening and upgrading it, statements, and sqlite errors.
 * Only used by the journal's thread.
 */
#ifndef VG_JOURNAL_JOURNAL_DB_H
#define VG_JOURNAL_JOURNAL_DB_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>
#include <sqlite3.h>

#define VG_JOURNAL_DB_NAME "state.db"

struct journal_db;

/* Opens the file. Creates the directory if its parent exists, creates or upgrades the file, and
 * holds the lock file while the file is open. */
struct journal_db *journal_db_open(const char *directory, const char *vfs, GError **err);
void journal_db_close(struct journal_db *db); /* NULL is fine */

/* Returns whether the path still names the file that was opened. */
bool journal_db_is_current(const struct journal_db *db);

/* Prepares a statement with its parameters bound. types: 'i' for int64_t, 's' for const char *, 'b'
 * for const void * and size_t, 'n' for NULL. Texts and blobs are borrowed until journal_db_end()
 * finalizes the statement. Returns NULL and sets *err on failure. */
sqlite3_stmt *journal_db_query(struct journal_db *db, GError **err, const char *sql,
                               const char *types, ...);

/* Steps a statement. Returns 1 for a row, 0 at the end, or -1 and *err. */
int journal_db_step(struct journal_db *db, sqlite3_stmt *statement, GError **err);
void journal_db_end(sqlite3_stmt *statement);

/* Returns a text of the row. It is never NULL in a valid file; if it is NULL, returns "". */
const char *journal_db_text(sqlite3_stmt *statement, int column);

/* Runs a statement to its end. *ret_changes, if not NULL, is the number of rows that were
 * changed. */
int journal_db_run(struct journal_db *db, int *ret_changes, GError **err, const char *sql,
                   const char *types, ...) G_GNUC_WARN_UNUSED_RESULT;

/* Reserves this many bytes on the disk for records that must be written even if the disk is full.
 * From now on, other writers call journal_db_spare_room() first. Fails with VG_E_REFUSED if there
 * is not enough space. */
int journal_db_keep_room(struct journal_db *db, int64_t bytes,
                         GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Fails with VG_E_REFUSED if a write would use the reserved space. */
int journal_db_spare_room(struct journal_db *db, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the number of rows that this connection has changed. */
int journal_db_changes(const struct journal_db *db);

/* Tests whether writing works, without changing anything, within the caller's transaction. Fails
 * with the errors of a write, or of journal_db_spare_room(). */
int journal_db_try_write(struct journal_db *db, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Builds a list from the rows with read_row, and ends the statement. Returns NULL and sets *err on
 * failure. If read_row returns NULL, the row is left out, and its error is logged. */
int journal_db_list(struct journal_db *db, sqlite3_stmt *take_statement,
                    void *(*read_row)(sqlite3_stmt *statement, GError **err),
                    GDestroyNotify free_row, void **ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
