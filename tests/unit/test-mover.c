/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves as the mover carries them out, with an executor of this file in the place of libvirt: it
 * changes where a VM is, fails a verb, or holds one until the test lets it go. The journal is real.
 */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib/gstdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "mover/private.h"

#define HANG_NS (60 * VG_NS_PER_S)

/* The VMs, and what is done with them. Protected by the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    GHashTable *facts;      /* UUID: struct vg_move_facts */
    GString *verbs;         /* of all moves: "vm1:look vm1:precheck " */
    enum vg_move_verb fail; /* fails while fails > 0 */
    int fails;
    bool is_final;          /* such a failure */
    enum vg_move_verb hold; /* waits until this is another verb, or the move is cancelled */
    bool is_held;
} world;

struct place {
    char *dir;
    vg_journal *journal;
    vg_peers *peers;
    vg_event_log *events;
    vg_reservations *reservations;
    vg_mover *mover;
    int64_t moves; /* [actions] moves */
};

/* ---- the executor ---- */

static struct vg_move_facts *
world_facts(const char *uuid)
{
    struct vg_move_facts *facts = g_hash_table_lookup(world.facts, uuid);

    if (!facts) {
        facts = g_new0(struct vg_move_facts, 1);
        *facts = (struct vg_move_facts){VG_PLACE_SOURCE, VG_GPU_ATTACHED, false};
        g_hash_table_insert(world.facts, g_strdup(uuid), facts);
    }
    return facts;
}

/* Does what the verb does to the VM. */
static void
world_change(enum vg_move_verb verb, struct vg_move_facts *facts)
{
    switch (verb) {
    case VG_MOVE_DETACH:
        facts->gpu = VG_GPU_DETACHED;
        break;
    case VG_MOVE_ATTACH:
    case VG_MOVE_REATTACH:
        facts->gpu = VG_GPU_ATTACHED;
        break;
    case VG_MOVE_MIGRATE:
        facts->place = VG_PLACE_TARGET;
        break;
    case VG_MOVE_RETURN:
        facts->place = VG_PLACE_SOURCE;
        break;
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_RESERVE:
    case VG_MOVE_QUIESCE:
    case VG_MOVE_RESUME:
    case VG_MOVE_VERIFY:
    case VG_MOVE_REVIVE:
    case VG_MOVE_TIDY:
    case VG_MOVE_RELEASE:
    case VG_MOVE_VERB_MAX:
    default:
        break;
    }
}

static int
world_do(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret, GError **err)
{
    VG_LOCK_SCOPE(&world.lock);
    struct vg_move_facts *facts = world_facts(move->record->uuid);

    g_string_append_printf(world.verbs, "%s:%s ", move->record->vm, vg_move_verb_names[verb]);
    world.is_held = verb == world.hold;
    pthread_cond_broadcast(&world.changed);
    while (verb == world.hold && !atomic_load(&move->cancel))
        vg_cond_wait_until(&world.changed, &world.lock,
                           vg_clock_monotonic_ns() + VG_NS_PER_S / 100);
    world.is_held = false;
    if (verb == world.hold)
        return vg_error(err, VG_E_CONFLICT, "cancelled");
    if (verb == world.fail && world.fails > 0) {
        world.fails--;
        ret->is_final = world.is_final;
        return vg_error(err, VG_E_EXTERNAL, "the test has it fail");
    }
    world_change(verb, facts);
    ret->facts = *facts;
    return 0;
}

static char *
world_describe(const struct mover_move *move, enum vg_move_verb verb)
{
    return g_strdup_printf("%s: %s", move->record->vm, vg_move_verb_names[verb]);
}

static int
world_no_problems(struct mover_move *move, GPtrArray *problems, GError **err)
{
    (void)move;
    (void)problems;
    (void)err;
    return 0;
}

/* In the place of mover/libvirt.c and mover/nova.c. */
const struct mover_executor mover_libvirt = {
    .describe = world_describe, .do_verb = world_do, .find_problems = world_no_problems};
const struct mover_executor mover_nova = {
    .describe = world_describe, .do_verb = world_do, .find_problems = world_no_problems};

/* ---- vgpud ---- */

static vg_move_settings *
new_settings(int64_t moves)
{
    vg_move_settings *settings = vg_move_settings_new();

    settings->enabled = true;
    settings->libvirt_uri = g_strdup("test:///default");
    settings->own_uri = g_strdup("");
    settings->proxies = g_strdup("");
    settings->moves = moves;
    settings->lease_s = 300;
    return settings;
}

static struct vg_migration *
new_migration(const char *vm, int n)
{
    struct vg_migration *migration = vg_migration_new();

    migration->id = vg_move_new_id("move");
    migration->vm = g_strdup(vm);
    migration->uuid = g_strdup_printf("00000000-0000-4000-8000-%012d", n);
    migration->from = g_strdup("here");
    migration->to = g_strdup("there");
    migration->peer = g_strdup("there");
    migration->asked_by = g_strdup("uid:0");
    migration->made_ns = vg_clock_realtime_ns();
    struct vg_move_device *gpu = vg_record_new(&vg_move_device_record);
    gpu->type = g_strdup("gpu0");
    gpu->alias = g_strdup("ua-gpu0");
    g_ptr_array_add(migration->devices, gpu);
    return migration;
}

/* Moves of the queue ask for the same again. */
static struct vg_migration *
turn_prepare(void *data, const struct vg_migration *queued, const char *request, GError **err)
{
    struct vg_migration *migration = vg_migration_copy(queued);

    (void)data;
    (void)err;
    assert_string_equal(request, "{}");
    g_clear_pointer(&migration->waits_for, g_free);
    return migration;
}

static int
turn_check(void *data, const struct vg_migration *migration, GError **err)
{
    (void)data;
    (void)migration;
    (void)err;
    return 0;
}

static bool
turn_is_here(void *data, const char *uuid)
{
    (void)data;
    (void)uuid;
    return true;
}

static const struct vg_mover_turn turn = {turn_prepare, turn_check, turn_is_here};

static void
start(struct place *place)
{
    const struct vg_journal_options options = {
        place->dir, NULL, .audit_days = 9, .audit_entries = 9, .event_days = 9, .event_entries = 9};
    const struct vg_peers_options nobody = {
        .own_host = "here", .refresh_ns = VG_NS_PER_S, .deadline_ns = VG_NS_PER_S};

    place->journal = vg_journal_new(&options, NULL);
    place->peers = vg_peers_new(&nobody, NULL);
    place->events = vg_event_log_new();
    place->reservations = vg_reservations_new(place->journal);
    const struct vg_mover_parts parts = {.journal = place->journal,
                                         .peers = place->peers,
                                         .reservations = place->reservations,
                                         .events = place->events,
                                         .host = "here"};
    place->mover = vg_mover_new(&parts, new_settings(place->moves));
    assert_int_equal(vg_mover_run_queue(place->mover, &turn, NULL, NULL), 0);
    vg_mover_watch(place->mover);
    vg_mover_recover(place->mover);
}

static void
stop(struct place *place)
{
    vg_mover_free(place->mover);
    vg_reservations_free(place->reservations);
    vg_event_log_free(place->events);
    vg_peers_free(place->peers);
    vg_journal_free(place->journal);
}

static int
set_up(void **state)
{
    struct place *place = g_new0(struct place, 1);

    pthread_mutex_init(&world.lock, NULL);
    vg_cond_init(&world.changed);
    world.facts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    world.verbs = g_string_new(NULL);
    world.fail = world.hold = VG_MOVE_VERB_MAX;
    world.is_final = false;
    place->dir = g_dir_make_tmp("vgpud-mover-XXXXXX", NULL);
    place->moves = 4;
    start(place);
    *state = place;
    return 0;
}

static int
tear_down(void **state)
{
    struct place *place = *state;

    stop(place);
    GDir *dir = g_dir_open(place->dir, 0, NULL);
    const char *name;
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename(place->dir, name, NULL);
        g_unlink(path);
    }
    g_dir_close(dir);
    g_rmdir(place->dir);
    g_free(place->dir);
    g_free(place);
    g_string_free(world.verbs, TRUE);
    g_hash_table_destroy(world.facts);
    pthread_cond_destroy(&world.changed);
    pthread_mutex_destroy(&world.lock);
    return 0;
}

/* ---- what the tests do ---- */

static void
hold(enum vg_move_verb verb)
{
    VG_LOCK_SCOPE(&world.lock);
    world.hold = verb;
    pthread_cond_broadcast(&world.changed);
}

static void
wait_until_held(void)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + HANG_NS;
    VG_LOCK_SCOPE(&world.lock);

    while (!world.is_held) {
        assert_true(vg_clock_monotonic_ns() < until_ns);
        vg_cond_wait_until(&world.changed, &world.lock, until_ns);
    }
}

static void
have_fail(enum vg_move_verb verb, int times)
{
    VG_LOCK_SCOPE(&world.lock);
    world.fail = verb;
    world.fails = times;
}

static struct vg_move_facts
facts_of(const struct vg_migration *migration)
{
    VG_LOCK_SCOPE(&world.lock);
    return *world_facts(migration->uuid);
}

static bool
was_done(const char *verb)
{
    VG_LOCK_SCOPE(&world.lock);
    return strstr(world.verbs->str, verb) != NULL;
}

static bool
was_done_once(const char *verb)
{
    VG_LOCK_SCOPE(&world.lock);
    const char *first = strstr(world.verbs->str, verb);
    return first && !strstr(first + 1, verb);
}

static void
begin(struct place *place, struct vg_migration *migration)
{
    const struct vg_mover_order order = {.request = "{}"};
    g_autoptr(GError) error = NULL;

    if (vg_mover_start(place->mover, migration, &order, &error) < 0)
        fail_msg("%s", error->message);
}

/* Waits until the move has ended, and returns it as it is then. */
static struct vg_migration *
wait_for_end(struct place *place, const char *id)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + HANG_NS;

    for (;;) {
        struct vg_migration *now = vg_mover_read(place->mover, id, NULL);
        if (now && vg_migration_has_ended(now->state))
            return now;
        assert_true(vg_clock_monotonic_ns() < until_ns);
        vg_migration_free(now);
        g_usleep(1000);
    }
}

static void
test_done(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) migration = new_migration("vm1", 1);

    begin(place, migration);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    assert_int_equal(ended->state, VG_MIGRATION_DONE);
    assert_int_equal(ended->vm_on, VG_PLACE_TARGET);
    assert_int_equal(ended->gpu, VG_GPU_ATTACHED);
    assert_null(ended->cause);
    assert_int_equal(facts_of(migration).place, VG_PLACE_TARGET);
    assert_true(was_done("vm1:quiesce vm1:detach vm1:migrate vm1:attach vm1:resume vm1:verify"));
    g_autoptr(vg_migration) kept = vg_journal_read_migration(place->journal, migration->id, NULL);
    assert_int_equal(kept->steps->len, ended->steps->len);
}

/* A move that fails while the VM is without its GPU gives it back. */
static void
test_goes_back(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) migration = new_migration("vm1", 1);

    have_fail(VG_MOVE_MIGRATE, 99);
    begin(place, migration);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    assert_int_equal(ended->state, VG_MIGRATION_ROLLED_BACK);
    assert_string_equal(ended->cause, "migrate: the test has it fail");
    assert_int_equal(facts_of(migration).place, VG_PLACE_SOURCE);
    assert_int_equal(facts_of(migration).gpu, VG_GPU_ATTACHED);
}

/* The guest is asked to take up its GPUs once if a program is lost, and again when the move is
 * finished. */
static void
test_lost_program(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) migration = new_migration("vm1", 1);
    g_autoptr(GError) error = NULL;

    have_fail(VG_MOVE_RESUME, 99);
    world.is_final = true;
    begin(place, migration);
    g_autoptr(vg_migration) failed = wait_for_end(place, migration->id);
    assert_int_equal(failed->state, VG_MIGRATION_FAILED);
    assert_string_equal(failed->cause, "resume: the test has it fail");
    assert_true(was_done_once("vm1:resume"));
    have_fail(VG_MOVE_VERB_MAX, 0);
    vg_migration_free(vg_mover_retry(place->mover, migration->id, "uid:0", &error));
    assert_null(error);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    assert_int_equal(ended->state, VG_MIGRATION_DONE);
}

/* One that cannot give it back has failed, raises the alert, and can be finished later. */
static void
test_bare(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) migration = new_migration("vm1", 1);
    g_autoptr(GError) error = NULL;

    have_fail(VG_MOVE_REATTACH, 99);
    hold(VG_MOVE_MIGRATE);
    begin(place, migration);
    wait_until_held();
    vg_migration_free(vg_mover_abort(place->mover, migration->id, &error));
    assert_null(error);
    g_autoptr(vg_migration) failed = wait_for_end(place, migration->id);
    assert_int_equal(failed->state, VG_MIGRATION_FAILED);
    assert_int_equal(failed->gpu, VG_GPU_DETACHED);
    g_autoptr(GPtrArray) bare = vg_mover_bare(place->mover);
    assert_int_equal(bare->len, 1);
    assert_string_equal(((const struct vg_bare_vm *)bare->pdata[0])->move, migration->id);
    have_fail(VG_MOVE_VERB_MAX, 0);
    hold(VG_MOVE_VERB_MAX);
    vg_migration_free(vg_mover_retry(place->mover, migration->id, "uid:0", &error));
    assert_null(error);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    assert_int_equal(ended->state, VG_MIGRATION_ROLLED_BACK);
    assert_int_equal(facts_of(migration).gpu, VG_GPU_ATTACHED);
    g_autoptr(GPtrArray) none = vg_mover_bare(place->mover);
    assert_int_equal(none->len, 0);
}

static void
test_abort(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) migration = new_migration("vm1", 1);
    g_autoptr(GError) error = NULL;

    hold(VG_MOVE_MIGRATE);
    begin(place, migration);
    wait_until_held();
    g_autoptr(vg_migration) told = vg_mover_abort(place->mover, migration->id, NULL);
    assert_true(told->abort_asked);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    assert_int_equal(ended->state, VG_MIGRATION_ABORTED);
    assert_int_equal(facts_of(migration).gpu, VG_GPU_ATTACHED);
    assert_null(vg_mover_abort(place->mover, migration->id, &error));
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
}

/* A VM has one move at a time, and what is above `moves` waits for its turn. */
static void
test_queue(void **state)
{
    struct place *place = *state;
    const struct vg_mover_order order = {.request = "{}"};
    g_autoptr(vg_migration) first = new_migration("vm1", 1), second = new_migration("vm2", 2);
    g_autoptr(vg_migration) same = new_migration("vm1", 1), third = new_migration("vm3", 3);
    g_autoptr(GError) error = NULL;

    vg_mover_configure(place->mover, new_settings(1));
    hold(VG_MOVE_MIGRATE);
    begin(place, first);
    begin(place, second);
    begin(place, third);
    assert_non_null(second->waits_for);
    assert_int_equal(vg_mover_start(place->mover, same, &order, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_CONFLICT));
    vg_migration_free(vg_mover_abort(place->mover, third->id, NULL));
    wait_until_held();
    assert_false(was_done("vm2:"));
    hold(VG_MOVE_VERB_MAX);
    g_autoptr(vg_migration) ended = wait_for_end(place, first->id);
    g_autoptr(vg_migration) next = wait_for_end(place, second->id);
    g_autoptr(vg_migration) removed = wait_for_end(place, third->id);
    assert_int_equal(ended->state, VG_MIGRATION_DONE);
    assert_int_equal(next->state, VG_MIGRATION_DONE);
    assert_int_equal(removed->state, VG_MIGRATION_ABORTED);
    assert_false(was_done("vm3:"));
}

/* A vgpud that ends in the middle leaves the move to the next one, which finds out where the VM
 * is. */
static void
test_next_vgpud(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) first = new_migration("vm1", 1), second = new_migration("vm2", 2);

    vg_mover_configure(place->mover, new_settings(1));
    hold(VG_MOVE_MIGRATE);
    begin(place, first);
    begin(place, second);
    wait_until_held();
    stop(place);
    hold(VG_MOVE_VERB_MAX);
    place->moves = 1;
    start(place);
    g_autoptr(vg_migration) ended = wait_for_end(place, first->id);
    g_autoptr(vg_migration) next = wait_for_end(place, second->id);
    assert_int_equal(ended->state, VG_MIGRATION_ROLLED_BACK);
    assert_int_equal(facts_of(first).place, VG_PLACE_SOURCE);
    assert_int_equal(facts_of(first).gpu, VG_GPU_ATTACHED);
    assert_int_equal(next->state, VG_MIGRATION_DONE);
}

/* Has a vgpud begin that finds this move under way in the journal; returns who has begun it. */
static enum vg_migration_origin
origin_of(struct place *place, struct vg_migration *migration)
{
    assert_int_equal(vg_journal_begin_migration(place->journal, migration, NULL, NULL, NULL), 0);
    stop(place);
    start(place);
    g_autoptr(vg_migration) ended = wait_for_end(place, migration->id);
    return ended->begun_by;
}

/* A vgpud of an older version tells neither by whom the move was begun nor why TLS is used. */
static void
test_who_began_it_in_an_older_vgpud(void **state)
{
    struct place *place = *state;
    g_autoptr(vg_migration) old = new_migration("vm1", 1), person = new_migration("vm2", 2),
                            named = new_migration("vm3", 3);

    g_free(old->asked_by);
    old->asked_by = g_strdup("drain by uid:0");
    assert_int_equal(origin_of(place, old), VG_ORIGIN_DRAIN);
    assert_int_equal(origin_of(place, person), VG_ORIGIN_REQUEST);
    g_free(named->asked_by);
    named->asked_by = g_strdup("drain by uid:0");
    named->tls_why = g_strdup("both hosts have it");
    assert_int_equal(origin_of(place, named), VG_ORIGIN_REQUEST);
}

/* Many at once, while others list, read and abort them. */
static void
test_many(void **state)
{
    struct place *place = *state;
    g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func(g_free);

    for (int n = 0; n < 24; n++) {
        g_autofree char *vm = g_strdup_printf("vm%d", n);
        g_autoptr(vg_migration) migration = new_migration(vm, n);
        begin(place, migration);
        g_ptr_array_add(ids, g_strdup(migration->id));
        g_autoptr(GPtrArray) list =
            vg_mover_list(place->mover, true, INT64_MAX, 100, &(char *){NULL}, NULL);
        assert_non_null(list);
        g_ptr_array_unref(vg_mover_moving(place->mover));
        g_ptr_array_unref(vg_mover_bare(place->mover));
        if (n % 3 == 0)
            vg_migration_free(vg_mover_abort(place->mover, migration->id, NULL));
    }
    for (guint i = 0; i < ids->len; i++) {
        g_autoptr(vg_migration) ended = wait_for_end(place, ids->pdata[i]);
        assert_true(ended->state == VG_MIGRATION_DONE || ended->state == VG_MIGRATION_ABORTED);
        assert_int_equal(facts_of(ended).gpu, VG_GPU_ATTACHED);
        assert_int_equal(facts_of(ended).place == VG_PLACE_TARGET,
                         ended->state == VG_MIGRATION_DONE);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_done, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_goes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_program, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bare, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_abort, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_next_vgpud, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_began_it_in_an_older_vgpud, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
