/* SPDX-License-Identifier: Apache-2.0
 *
 * How far the emptying of a host is, and what becomes of each of its VMs.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "model/drain.h"
#include "model/gpu-target.h"
#include "policy/drain.h"

static struct vg_drain_vm *
add(vg_drain *drain, const char *name, enum vg_drain_step step, const char *to)
{
    struct vg_drain_vm *vm = vg_drain_add(drain, name, NULL);

    vm->step = step;
    vm->to = g_strdup(to);
    vm->seconds = 2;
    return vm;
}

static void
says_how_far_it_is(void **state)
{
    g_autoptr(vg_drain) drain = vg_drain_new();

    (void)state;
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_DONE);
    struct vg_drain_vm *vm = add(drain, "a", VG_DRAIN_WAITS, "h2");
    add(drain, "b", VG_DRAIN_MOVES, "h2");
    add(drain, "c", VG_DRAIN_MOVED, "h2");
    add(drain, "d", VG_DRAIN_STAYS, NULL);
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_RUNNING);
    assert_int_equal(drain->moved, 1);
    assert_int_equal(drain->left, 3);
    assert_float_equal(drain->eta_s, 4, 1e-9);
    vm->step = VG_DRAIN_MOVED;
    ((struct vg_drain_vm *)drain->vms->pdata[1])->step = VG_DRAIN_MOVED;
    vg_drain_settle(drain);
    assert_int_equal(drain->state, VG_DRAIN_BLOCKED);
    assert_int_equal(drain->left, 1);
}

/* Only what has no host now waits, and only while one that has left is still seen here. */
static void
waits_for_those_that_have_left(void **state)
{
    g_autoptr(vg_drain) drain = vg_drain_new();

    (void)state;
    const struct vg_drain_vm *none = add(drain, "a", VG_DRAIN_STAYS, NULL);
    const struct vg_drain_vm *failed = add(drain, "b", VG_DRAIN_STAYS, "h2");
    vg_drain_wait_for_moved(drain);
    assert_int_equal(none->step, VG_DRAIN_STAYS);
    const struct vg_drain_vm *left = add(drain, "c", VG_DRAIN_MOVED, "h2");
    vg_drain_wait_for_moved(drain);
    vg_drain_settle(drain);
    assert_int_equal(none->step, VG_DRAIN_WAITS);
    assert_int_equal(failed->step, VG_DRAIN_STAYS);
    assert_int_equal(left->step, VG_DRAIN_MOVED);
    assert_int_equal(drain->state, VG_DRAIN_RUNNING);
}

/* ---- judging ---- */

#define NOW_NS (1000 * VG_NS_PER_S)

static struct vg_gpu_target named_gpu = {(char *)"T4", (char *)"0000:41:00.0",
                                         (char *)"0000:42:00.0"};
static void *named_gpus[] = {&named_gpu};
static GPtrArray gpu_names = {named_gpus, G_N_ELEMENTS(named_gpus)};
static GPtrArray no_names = {NULL, 0};

static void
add_place(GPtrArray *places, const char *uuid, const char *to)
{
    struct vg_evacuation *place = g_new0(struct vg_evacuation, 1);

    place->gpus = to ? &gpu_names : &no_names;

    place->vm = place->uuid = (char *)uuid;
    place->to = (char *)to;
    place->reason = (char *)(to ? "it has room" : "no host has room");
    g_ptr_array_add(places, place);
}

static struct vg_migration *
add_move(GPtrArray *moves, const char *uuid, enum vg_migration_state state, int64_t made_ns)
{
    struct vg_migration *move = vg_migration_new();

    move->id = g_strdup_printf("move-%u", moves->len);
    move->vm = g_strdup(uuid);
    move->uuid = g_strdup(uuid);
    move->from = g_strdup("h1");
    move->to = g_strdup("h3");
    move->begun_by = VG_ORIGIN_DRAIN;
    move->state = state;
    move->made_ns = made_ns;
    move->ended_ns = made_ns + VG_NS_PER_S;
    g_ptr_array_add(moves, move);
    return move;
}

static const struct vg_drain_vm *
find(const vg_drain *drain, const char *uuid)
{
    for (guint i = 0; i < drain->vms->len; i++) {
        const struct vg_drain_vm *vm = drain->vms->pdata[i];
        if (g_strcmp0(vm->uuid, uuid) == 0)
            return vm;
    }
    fail_msg("there is no VM '%s'", uuid);
    return NULL;
}

static void
judges_each_vm(void **state)
{
    g_autoptr(GPtrArray) places = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GPtrArray) moves = g_ptr_array_new_with_free_func(vg_migration_free);
    g_autoptr(GHashTable) refusals = g_hash_table_new(g_str_hash, g_str_equal);
    struct vg_drain_refusal refusal = {(char *)"the guest refused", 0};
    const struct vg_drain_facts facts = {.host = "h1",
                                         .asked_by = "alice",
                                         .since_ns = NOW_NS / 2,
                                         .now_ns = NOW_NS,
                                         .places = places,
                                         .moves = moves,
                                         .refusals = refusals};

    (void)state;
    add_place(places, "waits", "h2");
    add_place(places, "placeless", NULL);
    add_place(places, "moves", "h2");
    add_place(places, "fails", "h2");
    add_place(places, "refused", "h2");
    add_move(moves, "moves", VG_MIGRATION_MIGRATING, NOW_NS - VG_NS_PER_S);
    for (int i = 0; i < 3; i++) {
        struct vg_migration *move = add_move(moves, "fails", VG_MIGRATION_FAILED, NOW_NS - i);
        move->cause = g_strdup(i == 0 ? "the last cause" : "an earlier one");
    }
    /* Failures before the drain, or of moves that others began, do not count. */
    for (int i = 0; i < 3; i++)
        add_move(moves, "waits", VG_MIGRATION_FAILED, NOW_NS / 4);
    for (int i = 0; i < 3; i++)
        add_move(moves, "waits", VG_MIGRATION_FAILED, NOW_NS)->begun_by = VG_ORIGIN_REQUEST;
    add_move(moves, "left", VG_MIGRATION_DONE, NOW_NS - VG_NS_PER_S);
    g_hash_table_insert(refusals, (char *)"refused", &refusal);
    g_autoptr(vg_drain) drain = vg_drain_judge(&facts);
    assert_int_equal(find(drain, "waits")->step, VG_DRAIN_WAITS);
    assert_string_equal(find(drain, "waits")->to, "h2");
    assert_int_equal(find(drain, "waits")->gpus->len, 1);
    const struct vg_gpu_target *gpu = find(drain, "waits")->gpus->pdata[0];
    assert_string_equal(gpu->to, "0000:42:00.0");
    /* Its move goes to another host, whose GPU is unknown. */
    assert_int_equal(find(drain, "moves")->gpus->len, 0);
    assert_int_equal(find(drain, "placeless")->step, VG_DRAIN_STAYS);
    assert_string_equal(find(drain, "placeless")->reason, "no host has room");
    assert_int_equal(find(drain, "moves")->step, VG_DRAIN_MOVES);
    assert_string_equal(find(drain, "moves")->to, "h3");
    assert_int_equal(find(drain, "fails")->step, VG_DRAIN_STAYS);
    assert_int_equal(find(drain, "fails")->tries, 3);
    assert_string_equal(find(drain, "fails")->reason,
                        "3 moves have failed, the last one: the last cause");
    assert_int_equal(find(drain, "refused")->step, VG_DRAIN_STAYS);
    assert_string_equal(find(drain, "refused")->reason, "the guest refused");
    assert_int_equal(find(drain, "left")->step, VG_DRAIN_MOVED);
    assert_int_equal(drain->moved, 1);
    assert_int_equal(drain->left, 5);
    assert_string_equal(drain->asked_by, "alice");
    assert_int_equal(drain->state, VG_DRAIN_RUNNING);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judges_each_vm),
        cmocka_unit_test(says_how_far_it_is),
        cmocka_unit_test(waits_for_those_that_have_left),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
