/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal: what it says is committed is in the file, seen by another connection to it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/error.h"
#include "journal/journal.h"

#define T0 INT64_C(1800000000000000000)

struct place {
    char *dir;
    char *file;
    vg_journal *journal;
};

static vg_journal *
open_journal(const char *dir)
{
    const struct vg_journal_options options = {.directory = dir,
                                               .audit_days = 36500,
                                               .audit_entries = 5,
                                               .event_days = 36500,
                                               .event_entries = 100};

    return vg_journal_new(&options, NULL);
}

static void
reopen(struct place *place)
{
    vg_journal_free(place->journal);
    place->journal = open_journal(place->dir);
}

static int
set_up(void **state)
{
    struct place *place = g_new0(struct place, 1);

    place->dir = g_dir_make_tmp("vgpud-journal-XXXXXX", NULL);
    place->file = g_build_filename(place->dir, "state.db", NULL);
    place->journal = open_journal(place->dir);
    *state = place;
    return place->journal ? 0 : -1;
}

static int
tear_down(void **state)
{
    struct place *place = *state;
    GDir *dir = g_dir_open(place->dir, 0, NULL);

    vg_journal_free(place->journal);
    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(place->dir, name, NULL);
        (void)!g_remove(path);
    }
    g_dir_close(dir);
    (void)!g_rmdir(place->dir);
    g_free(place->file);
    g_free(place->dir);
    g_free(place);
    return 0;
}

/* What somebody else reads in the file: the first column of the first row. */
static char *
ask_file(const struct place *place, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    char *text = NULL;

    assert_int_equal(sqlite3_open(place->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW)
        text = g_strdup((const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return text ? text : g_strdup("");
}

static void
assert_file_says(const struct place *place, const char *sql, const char *expected)
{
    g_autofree char *text = ask_file(place, sql);

    assert_string_equal(text, expected);
}

static void
change_file(const struct place *place, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(place->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* ---- plans ---- */

static int64_t
save_plan(vg_journal *journal, const char *id, int64_t made_ns)
{
    const struct vg_saved_plan plan = {
        .id = (char *)id, .made_ns = made_ns, .verdict = (char *)"changes", .text = (char *)"{}"};
    int64_t first_ns = 0;

    assert_int_equal(vg_journal_save_plan(journal, &plan, &first_ns, NULL), 0);
    return first_ns;
}

static void
test_a_plan_is_in_the_file_when_it_is_answered(void **state)
{
    struct place *place = *state;
    GError *err = NULL;

    assert_int_equal(save_plan(place->journal, "plan-1", T0), T0);
    assert_file_says(place, "SELECT made_ns FROM plan WHERE id = 'plan-1'", "1800000000000000000");
    /* The same plan again keeps its time. */
    assert_int_equal(save_plan(place->journal, "plan-1", T0 + 5), T0);
    assert_int_equal(save_plan(place->journal, "plan-2", T0 + 5), T0 + 5);
    reopen(place);
    struct vg_saved_plan *plan = vg_journal_read_plan(place->journal, "plan-2", NULL);
    assert_string_equal(plan->text, "{}");
    assert_string_equal(plan->verdict, "changes");
    vg_saved_plan_free(plan);
    g_autoptr(GPtrArray) list = vg_journal_list_plans(place->journal, INT64_MAX, 10, NULL);
    assert_int_equal(list->len, 2);
    assert_string_equal(((const struct vg_saved_plan *)list->pdata[0])->id, "plan-2");
    g_autoptr(GPtrArray) older = vg_journal_list_plans(place->journal, T0 + 5, 10, NULL);
    assert_int_equal(older->len, 1);
    assert_null(vg_journal_read_plan(place->journal, "plan-3", &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_error_free(err);
}

static void
test_the_oldest_plans_go(void **state)
{
    struct place *place = *state;

    for (int i = 0; i < 3; i++) {
        g_autofree char *id = g_strdup_printf("plan-%d", i);
        save_plan(place->journal, id, T0 + i);
    }
    change_file(place, "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n "
                       "WHERE i < 1006) INSERT INTO plan SELECT 'p' || i, "
                       "1800000000000000000 + i, '', '' FROM n");
    save_plan(place->journal, "newest", T0 + 5000);
    assert_file_says(place, "SELECT count(*) FROM plan", "1000");
    assert_file_says(place, "SELECT min(id) FROM plan WHERE id LIKE 'plan-%'", "plan-1");
}

/* ---- tokens ---- */

static void
assert_denied(vg_journal *journal, const char *text, int64_t at_ns)
{
    struct vg_identity identity;
    GError *err = NULL;

    assert_int_equal(vg_journal_check_token(journal, text, at_ns, &identity, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_DENIED));
    assert_null(strstr(err->message, text));
    g_error_free(err);
}

static void
test_a_token_lets_in_until_it_expires_or_is_revoked(void **state)
{
    struct place *place = *state;
    vg_journal *journal = place->journal;
    struct vg_identity identity;
    GError *err = NULL;
    g_autofree char *nova =
        vg_journal_create_token(journal, "nova", VG_ROLE_READER, T0, T0 + 100, NULL);
    g_autofree char *ops = vg_journal_create_token(journal, "ops", VG_ROLE_OPERATOR, T0, 0, NULL);

    /* 256 bits. */
    assert_true(g_str_has_prefix(nova, "vgpud_"));
    assert_int_equal(strlen(nova), strlen("vgpud_") + 43);
    assert_int_equal(vg_journal_check_token(journal, nova, T0 + 99, &identity, NULL), 0);
    assert_int_equal(identity.role, VG_ROLE_READER);
    assert_string_equal(identity.name, "token:nova");
    assert_denied(journal, nova, T0 + 100);
    assert_denied(journal, "vgpud_", T0);
    assert_denied(journal, "x", T0);
    reopen(place);
    journal = place->journal;
    assert_int_equal(vg_journal_check_token(journal, ops, T0 + 1, &identity, NULL), 0);
    assert_int_equal(identity.role, VG_ROLE_OPERATOR);
    assert_int_equal(vg_journal_revoke_token(journal, "ops", NULL), 0);
    assert_denied(journal, ops, T0 + 1);
    assert_int_equal(vg_journal_revoke_token(journal, "ops", &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_clear_error(&err);
    reopen(place);
    assert_denied(place->journal, ops, T0 + 1);
    g_autoptr(GPtrArray) list = vg_journal_list_tokens(place->journal, NULL);
    assert_int_equal(list->len, 1);
    assert_string_equal(((const struct vg_token *)list->pdata[0])->name, "nova");
    assert_int_equal(((const struct vg_token *)list->pdata[0])->expires_ns, T0 + 100);
}

static void
test_names_of_tokens(void **state)
{
    const struct place *place = *state;
    g_autofree char *longest = g_strnfill(64, 'a');
    g_autofree char *longer = g_strnfill(65, 'a');
    const char *const bad[] = {"", "a b", "a/b", "\xc3\xa4", longer};
    GError *err = NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        assert_null(vg_journal_create_token(place->journal, bad[i], VG_ROLE_READER, T0, 0, &err));
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
        g_clear_error(&err);
    }
    g_autofree char *text =
        vg_journal_create_token(place->journal, longest, VG_ROLE_READER, T0, 0, NULL);
    assert_non_null(text);
    assert_null(vg_journal_create_token(place->journal, longest, VG_ROLE_READER, T0, 0, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
    g_clear_error(&err);
}

static void
test_a_token_is_nowhere_in_the_file_and_its_last_use_is(void **state)
{
    struct place *place = *state;
    struct vg_identity identity;
    g_autofree char *text =
        vg_journal_create_token(place->journal, "ops", VG_ROLE_ADMIN, T0, 0, NULL);
    g_autofree char *dump = NULL;
    gsize size = 0;

    assert_file_says(place, "SELECT used_ns IS NULL FROM token", "1");
    assert_int_equal(vg_journal_check_token(place->journal, text, T0 + 7, &identity, NULL), 0);
    reopen(place);
    assert_file_says(place, "SELECT used_ns FROM token", "1800000000000000007");
    vg_journal_free(g_steal_pointer(&place->journal));
    assert_true(g_file_get_contents(place->file, &dump, &size, NULL));
    assert_null(memmem(dump, size, text + strlen("vgpud_"), 16));
    /* sha256sum says the same. */
    g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
    g_autofree char *stored = ask_file(place, "SELECT lower(hex(hash)) FROM token");
    assert_string_equal(stored, hash);
}

/* ---- audit ---- */

static void
audit(vg_journal *journal, const char *object, int64_t at_ns)
{
    const struct vg_audit_entry entry = {
        .at_ns = at_ns,
        .identity = (char *)"token:ops",
        .role = VG_ROLE_OPERATOR,
        .origin = (char *)"192.0.2.1",
        .method = (char *)"POST",
        .route = (char *)"/v1/plans",
        .object = (char *)object,
        .status = 201,
        .request_id = (char *)"req-1",
        .count = 1,
    };
    assert_int_equal(vg_journal_audit(journal, &entry, NULL), 0);
}

static void
test_audit(void **state)
{
    struct place *place = *state;
    int64_t now_ns = vg_clock_realtime_ns();

    for (int i = 0; i < 8; i++) {
        g_autofree char *object = g_strdup_printf("plan-%d", i);
        audit(place->journal, object, now_ns + i);
    }
    g_autoptr(GPtrArray) page = vg_journal_list_audit(place->journal, INT64_MAX, 2, NULL);
    assert_int_equal(page->len, 2);
    const struct vg_audit_entry *second = page->pdata[1];
    assert_string_equal(second->object, "plan-6");
    assert_string_equal(second->identity, "token:ops");
    assert_string_equal(second->origin, "192.0.2.1");
    assert_int_equal(second->role, VG_ROLE_OPERATOR);
    assert_int_equal(second->status, 201);
    g_autoptr(GPtrArray) next = vg_journal_list_audit(place->journal, second->seq, 1, NULL);
    assert_string_equal(((const struct vg_audit_entry *)next->pdata[0])->object, "plan-5");
    /* The limit of this journal, once it tidies up. */
    reopen(place);
    assert_file_says(place, "SELECT min(object) || count(*) FROM audit", "plan-35");
}

/* And a year. */
#define CENTURY_NS (INT64_C(101) * 366 * 86400 * VG_NS_PER_S)

static void
note(vg_journal *journal, const char *boot, uint64_t seq, int64_t at_ns, const char *type)
{
    struct vg_happening event = {
        .boot = (char *)boot,
        .seq = seq,
        .at_ns = at_ns,
        .type = type,
        .text = (char *)"{}",
    };
    vg_journal_note_event(journal, &event, false);
}

/* What the alert command still has to run for survives, in order, until it is settled. */
static void
test_owed_events(void **state)
{
    struct place *place = *state;
    const int64_t t_ns = vg_clock_realtime_ns();

    for (uint64_t seq = 1; seq <= 3; seq++) {
        const struct vg_happening event = {.boot = (char *)"a",
                                           .seq = seq,
                                           .at_ns = t_ns,
                                           .type = VG_HAPPENING_ALERT,
                                           .text = (char *)"{\"alert\": \"x\"}"};
        vg_journal_note_event(place->journal, &event, seq != 2);
    }
    note(place->journal, "b", 1, t_ns, "vm");
    reopen(place);
    g_autoptr(GPtrArray) owed = vg_journal_list_owed(place->journal, NULL);
    assert_int_equal(owed->len, 2);
    const struct vg_happening *first = owed->pdata[0], *last = owed->pdata[1];
    assert_string_equal(first->boot, "a");
    assert_int_equal(first->seq, 1);
    assert_int_equal(first->at_ns, t_ns);
    assert_string_equal(first->text, "{\"alert\": \"x\"}");
    assert_int_equal(last->seq, 3);
    vg_journal_settle_event(place->journal, "a", 1);
    vg_journal_settle_event(place->journal, "b", 3);
    reopen(place);
    g_autoptr(GPtrArray) left = vg_journal_list_owed(place->journal, NULL);
    assert_int_equal(left->len, 1);
    assert_int_equal(((const struct vg_happening *)left->pdata[0])->seq, 3);
    assert_file_says(place, "SELECT count(*) FROM event", "4");
}

/* "a1 a2 b1": runs and numbers. */
static void
assert_events(vg_journal *journal, const struct vg_happening_query *query, const char *want)
{
    struct vg_happening_query limited = *query;
    g_autoptr(GString) got = g_string_new(NULL);

    limited.until_ns = query->until_ns ? query->until_ns : INT64_MAX;
    limited.limit = query->limit ? query->limit : 1000;
    g_autoptr(GPtrArray) events = vg_journal_list_events(journal, &limited, NULL);
    assert_non_null(events);
    for (guint i = 0; i < events->len; i++) {
        const struct vg_happening *event = events->pdata[i];
        g_string_append_printf(got, "%s%s%d", i > 0 ? " " : "", event->boot, (int)event->seq);
    }
    assert_string_equal(got->str, want);
}

static void
test_events(void **state)
{
    struct place *place = *state;
    int64_t t_ns = vg_clock_realtime_ns();
    g_autoptr(GError) err = NULL;

    /* Numbers have gaps: windows are not kept. */
    for (uint64_t i = 2; i <= 6; i += 2)
        note(place->journal, "a", i, t_ns + (int64_t)i, i == 4 ? "vm" : "plan");
    note(place->journal, "b", 1, t_ns + 10, "vm");
    note(place->journal, "b", 5, t_ns + 11, "store");
    for (int run = 0; run < 2; run++) {
        vg_journal *journal = place->journal;
        assert_events(journal, &(struct vg_happening_query){0}, "a2 a4 a6 b1 b5");
        assert_events(journal, &(struct vg_happening_query){.limit = 2}, "a2 a4");
        assert_events(journal, &(struct vg_happening_query){.types = "vm,store"}, "a4 b1 b5");
        assert_events(journal,
                      &(struct vg_happening_query){.since_ns = t_ns + 4, .until_ns = t_ns + 10},
                      "a4 a6");
        assert_events(journal, &(struct vg_happening_query){.after_boot = "a", .after_seq = 4},
                      "a6 b1 b5");
        assert_events(journal, &(struct vg_happening_query){.after_boot = "a", .after_seq = 5},
                      "a6 b1 b5");
        assert_events(journal, &(struct vg_happening_query){.after_boot = "a", .after_seq = 1},
                      "a2 a4 a6 b1 b5");
        assert_events(journal, &(struct vg_happening_query){.after_boot = "b", .after_seq = 99},
                      "");
        assert_events(journal, &(struct vg_happening_query){.upto_boot = "b", .upto_seq = 4},
                      "a2 a4 a6 b1");
        reopen(place);
    }
    struct vg_happening_query unknown = {.after_boot = "c", .until_ns = INT64_MAX, .limit = 1};
    assert_null(vg_journal_list_events(place->journal, &unknown, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    /* That one is told again changes nothing; of too many the oldest go, and those of long ago. */
    note(place->journal, "a", 2, t_ns, "vm");
    for (uint64_t i = 100; i < 250; i++)
        note(place->journal, "c", i, i == 200 ? t_ns - CENTURY_NS : t_ns, "vm");
    reopen(place);
    reopen(place);
    assert_file_says(place, "SELECT min(seq) || ' ' || max(seq) || ' ' || count(*) FROM event",
                     "149 249 100");
}

static void
test_refusals_are_counted_by_origin_and_minute(void **state)
{
    struct place *place = *state;
    int64_t minute_ns = 60 * VG_NS_PER_S;
    int64_t t_ns = vg_clock_realtime_ns() / minute_ns * minute_ns;

    for (int i = 0; i < 3; i++)
        vg_journal_note_refusal(place->journal, "192.0.2.1", 401, t_ns + i);
    vg_journal_note_refusal(place->journal, "192.0.2.1", 401, t_ns + minute_ns);
    vg_journal_note_refusal(place->journal, "192.0.2.2", 401, t_ns);
    reopen(place);
    assert_file_says(place,
                     "SELECT group_concat(origin || ' ' || count, ', ') FROM "
                     "(SELECT * FROM audit WHERE identity = '' ORDER BY origin, at_ns)",
                     "192.0.2.1 3, 192.0.2.1 1, 192.0.2.2 1");
}

static void
test_many_origins_are_one(void **state)
{
    struct place *place = *state;
    int64_t t_ns = vg_clock_realtime_ns();

    for (int i = 0; i < VG_JOURNAL_ORIGINS_MAX + 10; i++) {
        g_autofree char *origin = g_strdup_printf("192.0.2.1:%d", i);
        vg_journal_note_refusal(place->journal, origin, 401, t_ns);
    }
    vg_journal_set_limits(place->journal, &(struct vg_journal_options){.audit_days = 36500,
                                                                       .audit_entries = 100000,
                                                                       .event_days = 1,
                                                                       .event_entries = 5});
    vg_journal_free(g_steal_pointer(&place->journal));
    assert_file_says(place, "SELECT count FROM audit WHERE origin = 'others'", "10");
    assert_file_says(place, "SELECT count(*) FROM audit", "1025");
}

/* ---- trouble ---- */

static void
assert_fails(struct place *place, const char *with)
{
    const struct vg_saved_plan plan = {
        .id = (char *)"plan", .made_ns = T0, .verdict = (char *)"", .text = (char *)"{}"};
    g_autofree char *reason = NULL;
    int64_t made_ns;
    GError *err = NULL;

    assert_false(vg_journal_read_health(place->journal, &reason));
    assert_non_null(strstr(reason, with));
    assert_int_equal(vg_journal_save_plan(place->journal, &plan, &made_ns, &err), -1);
    assert_non_null(strstr(err->message, with));
    g_error_free(err);
}

static void
test_a_damaged_file_is_left_alone(void **state)
{
    struct place *place = *state;
    g_autofree char *content = NULL;
    const char *damage = "this is no database, and its length is more than a header of sqlite has: "
                         "0123456789012345678901234567890123456789";

    vg_journal_free(g_steal_pointer(&place->journal));
    assert_true(g_file_set_contents(place->file, damage, -1, NULL));
    place->journal = open_journal(place->dir);
    assert_fails(place, place->file);
    /* Which tokens there are is not known, which is no refusal. */
    struct vg_identity identity;
    GError *err = NULL;
    assert_null(vg_journal_list_tokens(place->journal, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_UNUSABLE));
    assert_non_null(strstr(err->message, place->file));
    g_clear_error(&err);
    assert_int_equal(vg_journal_check_token(place->journal, "vgpud_x", T0, &identity, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_UNUSABLE));
    g_clear_error(&err);
    assert_true(g_file_get_contents(place->file, &content, NULL, NULL));
    assert_string_equal(content, damage);
    /* Somebody mends it, and the next call finds that. */
    assert_int_equal(g_remove(place->file), 0);
    assert_int_equal(save_plan(place->journal, "plan", T0), T0);
    assert_true(vg_journal_read_health(place->journal, NULL));
    g_autoptr(GPtrArray) list = vg_journal_list_tokens(place->journal, NULL);
    assert_int_equal(list->len, 0);
}

static void
test_a_file_of_a_newer_version_is_left_alone(void **state)
{
    struct place *place = *state;

    vg_journal_free(g_steal_pointer(&place->journal));
    change_file(place, "PRAGMA user_version = 99");
    place->journal = open_journal(place->dir);
    assert_fails(place, "newer vgpud");
    assert_file_says(place, "PRAGMA user_version", "99");
}

/* As an older vgpud left it: plans are there, tokens are not yet. */
static void
test_version_1_is_upgraded(void **state)
{
    struct place *place = *state;

    vg_journal_free(g_steal_pointer(&place->journal));
    assert_int_equal(g_remove(place->file), 0);
    change_file(place, "CREATE TABLE plan (id TEXT NOT NULL UNIQUE, made_ns INTEGER NOT NULL, "
                       "verdict TEXT NOT NULL, document TEXT NOT NULL) STRICT;"
                       "CREATE INDEX plan_by_time ON plan (made_ns, id);"
                       "INSERT INTO plan VALUES ('plan-old', 5, 'changes', '{}');"
                       "PRAGMA user_version = 1");
    place->journal = open_journal(place->dir);
    struct vg_saved_plan *plan = vg_journal_read_plan(place->journal, "plan-old", NULL);
    assert_int_equal(plan->made_ns, 5);
    vg_saved_plan_free(plan);
    g_autofree char *token =
        vg_journal_create_token(place->journal, "ops", VG_ROLE_ADMIN, T0, 0, NULL);
    assert_non_null(token);
    assert_file_says(place, "PRAGMA user_version", "7");
}

static void
test_two_journals_in_a_directory(void **state)
{
    const struct place *place = *state;
    struct place other = {.dir = place->dir, .journal = open_journal(place->dir)};

    assert_fails(&other, "another vgpud");
    vg_journal_free(other.journal);
}

static void
test_a_file_that_is_replaced_is_opened_anew(void **state)
{
    struct place *place = *state;
    g_autofree char *wal = g_strconcat(place->file, "-wal", NULL);

    save_plan(place->journal, "plan-1", T0);
    assert_int_equal(g_remove(place->file), 0);
    (void)!g_remove(wal);
    save_plan(place->journal, "plan-2", T0);
    assert_file_says(place, "SELECT group_concat(id) FROM plan", "plan-2");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_a_plan_is_in_the_file_when_it_is_answered),
        CASE(test_the_oldest_plans_go),
        CASE(test_a_token_lets_in_until_it_expires_or_is_revoked),
        CASE(test_names_of_tokens),
        CASE(test_a_token_is_nowhere_in_the_file_and_its_last_use_is),
        CASE(test_audit),
        CASE(test_events),
        CASE(test_owed_events),
        CASE(test_refusals_are_counted_by_origin_and_minute),
        CASE(test_many_origins_are_one),
        CASE(test_a_damaged_file_is_left_alone),
        CASE(test_a_file_of_a_newer_version_is_left_alone),
        CASE(test_version_1_is_upgraded),
        CASE(test_two_journals_in_a_directory),
        CASE(test_a_file_that_is_replaced_is_opened_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
