/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>

#include "base/clock.h"
#include "journal/journal-private.h"

#define MINUTE_NS (60 * VG_NS_PER_S)
#define DAY_NS    (86400 * VG_NS_PER_S)

/* The name for a minute's origins beyond the maximum number. */
#define OTHER_ORIGINS "others"

static int
journal_audit_add(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct vg_audit_entry *entry = arg;

    (void)ret;
    if (journal_db_spare_room(db, err) < 0)
        return -1;
    return journal_db_run(
        db, NULL, err,
        "INSERT INTO audit (at_ns, identity, role, origin, method, route, "
        "object, status, request_id, count) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        "issssssisi", entry->at_ns, entry->identity, vg_role_names[entry->role], entry->origin,
        entry->method, entry->route, entry->object, (int64_t)entry->status, entry->request_id,
        (int64_t)entry->count);
}

int
vg_journal_audit(vg_journal *journal, const struct vg_audit_entry *entry, GError **err)
{
    return journal_ask_thread(journal, journal_audit_add, vg_audit_entry_copy(entry),
                              vg_audit_entry_free, NULL, NULL, err);
}

/* ---- refusals ---- */

void
vg_journal_note_refusal(vg_journal *journal, const char *origin, unsigned status, int64_t at_ns)
{
    const int64_t minute_ns = at_ns - at_ns % MINUTE_NS;

    VG_LOCK_SCOPE(&journal->lock);
    g_autofree char *key = g_strdup_printf("%" PRId64 " %u %s", minute_ns, status, origin);
    struct vg_audit_entry *entry = g_hash_table_lookup(journal->refusals, key);
    if (!entry && g_hash_table_size(journal->refusals) >= VG_JOURNAL_ORIGINS_MAX) {
        origin = OTHER_ORIGINS;
        g_free(key);
        key = g_strdup(OTHER_ORIGINS);
        entry = g_hash_table_lookup(journal->refusals, key);
    }
    if (entry) {
        entry->count++;
        return;
    }
    entry = g_new0(struct vg_audit_entry, 1);
    entry->at_ns = minute_ns;
    entry->identity = g_strdup("");
    entry->origin = g_strdup(origin);
    entry->method = g_strdup("");
    entry->route = g_strdup("");
    entry->object = g_strdup("");
    entry->status = status;
    entry->request_id = g_strdup("");
    entry->count = 1;
    g_hash_table_insert(journal->refusals, g_steal_pointer(&key), entry);
}

/* ---- tidying up ---- */

struct journal_tidying {
    GPtrArray *refusals; /* struct vg_audit_entry */
    int64_t before_ns;   /* entries older than this are removed */
    int64_t entries;     /* the number of newest entries to retain */
};

static int
journal_audit_clean(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_tidying *tidying = arg;

    (void)ret;
    for (guint i = 0; i < tidying->refusals->len; i++) {
        if (journal_audit_add(db, tidying->refusals->pdata[i], NULL, err) != 0)
            return -1;
    }
    if (journal_db_run(db, NULL, err, "DELETE FROM audit WHERE at_ns < ?", "i",
                       tidying->before_ns) != 0)
        return -1;
    return journal_db_run(db, NULL, err,
                          "DELETE FROM audit WHERE seq <= (SELECT seq FROM audit "
                          "ORDER BY seq DESC LIMIT 1 OFFSET ?)",
                          "i", tidying->entries);
}

int
journal_audit_tidy(vg_journal *journal, bool all, GError **err)
{
    g_autoptr(GPtrArray) refusals = g_ptr_array_new_with_free_func(vg_audit_entry_free);
    const int64_t now_ns = vg_clock_realtime_ns();
    struct journal_tidying tidying = {.refusals = refusals};
    GHashTableIter iter;
    void *key, *value;

    pthread_mutex_lock(&journal->lock);
    tidying.before_ns = now_ns - MIN(journal->audit_days, INT64_MAX / DAY_NS - 1) * DAY_NS;
    tidying.entries = journal->audit_entries;
    g_hash_table_iter_init(&iter, journal->refusals);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        const struct vg_audit_entry *entry = value;
        if (!all && entry->at_ns + MINUTE_NS > now_ns)
            continue;
        g_ptr_array_add(refusals, value);
        g_hash_table_iter_steal(&iter);
        g_free(key);
    }
    pthread_mutex_unlock(&journal->lock);
    return journal_transact(journal, journal_audit_clean, &tidying, NULL, err);
}

/* ---- reading ---- */

static void *
journal_audit_row(sqlite3_stmt *statement, GError **err)
{
    struct vg_audit_entry *entry = g_new0(struct vg_audit_entry, 1);

    (void)err;
    entry->seq = sqlite3_column_int64(statement, 0);
    entry->at_ns = sqlite3_column_int64(statement, 1);
    entry->identity = g_strdup(journal_db_text(statement, 2));
    (void)!vg_role_from_name(journal_db_text(statement, 3), &entry->role);
    entry->origin = g_strdup(journal_db_text(statement, 4));
    entry->method = g_strdup(journal_db_text(statement, 5));
    entry->route = g_strdup(journal_db_text(statement, 6));
    entry->object = g_strdup(journal_db_text(statement, 7));
    entry->status = (unsigned)sqlite3_column_int(statement, 8);
    entry->request_id = g_strdup(journal_db_text(statement, 9));
    entry->count = (uint64_t)sqlite3_column_int64(statement, 10);
    return entry;
}

static int
journal_audit_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_page *page = arg;

    return journal_db_list(
        db,
        journal_db_query(
            db, err,
            "SELECT seq, at_ns, identity, role, origin, method, route, object, status, request_id, "
            "count FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?",
            "ii", page->before, page->limit),
        journal_audit_row, vg_audit_entry_free, ret, err);
}

GPtrArray *
vg_journal_list_audit(vg_journal *journal, int64_t before, size_t limit, GError **err)
{
    return journal_ask_list(journal, journal_audit_read, journal_page_new(before, limit, INT32_MAX),
                            g_free, err);
}
