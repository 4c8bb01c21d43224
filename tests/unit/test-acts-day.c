/* SPDX-License-Identifier: Apache-2.0
 *
 * A day on which VMs move without a person: the real policy and the real journal, and a simulated
 * executor of whose moves one in ten fails and one in twenty hangs. A checker that knows only what
 * the executor did verifies that no VM moves while it rests, that none returns to a host that it
 * left, and that no limit, no window and no error budget is exceeded. Three hours after the budget
 * was spent, a person allows moves again. The leader changes each hour, and the journal is
 * reopened: all that is left is what the journal and etcd would have.
 *
 * Full runs have 100 hosts, and more plans and checks. Nearly all of the time is spent on plans.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib/gstdio.h>

#include "base/json.h"
#include "journal/journal.h"
#include "policy/acts.h"
#include "policy/policy.h"
#include "tests/unit/chance.h"

#define S      INT64_C(1000000000)
#define MINUTE (60 * S)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)
/* A Monday, 00:00. */
#define BEGIN      ((4 + 7 * INT64_C(2900)) * DAY)
#define HOSTS      20
#define FULL_HOSTS 100
#define HOST_VMS   4
#define VMS_MAX    (HOST_VMS * FULL_HOSTS)
#define CPUS       4
#define TOTAL      6
#define PER_HOST   2
#define TARGET     1
#define COOLDOWN   (20 * MINUTE)
#define SPENT      (3 * HOUR)

/* How often the leader makes a plan, and decides what starts. */
#define PLAN      (40 * MINUTE)
#define FULL_PLAN (15 * MINUTE)
#define STEP      MINUTE
#define FULL_STEP (20 * S)

/* What becomes of moves: each of them once, in an order by chance, and then anew. */
enum outcome { FAILS, FAILS_TOO, HANGS, WORSE, WORSE_TOO, HELPS, OUTCOMES = 20 };

/* What the checker notes of each move that the executor began. */
struct deed {
    int vm, from, to;
    int64_t began_ns, ended_ns; /* 0 if it has not ended */
    bool undo, done, failed;
    bool worse;
    int64_t judged_ns;  /* when it is judged; 0: it is not, or has been */
    int64_t verdict_ns; /* when it was judged, or 0 */
    int64_t ends_ns;    /* when it is to end */
    char *id;
};

struct day {
    GRand *rand;
    char *dir;
    vg_journal *journal;
    struct vg_act_rules rules;
    struct vg_policy_config policy;
    int64_t now_ns;
    int64_t spent_ns;   /* when as many errors were seen as the budget allows; 0: fewer were */
    int64_t resumed_ns; /* when a person allowed moves again; or 0 */
    int hosts, vms;
    int host_of[VMS_MAX];
    double wants[VMS_MAX];
    unsigned outcomes[OUTCOMES];
    GArray *deeds;    /* struct deed */
    GPtrArray *moves; /* as the journal has them; NULL: to be read again */
    vg_acting *acting;
    unsigned n_hung, n_failed, n_undone, n_done, n_spent, n_resumed;
};

static void
open_journal(struct day *day)
{
    const struct vg_journal_options options = {.directory = day->dir,
                                               .audit_days = 36500,
                                               .audit_entries = 100,
                                               .event_days = 36500,
                                               .event_entries = 100};

    vg_journal_free(day->journal);
    day->journal = vg_journal_new(&options, NULL);
    assert_non_null(day->journal);
}

static void
name_vm(int vm, char name[16], char uuid[40])
{
    g_snprintf(name, 16, "v%d", vm);
    g_snprintf(uuid, 40, "00000000-0000-0000-0000-%012d", vm);
}

/* ---- the cluster ---- */

static vg_snapshot *
make_snapshot(const struct day *day)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    double sum[FULL_HOSTS] = {0};

    for (int vm = 0; vm < day->vms; vm++)
        sum[day->host_of[vm]] += day->wants[vm];
    for (int i = 0; i < day->hosts; i++) {
        char name[16];
        g_snprintf(name, sizeof(name), "h%d", i);
        struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);
        host->cpus = CPUS;
        host->takes_acts = true;
        host->own_known = true;
        for (int vm = 0; vm < day->vms; vm++) {
            char vm_name[16], uuid[40];
            if (day->host_of[vm] != i)
                continue;
            name_vm(vm, vm_name, uuid);
            struct vg_snap_vm *ret = vg_snap_host_add_vm(host, vm_name);
            ret->uuid = g_strdup(uuid);
            ret->vcpus = 4;
            ret->memory_bytes = INT64_C(1) << 30;
            ret->run_share = day->wants[vm] * MIN(1, CPUS / MAX(sum[i], 1e-9));
            ret->preempt_share = day->wants[vm] - ret->run_share;
            ret->gpu_known = true;
        }
    }
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

/* Some VMs want much more, others less again: moves of single VMs help. */
static void
change_load(struct day *day)
{
    for (int vm = 0; vm < day->vms; vm++) {
        if (day->wants[vm] > 1 && g_rand_double(day->rand) < 0.1)
            day->wants[vm] = g_rand_double_range(day->rand, 0.2, 0.7);
    }
    for (int i = 0; i < 3; i++)
        day->wants[g_rand_int_range(day->rand, 0, day->vms)] = g_rand_double_range(day->rand, 2, 3);
}

/* ---- the checker ---- */

static bool
window_is_open(int64_t now_ns)
{
    const int64_t minute = (now_ns - BEGIN) / MINUTE % (24 * 60);

    return minute < 5 * 60 || (minute >= 9 * 60 && minute < 21 * 60 + 30);
}

static void
check_limits(const struct day *day, const struct deed *deed)
{
    int total = 0, from = 0, to = 0, target = 0;

    for (guint i = 0; i < day->deeds->len; i++) {
        const struct deed *other = &g_array_index(day->deeds, struct deed, i);
        if (other->ended_ns > 0)
            continue;
        if (other->vm == deed->vm)
            fail_msg("v%d moves twice at a time", deed->vm);
        total++;
        from += other->from == deed->from || other->to == deed->from;
        to += other->from == deed->to || other->to == deed->to;
        target += other->to == deed->to;
    }
    if (total >= TOTAL || from >= PER_HOST || to >= PER_HOST || target >= TARGET)
        fail_msg("too many moves: %d, %d, %d, %d", total, from, to, target);
}

static void
check_past(const struct day *day, const struct deed *deed)
{
    int64_t last_ns = 0, rest_ns = COOLDOWN;
    unsigned n = 0;

    for (guint i = 0; i < day->deeds->len; i++) {
        const struct deed *other = &g_array_index(day->deeds, struct deed, i);
        if (other->vm != deed->vm)
            continue;
        if (deed->undo && other->undo)
            fail_msg("a move of v%d is undone twice within a day", deed->vm);
        if (!deed->undo && other->done && other->from == deed->to)
            fail_msg("v%d goes back to h%d", deed->vm, deed->to);
        last_ns = MAX(last_ns, other->ended_ns);
        rest_ns = n++ == 0 ? COOLDOWN : MIN(2 * rest_ns, DAY);
    }
    if (n > 0 && !deed->undo && day->now_ns - last_ns < rest_ns)
        fail_msg("v%d does not rest: %" G_GINT64_FORMAT " s after %u moves", deed->vm,
                 (day->now_ns - last_ns) / S, n);
}

static unsigned
count_errors(const struct day *day)
{
    unsigned errors = 0;

    for (guint i = 0; i < day->deeds->len; i++) {
        const struct deed *deed = &g_array_index(day->deeds, struct deed, i);
        const bool hangs = deed->ended_ns == 0 && day->now_ns - deed->began_ns > HOUR &&
                           deed->began_ns + HOUR > day->resumed_ns;
        errors += hangs || (deed->failed && deed->ended_ns > day->resumed_ns) ||
                  (deed->worse && deed->verdict_ns > day->resumed_ns);
    }
    return errors;
}

/* Notes when the budget is spent. After a while, a person allows moves again. */
static void
watch_budget(struct day *day)
{
    if (day->spent_ns > 0 && day->now_ns >= day->spent_ns + SPENT) {
        day->resumed_ns = day->now_ns;
        day->spent_ns = 0;
    }
    if (day->spent_ns == 0 && count_errors(day) >= (unsigned)day->rules.error_budget)
        day->spent_ns = day->now_ns;
}

static void
check_budget(struct day *day, const struct deed *deed)
{
    if (!deed->undo && day->spent_ns > 0)
        fail_msg("a move begins %" G_GINT64_FORMAT " s after the budget was spent",
                 (day->now_ns - day->spent_ns) / S);
    day->n_resumed += !deed->undo && day->resumed_ns > 0;
}

/* ---- the executor ---- */

static struct vg_migration *
make_record(const struct day *day, const struct deed *deed, const struct vg_act_move *act)
{
    struct vg_migration *move = vg_migration_new();
    char name[16], uuid[40];

    name_vm(deed->vm, name, uuid);
    move->id = g_strdup(deed->id);
    move->vm = g_strdup(name);
    move->uuid = g_strdup(uuid);
    move->from = g_strdup(act->from);
    move->to = g_strdup(act->to);
    move->act = g_strdup(act->act);
    move->undo_of = g_strdup(act->undo_of);
    move->made_ns = day->now_ns;
    move->state = VG_MIGRATION_MIGRATING;
    return move;
}

/* Draws what becomes of the next move. */
static enum outcome
draw_outcome(struct day *day)
{
    const guint n = day->deeds->len % OUTCOMES;

    for (guint i = 0; n == 0 && i < OUTCOMES; i++) {
        const guint k = (guint)g_rand_int_range(day->rand, 0, (gint32)i + 1);
        day->outcomes[i] = day->outcomes[k];
        day->outcomes[k] = i;
    }
    return day->outcomes[n] < HELPS ? (enum outcome)day->outcomes[n] : HELPS;
}

static void
execute(struct day *day, const struct vg_act_move *act)
{
    struct deed deed = {.vm = atoi(act->vm + 1),
                        .from = atoi(act->from + 1),
                        .to = atoi(act->to + 1),
                        .began_ns = day->now_ns,
                        .undo = act->undo_of != NULL,
                        .id = g_strdup_printf("move-%016u", day->deeds->len)};
    const enum outcome outcome = draw_outcome(day);

    if (!window_is_open(day->now_ns))
        fail_msg("v%d moves outside of the window", deed.vm);
    assert_int_equal(day->host_of[deed.vm], deed.from);
    check_limits(day, &deed);
    check_past(day, &deed);
    check_budget(day, &deed);
    deed.ends_ns = day->now_ns + g_rand_int_range(day->rand, 20, 180) * S;
    if (outcome == HANGS) {
        deed.ends_ns = day->now_ns + 3 * HOUR;
        day->n_hung++;
    }
    /* One that hangs does not end well either. */
    deed.done = outcome >= WORSE;
    deed.worse = (outcome == WORSE || outcome == WORSE_TOO) && !deed.undo;
    g_autoptr(vg_migration) move = make_record(day, &deed, act);
    assert_int_equal(vg_journal_begin_migration(day->journal, move, NULL, NULL, NULL), 0);
    g_array_append_val(day->deeds, deed);
    g_clear_pointer(&day->moves, g_ptr_array_unref);
}

static void
end_move(struct day *day, struct deed *deed)
{
    g_autoptr(vg_migration) move = vg_journal_read_migration(day->journal, deed->id, NULL);

    assert_non_null(move);
    deed->ended_ns = move->ended_ns = day->now_ns;
    move->state = deed->done ? VG_MIGRATION_DONE : VG_MIGRATION_ROLLED_BACK;
    deed->failed = !deed->done;
    deed->judged_ns = deed->done ? day->now_ns + 5 * MINUTE : 0;
    day->n_failed += deed->failed;
    day->n_done += deed->done;
    day->n_undone += deed->done && deed->undo;
    if (deed->done)
        day->host_of[deed->vm] = deed->to;
    assert_int_equal(vg_journal_save_migration(day->journal, move, NULL), 0);
    g_clear_pointer(&day->moves, g_ptr_array_unref);
}

static void
judge_move(struct day *day, struct deed *deed)
{
    g_autoptr(vg_move_verdict) verdict = vg_record_new(&vg_move_verdict_record);

    verdict->result = deed->worse ? VG_VERDICT_WORSE : VG_VERDICT_HELPED;
    verdict->why = g_strdup("so it is");
    verdict->judged_ns = day->now_ns;
    assert_int_equal(vg_journal_save_outcome(day->journal, deed->id, NULL, verdict, NULL), 0);
    deed->judged_ns = 0;
    deed->verdict_ns = day->now_ns;
    g_clear_pointer(&day->moves, g_ptr_array_unref);
}

static void
run_executor(struct day *day)
{
    for (guint i = 0; i < day->deeds->len; i++) {
        struct deed *deed = &g_array_index(day->deeds, struct deed, i);
        if (deed->ended_ns == 0 && deed->ends_ns <= day->now_ns)
            end_move(day, deed);
        else if (deed->judged_ns > 0 && deed->judged_ns <= day->now_ns)
            judge_move(day, deed);
    }
}

/* ---- the leader ---- */

static struct vg_acts_facts
read_facts(struct day *day, const vg_snapshot *snapshot, const vg_plan *plan)
{
    if (!day->moves)
        day->moves = vg_journal_list_migrations(day->journal, false, INT64_MAX,
                                                VG_JOURNAL_MIGRATIONS_MAX, NULL);
    assert_non_null(day->moves);
    return (struct vg_acts_facts){.rules = &day->rules,
                                  .policy = &day->policy,
                                  .now_ns = day->now_ns,
                                  .minute_of_week =
                                      (int)((day->now_ns - BEGIN) / MINUTE % VG_WEEK_MINUTES),
                                  .moves = day->moves,
                                  .resumed_ns = day->resumed_ns,
                                  .snapshot = snapshot,
                                  .plan = plan};
}

/* Writes what etcd would have, and reads it. */
static void
pass_on(struct day *day)
{
    g_free(day->acting->host);
    day->acting->host = g_strdup("h0");
    g_autoptr(json_object) object = vg_record_write(&vg_acting_record, day->acting);
    g_autofree char *text = vg_json_to_text(object, false);
    assert_true(strlen(text) < 65536);
    g_autoptr(json_object) document = vg_json_parse(text, strlen(text), 65536, 8, NULL);
    const struct vg_json_node root = vg_json_root(document);
    vg_acting_free(day->acting);
    day->acting = vg_record_read(&vg_acting_record, &root, NULL);
    assert_non_null(day->acting);
}

static vg_plan *
read_plan(const struct day *day)
{
    return day->acting->plan ? vg_plan_from_json(day->acting->plan, strlen(day->acting->plan), NULL)
                             : NULL;
}

static void
lead(struct day *day, bool plans)
{
    g_autoptr(GPtrArray) start = g_ptr_array_new();
    vg_snapshot *snapshot = plans || vg_acting_is_busy(day->acting) ? make_snapshot(day) : NULL;
    g_autoptr(vg_plan) plan = read_plan(day);
    struct vg_acts_facts facts = read_facts(day, snapshot, plan);

    vg_acts_step(&facts, day->acting, start);
    assert_int_equal(day->acting->spent, day->spent_ns > 0);
    day->n_spent += day->acting->spent;
    if (plans && day->acting->acts && snapshot && !vg_acting_is_busy(day->acting)) {
        g_autofree char *id = g_strdup_printf("act-%016" G_GINT64_MODIFIER "x", day->now_ns);
        g_autoptr(vg_plan) next = vg_policy_plan(snapshot, &day->policy, VG_RULE_COMPLEMENT, NULL);
        facts.plan = next;
        if (vg_acts_take(&facts, next, id, day->acting) > 0)
            vg_acts_step(&facts, day->acting, start);
    }
    for (guint i = 0; i < start->len; i++)
        execute(day, start->pdata[i]);
    pass_on(day);
    vg_snapshot_free(snapshot);
}

static void
set_up_day(struct day *day)
{
    day->hosts = (int)chance_rounds(HOSTS, FULL_HOSTS);
    day->vms = HOST_VMS * day->hosts;
    day->rand = chance_rand();
    day->dir = g_dir_make_tmp("vgpud-day-XXXXXX", NULL);
    day->now_ns = BEGIN;
    day->deeds = g_array_new(FALSE, FALSE, sizeof(struct deed));
    day->acting = vg_record_new(&vg_acting_record);
    day->rules = (struct vg_act_rules){.mode = VG_POLICY_ACT,
                                       .moves = TOTAL,
                                       .moves_per_host = PER_HOST,
                                       .moves_per_target = TARGET,
                                       .cooldown_ns = COOLDOWN,
                                       .error_budget = day->hosts / 5};
    assert_int_equal(vg_act_window_parse("00:00-05:00, 09:00-21:30", &day->rules.window, NULL), 0);
    vg_policy_config_init(&day->policy);
    day->policy.hold_ns = day->policy.hold_long_ns = 0;
    for (int vm = 0; vm < day->vms; vm++) {
        day->host_of[vm] = vm % (day->hosts * 4 / 5);
        day->wants[vm] = g_rand_double_range(day->rand, 0.2, 0.7);
    }
    open_journal(day);
}

static void
tear_down_day(struct day *day)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm", "state.lock"};

    vg_journal_free(day->journal);
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(day->dir, names[i], NULL);
        (void)!g_remove(path);
    }
    assert_int_equal(g_rmdir(day->dir), 0);
    for (guint i = 0; i < day->deeds->len; i++)
        g_free(g_array_index(day->deeds, struct deed, i).id);
    g_array_unref(day->deeds);
    g_clear_pointer(&day->moves, g_ptr_array_unref);
    vg_acting_free(day->acting);
    g_rand_free(day->rand);
    g_free(day->dir);
}

static void
test_a_day(void **state)
{
    (void)state;
    struct day day = {0};
    const int64_t plan_ns = chance_is_full() ? FULL_PLAN : PLAN;

    set_up_day(&day);
    while (day.now_ns < BEGIN + DAY) {
        const int64_t at_ns = day.now_ns - BEGIN;
        run_executor(&day);
        watch_budget(&day);
        if (at_ns % (10 * MINUTE) == 0)
            change_load(&day);
        lead(&day, at_ns % plan_ns == 0);
        day.now_ns += chance_is_full() ? FULL_STEP : STEP;
        if (day.now_ns % HOUR == 0) {
            open_journal(&day);
            g_clear_pointer(&day.moves, g_ptr_array_unref);
        }
    }
    print_message("# %u moves: %u done, %u failed, %u hung, %u undone; budget spent in %u checks, "
                  "%u moves after it was allowed again\n",
                  day.deeds->len, day.n_done, day.n_failed, day.n_hung, day.n_undone, day.n_spent,
                  day.n_resumed);
    /* All of it has happened, so that the checker had something to see. */
    assert_true(day.n_done > 10 && day.n_failed > 0 && day.n_hung > 0 && day.n_undone > 0);
    assert_true(day.n_spent > 0);
    tear_down_day(&day);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_day)};
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
