/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans that know the last 24 hours: two hosts whose VMs are busy in turns, and returns.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "tests/unit/policy-cases.h"

#define MINUTE    60
#define PLAN_S    (5 * MINUTE)
#define DAY_S     (24 * 60 * MINUTE)
#define WINDOW_S  10
#define N_WINDOWS 30
#define HOURS     30
#define CPUS      4

/* The most moves until the VMs have their places, and the time for it. */
#define MOVES_MAX 4
#define SETTLED_S (2 * 60 * MINUTE)

#define UUID "00000000-0000-4000-8000-00000000000"

/* Two VMs that alternate, and one with a constant demand. */
enum { VM_A, VM_B, VM_M, N_VMS };

struct turns {
    int64_t period_s;
    size_t host[N_VMS];
    int64_t since_s[N_VMS]; /* time at which the VM came to its host */
    int64_t came_s[N_VMS];  /* times at which it came to the other before, and left it; 0: never */
    int64_t left_s[N_VMS];
    unsigned n_moves, n_of_m;
    int64_t last_s; /* time of the last move */
    double lost;
};

static double
demand_of(const struct turns *turns, size_t vm, int64_t at_s)
{
    const bool first = at_s % turns->period_s < turns->period_s / 2;

    if (vm == VM_M)
        return 1.6;
    return first == (vm == VM_A) ? 3.8 : 0.2;
}

static double
mean_of(const struct turns *turns, size_t vm, int64_t from_s, int64_t to_s)
{
    double sum = 0;

    for (int64_t at = from_s; at < to_s; at += WINDOW_S)
        sum += demand_of(turns, vm, at) * WINDOW_S;
    return sum / (double)(to_s - from_s);
}

static void
fill_day(const struct turns *turns, size_t vm, int64_t from_s, int64_t to_s,
         struct vg_snap_profile *day)
{
    day->window_ns = PLAN_S * S;
    for (int64_t i = MIN(DAY_S, to_s - from_s) / PLAN_S; i > 0; i--) {
        const double cores = mean_of(turns, vm, to_s - i * PLAN_S, to_s - (i - 1) * PLAN_S);
        g_array_append_val(day->cpu, cores);
    }
}

/* Adds a VM with what its host has seen of it. */
static void
add_vm(const struct turns *turns, struct vg_snap_host *host, size_t vm, int64_t now_s)
{
    static const char *const names[] = {"a", "b", "m"};
    struct vg_snap_vm *snap =
        policy_add_vm(host, names[vm], mean_of(turns, vm, now_s - MINUTE, now_s), -1);
    const int64_t seen_s = now_s - turns->since_s[vm];

    snap->run_share *= 2;
    snap->preempt_share = 0;
    snap->uuid = g_strdup_printf(UUID "%zu", vm);
    snap->vcpus = 4;
    snap->profile.window_ns = WINDOW_S * S;
    for (int64_t i = MIN(N_WINDOWS, seen_s / WINDOW_S); i > 0; i--) {
        const double cores = demand_of(turns, vm, now_s - i * WINDOW_S);
        g_array_append_val(snap->profile.cpu, cores);
    }
    fill_day(turns, vm, turns->since_s[vm], now_s, &snap->day);
}

static vg_snapshot *
snapshot_of(const struct turns *turns, int64_t now_s)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_LIVE);

    snapshot->end_ns = S;
    for (size_t h = 0; h < 2; h++) {
        struct vg_snap_host *host = policy_add_host(snapshot, h == 0 ? "h0" : "h1", CPUS);
        host->memory_bytes = host->memory_free_bytes = 64 * GIB;
        for (size_t vm = 0; vm < N_VMS; vm++) {
            if (turns->host[vm] == h)
                add_vm(turns, host, vm, now_s);
            else if (turns->left_s[vm] > 0 && now_s - turns->left_s[vm] <= DAY_S) {
                struct vg_snap_departed *one = vg_record_new(&vg_snap_departed_record);
                one->uuid = g_strdup_printf(UUID "%zu", vm);
                one->age_ns = (now_s - turns->left_s[vm]) * S;
                fill_day(turns, vm, turns->came_s[vm], turns->left_s[vm], &one->day);
                g_ptr_array_add(host->departed, one);
            }
        }
    }
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

static void
carry_out(struct turns *turns, const vg_plan *plan, int64_t now_s)
{
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        const size_t vm = strcmp(action->vm, "m") == 0 ? VM_M : (size_t)(action->vm[0] - 'a');
        turns->host[vm] = strcmp(action->to, "h1") == 0;
        turns->came_s[vm] = turns->since_s[vm];
        turns->since_s[vm] = turns->left_s[vm] = now_s;
        turns->last_s = now_s - DAY_S;
        turns->n_moves++;
        turns->n_of_m += vm == VM_M;
    }
}

/* Plays some hours after a day, with a plan each five minutes or none. */
static struct turns
play(int64_t period_min, bool plans)
{
    struct turns turns = {.period_s = period_min * MINUTE, .host = {0, 1, 0}};

    for (int64_t now_s = DAY_S; now_s < DAY_S + HOURS * 3600; now_s += PLAN_S) {
        if (plans) {
            g_autoptr(vg_snapshot) snapshot = snapshot_of(&turns, now_s);
            g_autoptr(vg_plan) plan =
                vg_policy_plan(snapshot, &policy_config, VG_RULE_COMPLEMENT, NULL);
            carry_out(&turns, plan, now_s);
        }
        for (int64_t at = now_s; at < now_s + PLAN_S; at += WINDOW_S) {
            double wanted[2] = {0};
            for (size_t vm = 0; vm < N_VMS; vm++)
                wanted[turns.host[vm]] += demand_of(&turns, vm, at);
            turns.lost += (MAX(wanted[0] - CPUS, 0) + MAX(wanted[1] - CPUS, 0)) * WINDOW_S;
        }
    }
    print_message("# period %d min%s: %.0f core-min/h lost, %u moves, %u of m, last after %d min\n",
                  (int)period_min, plans ? "" : ", no plans", turns.lost / MINUTE / HOURS,
                  turns.n_moves, turns.n_of_m, (int)(turns.last_s / MINUTE));
    return turns;
}

/* The two that alternate come together, once. */
static void
test_turns(void **state)
{
    static const int64_t periods_min[] = {8, 12, 20, 30, 40, 60};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(periods_min); i++) {
        const struct turns without = play(periods_min[i], false);
        const struct turns with = play(periods_min[i], true);
        assert_true(with.lost <= without.lost);
        assert_true(with.n_moves <= MOVES_MAX);
        assert_true(with.last_s <= SETTLED_S);
    }
}

/* Without a day, and with one in which the return wins nothing, a VM does not come back. In the
 * first hour it never does. */
static void
test_return(void **state)
{
    const double idle = 0.1, busy = 1.9;

    (void)state;
    for (int with_day = 0; with_day < 3; with_day++) {
        struct vg_snap_host *from, *to;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        struct vg_snap_departed *one = vg_record_new(&vg_snap_departed_record);
        for (guint i = 0; i < from->vms->len; i++) {
            struct vg_snap_vm *vm = from->vms->pdata[i];
            vm->uuid = g_strdup_printf(UUID "%u", i);
            for (int w = 0; with_day > 0 && w < 12; w++)
                g_array_append_val(vm->day.cpu, *(with_day == 1 ? &idle : &busy));
            vm->day.window_ns = with_day > 0 ? PLAN_S * S : 0;
        }
        struct vg_snap_vm *other = from->vms->pdata[1];
        other->never_move = true;
        one->uuid = g_strdup(UUID "0");
        one->age_ns = 600 * S;
        g_ptr_array_add(to->departed, one);
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, 0);
        one->age_ns = 2 * 3600 * S;
        g_autoptr(vg_plan) second = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(second->actions->len, with_day == 2 ? 1 : 0);
        one->age_ns = 7 * 3600 * S;
        g_autoptr(vg_plan) later = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(later->actions->len, 1);
    }
}

/* A VM that has moved recently must win more to move on. */
static void
test_rest(void **state)
{
    (void)state;
    struct vg_snap_host *from, *to;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_host *before = policy_add_host(snapshot, "x", 1);
    struct vg_snap_departed *one = vg_record_new(&vg_snap_departed_record);
    struct vg_snap_vm *vm = from->vms->pdata[0], *other = from->vms->pdata[1];

    /* It wins 0.986 cores after its cost. */
    policy_config.min_gain = 0.2;
    other->never_move = true;
    before->maintenance = true;
    vm->uuid = g_strdup(UUID "0");
    one->uuid = g_strdup(UUID "0");
    g_ptr_array_add(before->departed, one);
    one->age_ns = 30 * MINUTE * S;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 0);
    assert_true(policy_says(plan->why,
                            "0.986 after its cost; 1.100 are required, 5.5 times as much as "
                            "usual, since a VM moved less than an hour ago"));
    one->age_ns = 40 * MINUTE * S;
    g_autoptr(vg_plan) later = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(later->actions->len, 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_turns, policy_set_up),
        cmocka_unit_test_setup(test_return, policy_set_up),
        cmocka_unit_test_setup(test_rest, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy-day", tests, NULL, NULL);
}
