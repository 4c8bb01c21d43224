/* SPDX-License-Identifier: Apache-2.0
 *
 * Which moves start without a person: windows, limits, cooldowns, cycles, the error budget, waves,
 * groups and undos.
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
#include "policy/acts.h"
#include "policy/host-groups.h"

#define S      INT64_C(1000000000)
#define MINUTE (60 * S)
#define HOUR   (60 * MINUTE)
#define NOW    (1000000 * HOUR)
#define HOSTS  6
#define VMS    6

/* A cluster of hosts h0, h1, ..., with one VM each: v0 on h0, ... */
struct scene {
    struct vg_act_rules rules;
    struct vg_policy_config policy;
    struct vg_acts_facts facts;
    vg_snapshot *snapshot;
    vg_plan *plan;
    GPtrArray *moves; /* struct vg_migration */
    vg_acting *acting;
    GPtrArray *start;
};

static void
scene_add_action(struct scene *scene, int vm, int to, int64_t wave, int64_t group)
{
    const struct vg_snap_host *from = scene->snapshot->hosts->pdata[vm];
    struct vg_plan_action *action = vg_record_new(&vg_plan_action_record);

    action->vm = g_strdup_printf("v%d", vm);
    action->uuid = g_strdup_printf("00000000-0000-0000-0000-%012d", vm);
    action->from = g_strdup_printf("h%d", vm);
    action->to = g_strdup_printf("h%d", to);
    action->role = g_strdup("victim");
    action->reason.rule = g_strdup("complement");
    action->reason.text = g_strdup("because");
    action->wave = wave;
    action->group = group;
    action->facts.vm = vg_snap_vm_facts_hash(from, from->vms->pdata[0]);
    action->facts.from = vg_snap_host_facts_hash(from);
    action->facts.to = vg_snap_host_facts_hash(scene->snapshot->hosts->pdata[to]);
    g_ptr_array_add(scene->plan->actions, action);
}

static vg_snapshot *
scene_snapshot(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_LIVE);

    for (int i = 0; i < HOSTS; i++) {
        g_autofree char *host_name = g_strdup_printf("h%d", i);
        g_autofree char *vm_name = g_strdup_printf("v%d", i);
        struct vg_snap_host *host = vg_snapshot_add_host(snapshot, host_name);
        struct vg_snap_vm *vm = vg_snap_host_add_vm(host, vm_name);
        host->cpus = 4;
        host->takes_acts = true;
        host->own_known = true;
        vm->uuid = g_strdup_printf("00000000-0000-0000-0000-%012d", i);
        vm->vcpus = 1;
    }
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

static struct scene *
scene_new(void)
{
    struct scene *scene = g_new0(struct scene, 1);

    scene->rules = (struct vg_act_rules){.mode = VG_POLICY_ACT,
                                         .moves = 10,
                                         .moves_per_host = 1,
                                         .moves_per_target = 1,
                                         .cooldown_ns = 10 * MINUTE,
                                         .error_budget = 2};
    vg_policy_config_init(&scene->policy);
    scene->snapshot = scene_snapshot();
    scene->plan = vg_plan_new();
    scene->plan->id = g_strdup("plan-0123456789abcdef");
    scene->plan->input_hash = g_strdup("0123");
    scene->plan->config_hash = g_strdup("4567");
    scene->plan->rule = g_strdup("complement");
    scene->plan->verdict = VG_PLAN_CHANGES;
    scene->moves = g_ptr_array_new_with_free_func(vg_migration_free);
    scene->acting = vg_record_new(&vg_acting_record);
    scene->start = g_ptr_array_new();
    scene->facts = (struct vg_acts_facts){.rules = &scene->rules,
                                          .policy = &scene->policy,
                                          .now_ns = NOW,
                                          .moves = scene->moves,
                                          .snapshot = scene->snapshot,
                                          .plan = scene->plan};
    return scene;
}

static void
scene_free(struct scene *scene)
{
    vg_snapshot_free(scene->snapshot);
    vg_plan_free(scene->plan);
    g_ptr_array_unref(scene->moves);
    vg_acting_free(scene->acting);
    g_ptr_array_unref(scene->start);
    g_free(scene);
}

/* Returns the number of moves that start. */
static unsigned
scene_step(struct scene *scene)
{
    g_ptr_array_set_size(scene->start, 0);
    vg_acts_step(&scene->facts, scene->acting, scene->start);
    return scene->start->len;
}

static unsigned
scene_take(struct scene *scene)
{
    return vg_acts_take(&scene->facts, scene->plan, "act-1", scene->acting);
}

static const struct vg_act_move *
scene_act(const struct scene *scene, guint i)
{
    assert_true(i < scene->acting->moves->len);
    return scene->acting->moves->pdata[i];
}

/* Adds a move of the past, or one under way. */
static struct vg_migration *
scene_add_move(struct scene *scene, int vm, int from, int to, int64_t made_ns,
               enum vg_migration_state state)
{
    struct vg_migration *move = vg_migration_new();

    move->id = g_strdup_printf("move-%016u", scene->moves->len);
    move->vm = g_strdup_printf("v%d", vm);
    move->uuid = g_strdup_printf("00000000-0000-0000-0000-%012d", vm);
    move->from = g_strdup_printf("h%d", from);
    move->to = g_strdup_printf("h%d", to);
    move->made_ns = made_ns;
    move->state = state;
    if (vg_migration_has_ended(state))
        move->ended_ns = made_ns + MINUTE;
    g_ptr_array_add(scene->moves, move);
    return move;
}

/* Adds the record of a move that was started. */
static struct vg_migration *
scene_follow(struct scene *scene, guint i, enum vg_migration_state state)
{
    const struct vg_act_move *act = scene_act(scene, i);
    struct vg_migration *move = scene_add_move(scene, act->vm[1] - '0', act->from[1] - '0',
                                               act->to[1] - '0', scene->facts.now_ns, state);

    move->ended_ns = vg_migration_has_ended(state) ? scene->facts.now_ns : 0;
    move->act = g_strdup(act->act);
    move->undo_of = g_strdup(act->undo_of);
    return move;
}

static void
assert_waits(const struct scene *scene, guint i, const char *why)
{
    const struct vg_act_move *move = scene_act(scene, i);

    assert_int_equal(move->step, VG_ACT_WAITS);
    if (!move->why || !strstr(move->why, why))
        fail_msg("it waits for '%s', not for '%s'", move->why ? move->why : "", why);
}

static void
assert_step(const struct scene *scene, guint i, enum vg_act_step step, const char *why)
{
    const struct vg_act_move *move = scene_act(scene, i);

    if (move->step != step)
        fail_msg("%s is %s: %s", move->vm, vg_act_step_names[move->step],
                 move->why ? move->why : "");
    if (why && (!move->why || !strstr(move->why, why)))
        fail_msg("'%s', not '%s'", move->why ? move->why : "", why);
}

/* ---- windows ---- */

static void
test_windows(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int minute, left;
    } good[] = {
        {"", 0, VG_WEEK_MINUTES},
        {"22:00-05:00", 4 * 60 + 59, 1},
        {"22:00-05:00", 5 * 60, 0},
        {"22:00-05:00", 21 * 60 + 59, 0},
        {"22:00-05:00", 22 * 60, 7 * 60},
        /* The night that begins on Friday ends on Saturday. The one to Monday does not count. */
        {"Mo-Fr 22:00-05:00", 5 * VG_DAY_MINUTES + 60, 4 * 60},
        {"Mo-Fr 22:00-05:00", 60, 0},
        {"Mo-Fr 22:00-05:00", 5 * VG_DAY_MINUTES + 23 * 60, 0},
        {"Sa-Mo 00:00-24:00", 5 * VG_DAY_MINUTES, 3 * VG_DAY_MINUTES},
        {"Su 23:00-01:00, We 12:00-12:30", 30, 30},
        {"Su 23:00-01:00, We 12:00-12:30", 2 * VG_DAY_MINUTES + 12 * 60 + 10, 20},
        {"00:00-24:00", 17, VG_WEEK_MINUTES},
    };
    static const char *const bad[] = {
        "Mo",           "Xx 22:00-05:00",    "22:00",       "22:00-25:00",
        "22:60-23:00",  "24:00-05:00",       "22:00-22:00", "Mo-Tu-We 1:00-2:00",
        "22:00-05:00,", "Mo Fr 22:00-05:00", "22-5"};
    struct vg_act_window window;

    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        assert_int_equal(vg_act_window_parse(good[i].text, &window, NULL), 0);
        if (vg_act_window_left(&window, good[i].minute) != good[i].left)
            fail_msg("'%s' at %d: %d", good[i].text, good[i].minute,
                     vg_act_window_left(&window, good[i].minute));
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        if (vg_act_window_parse(bad[i], &window, &error) == 0)
            fail_msg("'%s' is no window", bad[i]);
        assert_non_null(strstr(error->message, "is not a period such as"));
    }
}

static void
test_a_closed_window(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    assert_int_equal(vg_act_window_parse("22:00-23:00", &scene->rules.window, NULL), 0);
    scene_add_action(scene, 0, 1, 1, 1);
    scene->facts.minute_of_week = 21 * 60;
    assert_int_equal(scene_take(scene), 1);
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "act_window");
    assert_false(scene->acting->acts);
    /* It may not start later than the window closes: 30 s before that. */
    scene->facts.minute_of_week = 22 * 60 + 59;
    scene->facts.now_ns += 30 * S;
    assert_int_equal(scene_step(scene), 1);
    assert_true(scene_act(scene, 0)->until_ns == scene->facts.now_ns + 30 * S);
    scene_free(scene);
}

/* ---- limits ---- */

static void
test_limits(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene->rules.moves = 2;
    for (int i = 0; i < 3; i++)
        scene_add_action(scene, i, i + 3, 1, i + 1);
    assert_int_equal(scene_take(scene), 3);
    assert_int_equal(scene_step(scene), 2);
    assert_waits(scene, 2, "act_moves allows");
    /* One is done; the other one counts although its source has no record of it yet. */
    scene_follow(scene, 0, VG_MIGRATION_DONE);
    assert_int_equal(scene_step(scene), 1);
    scene_free(scene);
}

static void
test_limits_of_hosts(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 3, 1, 1);
    scene_add_action(scene, 1, 3, 1, 2);
    assert_int_equal(scene_take(scene), 2);
    assert_int_equal(scene_step(scene), 1);
    assert_waits(scene, 1, "act_moves_per_host");
    scene->rules.moves_per_host = 2;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 1, "act_moves_per_target");
    scene->rules.moves_per_target = 2;
    g_strlcpy(scene->policy.host_groups[0].name, "rack", 5);
    g_strlcpy(scene->policy.host_groups[0].match, "h1 h3", 6);
    scene->policy.host_groups[0].act_moves = 1;
    scene->policy.n_host_groups = 1;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 1, "[hosts rack]");
    scene->policy.host_groups[0].act_moves = 0;
    /* A person's move counts, too. */
    scene->rules.moves = 2;
    scene_add_move(scene, 5, 5, 4, NOW, VG_MIGRATION_MIGRATING);
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 1, "act_moves allows");
    scene_free(scene);
}

/* ---- the past ---- */

static void
test_cooldown(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    unsigned n;

    scene_add_action(scene, 0, 1, 1, 1);
    /* It ended nine minutes ago. */
    scene_add_move(scene, 0, 5, 0, NOW - 10 * MINUTE, VG_MIGRATION_ROLLED_BACK);
    assert_int_equal(scene_take(scene), 0);
    scene->facts.now_ns += MINUTE;
    assert_int_equal(scene_take(scene), 1);
    /* With each further move it doubles, up to a day; after a week it is forgotten. */
    for (int i = 0; i < 2; i++)
        scene_add_move(scene, 0, 4, 0, NOW - HOUR - i * HOUR, VG_MIGRATION_FAILED);
    assert_true(vg_acts_cooldown(&scene->facts, scene_act(scene, 0)->uuid, &n) == 40 * MINUTE);
    assert_int_equal(n, 3);
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "3 times in the last 7 days; the next");
    for (int i = 0; i < 12; i++)
        scene_add_move(scene, 0, 4, 0, NOW - HOUR - i * HOUR, VG_MIGRATION_FAILED);
    assert_true(vg_acts_cooldown(&scene->facts, scene_act(scene, 0)->uuid, &n) == 24 * HOUR);
    scene->facts.now_ns += VG_ACT_PAST_NS + HOUR;
    assert_true(vg_acts_cooldown(&scene->facts, scene_act(scene, 0)->uuid, &n) == 10 * MINUTE);
    scene_free(scene);
}

static void
test_cycles(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_move(scene, 0, 1, 0, NOW - 71 * HOUR, VG_MIGRATION_DONE);
    assert_int_equal(scene_take(scene), 0);
    scene->facts.now_ns += 2 * HOUR;
    assert_int_equal(scene_take(scene), 1);
    assert_int_equal(scene_step(scene), 1);
    scene_free(scene);
}

static void
test_error_budget(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    struct vg_migration *failed = scene_add_move(scene, 2, 2, 3, NOW - HOUR, VG_MIGRATION_FAILED);
    failed->act = g_strdup("act-0/1");
    /* Moves of people do not count, nor those that never began. */
    scene_add_move(scene, 3, 2, 3, NOW - HOUR, VG_MIGRATION_FAILED);
    struct vg_migration *never = scene_add_move(scene, 5, 2, 3, NOW - HOUR, VG_MIGRATION_FAILED);
    never->act = g_strdup("act-0/2");
    never->not_started = true;
    assert_int_equal(scene_take(scene), 1);
    scene_step(scene);
    assert_int_equal(scene->acting->errors, 1);
    assert_true(scene->acting->acts);
    /* One that hangs for an hour counts. */
    scene_add_move(scene, 4, 4, 5, NOW - HOUR - S, VG_MIGRATION_MIGRATING)->act =
        g_strdup("act-0/3");
    scene_add_action(scene, 1, 2, 1, 2);
    scene_follow(scene, 0, VG_MIGRATION_DONE);
    scene_step(scene);
    assert_int_equal(scene->acting->errors, 2);
    assert_false(scene->acting->acts);
    assert_true(scene->acting->spent);
    /* The journal of a failed host is missing: its error is not forgotten for a day. */
    failed->state = VG_MIGRATION_DONE;
    scene_step(scene);
    assert_int_equal(scene->acting->errors, 1);
    assert_true(scene->acting->spent);
    /* A person says that this is settled, also for what still hangs. */
    scene->facts.resumed_ns = NOW;
    scene_step(scene);
    assert_int_equal(scene->acting->errors, 0);
    assert_true(scene->acting->acts);
    /* What hangs for an hour only after that counts. */
    scene->facts.now_ns = NOW + HOUR + S;
    scene_add_move(scene, 5, 5, 4, NOW, VG_MIGRATION_MIGRATING)->act = g_strdup("act-0/4");
    scene_step(scene);
    assert_int_equal(scene->acting->errors, 1);
    scene_free(scene);
}

/* The clock of the host that received the request does not matter. */
static void
test_resume(void **state)
{
    (void)state;
    vg_acting *acting = vg_record_new(&vg_acting_record);
    struct vg_act_mark mark = {(char *)"uid:0", NOW - 10 * MINUTE};

    vg_acts_note_resume(acting, NULL, 0, NOW);
    assert_int_equal(acting->resumed_ns, 0);
    vg_acts_note_resume(acting, &mark, 7, NOW);
    assert_true(acting->resumed_ns == NOW);
    vg_acts_note_resume(acting, &mark, 7, NOW + HOUR);
    assert_true(acting->resumed_ns == NOW);
    mark.at_ns = NOW - 5 * HOUR;
    vg_acts_note_resume(acting, &mark, 8, NOW + HOUR);
    assert_true(acting->resumed_ns == NOW + HOUR);
    /* After an upgrade, a request of days ago does not count as a new one. */
    acting->resume_revision = 0;
    vg_acts_note_resume(acting, &mark, 8, NOW + HOUR);
    assert_true(acting->resumed_ns == NOW - 5 * HOUR);
    vg_acting_free(acting);
}

/* ---- doubts ---- */

static void
test_doubts(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_snap_host *to = scene->snapshot->hosts->pdata[1];

    scene_add_action(scene, 0, 1, 1, 1);
    assert_int_equal(scene_take(scene), 1);
    scene->facts.unknown = "the moves of host 'h4' are unknown: it is away";
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "the moves of host 'h4'");
    assert_string_equal(scene->acting->why, scene->facts.unknown);
    scene->facts.unknown = NULL;
    scene->facts.stopped = "'uid:0' has paused automatic moves";
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "paused");
    scene->facts.stopped = NULL;
    scene->facts.snapshot = NULL;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "state of the hosts is unknown");
    scene->facts.snapshot = scene->snapshot;
    to->age_ns = 61 * S;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "the figures of host 'h1' are 61 s old");
    to->age_ns = 0;
    to->takes_acts = false;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "is too old for automatic moves");
    to->takes_acts = true;
    to->own_known = false;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "the CPU time that host 'h1' itself uses is unknown");
    to->own_known = true;
    scene_add_move(scene, 0, 0, 3, NOW, VG_MIGRATION_PENDING);
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "automatic move is possible");
    scene_free(scene);
}

static void
test_drift(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_snap_host *to = scene->snapshot->hosts->pdata[1];

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_action(scene, 2, 3, 2, 2);
    assert_int_equal(scene_take(scene), 2);
    to->cpus = 5;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "make a new plan");
    assert_step(scene, 1, VG_ACT_DROPPED, "earlier wave");
    scene_free(scene);
}

static void
test_modes(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_snap_vm *vm =
        ((struct vg_snap_host *)scene->snapshot->hosts->pdata[0])->vms->pdata[0];
    struct vg_host_group *group = &scene->policy.host_groups[0];

    scene_add_action(scene, 0, 1, 1, 1);
    vm->policy = VG_POLICY_PROPOSE;
    assert_int_equal(scene_take(scene), 0);
    vm->policy = VG_POLICY_UNSET;
    /* The more careful mode of both hosts counts. */
    g_strlcpy(group->match, "h1", 3);
    group->mode = VG_POLICY_PROPOSE;
    scene->policy.n_host_groups = 1;
    assert_int_equal(scene_take(scene), 0);
    vm->policy = VG_POLICY_ACT;
    assert_int_equal(scene_take(scene), 1);
    vg_record_truncate(&vg_act_move_record, scene->acting->moves, 0);
    group->mode = VG_POLICY_OBSERVE;
    assert_int_equal(scene_take(scene), 0);
    scene_free(scene);
}

/* ---- waves and groups ---- */

static void
test_waves(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_action(scene, 2, 3, 2, 2);
    scene_add_action(scene, 4, 5, 3, 3);
    assert_int_equal(scene_take(scene), 3);
    assert_int_equal(scene_step(scene), 1);
    assert_waits(scene, 1, "'v0' must come first");
    struct vg_migration *first = scene_follow(scene, 0, VG_MIGRATION_MIGRATING);
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_MOVING, NULL);
    first->state = VG_MIGRATION_DONE;
    first->ended_ns = NOW;
    assert_int_equal(scene_step(scene), 1);
    assert_string_equal(((const struct vg_act_move *)scene->start->pdata[0])->vm, "v2");
    scene_follow(scene, 1, VG_MIGRATION_ROLLED_BACK)->cause = g_strdup("the target is full");
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 1, VG_ACT_FAILED, "the target is full");
    assert_step(scene, 2, VG_ACT_DROPPED, "earlier wave");
    assert_false(vg_acting_is_busy(scene->acting));
    scene_free(scene);
}

/* Of a swap, the second move fails. */
static void
test_half_a_group(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_action(scene, 1, 0, 2, 1);
    ((struct vg_plan_action *)scene->plan->actions->pdata[0])->undo_partial = true;
    assert_int_equal(scene_take(scene), 2);
    assert_int_equal(scene_step(scene), 1);
    scene_follow(scene, 0, VG_MIGRATION_DONE);
    assert_int_equal(scene_step(scene), 1);
    scene_follow(scene, 1, VG_MIGRATION_ROLLED_BACK);
    /* The VM is on its target by now. */
    struct vg_snap_host *h0 = scene->snapshot->hosts->pdata[0],
                        *h1 = scene->snapshot->hosts->pdata[1];
    g_ptr_array_add(h1->vms, g_ptr_array_steal_index(h0->vms, 0));
    scene->facts.now_ns += S;
    assert_int_equal(scene_step(scene), 1);
    const struct vg_act_move *undo = scene->start->pdata[0];
    assert_string_equal(undo->vm, "v0");
    assert_string_equal(undo->from, "h1");
    assert_string_equal(undo->to, "h0");
    assert_string_equal(undo->undo_of, scene_act(scene, 0)->move);
    scene_free(scene);
}

/* Of a swap, the second move is dropped in the step in which nothing else is left to do. */
static void
test_half_a_group_is_dropped(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_snap_host *h0 = scene->snapshot->hosts->pdata[0],
                        *h1 = scene->snapshot->hosts->pdata[1];

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_action(scene, 1, 0, 2, 1);
    ((struct vg_plan_action *)scene->plan->actions->pdata[0])->undo_partial = true;
    assert_int_equal(scene_take(scene), 2);
    assert_int_equal(scene_step(scene), 1);
    scene_follow(scene, 0, VG_MIGRATION_DONE);
    g_ptr_array_add(h1->vms, g_ptr_array_steal_index(h0->vms, 0));
    h0->cpus = 5;
    /* Another plan could be taken as soon as nothing is busy. The reversal prevents that. */
    assert_int_equal(scene_step(scene), 1);
    assert_step(scene, 1, VG_ACT_DROPPED, "make a new plan");
    assert_step(scene, 2, VG_ACT_STARTING, NULL);
    assert_string_equal(scene_act(scene, 2)->undo_of, scene_act(scene, 0)->move);
    assert_true(vg_acting_is_busy(scene->acting));
    scene_free(scene);
}

static void
test_a_group_that_may_not_start(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    scene_add_action(scene, 1, 0, 1, 1);
    /* It relies on what would have left h1. */
    scene_add_action(scene, 2, 1, 1, 2);
    scene_add_action(scene, 4, 5, 1, 3);
    scene_add_move(scene, 1, 3, 1, NOW - 2 * MINUTE, VG_MIGRATION_DONE);
    assert_int_equal(scene_take(scene), 1);
    assert_string_equal(scene_act(scene, 0)->vm, "v4");
    assert_non_null(strstr(scene->acting->plan, "\"v4\""));
    assert_null(strstr(scene->acting->plan, "\"v2\""));
    scene_free(scene);
}

/* v1 rests, but that makes neither h1 nor h2 worse for others. */
static void
test_a_group_that_does_not_need_another(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 1, 2, 1, 1);
    scene_add_action(scene, 3, 2, 1, 2);
    /* v2 makes room for v1 on h2. */
    scene_add_action(scene, 2, 4, 1, 3);
    scene_add_move(scene, 1, 3, 1, NOW - 2 * MINUTE, VG_MIGRATION_DONE);
    assert_int_equal(scene_take(scene), 1);
    assert_string_equal(scene_act(scene, 0)->vm, "v3");
    scene_free(scene);
}

/* The document of a long plan has room for what happens later. */
static void
test_a_long_plan(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    g_autofree char *name = g_strnfill(20000, 'x');

    for (int vm = 0; vm < 3; vm++) {
        struct vg_plan_action *action;
        scene_add_action(scene, vm, vm + 3, 1, vm + 1);
        action = scene->plan->actions->pdata[vm];
        g_free(action->reason.text);
        action->reason.text = g_strndup(name, vm == 2 ? 4000 : 14000);
    }
    assert_int_equal(scene_take(scene), 2);
    g_autoptr(json_object) object = vg_record_write(&vg_acting_record, scene->acting);
    g_autofree char *text = vg_json_to_text(object, false);
    assert_in_range(strlen(text), 28000, VG_ACTING_TAKE_BYTES);
    assert_null(strstr(scene->acting->plan, "\"v2\""));
    /* One move that is too long by itself does not take place. */
    g_free(((struct vg_plan_action *)scene->plan->actions->pdata[0])->reason.text);
    ((struct vg_plan_action *)scene->plan->actions->pdata[0])->reason.text =
        g_strnfill(VG_ACTING_TAKE_BYTES, 'x');
    assert_int_equal(scene_take(scene), 0);
    assert_int_equal(scene_step(scene), 0);
    scene_free(scene);
}

static void
test_one_that_is_lost(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    assert_int_equal(scene_take(scene), 1);
    assert_int_equal(scene_step(scene), 1);
    /* The order may not have reached the source. It is repeated, but not while moves are paused. */
    scene->facts.now_ns += S;
    assert_int_equal(scene_step(scene), 1);
    scene->facts.stopped = "'uid:0' has paused automatic moves";
    assert_int_equal(scene_step(scene), 0);
    scene->facts.stopped = NULL;
    /* The source can still have received it: only later is the move dropped. */
    scene->facts.now_ns = scene_act(scene, 0)->until_ns + 29 * S;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_STARTING, NULL);
    scene->facts.now_ns += 2 * S;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "has not started the move");
    scene_free(scene);
}

/* ---- undoing ---- */

static void
test_undo(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_migration *worse = scene_add_move(scene, 1, 0, 1, NOW - HOUR, VG_MIGRATION_DONE);

    worse->act = g_strdup("act-0/1");
    worse->verdict.result = VG_VERDICT_WORSE;
    worse->verdict.judged_ns = NOW - MINUTE;
    scene->rules.error_budget = 1;
    /* It takes place although the error budget is spent. */
    assert_int_equal(scene_step(scene), 1);
    assert_true(scene->acting->spent);
    assert_string_equal(scene_act(scene, 0)->from, "h1");
    assert_string_equal(scene_act(scene, 0)->to, "h0");
    assert_string_equal(scene_act(scene, 0)->undo_of, worse->id);
    struct vg_migration *undo = scene_follow(scene, 0, VG_MIGRATION_DONE);
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DONE, NULL);
    /* Once: also if what another move made worse would be undone within a day. */
    undo->made_ns = NOW - 23 * HOUR;
    undo->ended_ns = NOW - 23 * HOUR;
    worse->made_ns = NOW - 22 * HOUR;
    worse->ended_ns = NOW - 22 * HOUR;
    vg_record_truncate(&vg_act_move_record, scene->acting->moves, 0);
    g_free(undo->act);
    undo->act = g_strdup("undo/move-other");
    assert_int_equal(scene_step(scene), 0);
    assert_int_equal(scene->acting->moves->len, 0);
    undo->made_ns = NOW - 25 * HOUR;
    undo->ended_ns = NOW - 25 * HOUR;
    assert_int_equal(scene_step(scene), 1);
    scene_free(scene);
}

static void
test_no_undo(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_migration *worse = scene_add_move(scene, 1, 0, 1, NOW - HOUR, VG_MIGRATION_DONE);

    /* A person's move is the person's business. */
    worse->verdict.result = VG_VERDICT_WORSE;
    assert_int_equal(scene_step(scene), 0);
    worse->act = g_strdup("act-0/1");
    /* The VM has been moved since then. */
    struct vg_migration *later = scene_add_move(scene, 1, 1, 2, NOW - MINUTE, VG_MIGRATION_DONE);
    assert_int_equal(scene_step(scene), 0);
    assert_int_equal(scene->acting->moves->len, 0);
    later->made_ns = NOW - 2 * HOUR;
    later->ended_ns = NOW - 2 * HOUR;
    scene->facts.stopped = "paused";
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "paused");
    scene_free(scene);
}

/* Moves that left the VM where it was do not prevent its reversal. */
static void
test_undo_after_moves_without_effect(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    struct vg_migration *worse = scene_add_move(scene, 1, 0, 1, NOW - HOUR, VG_MIGRATION_DONE);
    struct vg_migration *later = scene_add_move(scene, 1, 1, 2, NOW - MINUTE, VG_MIGRATION_FAILED);

    worse->act = g_strdup("act-0/1");
    worse->verdict.result = VG_VERDICT_WORSE;
    assert_int_equal(scene_step(scene), 0);
    assert_int_equal(scene->acting->moves->len, 0);
    /* It may have ended on both hosts. */
    later->state = VG_MIGRATION_ROLLED_BACK;
    later->vm_on = VG_PLACE_BOTH;
    assert_int_equal(scene_step(scene), 0);
    assert_int_equal(scene->acting->moves->len, 0);
    static const struct {
        enum vg_migration_state state;
        enum vg_migration_place vm_on;
        bool not_started;
    } without[] = {{VG_MIGRATION_FAILED, VG_PLACE_UNKNOWN, true},
                   {VG_MIGRATION_FAILED, VG_PLACE_SOURCE, false},
                   {VG_MIGRATION_ABORTED, VG_PLACE_UNKNOWN, false},
                   {VG_MIGRATION_ROLLED_BACK, VG_PLACE_UNKNOWN, false}};
    for (size_t i = 0; i < G_N_ELEMENTS(without); i++) {
        later->state = without[i].state;
        later->vm_on = without[i].vm_on;
        later->not_started = without[i].not_started;
        vg_record_truncate(&vg_act_move_record, scene->acting->moves, 0);
        assert_int_equal(scene_step(scene), 1);
        assert_string_equal(scene_act(scene, 0)->undo_of, worse->id);
    }
    scene_free(scene);
}

/* A cluster where a move of v1 from h0 to h1 has made things worse. */
static struct scene *
scene_new_worse(void)
{
    struct scene *scene = scene_new();
    struct vg_migration *worse = scene_add_move(scene, 1, 0, 1, NOW - HOUR, VG_MIGRATION_DONE);

    worse->act = g_strdup("act-0/1");
    worse->verdict.result = VG_VERDICT_WORSE;
    return scene;
}

/* A reversal that did not start is attempted again, later and later, under another name. */
static void
test_undo_again(void **state)
{
    (void)state;
    struct scene *scene = scene_new_worse();

    /* The order is lost. */
    assert_int_equal(scene_step(scene), 1);
    scene->facts.now_ns += 2 * MINUTE;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "has not started the move");
    scene->facts.now_ns += 3 * MINUTE;
    assert_int_equal(scene_step(scene), 1);
    assert_int_equal(scene->acting->moves->len, 1);
    assert_string_equal(scene_act(scene, 0)->act, "undo/move-0000000000000000/2");
    /* The source refuses the second one. */
    vg_acts_refuse(scene->acting->moves->pdata[0], "its request cannot be read");
    scene->facts.now_ns += 9 * MINUTE;
    assert_int_equal(scene_step(scene), 0);
    scene->facts.now_ns += MINUTE;
    assert_int_equal(scene_step(scene), 1);
    /* The third one leaves the source's queue. Meanwhile, the leader has lost its list. */
    struct vg_migration *third = scene_follow(scene, 0, VG_MIGRATION_FAILED);
    third->not_started = true;
    scene->facts.now_ns += 20 * MINUTE - S;
    vg_record_truncate(&vg_act_move_record, scene->acting->moves, 0);
    assert_int_equal(scene_step(scene), 0);
    scene->facts.now_ns += S;
    assert_int_equal(scene_step(scene), 1);
    assert_string_equal(scene_act(scene, 0)->act, "undo/move-0000000000000000/4");
    /* One that has started is the last one. */
    scene_follow(scene, 0, VG_MIGRATION_ROLLED_BACK);
    assert_int_equal(scene_step(scene), 0);
    scene->facts.now_ns += 5 * HOUR;
    assert_int_equal(scene_step(scene), 0);
    assert_int_equal(scene->acting->moves->len, 1);
    scene_free(scene);
}

static void
test_undo_without_end(void **state)
{
    (void)state;
    struct scene *scene = scene_new_worse();
    unsigned n = 0;

    for (int i = 0; i < 24 * 60; i++) {
        scene->facts.now_ns += MINUTE;
        n += scene_step(scene);
        if (scene->start->len > 0)
            vg_acts_refuse(scene->start->pdata[0], "not now");
    }
    assert_int_equal(n, 8);
    scene_free(scene);
}

/* What may pass only delays a reversal. */
static void
test_undo_waits(void **state)
{
    (void)state;
    struct scene *scene = scene_new_worse();
    struct vg_snap_host *h0 = scene->snapshot->hosts->pdata[0],
                        *h1 = scene->snapshot->hosts->pdata[1];
    struct vg_snap_vm *vm = h1->vms->pdata[0];

    vm->problem = g_strdup("its counters are damaged");
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "its counters are damaged");
    g_clear_pointer(&vm->problem, g_free);
    h0->maintenance = true;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "host 'h0' is in maintenance");
    h0->maintenance = false;
    scene->rules.mode = VG_POLICY_PROPOSE;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "is 'propose'");
    scene->rules.mode = VG_POLICY_ACT;
    assert_int_equal(scene_step(scene), 1);
    scene_free(scene);
}

/* A reversal waits for a period. In the meantime, its VM is deleted, and a plan is carried out. */
static void
test_undo_of_a_deleted_vm(void **state)
{
    (void)state;
    struct scene *scene = scene_new_worse();
    struct vg_snap_host *h1 = scene->snapshot->hosts->pdata[1];

    assert_int_equal(vg_act_window_parse("22:00-23:00", &scene->rules.window, NULL), 0);
    scene->facts.minute_of_week = 21 * 60;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "act_window");
    assert_true(vg_acting_is_busy(scene->acting));
    assert_false(vg_acting_is_blocked(scene->acting));
    struct vg_snap_vm *vm = g_ptr_array_steal_index(h1->vms, 0);
    scene->facts.minute_of_week = 22 * 60;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "'v1' is currently not on a known host");
    /* The plan has a move in the second wave, too. */
    scene_add_action(scene, 2, 3, 1, 1);
    scene_add_action(scene, 4, 5, 2, 2);
    assert_int_equal(scene_take(scene), 2);
    assert_int_equal(scene->acting->moves->len, 3);
    assert_string_equal(scene_act(scene, 0)->vm, "v1");
    assert_int_equal(scene_step(scene), 1);
    scene_follow(scene, 1, VG_MIGRATION_DONE);
    assert_int_equal(scene_step(scene), 1);
    assert_string_equal(((const struct vg_act_move *)scene->start->pdata[0])->vm, "v4");
    scene_follow(scene, 2, VG_MIGRATION_DONE);
    /* What is missing only for a moment is not dropped. */
    g_ptr_array_add(h1->vms, vm);
    scene->rules.moves = 0;
    scene->facts.now_ns += 4 * MINUTE;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "act_moves allows");
    g_ptr_array_steal_index(h1->vms, 0);
    scene->facts.now_ns += 2 * MINUTE;
    assert_int_equal(scene_step(scene), 0);
    scene->facts.now_ns += 5 * MINUTE;
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "not on a known host");
    scene->facts.now_ns += S;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "not on a known host");
    assert_false(vg_acting_is_busy(scene->acting));
    /* If it was only away for longer, the reversal takes place. */
    g_ptr_array_add(h1->vms, vm);
    scene->rules.moves = 10;
    scene->facts.now_ns += 5 * MINUTE;
    assert_int_equal(scene_step(scene), 1);
    assert_string_equal(((const struct vg_act_move *)scene->start->pdata[0])->vm, "v1");
    scene_free(scene);
}

/* The host of a move leaves the cluster. */
static void
test_a_missing_host(void **state)
{
    (void)state;
    struct scene *scene = scene_new();

    scene_add_action(scene, 0, 1, 1, 1);
    assert_int_equal(scene_take(scene), 1);
    g_free(((struct vg_act_move *)scene->acting->moves->pdata[0])->to);
    ((struct vg_act_move *)scene->acting->moves->pdata[0])->to = g_strdup("h9");
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "state of host 'h9' is unknown");
    /* It may be back when all moves are known again. */
    scene->facts.now_ns += 6 * MINUTE;
    scene->facts.unknown = "the moves of host 'h9' are unknown";
    assert_int_equal(scene_step(scene), 0);
    assert_waits(scene, 0, "the moves of host 'h9'");
    scene->facts.unknown = NULL;
    assert_int_equal(scene_step(scene), 0);
    assert_step(scene, 0, VG_ACT_DROPPED, "state of host 'h9' is unknown");
    scene_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_a_closed_window),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_limits_of_hosts),
        cmocka_unit_test(test_cooldown),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_error_budget),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_doubts),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_half_a_group),
        cmocka_unit_test(test_half_a_group_is_dropped),
        cmocka_unit_test(test_a_group_that_may_not_start),
        cmocka_unit_test(test_a_group_that_does_not_need_another),
        cmocka_unit_test(test_a_long_plan),
        cmocka_unit_test(test_one_that_is_lost),
        cmocka_unit_test(test_undo),
        cmocka_unit_test(test_no_undo),
        cmocka_unit_test(test_undo_after_moves_without_effect),
        cmocka_unit_test(test_undo_again),
        cmocka_unit_test(test_undo_without_end),
        cmocka_unit_test(test_undo_waits),
        cmocka_unit_test(test_undo_of_a_deleted_vm),
        cmocka_unit_test(test_a_missing_host),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
