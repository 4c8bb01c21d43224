/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves of the last days, as etcd stores them.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/json.h"
#include "model/act-past.h"

static void
add_move(struct vg_host_moves *host, const char *id, enum vg_migration_state state, int64_t made_ns)
{
    struct vg_migration *move = vg_migration_new();

    move->id = g_strdup(id);
    move->vm = g_strdup("vm");
    move->uuid = g_strdup("00000000-0000-0000-0000-000000000001");
    move->from = g_strdup("a");
    move->to = g_strdup("b");
    move->state = state;
    move->made_ns = made_ns;
    move->ended_ns = vg_migration_has_ended(state) ? made_ns + 5 : 0;
    g_ptr_array_add(host->moves, move);
}

static void
expect(const vg_act_past *past, const char *ids)
{
    g_autoptr(GString) found = g_string_new(NULL);

    for (guint i = 0; i < past->moves->len; i++)
        g_string_append_printf(found, "%s ",
                               ((const struct vg_act_past_move *)past->moves->pdata[i])->id);
    assert_string_equal(found->str, ids);
}

static void
free_host(struct vg_host_moves **host)
{
    vg_host_moves_free(*host);
}

#define HOST(name)                                                                                 \
 __attribute__((cleanup(free_host))) struct vg_host_moves *name = vg_host_moves_new("a")

static void
test_a_lost_journal(void **state)
{
    HOST(before);
    HOST(after);
    (void)state;

    add_move(before, "new", VG_MIGRATION_DONE, 300);
    add_move(before, "mid", VG_MIGRATION_DONE, 200);
    add_move(before, "old", VG_MIGRATION_DONE, 100);
    g_autoptr(vg_act_past) first = vg_act_past_update(NULL, before, 150);
    expect(first, "new mid ");
    /* The host has another move, and no record of the others. */
    add_move(after, "next", VG_MIGRATION_MIGRATING, 400);
    g_autoptr(vg_act_past) second = vg_act_past_update(first, after, 250);
    expect(second, "next new ");
    g_autoptr(vg_act_past) last = vg_act_past_update(second, after, 500);
    expect(last, "");
}

static void
test_a_move_that_ends_later(void **state)
{
    HOST(before);
    HOST(after);
    (void)state;

    add_move(before, "one", VG_MIGRATION_ATTACHING, 100);
    g_autoptr(vg_act_past) first = vg_act_past_update(NULL, before, 0);
    const struct vg_act_past_move *one = first->moves->pdata[0];
    assert_int_equal(one->state, VG_MIGRATION_PENDING);
    /* If its host fails now, the move counts as failed. */
    g_autoptr(vg_migration) failed = vg_act_past_to_move(one);
    assert_int_equal(failed->state, VG_MIGRATION_FAILED);
    assert_int_equal(failed->ended_ns, 100);
    add_move(after, "one", VG_MIGRATION_DONE, 100);
    g_autoptr(vg_act_past) second = vg_act_past_update(first, after, 0);
    expect(second, "one ");
    g_autoptr(vg_migration) done = vg_act_past_to_move(second->moves->pdata[0]);
    assert_int_equal(done->state, VG_MIGRATION_DONE);
    assert_int_equal(done->ended_ns, 105);
    assert_string_equal(done->from, "a");
}

/* A host reports moves of other hosts' VMs. */
static void
test_moves_of_others(void **state)
{
    HOST(host);
    (void)state;

    add_move(host, "three", VG_MIGRATION_DONE, 300);
    add_move(host, "two", VG_MIGRATION_DONE, 200);
    add_move(host, "one", VG_MIGRATION_DONE, 100);
    struct vg_migration *lie = host->moves->pdata[1];
    g_free(lie->from);
    lie->from = g_strdup("c");
    /* An earlier version has stored it. */
    g_autoptr(vg_act_past) stored = vg_act_past_update(NULL, host, 0);
    expect(stored, "three two one ");
    assert_int_equal(vg_act_past_keep_own(host), 1);
    assert_int_equal(host->moves->len, 2);
    g_autoptr(vg_act_past) past = vg_act_past_update(stored, host, 0);
    expect(past, "three one ");
    assert_int_equal(vg_act_past_keep_own(host), 0);
}

static void
test_a_document(void **state)
{
    HOST(host);
    (void)state;

    for (int i = 0; i < VG_ACT_PAST_MAX + 10; i++) {
        g_autofree char *id = g_strdup_printf("%03d", i);
        add_move(host, id, VG_MIGRATION_DONE, i);
    }
    struct vg_migration *newest = host->moves->pdata[VG_ACT_PAST_MAX + 9];
    newest->act = g_strdup("act-1/1");
    newest->undo_of = g_strdup("other");
    newest->not_started = true;
    newest->verdict.result = VG_VERDICT_WORSE;
    newest->verdict.judged_ns = 7;
    g_autoptr(vg_act_past) past = vg_act_past_update(NULL, host, 0);
    assert_int_equal(past->moves->len, VG_ACT_PAST_MAX);
    g_autoptr(json_object) object = vg_record_write(&vg_act_past_record, past);
    const struct vg_json_node root = vg_json_root(object);
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_act_past) back = vg_record_read(&vg_act_past_record, &root, &error);
    assert_null(error);
    assert_string_equal(back->host, "a");
    g_autoptr(vg_migration) move = vg_act_past_to_move(back->moves->pdata[0]);
    assert_string_equal(move->id, "109");
    assert_string_equal(move->act, "act-1/1");
    assert_string_equal(move->undo_of, "other");
    assert_true(move->not_started);
    assert_int_equal(move->verdict.result, VG_VERDICT_WORSE);
    assert_int_equal(move->verdict.judged_ns, 7);
    vg_act_past_truncate(back, 2);
    expect(back, "109 108 ");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_lost_journal),
        cmocka_unit_test(test_a_move_that_ends_later),
        cmocka_unit_test(test_moves_of_others),
        cmocka_unit_test(test_a_document),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests_name("past moves", tests, NULL, NULL);
}
