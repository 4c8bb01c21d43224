/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores whether this host is to be emptied.
 */
#include "config.h"

#include "journal/journal-private.h"

static void
journal_drain_free(void *data)
{
    struct vg_drain_mark *mark = data;

    if (!mark)
        return;
    g_free(mark->asked_by);
    g_free(mark);
}

static int
journal_drain_set(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct vg_drain_mark *mark = arg;

    (void)ret;
    if (!mark->asked_by)
        return journal_db_run(db, NULL, err, "DELETE FROM drain", "");
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    /* A repeated request does not change the first one. */
    return journal_db_run(db, NULL, err, "INSERT OR IGNORE INTO drain VALUES (1, ?, ?)", "si",
                          mark->asked_by, mark->since_ns);
}

int
vg_journal_set_drain(vg_journal *journal, const struct vg_drain_mark *mark, GError **err)
{
    struct vg_drain_mark *copy = g_new0(struct vg_drain_mark, 1);

    if (mark) {
        copy->asked_by = g_strdup(mark->asked_by);
        copy->since_ns = mark->since_ns;
    }
    return journal_ask_thread(journal, journal_drain_set, copy, journal_drain_free, NULL, NULL,
                              err);
}

static int
journal_drain_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    sqlite3_stmt *statement = journal_db_query(db, err, "SELECT asked_by, since_ns FROM drain", "");
    int status = statement ? journal_db_step(db, statement, err) : -1;

    (void)arg;
    if (status > 0) {
        struct vg_drain_mark *mark = g_new0(struct vg_drain_mark, 1);
        mark->asked_by = g_strdup(journal_db_text(statement, 0));
        mark->since_ns = sqlite3_column_int64(statement, 1);
        *ret = mark;
    }
    journal_db_end(statement);
    return status < 0 ? -1 : 0;
}

int
vg_journal_read_drain(vg_journal *journal, struct vg_drain_mark *ret, GError **err)
{
    void *result = NULL;

    if (journal_ask_thread(journal, journal_drain_read, NULL, journal_no_free, &result,
                           journal_drain_free, err) < 0)
        return -1;
    struct vg_drain_mark *mark = result;
    if (!mark)
        return 0;
    *ret = *mark;
    g_free(mark);
    return 1;
}
