/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/error.h"
#include "journal/journal-private.h"

static int
journal_plan_save(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct vg_saved_plan *plan = arg;

    if (journal_db_spare_room(db, err) < 0 ||
        journal_db_run(db, NULL, err, "INSERT OR IGNORE INTO plan VALUES (?, ?, ?, ?)", "siss",
                       plan->id, plan->made_ns, plan->verdict, plan->text) != 0 ||
        journal_db_run(db, NULL, err,
                       "DELETE FROM plan WHERE id IN (SELECT id FROM plan "
                       "ORDER BY made_ns DESC, id DESC LIMIT -1 OFFSET ?)",
                       "i", (int64_t)VG_JOURNAL_PLANS_MAX) != 0)
        return -1;
    sqlite3_stmt *statement =
        journal_db_query(db, err, "SELECT made_ns FROM plan WHERE id = ?", "s", plan->id);
    int status = statement ? journal_db_step(db, statement, err) : -1;
    if (status >= 0) {
        int64_t *made_ns = g_new(int64_t, 1);
        *made_ns = status > 0 ? sqlite3_column_int64(statement, 0) : plan->made_ns;
        *ret = made_ns;
    }
    journal_db_end(statement);
    return status < 0 ? -1 : 0;
}

int
vg_journal_save_plan(vg_journal *journal, const struct vg_saved_plan *plan, int64_t *ret_made_ns,
                     GError **err)
{
    void *made_ns = NULL;

    if (journal_ask_thread(journal, journal_plan_save, vg_saved_plan_copy(plan, true),
                           vg_saved_plan_free, &made_ns, g_free, err) != 0)
        return -1;
    *ret_made_ns = *(const int64_t *)made_ns;
    g_free(made_ns);
    return 0;
}

static int
journal_plan_read(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const char *id = arg;
    sqlite3_stmt *statement = journal_db_query(
        db, err, "SELECT made_ns, verdict, document FROM plan WHERE id = ?", "s", id);
    int status = statement ? journal_db_step(db, statement, err) : -1;

    if (status > 0) {
        struct vg_saved_plan *plan = g_new0(struct vg_saved_plan, 1);
        plan->id = g_strdup(id);
        plan->made_ns = sqlite3_column_int64(statement, 0);
        plan->verdict = g_strdup(journal_db_text(statement, 1));
        plan->text = g_strdup(journal_db_text(statement, 2));
        *ret = plan;
    } else if (status == 0) {
        vg_error(err, VG_E_NOT_FOUND, "there is no plan '%s'", id);
    }
    journal_db_end(statement);
    return status > 0 ? 0 : -1;
}

struct vg_saved_plan *
vg_journal_read_plan(vg_journal *journal, const char *id, GError **err)
{
    void *plan = NULL;

    return journal_ask_thread(journal, journal_plan_read, g_strdup(id), g_free, &plan,
                              vg_saved_plan_free, err) == 0
               ? plan
               : NULL;
}

static void *
journal_plan_row(sqlite3_stmt *statement, GError **err)
{
    struct vg_saved_plan *plan = g_new0(struct vg_saved_plan, 1);

    (void)err;
    plan->id = g_strdup(journal_db_text(statement, 0));
    plan->made_ns = sqlite3_column_int64(statement, 1);
    plan->verdict = g_strdup(journal_db_text(statement, 2));
    return plan;
}

static int
journal_plans_list(struct journal_db *db, const void *arg, void **ret, GError **err)
{
    const struct journal_page *page = arg;

    return journal_db_list(
        db,
        journal_db_query(db, err,
                         "SELECT id, made_ns, verdict FROM plan WHERE made_ns < ? "
                         "ORDER BY made_ns DESC, id DESC LIMIT ?",
                         "ii", page->before, page->limit),
        journal_plan_row, vg_saved_plan_free, ret, err);
}

GPtrArray *
vg_journal_list_plans(vg_journal *journal, int64_t before_ns, size_t limit, GError **err)
{
    return journal_ask_list(journal, journal_plans_list,
                            journal_page_new(before_ns, limit, VG_JOURNAL_PLANS_MAX), g_free, err);
}
