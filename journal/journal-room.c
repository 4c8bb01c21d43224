/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves disk space for running moves, which must be recorded until their end.
 */
#include "config.h"

#include "base/error.h"
#include "journal/journal-private.h"

/* The maximum space for the records of a move from its start to the end of its way back. */
#define MOVE_ROOM_BYTES (INT64_C(2) << 20)

int
journal_keep_moves_room(struct journal_db *db, int64_t more, GError **err)
{
    sqlite3_stmt *statement =
        journal_db_query(db, err, "SELECT count(*) FROM migration WHERE active = 1", "");
    int status = statement ? journal_db_step(db, statement, err) : -1;
    const int64_t n = status > 0 ? sqlite3_column_int64(statement, 0) : 0;

    journal_db_end(statement);
    return status < 0 ? -1 : journal_db_keep_room(db, (n + more) * MOVE_ROOM_BYTES, err);
}

int
journal_room_begin(struct journal_db *db, GError **err)
{
    g_autoptr(GError) full = NULL;

    if (journal_keep_moves_room(db, 0, &full) < 0 &&
        !g_error_matches(full, VG_ERROR, VG_E_REFUSED)) {
        g_propagate_error(err, g_steal_pointer(&full));
        return -1;
    }
    return 0;
}
