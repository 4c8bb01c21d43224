/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves in the journal: one that has ended begins again, a row that cannot be read hides no other,
 * and room on the disk is kept for what will be written of a move.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <glib/gstdio.h>
#include <sqlite3.h>

#include "base/error.h"
#include "journal/journal.h"

struct place {
    char *dir;
    char *file;
    char *log;
    vg_journal *journal;
};

static vg_journal *
open_journal(const char *dir)
{
    const struct vg_journal_options options = {
        .directory = dir,
        .audit_days = 36500,
        .audit_entries = 5,
        .event_days = 36500,
        .event_entries = 100,
    };

    return vg_journal_new(&options, NULL);
}

static int
set_up(void **state)
{
    struct place *place = g_new0(struct place, 1);

    place->dir = g_dir_make_tmp("vgpud-journal-XXXXXX", NULL);
    place->file = g_build_filename(place->dir, "state.db", NULL);
    place->log = g_build_filename(place->dir, "state.db-wal", NULL);
    place->journal = open_journal(place->dir);
    *state = place;
    return place->journal ? 0 : -1;
}

static int
tear_down(void **state)
{
    struct place *place = *state;
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm", "state.lock"};

    vg_journal_free(place->journal);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(place->dir, names[i], NULL);
        (void)!g_remove(path);
    }
    assert_int_equal(g_rmdir(place->dir), 0);
    g_free(place->file);
    g_free(place->log);
    g_free(place->dir);
    g_free(place);
    return 0;
}

static vg_migration *
new_move(unsigned n)
{
    vg_migration *move = vg_migration_new();

    move->id = g_strdup_printf("move-%u", n);
    move->vm = g_strdup_printf("vm-%u", n);
    move->uuid = g_strdup_printf("uuid-%u", n);
    move->from = g_strdup("h1");
    move->to = g_strdup("h2");
    move->made_ns = n;
    return move;
}

/* Begins a move, or finds out why not. */
static int
begin(const struct place *place, unsigned n, GError **err)
{
    g_autoptr(vg_migration) move = new_move(n);

    return vg_journal_begin_migration(place->journal, move, NULL, NULL, err);
}

static void
end(const struct place *place, unsigned n)
{
    g_autoptr(vg_migration) move = new_move(n);

    move->state = VG_MIGRATION_FAILED;
    assert_int_equal(vg_journal_save_migration(place->journal, move, NULL), 0);
}

static unsigned
count(const struct place *place, bool active)
{
    g_autoptr(GPtrArray) list =
        vg_journal_list_migrations(place->journal, active, INT64_MAX, 100, NULL);

    assert_non_null(list);
    return list->len;
}

static void
test_one_that_has_ended_begins_again(void **state)
{
    const struct place *place = *state;
    g_autoptr(vg_migration) move = new_move(1);
    g_autoptr(GError) error = NULL;

    assert_int_equal(begin(place, 1, NULL), 0);
    assert_int_equal(vg_journal_reopen_migration(place->journal, move, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    end(place, 1);
    assert_int_equal(count(place, true), 0);
    move->retries = 1;
    assert_int_equal(vg_journal_reopen_migration(place->journal, move, NULL), 0);
    assert_int_equal(count(place, true), 1);
    g_autoptr(vg_migration) read = vg_journal_read_migration(place->journal, "move-1", NULL);
    assert_int_equal(read->retries, 1);
    /* Another one of its VM cannot begin now, nor an unknown one again. */
    g_free(move->id);
    move->id = g_strdup("move-2");
    assert_int_equal(vg_journal_begin_migration(place->journal, move, NULL, NULL, NULL), -1);
    g_free(move->uuid);
    move->uuid = g_strdup("uuid-2");
    g_clear_error(&error);
    assert_int_equal(vg_journal_reopen_migration(place->journal, move, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
}

/* What was added to the cause keeps apart from it, so that it can be replaced. */
static void
test_a_cause_has_parts(void **state)
{
    const struct place *place = *state;
    g_autoptr(vg_migration) move = new_move(1);
    char *none = vg_migration_cause(move);

    assert_null(none);
    move->begun_by = VG_ORIGIN_DRAIN;
    move->left_over = g_strdup("a GPU");
    g_autofree char *only = vg_migration_cause(move);
    assert_string_equal(only, "a GPU");
    move->cause = g_strdup("migrate: it broke; left over: words of libvirt");
    move->not_resumed = g_strdup("actions are disabled");
    assert_int_equal(vg_journal_begin_migration(place->journal, move, NULL, NULL, NULL), 0);
    g_autoptr(vg_migration) read = vg_journal_read_migration(place->journal, "move-1", NULL);
    assert_int_equal(read->begun_by, VG_ORIGIN_DRAIN);
    g_autofree char *all = vg_migration_cause(read);
    assert_string_equal(all, "migrate: it broke; left over: words of libvirt; left over: a GPU; "
                             "its use was not resumed: actions are disabled");
    g_clear_pointer(&read->left_over, g_free);
    g_clear_pointer(&read->not_resumed, g_free);
    g_autofree char *first = vg_migration_cause(read);
    assert_string_equal(first, move->cause);
}

/* Queues a move, or finds out why not. */
static int
queue(const struct place *place, unsigned n, GError **err)
{
    g_autoptr(vg_migration) move = new_move(n);
    g_autofree char *request = g_strdup_printf("{\"vm\": \"vm-%u\"}", n);

    move->waits_for = g_strdup("its turn");
    return vg_journal_begin_migration(place->journal, move, NULL, request, err);
}

static void
test_queued_moves_wait_in_their_order(void **state)
{
    const struct place *place = *state;
    g_autoptr(GError) error = NULL;

    assert_int_equal(begin(place, 1, NULL), 0);
    for (unsigned n = 4; n > 1; n--)
        assert_int_equal(queue(place, n, NULL), 0);
    assert_int_equal(count(place, true), 4);
    /* The VM has its move. */
    assert_int_equal(begin(place, 2, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    g_autoptr(GPtrArray) list = vg_journal_list_queued(place->journal, NULL);
    assert_int_equal(list->len, 3);
    for (unsigned n = 2; n <= 4; n++) {
        const struct vg_journal_queued *queued = list->pdata[n - 2];
        g_autofree char *request = g_strdup_printf("{\"vm\": \"vm-%u\"}", n);
        assert_int_equal(queued->migration->made_ns, n);
        assert_string_equal(queued->request, request);
    }
    /* One begins, one ends; both have left the queue. */
    g_autoptr(vg_migration) first = new_move(2);
    assert_int_equal(vg_journal_start_queued(place->journal, first, NULL), 0);
    /* Somebody who got no answer tries that again. */
    assert_int_equal(vg_journal_start_queued(place->journal, first, NULL), 0);
    g_autoptr(vg_migration) unknown = new_move(5);
    g_clear_error(&error);
    assert_int_equal(vg_journal_start_queued(place->journal, unknown, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
    g_free(unknown->uuid);
    unknown->uuid = g_strdup(first->uuid);
    g_clear_error(&error);
    assert_int_equal(vg_journal_start_queued(place->journal, unknown, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    end(place, 3);
    g_ptr_array_unref(list);
    list = vg_journal_list_queued(place->journal, NULL);
    assert_int_equal(list->len, 1);
    assert_int_equal(count(place, true), 3);
    assert_int_equal(begin(place, 3, NULL), -1); /* there is a move of that id */
}

/* One that had failed is queued with all of its steps, as it waits for another attempt. */
static void
test_one_that_has_ended_is_queued_again(void **state)
{
    const struct place *place = *state;
    g_autoptr(vg_migration) move = new_move(1);
    struct vg_migration_step *step = vg_record_new(&vg_migration_step_record);

    assert_int_equal(begin(place, 1, NULL), 0);
    end(place, 1);
    step->verb = g_strdup("look");
    g_ptr_array_add(move->steps, step);
    move->retries = 1;
    assert_false(vg_migration_is_queued(move));
    move->waits_for = g_strdup("its turn");
    assert_true(vg_migration_is_queued(move));
    assert_int_equal(vg_journal_reopen_migration(place->journal, move, NULL), 0);
    g_autoptr(GPtrArray) list = vg_journal_list_queued(place->journal, NULL);
    assert_int_equal(list->len, 1);
    assert_string_equal(((const struct vg_journal_queued *)list->pdata[0])->request, "");
    /* One that has begun its next attempt waits for something else. */
    step->attempt = 1;
    assert_false(vg_migration_is_queued(move));
}

static void
damage(const struct place *place, const char *sql)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(place->file, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void
test_a_row_that_cannot_be_read_hides_no_other(void **state)
{
    const struct place *place = *state;
    g_autoptr(vg_reservation) kept = vg_reservation_new();
    g_autoptr(GError) error = NULL;

    for (unsigned n = 1; n <= 3; n++)
        assert_int_equal(begin(place, n, NULL), 0);
    kept->vm = g_strdup("vm");
    kept->uuid = g_strdup("uuid");
    kept->from = g_strdup("h1");
    kept->lease_s = 60;
    kept->expires_ns = INT64_C(1) << 60;
    for (unsigned n = 0; n < 2; n++) {
        g_free(kept->id);
        g_free(kept->move_id);
        kept->id = g_strdup(n == 0 ? "a" : "b");
        kept->move_id = g_strdup(kept->id);
        assert_int_equal(vg_journal_save_reservation(place->journal, kept, NULL), 0);
    }
    damage(place, "UPDATE migration SET document = '{\"id\": 7' WHERE id = 'move-2'");
    damage(place, "UPDATE reservation SET document = '{}' WHERE id = 'a'");
    assert_int_equal(count(place, true), 2);
    g_autoptr(GPtrArray) list = vg_journal_list_reservations(place->journal, NULL);
    assert_int_equal(list->len, 1);
    assert_null(vg_journal_read_migration(place->journal, "move-2", &error));
    assert_non_null(strstr(error->message, "'move-2' cannot be read"));
    /* Nothing is wrong with the file. */
    g_autofree char *reason = NULL;
    assert_true(vg_journal_read_health(place->journal, &reason));
    assert_int_equal(begin(place, 4, NULL), 0);
}

/* The room is on the disk from the beginning of a move, behind the end of the log. */
static void
test_room_is_kept_for_moves(void **state)
{
    const struct place *place = *state;
    struct stat before, with_two, after;

    assert_int_equal(vg_journal_check_room(place->journal, NULL), 0);
    assert_int_equal(g_stat(place->log, &before), 0);
    assert_int_equal(begin(place, 1, NULL), 0);
    assert_int_equal(begin(place, 2, NULL), 0);
    /* Those that are queued need none yet. */
    for (unsigned n = 3; n < 9; n++)
        assert_int_equal(queue(place, n, NULL), 0);
    assert_int_equal(g_stat(place->log, &with_two), 0);
    const int64_t room = (int64_t)with_two.st_blocks * 512 - (int64_t)with_two.st_size;
    assert_true(room < (INT64_C(5) << 20));
    for (unsigned n = 3; n < 9; n++)
        end(place, n);
    assert_int_equal(g_stat(place->log, &with_two), 0);
    const int64_t behind = (int64_t)with_two.st_blocks * 512 - (int64_t)with_two.st_size;
    assert_true(behind >= (INT64_C(3) << 20)); /* of twice 2 MiB; the second one wrote after that */
    /* It outlives this connection and is there for the next one. */
    vg_journal_free(place->journal);
    ((struct place *)*state)->journal = open_journal(place->dir);
    assert_int_equal(g_stat(place->log, &after), 0);
    assert_true(after.st_blocks >= with_two.st_blocks);
    assert_int_equal(count(place, true), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_cause_has_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queued_moves_wait_in_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_has_ended_is_queued_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_that_has_ended_begins_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_row_that_cannot_be_read_hides_no_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_room_is_kept_for_moves, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
