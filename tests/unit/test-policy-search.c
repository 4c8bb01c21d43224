/* SPDX-License-Identifier: Apache-2.0
 *
 * Small clusters with one good plan, which is known without a computation.
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

#include "policy/evacuate.h"
#include "tests/unit/policy-cases.h"

/* The cost of a move in cores: one core for 8 s, and 1.5 cores for 300 ms. */
#define COST ((8 + 1.5 * 0.3) / 600)

static void
assert_move(const vg_plan *plan, guint i, const char *vm, const char *to)
{
    const struct vg_plan_action *action = plan->actions->pdata[i];

    assert_string_equal(action->vm, vm);
    assert_string_equal(action->to, to);
}

static double
net_of(const vg_plan *plan)
{
    double net = 0;

    for (guint i = 0; i < plan->actions->len; i++)
        net += policy_input_of(plan->actions->pdata[i], "net_gain_cores");
    return net;
}

/* ---- GPUs of the target ---- */

/* A VM with a vGPU whose demand is `first` in one window and `second` in the next. */
static void
add_gpu_vm(struct vg_snap_host *host, const char *name, const char *device, double first,
           double second)
{
    const double cpu[] = {0.1, 0.1}, gpu[] = {first, second};
    struct vg_snap_vm *vm = policy_add_vm(host, name, 0.1, -1);

    policy_add_use(vm, device, "Q", (first + second) / 2);
    policy_set_profile(vm, cpu, G_N_ELEMENTS(cpu));
    g_array_append_vals(vm->profile.gpu, gpu, G_N_ELEMENTS(gpu));
}

/* a and b lose 0.6 engines in one of two windows. The GPU of the target with the lowest demand is
 * busy in the same window. The other GPU is busy in the other window, so a loses nothing there. */
static vg_snapshot *
make_gpus(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 4);
    struct vg_snap_host *to = policy_add_host(snapshot, "to", 4);
    policy_add_gpu(from, "gpu0", "Q", 0);
    policy_add_gpu(to, "gpu0", "Q", 1);
    policy_add_gpu(to, "gpu1", "Q", 1);
    add_gpu_vm(from, "a", "gpu0", 0.8, 0);
    add_gpu_vm(from, "b", "gpu0", 0.8, 0);
    add_gpu_vm(to, "c", "gpu0", 0.8, 0);
    add_gpu_vm(to, "d", "gpu1", 0, 1.0);
    for (guint i = 0; i < to->vms->len; i++)
        ((struct vg_snap_vm *)to->vms->pdata[i])->never_move = true;
    return snapshot;
}

static void
test_busier_gpu(void **state)
{
    g_autoptr(vg_snapshot) snapshot = make_gpus();
    (void)state;

    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    assert_move(plan, 0, "a", "to");
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_int_equal(action->gpus->len, 1);
    assert_string_equal(((struct vg_gpu_target *)action->gpus->pdata[0])->to, "gpu1");
    assert_int_equal(action->gain.gpu_wait_ns_per_s, 300000000);
}

/* A target that chooses may choose the GPU on which nothing is gained. */
static void
test_worst_gpu(void **state)
{
    g_autoptr(vg_snapshot) snapshot = make_gpus();
    const struct vg_snap_host *from = snapshot->hosts->pdata[0];
    (void)state;

    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->display_name = g_strdup("openstack");
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 0);
}

/* ---- the order of moves ---- */

/* Without "large", the host loses 0.05 cores, and "small" wins too little. Both moves win enough if
 * "small" moves first. */
static void
test_small_first(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    (void)state;

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 4);
    policy_add_host(snapshot, "to", 4);
    policy_add_vm(from, "large", 1.0, -1);
    policy_add_vm(from, "small", 0.5, -1);
    policy_add_vm(from, "stays", 3.55, -1)->never_move = true;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 2);
    assert_move(plan, 0, "small", "to");
    assert_move(plan, 1, "large", "to");
    policy_assert_near(net_of(plan), 1.05 - (8 + 0.5 * 0.3 + 8 + 1.0 * 0.3) / 600);
}

/* Two VMs spin on the CPU of h1. A VM on h2 needs little, but h2's own programs keep it waiting, so
 * that it seems to want 0.32 cores. Without it, h2 seems to lose 0.02 cores less. A swap would thus
 * gain 0.0065 cores more than the move of one VM: too little for another move. */
static void
test_no_useless_swap(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    (void)state;

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *h1 = policy_add_host(snapshot, "h1", 1);
    policy_add_vm(h1, "a", 0.98, -1);
    policy_add_vm(h1, "b", 0.98, -1);
    struct vg_snap_vm *tenant = policy_add_vm(policy_add_host(snapshot, "h2", 1), "t", 0, -1);
    struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
    tenant->run_share = 0.02;
    tenant->wake_wait_share = 0.3;
    loss->aggressor = g_strdup("host:user");
    loss->share = 0.3;
    g_ptr_array_add(tenant->lost_to, loss);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->from, "h1");
    assert_string_equal(action->to, "h2");
    policy_assert_near(net_of(plan), 0.36 - (8 + 0.98 * 0.3) / 600);
    /* Without the minimum gain, any gain is enough. */
    policy_config.min_gain = 0;
    g_autoptr(vg_plan) swap = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(swap->actions->len, 2);
}

/* ---- VMs that belong together ---- */

/* Two hosts, each with a VM of a group and a VM that does not move. Each loses a core. */
static vg_snapshot *
make_apart(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    static const char *const names[][2] = {{"a", "x"}, {"b", "y"}};

    snapshot->end_ns = 10 * S;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct vg_snap_host *host = policy_add_host(snapshot, i == 0 ? "h1" : "h2", 2);
        g_ptr_array_add(policy_add_vm(host, names[i][0], 1.5, -1)->affinity, g_strdup("g"));
        policy_add_vm(host, names[i][1], 1.5, -1)->never_move = true;
    }
    return snapshot;
}

/* Together they lose 2.5 cores on either host, and nothing on a third. */
static void
test_meeting(void **state)
{
    g_autoptr(vg_snapshot) snapshot = make_apart();
    (void)state;

    policy_add_host(snapshot, "h3", 4);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 2);
    assert_move(plan, 0, "a", "h3");
    assert_move(plan, 1, "b", "h3");
    for (guint i = 0; i < 2; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        assert_int_equal(action->group, 1);
        assert_int_equal(action->wave, i + 1);
        assert_true(action->undo_partial);
    }
    policy_assert_near(net_of(plan), 2 - 2 * COST);
}

/* A third VM of the group is on the host where they meet, and stays there. */
static void
test_meeting_at_home(void **state)
{
    g_autoptr(vg_snapshot) snapshot = make_apart();
    (void)state;

    struct vg_snap_vm *stays = policy_add_vm(policy_add_host(snapshot, "h3", 4), "c", 1.0, -1);
    g_ptr_array_add(stays->affinity, g_strdup("g"));
    stays->never_move = true;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 2);
    assert_move(plan, 0, "a", "h3");
    assert_move(plan, 1, "b", "h3");
    policy_assert_near(net_of(plan), 2 - 2 * COST);
}

/* All of them must be able to move, and the host must have enough memory for all. */
static void
test_no_meeting(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        g_autoptr(vg_snapshot) snapshot = make_apart();
        struct vg_snap_host *third = policy_add_host(snapshot, "h3", 4);
        struct vg_snap_host *second = snapshot->hosts->pdata[1];
        if (i == 0)
            ((struct vg_snap_vm *)second->vms->pdata[0])->never_move = true;
        else
            third->memory_free_bytes = GIB;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, 0);
    }
}

/* Two VMs change places. There is memory for both orders. If the idle host's VM moved first, the
 * busy one would lose almost 4 cores more until its large VM moves. */
static void
test_best_order(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    (void)state;

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *busy = policy_add_host(snapshot, "busy", 4);
    struct vg_snap_host *idle = policy_add_host(snapshot, "idle", 8);
    policy_add_vm(busy, "large", 5.6, -1);
    policy_add_vm(idle, "small", 3.99, -1);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 2);
    assert_move(plan, 0, "large", "idle");
    assert_move(plan, 1, "small", "busy");
    assert_true(((struct vg_plan_action *)plan->actions->pdata[0])->gain.lost_cpu_ns_per_s > 0);

    /* Without memory for this order, the other one is the only one. */
    idle->memory_free_bytes = 0;
    g_autoptr(vg_plan) other = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(other->actions->len, 2);
    assert_move(other, 0, "small", "busy");
}

/* ---- names ---- */

/* Idle VMs on `to` have the names of both VMs of `from`. */
static vg_snapshot *
make_same_names(struct vg_snap_host **ret_from, struct vg_snap_host **ret_to)
{
    vg_snapshot *snapshot = policy_make_pair(ret_from, ret_to);

    policy_add_vm(*ret_to, "a", 0.01, -1);
    policy_add_vm(*ret_to, "b", 0.01, -1);
    return snapshot;
}

static void
test_same_name(void **state)
{
    static const char sentence[] = "host 'to' already has another VM with the name 'a'";
    struct vg_snap_host *from = NULL, *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_same_names(&from, &to);
    (void)state;

    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_INFEASIBLE);
    assert_true(policy_says(plan->why, sentence));

    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "from/a", NULL);
    const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
    assert_true(why->movable);
    assert_int_equal(candidate->verdict, VG_CANDIDATE_FORBIDDEN);
    assert_string_equal(candidate->constraint, "same-name");
    assert_string_equal(candidate->reason, sentence);

    g_autoptr(GPtrArray) leaving = vg_policy_evacuate(snapshot, &policy_config, "from");
    assert_int_equal(leaving->len, 2);
    for (guint i = 0; i < leaving->len; i++) {
        const struct vg_evacuation *one = leaving->pdata[i];
        assert_null(one->to);
        assert_non_null(strstr(one->reason, "already has another VM with the name"));
    }
}

static void
test_same_name_elsewhere(void **state)
{
    struct vg_snap_host *from = NULL, *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_same_names(&from, &to);
    (void)state;

    policy_add_host(snapshot, "z", 4);
    for (int rule = 0; rule < 2; rule++) {
        ((struct vg_snap_vm *)from->vms->pdata[0])->preemptions_per_s = 1e6;
        g_autoptr(vg_plan) plan =
            policy_plan_of(snapshot, rule == 0 ? VG_RULE_COMPLEMENT : VG_RULE_PAPER_THRESHOLD);
        for (guint i = 0; i < plan->actions->len; i++)
            assert_string_equal(((struct vg_plan_action *)plan->actions->pdata[i])->to, "z");
        assert_true(rule == 1 || plan->actions->len == 1);
    }
}

/* A VM without a name is called after its process, and gets another such name where it arrives. */
static void
test_no_name(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    (void)state;

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 1);
    struct vg_snap_host *to = policy_add_host(snapshot, "to", 4);
    policy_add_vm(from, "qemu-7", 1.0, -1)->pid = 7;
    policy_add_vm(from, "qemu-8", 1.0, -1)->pid = 8;
    policy_add_vm(to, "qemu-7", 0.01, -1)->pid = 7;
    policy_add_vm(to, "qemu-8", 0.01, -1)->pid = 8;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    ((struct vg_snap_vm *)to->vms->pdata[0])->pid = 9;
    ((struct vg_snap_vm *)to->vms->pdata[1])->pid = 9;
    g_autoptr(vg_plan) still = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(still->actions->len, 1);
}

/* "a" arrives where another "a" was. This one must move first, to a host without space for more. */
static void
test_name_is_left(void **state)
{
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    (void)state;

    snapshot->end_ns = 10 * S;
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 2);
    struct vg_snap_host *to = policy_add_host(snapshot, "to", 4);
    policy_add_host(snapshot, "small", 1)->memory_free_bytes = GIB;
    policy_add_vm(from, "a", 2.0, -1)->memory_bytes = 2 * GIB;
    policy_add_vm(from, "b", 2.0, -1)->never_move = true;
    policy_add_vm(to, "a", 0.1, -1);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 2);
    assert_move(plan, 0, "a", "small");
    assert_move(plan, 1, "a", "to");
    assert_int_equal(((struct vg_plan_action *)plan->actions->pdata[1])->wave, 2);

    /* Two VMs with one name cannot change places. */
    to->cpus = 8;
    ((struct vg_snap_host *)vg_snapshot_find_host(snapshot, "small"))->maintenance = true;
    g_autoptr(vg_plan) none = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(none->actions->len, 0);
    assert_int_equal(none->verdict, VG_PLAN_INFEASIBLE);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_busier_gpu, policy_set_up),
        cmocka_unit_test_setup(test_worst_gpu, policy_set_up),
        cmocka_unit_test_setup(test_small_first, policy_set_up),
        cmocka_unit_test_setup(test_no_useless_swap, policy_set_up),
        cmocka_unit_test_setup(test_best_order, policy_set_up),
        cmocka_unit_test_setup(test_same_name, policy_set_up),
        cmocka_unit_test_setup(test_same_name_elsewhere, policy_set_up),
        cmocka_unit_test_setup(test_no_name, policy_set_up),
        cmocka_unit_test_setup(test_name_is_left, policy_set_up),
        cmocka_unit_test_setup(test_meeting, policy_set_up),
        cmocka_unit_test_setup(test_meeting_at_home, policy_set_up),
        cmocka_unit_test_setup(test_no_meeting, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy-search", tests, NULL, NULL);
}
