/* SPDX-License-Identifier: Apache-2.0
 *
 * The drain of a host before a journal and moves that are made up here: that it may begin
 * while its thread still reads the journal, for ThreadSanitizer, and which moves are its own.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/error.h"
#include "mover/drain.h"

/* These are relaxed: what crosses here must not order what the drain itself does. */
static atomic_bool is_reading, may_return;
static GPtrArray *aborted; /* char * */

static bool
is_set(atomic_bool *flag)
{
    return atomic_load_explicit(flag, memory_order_relaxed);
}

static void
set(atomic_bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_relaxed);
}

/* ---- what the drain calls ---- */

int
vg_journal_read_drain(vg_journal *journal, struct vg_drain_mark *ret, GError **err)
{
    (void)journal, (void)ret, (void)err;
    set(&is_reading, true);
    while (!is_set(&may_return))
        usleep(1000);
    return 0;
}

int
vg_journal_set_drain(vg_journal *journal, const struct vg_drain_mark *mark, GError **err)
{
    (void)journal, (void)mark, (void)err;
    return 0;
}

void
vg_region_set_drain(vg_region *region, const char *asked_by, int64_t since_ns)
{
    (void)region, (void)asked_by, (void)since_ns;
}

static struct vg_migration *
new_move(const char *id, enum vg_migration_origin begun_by)
{
    struct vg_migration *move = vg_migration_new();

    move->id = g_strdup(id);
    move->asked_by = g_strdup("drain by alice");
    move->begun_by = begun_by;
    return move;
}

/* Lists the moves that can be aborted; a look at all fails. */
GPtrArray *
vg_mover_list(vg_mover *mover, bool active, int64_t before_ns, size_t limit, char **ret_lacks,
              GError **err)
{
    (void)mover, (void)before_ns, (void)limit, (void)ret_lacks;
    if (!active) {
        vg_error(err, VG_E_BUSY, "no look is made here");
        return NULL;
    }
    GPtrArray *moves = g_ptr_array_new_with_free_func(vg_migration_free);
    g_ptr_array_add(moves, new_move("move-of-the-drain", VG_ORIGIN_DRAIN));
    g_ptr_array_add(moves, new_move("move-on-behalf-of-it", VG_ORIGIN_REQUEST));
    return moves;
}

struct vg_migration *
vg_mover_abort(vg_mover *mover, const char *id, GError **err)
{
    (void)mover, (void)err;
    g_ptr_array_add(aborted, g_strdup(id));
    return NULL;
}

int64_t
vg_mover_places(vg_mover *mover)
{
    (void)mover;
    return 0;
}

static void
set_maintenance(void *data, bool maintenance)
{
    (void)data, (void)maintenance;
}

/* ---- the tests ---- */

static vg_drainer *
new_drainer(void)
{
    const struct vg_drainer_parts parts = {.host = "h", .set_maintenance = set_maintenance};

    return vg_drainer_new(&parts, NULL);
}

static void
test_it_begins_while_the_journal_is_read(void **state)
{
    vg_drainer *drainer = new_drainer();

    (void)state;
    assert_non_null(drainer);
    while (!is_set(&is_reading))
        usleep(1000);
    assert_int_equal(vg_drainer_begin(drainer, "alice", NULL), 0);
    set(&may_return, true);
    vg_drain *drain = vg_drainer_read(drainer, false, NULL);
    assert_non_null(drain);
    assert_string_equal(drain->asked_by, "alice");
    vg_drain_free(drain);
    vg_drainer_stop(drainer);
    vg_drainer_free(drainer);
}

static void
test_it_aborts_its_own_moves(void **state)
{
    vg_drainer *drainer = new_drainer();

    (void)state;
    set(&may_return, true);
    aborted = g_ptr_array_new_with_free_func(g_free);
    assert_int_equal(vg_drainer_begin(drainer, "alice", NULL), 0);
    assert_int_equal(vg_drainer_end(drainer, NULL), 0);
    assert_int_equal(aborted->len, 1);
    assert_string_equal(aborted->pdata[0], "move-of-the-drain");
    vg_drainer_stop(drainer);
    vg_drainer_free(drainer);
    g_ptr_array_unref(aborted);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_begins_while_the_journal_is_read),
        cmocka_unit_test(test_it_aborts_its_own_moves),
    };

    return cmocka_run_group_tests_name("drainer", tests, NULL, NULL);
}
