/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules on small clusters whose losses are sums one can do in one's head, every hard
 * constraint, every gate, and three properties on random clusters: the result does not depend on
 * the order of the input, no proposed move breaks a constraint, and the gain is what a fresh look
 * at the cluster after the move says.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "policy/policy.h"

#define S   INT64_C(1000000000)
#define GIB (INT64_C(1) << 30)

static struct vg_policy_config config;

static int
set_up(void **state)
{
    (void)state;
    vg_policy_config_init(&config);
    return 0;
}

/* A VM of `cores` constant demand, half of it waiting, on the given CPU (or any, -1). */
static struct vg_snap_vm *
add_vm(struct vg_snap_host *host, const char *name, double cores, int32_t cpu)
{
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, name);
    vm->vcpus = 1;
    vm->memory_bytes = GIB;
    vm->run_share = cores / 2;
    vm->preempt_share = cores / 2;
    vm->vm_class = cores >= 0.3 ? VG_CLASS_CPU : VG_CLASS_IDLE;
    vm->cpu_intensity = MIN(cores, 1);
    if (cpu >= 0)
        g_array_append_val(vm->cpus, cpu);
    return vm;
}

static void
add_use(struct vg_snap_vm *vm, const char *device, const char *type, double share)
{
    struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
    use->device = g_strdup(device);
    use->engine = g_strdup("rcs0");
    use->vgpu_type = g_strdup(type);
    use->share = share;
    use->memory_bytes = GIB;
    g_ptr_array_add(vm->gpu, use);
    vm->vm_class = VG_CLASS_GPU;
    vm->gpu_known = true;
    vm->gpu_intensity = share;
}

static struct vg_snap_gpu *
add_gpu(struct vg_snap_host *host, const char *device, const char *type, int64_t n_free)
{
    struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(host, device);
    struct vg_snap_vgpu_type *entry = vg_record_new(&vg_snap_vgpu_type_record);
    entry->type = g_strdup(type);
    entry->free = n_free;
    g_ptr_array_add(gpu->vgpu_types, entry);
    gpu->memory_bytes = 8 * GIB;
    gpu->memory_free_bytes = 8 * GIB;
    return gpu;
}

static struct vg_snap_host *
add_host(vg_snapshot *snapshot, const char *name, int64_t cpus)
{
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);
    host->cpus = cpus;
    host->memory_bytes = 64 * GIB;
    host->memory_free_bytes = 64 * GIB;
    return host;
}

static vg_plan *
plan_of(vg_snapshot *snapshot, enum vg_rule_id rule)
{
    g_autoptr(GError) err = NULL;
    if (vg_snapshot_seal(snapshot, &err) < 0)
        fail_msg("%s", err->message);
    vg_plan *plan = vg_policy_plan(snapshot, &config, rule, &err);
    assert_non_null(plan);
    return plan;
}

static void
assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6)
        fail_msg("%.9f is not %.9f", value, expected);
}

static double
input_of(const struct vg_plan_action *action, const char *name)
{
    for (guint i = 0; i < action->reason.inputs->len; i++) {
        const struct vg_plan_input *input = action->reason.inputs->pdata[i];
        if (strcmp(input->name, name) == 0)
            return input->value;
    }
    fail_msg("there is no input '%s'", name);
    return 0;
}

static bool
says(const GPtrArray *sentences, const char *part)
{
    for (guint i = 0; i < sentences->len; i++) {
        if (strstr(sentences->pdata[i], part))
            return true;
    }
    for (guint i = 0; i < sentences->len; i++)
        print_message("# %s\n", (const char *)sentences->pdata[i]);
    return false;
}

/* Two cores wanted of CPU 0, and an empty host. */
static vg_snapshot *
make_pair(struct vg_snap_host **ret_from, struct vg_snap_host **ret_to)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    snapshot->end_ns = 10 * S;
    *ret_from = add_host(snapshot, "from", 2);
    *ret_to = add_host(snapshot, "to", 4);
    add_vm(*ret_from, "a", 1.0, 0);
    add_vm(*ret_from, "b", 1.0, 0);
    return snapshot;
}

/* Lost now max(0, 2 - 1) = 1 core; with either VM gone 0. Copying 1 GiB at 128 MiB/s takes 8 s of
 * one core, the stun 0.3 s of one core: 8.3 s, over 600 s 0.013833 cores. */
static void
test_complement_by_hand(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);

    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "a"); /* a tie: first by name */
    assert_string_equal(action->from, "from");
    assert_string_equal(action->to, "to");
    assert_string_equal(action->role, "victim");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S);
    assert_int_equal(action->gain.gpu_wait_ns_per_s, 0);
    assert_near(action->cost.migration_s, 8);
    assert_near(action->cost.stun_s, 0.3);
    assert_int_equal(action->cost.lost_cpu_ns, 8300000000);
    assert_false(action->cost.memory_assumed);
    assert_near(input_of(action, "from_lost_cores_before"), 1);
    assert_near(input_of(action, "from_lost_cores_after"), 0);
    assert_near(input_of(action, "to_lost_cores_after"), 0);
    assert_near(input_of(action, "net_gain_cores"), 1 - 8.3 / 600);
    assert_string_equal(action->runner_up.what, "move 'b' from 'from' to 'to'");
    assert_non_null(strstr(action->runner_up.why, "comes first by name"));
    assert_int_equal(action->runner_up.gain.lost_cpu_ns_per_s, S);
    assert_non_null(strstr(action->reason.text,
                           "Host 'from' loses 1.00 cores on CPU 0 (2.00 wanted, 1 there)"));
    /* CPU 1 of the host is free: the whole core could be had without a migration. */
    assert_true(says(plan->notes, "1.00 of the 1.00 cores lost could be had without a migration"));
    assert_true(g_str_has_prefix(plan->id, "plan-"));
    assert_int_equal(strlen(plan->id), 21);
}

/* Pools: {0,1} with 3.0 of 2 CPUs, {2} with 0.5 of 1, and 1.0 floating, which finds 5 - 2 - 0.5 =
 * 2.5 CPUs left: 1 core lost. A VM of 3.0 more floats over what is left, 1.5: 1.5 lost on top. */
static void
test_pools(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *pools = add_host(snapshot, "pools", 5);
    add_vm(pools, "p1", 1.5, 0);
    struct vg_snap_vm *bridge = add_vm(pools, "p2", 1.5, 0);
    const int32_t one = 1;
    g_array_append_val(bridge->cpus, one);
    add_vm(pools, "p3", 0.5, 2);
    add_vm(pools, "p4", 1.0, -1);
    struct vg_snap_host *big = add_host(snapshot, "big", 1);
    add_vm(big, "newcomer", 3.0, -1);

    config.max_moves = 0;
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(
        says(plan->why, "host 'pools' loses 1.00 cores on CPUs 0-1 (3.00 wanted, 2 there)"));
    assert_true(says(plan->why, "host 'big' loses 2.00 cores on CPUs (3.00 wanted, 1 there)"));
    assert_true(says(plan->why, "the plan has 0 moves, the most it may"));

    /* Wins 2 on big, loses 1.5 on pools. */
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &config, "newcomer", NULL);
    const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
    assert_string_equal(candidate->host, "pools");
    assert_int_equal(candidate->verdict, VG_CANDIDATE_BEST);
    assert_int_equal(candidate->gain.lost_cpu_ns_per_s, S / 2);
}

static void
set_profile(struct vg_snap_vm *vm, const double *cpu, guint n)
{
    vm->profile.window_ns = S;
    g_array_set_size(vm->profile.cpu, 0);
    g_array_append_vals(vm->profile.cpu, cpu, n);
}

/* One CPU; "odd" and "odd2" want it in odd windows, "even" in even ones: only the odd pair fights,
 * half of the time. Moving an odd one to a host where another works in even windows costs nothing
 * there, although the sum of the means would be 1 on both. */
static void
test_profiles_complement(void **state)
{
    (void)state;
    const double odd[] = {0, 1, 0, 1};
    const double even[] = {1, 0, 1, 0};
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *a = add_host(snapshot, "a", 1);
    set_profile(add_vm(a, "odd", 0.5, 0), odd, 4);
    set_profile(add_vm(a, "odd2", 0.5, 0), odd, 4);
    struct vg_snap_host *b = add_host(snapshot, "b", 1);
    set_profile(add_vm(b, "odd3", 0.5, 0), odd, 4);
    struct vg_snap_host *c = add_host(snapshot, "c", 1);
    set_profile(add_vm(c, "even", 0.5, 0), even, 4);
    config.hold_fraction = 0.5;

    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "odd");
    assert_string_equal(action->to, "c");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S / 2);
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &config, "odd", NULL);
    const struct vg_plan_candidate *bad = why->candidates->pdata[1];
    assert_string_equal(bad->host, "b");
    assert_int_equal(bad->verdict, VG_CANDIDATE_NO_GAIN);
    assert_int_equal(bad->gain.lost_cpu_ns_per_s, 0);
}

/* Engine rcs0 wanted 0.7 + 0.6 = 1.3 times: 0.3 lost. On the other host nothing. */
static void
test_gpu_contention(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *a = add_host(snapshot, "a", 8);
    add_gpu(a, "card0", "t", 0);
    struct vg_snap_vm *x = add_vm(a, "x", 0.1, -1);
    struct vg_snap_vm *y = add_vm(a, "y", 0.1, -1);
    x->preempt_share = 0;
    y->preempt_share = 0;
    add_use(x, "card0", "t", 0.7);
    add_use(y, "card0", "t", 0.6);
    struct vg_snap_host *b = add_host(snapshot, "b", 8);
    struct vg_snap_gpu *gpu = add_gpu(b, "card7", "t", 1);
    struct vg_snap_engine *engine = vg_record_new(&vg_snap_engine_record);
    engine->engine = g_strdup("rcs0");
    engine->share = 0.35; /* the host's own work */
    g_ptr_array_add(gpu->engines, engine);

    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    /* x: 0.3 won, 0.35 + 0.7 - 1 = 0.05 lost there. y: 0.3 won, nothing lost: y goes. */
    assert_string_equal(action->vm, "y");
    assert_int_equal(action->gain.gpu_wait_ns_per_s, 300000000);
    assert_int_equal(action->runner_up.gain.gpu_wait_ns_per_s, 250000000);
    /* 1 GiB of memory and 1 GiB of GPU memory; the latter counts as stun: 8 s + 0.3 s. */
    assert_near(action->cost.migration_s, 16);
    assert_near(action->cost.stun_s, 8.3);

    config.gpu_weight = 0;
    g_autoptr(vg_plan) nothing = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(nothing->verdict, VG_PLAN_NOTHING_TO_DO);
}

typedef void (*spoiler)(struct vg_snap_host *from, struct vg_snap_host *to);

static void
spoil_maintenance(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)from;
    to->maintenance = true;
}

static void
spoil_never_move(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->never_move = true;
}

static void
spoil_pinned(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->pinned = true;
}

static void
spoil_memory(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)from;
    to->memory_free_bytes = GIB - 1;
}

static void
need_model(struct vg_snap_host *from)
{
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->cpu_model = g_strdup("Icelake");
}

static void
spoil_cpu_model(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_model(from);
    to->cpu_model = g_strdup("Haswell");
}

static void
spoil_cpu_model_unknown(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    need_model(from);
}

static void
need_gpu(struct vg_snap_host *from, const char *type)
{
    for (guint i = 0; i < from->vms->len; i++)
        add_use(from->vms->pdata[i], "card0", type, 0.1);
}

static void
spoil_gpu_type(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    add_gpu(to, "card0", "other", 9);
}

static void
spoil_gpu_type_unknown(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, NULL);
    add_gpu(to, "card0", "t", 9);
}

static void
spoil_gpu_free(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    add_gpu(to, "card0", "t", 0);
}

static void
spoil_gpu_memory(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    add_gpu(to, "card0", "t", 1)->memory_free_bytes = GIB - 1;
}

static void
spoil_affinity(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        g_ptr_array_add(((struct vg_snap_vm *)from->vms->pdata[i])->affinity, g_strdup("g"));
}

static void
spoil_anti_affinity(struct vg_snap_host *from, struct vg_snap_host *to)
{
    struct vg_snap_vm *enemy = add_vm(to, "enemy", 0.1, -1);
    g_ptr_array_add(enemy->anti_affinity, g_strdup("g"));
    for (guint i = 0; i < from->vms->len; i++)
        g_ptr_array_add(((struct vg_snap_vm *)from->vms->pdata[i])->anti_affinity, g_strdup("g"));
}

static void
spoil_data(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    struct vg_snap_vm *bad = add_vm(from, "bad", 5, 0);
    bad->run_share = (double)NAN;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->never_move = true;
}

/* Both rules stop at every constraint, say so, and explain names the constraint. */
static void
test_constraints(void **state)
{
    (void)state;
    static const struct {
        spoiler spoil;
        const char *constraint; /* of the target, NULL: the VM itself cannot move */
        const char *sentence;
    } cases[] = {
        {spoil_maintenance, "maintenance", "host 'to' is in maintenance"},
        {spoil_never_move, NULL, "VM 'a' is marked never to be moved"},
        {spoil_pinned, NULL, "VM 'a' is pinned"},
        {spoil_memory, "memory", "needs 1.00 GiB of memory, host 'to' has 1.00 GiB free"},
        {spoil_cpu_model, "cpu-model", "needs CPU model 'Icelake', host 'to' has 'Haswell'"},
        {spoil_cpu_model_unknown, "cpu-model", "that of host 'to' is not known"},
        {spoil_gpu_type, "gpu-type", "has a vGPU of type 't', host 'to' offers none"},
        {spoil_gpu_type_unknown, "gpu-type", "the vGPU type of VM 'a' on GPU 'card0' is not known"},
        {spoil_gpu_free, "gpu-free", "host 'to' has no free vGPU of type 't' for VM 'a'"},
        {spoil_gpu_memory, "gpu-memory", "VM 'a' needs 1.00 GiB of GPU memory"},
        {spoil_affinity, "affinity", "VM 'a' belongs with VM 'b' (affinity group 'g')"},
        {spoil_anti_affinity, "anti-affinity", "VM 'a' must not be with VM 'enemy'"},
        {spoil_data, NULL, "the data of VM 'bad' is bad"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
        cases[i].spoil(from, to);
        g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, VG_PLAN_INFEASIBLE);
        assert_int_equal(plan->actions->len, 0);
        assert_true(says(plan->why, cases[i].sentence));

        g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &config, "a", NULL);
        const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
        assert_int_equal(why->movable, cases[i].constraint != NULL);
        if (cases[i].constraint) {
            assert_int_equal(candidate->verdict, VG_CANDIDATE_FORBIDDEN);
            assert_string_equal(candidate->constraint, cases[i].constraint);
            assert_non_null(strstr(candidate->reason, cases[i].sentence));
        }
    }
}

/* Constraints at their edge: what just fits is allowed. */
static void
test_just_fits(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    need_gpu(from, "t");
    add_gpu(to, "card0", "t", 1)->memory_free_bytes = GIB;
    to->memory_free_bytes = GIB;
    need_model(from);
    to->cpu_model = g_strdup("Icelake");
    config.max_moves_per_host = 2;
    config.min_gain = 0;
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1); /* and the second VM does not fit any more */
}

static void
test_bad_vm_is_skipped(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    struct vg_snap_vm *bad = add_vm(from, "bad", 1, 0);
    bad->problem = g_strdup("its clock ran backwards");
    struct vg_snap_vm *worse = add_vm(to, "worse", 1, 0);
    worse->run_share = (double)INFINITY;
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    assert_int_equal(plan->skipped->len, 2);
    const struct vg_plan_skip *skip = plan->skipped->pdata[0];
    assert_string_equal(skip->vm, "bad");
    assert_string_equal(skip->host, "from");
    assert_string_equal(skip->reason, "its clock ran backwards");
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S); /* as if they were not there */
}

static void
test_nothing_to_look_at(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) empty = vg_snapshot_new(VG_SOURCE_LIVE);
    for (int rule = 0; rule < VG_RULE_MAX; rule++) {
        g_autoptr(vg_plan) plan = plan_of(empty, (enum vg_rule_id)rule);
        assert_int_equal(plan->verdict, VG_PLAN_NOTHING_TO_DO);
        assert_true(says(plan->why, "there is no host in the snapshot"));

        g_autoptr(vg_snapshot) one = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *host = add_host(one, "lonely", 1);
        add_vm(host, "a", 1, 0)->preemptions_per_s = 50;
        add_vm(host, "b", 1, 0);
        g_autoptr(vg_plan) alone = plan_of(one, (enum vg_rule_id)rule);
        assert_int_equal(alone->verdict, VG_PLAN_INFEASIBLE);
        assert_true(says(alone->why, "there is no other host in the snapshot"));

        g_autoptr(vg_snapshot) calm = vg_snapshot_new(VG_SOURCE_TRACE);
        host = add_host(calm, "calm", 4);
        struct vg_snap_vm *quiet = add_vm(host, "a", 0.5, -1);
        quiet->preempt_share = 0.01;
        add_host(calm, "other", 4);
        g_autoptr(vg_plan) nothing = plan_of(calm, (enum vg_rule_id)rule);
        assert_int_equal(nothing->verdict, VG_PLAN_NOTHING_TO_DO);
        assert_true(nothing->why->len > 0);
    }
    g_autoptr(GError) err = NULL;
    vg_snapshot *open = vg_snapshot_new(VG_SOURCE_TRACE);
    assert_null(vg_policy_plan(open, &config, VG_RULE_COMPLEMENT, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_BUG));
    vg_snapshot_free(open);
}

/* 0.05 cores lost is contended, a hair less is not. */
static void
test_threshold(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *from = add_host(snapshot, "from", 1);
        struct vg_snap_vm *a = add_vm(from, "a", 1, 0);
        a->run_share = i == 0 ? 1.05 : 1.0499;
        a->preempt_share = 0;
        add_host(snapshot, "to", 4);
        config.min_gain = 0.001;
        g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, i == 0 ? VG_PLAN_CHANGES : VG_PLAN_NOTHING_TO_DO);
        if (i == 1)
            assert_true(says(plan->why, "below the threshold of 0.05"));
    }
}

/* The cost is 8.3 / 600 = 0.013833 cores; the gain of moving "a" is what is lost beyond 1 CPU. */
static void
test_min_gain(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    config.min_gain = 0.98;
    g_autoptr(vg_plan) passes = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(passes->verdict, VG_PLAN_CHANGES);
    config.min_gain = 0.99; /* 1 - 0.0138 = 0.986 */
    g_autoptr(vg_plan) fails = plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(fails->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(says(fails->why, "it wins 1.000 cores, 0.986 after its cost; 0.990 are needed"));

    /* Ten VMs of one core on one CPU: each wins 1 of 9, that is 11.1 %. */
    config.min_gain = 0.05;
    g_autoptr(vg_snapshot) crowd = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = add_host(crowd, "crowd", 1);
    for (int i = 0; i < 10; i++) {
        g_autofree char *name = g_strdup_printf("vm%d", i);
        add_vm(host, name, 1, 0);
    }
    add_host(crowd, "to", 4);
    config.min_gain_fraction = 0.11;
    g_autoptr(vg_plan) enough = plan_of(crowd, VG_RULE_COMPLEMENT);
    assert_int_equal(enough->verdict, VG_PLAN_CHANGES);
    config.min_gain_fraction = 0.12;
    g_autoptr(vg_plan) little = plan_of(crowd, VG_RULE_COMPLEMENT);
    assert_int_equal(little->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(says(little->why, "12 % are needed"));
}

/* Contention in the newest `busy` of `n` windows. */
static enum vg_plan_verdict
verdict_of_history(enum vg_snapshot_source source, guint n, guint busy)
{
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    g_autofree double *cpu = g_new0(double, n);
    for (guint i = 0; i < n; i++)
        cpu[i] = i >= n - busy ? 1.0 : 0.5;
    from->source = source;
    for (guint v = 0; n > 0 && v < from->vms->len; v++)
        set_profile(from->vms->pdata[v], cpu, n);
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
    return plan->verdict;
}

static void
test_hold(void **state)
{
    (void)state;
    /* 30 s of hold, 0.8 of them: 24 windows. */
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 24), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 23), VG_PLAN_NOTHING_TO_DO);
    /* A live host must have been watched for that long, a recording not. */
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 29, 29), VG_PLAN_NOTHING_TO_DO);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 30, 30), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_TRACE, 6, 6), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_TRACE, 6, 4), VG_PLAN_NOTHING_TO_DO);
    assert_int_equal(verdict_of_history(VG_SOURCE_EXAMPLE, 0, 0), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 0, 0), VG_PLAN_NOTHING_TO_DO);
    config.hold_ns = 0;
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 0, 0), VG_PLAN_CHANGES);
}

/* Two full hosts, two empty ones: a move each, because a host takes part in one only; then more. */
static void
test_move_limits(void **state)
{
    (void)state;
    for (int limit = 1; limit <= 3; limit++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        for (int h = 0; h < 2; h++) {
            struct vg_snap_host *host = add_host(snapshot, h ? "full2" : "full1", 1);
            add_vm(host, "a", 1, 0);
            add_vm(host, "b", 1, 0);
            add_vm(host, "c", 1, 0);
        }
        add_host(snapshot, "to1", 1);
        add_host(snapshot, "to2", 1);
        config.max_moves = limit;
        g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, MIN(limit, 2));
        if (limit < 2)
            continue;
        const struct vg_plan_action *first = plan->actions->pdata[0];
        const struct vg_plan_action *second = plan->actions->pdata[1];
        assert_string_equal(first->from, "full1");
        assert_string_equal(first->to, "to1");
        assert_string_equal(second->from, "full2");
        assert_string_equal(second->to, "to2");
        if (limit == 3)
            assert_true(says(plan->why, "takes part in 1 of this plan's moves"));
    }
}

static vg_snapshot *
make_paper(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *from = add_host(snapshot, "from", 1);
    add_vm(from, "often", 1, 0)->preemptions_per_s = 90;
    add_vm(from, "seldom", 1, 0)->preemptions_per_s = 10;
    add_vm(from, "mixed", 1, 0)->preemptions_per_s = 500;
    ((struct vg_snap_vm *)from->vms->pdata[2])->vm_class = VG_CLASS_MIXED;
    static const struct {
        const char *host;
        int gpu;
        int other;
    } hosts[] = {{"few", 1, 0}, {"half", 2, 2}, {"most", 4, 1}};
    for (size_t h = 0; h < G_N_ELEMENTS(hosts); h++) {
        struct vg_snap_host *host = add_host(snapshot, hosts[h].host, 8);
        for (int i = 0; i < hosts[h].gpu + hosts[h].other; i++) {
            g_autofree char *name = g_strdup_printf("vm%d", i);
            struct vg_snap_vm *vm = add_vm(host, name, 0.1, -1);
            vm->vm_class = i < hosts[h].gpu ? VG_CLASS_GPU : VG_CLASS_IDLE;
        }
    }
    return snapshot;
}

static void
test_paper_by_hand(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = make_paper();
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "often");
    assert_string_equal(action->to, "most"); /* 4 - 1 = 3, against 1 - 0 and 2 - 2 */
    assert_string_equal(action->reason.rule, "paper-threshold");
    assert_non_null(strstr(action->reason.text, "4 of 5"));
    assert_string_equal(action->runner_up.what, "move 'often' from 'from' to 'few'");
    assert_non_null(strstr(action->runner_up.why, "smaller: 1 of 1, against 4 of 5"));

    /* The threshold is passed, not reached: 10/s stays. */
    config.paper_max_moves = 3;
    g_autoptr(vg_plan) all = plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(all->actions->len, 1);
    config.preempt_threshold = 90;
    g_autoptr(vg_plan) none = plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(none->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(says(none->why, "no CPU-intensive VM is preempted more than 90.0 times"));
}

static void
test_paper_without_target(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = make_pair(&from, &to);
    ((struct vg_snap_vm *)from->vms->pdata[0])->preemptions_per_s = 11;
    g_autoptr(vg_plan) plan = plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(plan->verdict, VG_PLAN_INFEASIBLE);
    assert_true(says(plan->why, "host 'to' has no majority of GPU-intensive VMs: 0 of 0"));
}

static void
test_explain_reference(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = make_paper();
    g_autoptr(GError) err = NULL;
    ((struct vg_snap_vm *)((struct vg_snap_host *)snapshot->hosts->pdata[0])->vms->pdata[0])->uuid =
        g_strdup("0000-aa");
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    assert_null(vg_policy_explain(snapshot, &config, "nobody", &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_clear_error(&err);
    assert_null(vg_policy_explain(snapshot, &config, "vm0", &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
    assert_non_null(strstr(err->message, "say 'few/vm0'"));
    g_autoptr(vg_explanation) by_path = vg_policy_explain(snapshot, &config, "half/vm0", NULL);
    assert_string_equal(by_path->host, "half");
    g_autoptr(vg_explanation) by_uuid = vg_policy_explain(snapshot, &config, "0000-AA", NULL);
    assert_non_null(by_uuid);
    assert_int_equal(by_uuid->candidates->len, 4);
}

/* The recording of the demo, by its README: three VMs on CPU 0 of two, 6.2 s. */
static vg_snapshot *
make_demo(void)
{
    static const struct {
        const char *name;
        double run;
        double preempt;
        double wake;
        double preemptions;
    } vms[] = {
        {"vm-busy", 2.712, 3.504, 0, 568},
        {"vm-duty", 2.693, 3.475, 0.001, 561},
        {"vm-idle", 0.548, 0.804, 0.05, 99},
    };
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    snapshot->begin_ns = 100 * S;
    snapshot->end_ns = 106 * S;
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, "inner-host");
    host->cpus = 2;
    for (size_t i = 0; i < G_N_ELEMENTS(vms); i++) {
        struct vg_snap_vm *vm = add_vm(host, vms[i].name, 1, 0);
        vm->memory_bytes = 0;
        vm->run_share = vms[i].run / 6.2;
        vm->preempt_share = vms[i].preempt / 6.2;
        vm->wake_wait_share = vms[i].wake / 6.2;
        vm->preemptions_per_s = vms[i].preemptions / 6.2;
        vm->cpu_intensity = MIN(vg_snap_vm_demand(vm), 1);
        vm->vm_class = i < 2 ? VG_CLASS_CPU : VG_CLASS_IDLE;
        double demand = vg_snap_vm_demand(vm);
        const double profile[] = {demand, demand, demand, demand, demand, demand};
        set_profile(vm, profile, 6);
    }
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    return snapshot;
}

static void
test_demo(void **state)
{
    (void)state;
    const char *root = getenv("VG_SRCDIR");
    g_autofree char *path =
        g_build_filename(root ? root : ".", "data", "demo", "gpu-host.snapshot.json", NULL);
    g_autofree char *text = NULL;
    size_t size = 0;
    assert_true(g_file_get_contents(path, &text, &size, NULL));
    g_autoptr(vg_snapshot) example = vg_snapshot_from_json(text, size, NULL);
    g_autoptr(vg_snapshot) measured = make_demo();
    const vg_snapshot *parts[] = {measured, example};
    const char *labels[] = {"measured", "example"};
    g_autoptr(vg_snapshot) whole = vg_snapshot_merge(parts, labels, 2, NULL);
    assert_non_null(whole);
    for (int rule = 0; rule < VG_RULE_MAX; rule++) {
        g_autoptr(vg_plan) plan = plan_of(whole, (enum vg_rule_id)rule);
        assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
        assert_int_equal(plan->actions->len, 1);
        const struct vg_plan_action *action = plan->actions->pdata[0];
        assert_string_equal(action->vm, "vm-busy");
        assert_string_equal(action->to, "gpu-host");
        /* vm-busy wants 6.216 / 6.2 = 1.0026 cores; all of it was lost by somebody. */
        assert_int_equal(action->gain.lost_cpu_ns_per_s / 1000000, 1002);
        assert_true(action->cost.memory_assumed);
        assert_true(says(plan->notes, "host 'gpu-host' is an example, not a measurement"));
        assert_true(says(plan->notes, "4.0 GiB are assumed"));
        assert_true(says(plan->notes, "were not measured at the same time"));
        print_message("# %s\n", action->reason.text);

        g_autoptr(json_object) json = vg_plan_to_json(plan);
        g_autofree char *written = vg_json_to_text(json, true);
        g_autoptr(vg_plan) again = vg_plan_from_json(written, strlen(written), NULL);
        assert_non_null(again);
        g_autoptr(json_object) json_again = vg_plan_to_json(again);
        g_autofree char *written_again = vg_json_to_text(json_again, true);
        assert_string_equal(written, written_again);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_complement_by_hand, set_up),
        cmocka_unit_test_setup(test_pools, set_up),
        cmocka_unit_test_setup(test_profiles_complement, set_up),
        cmocka_unit_test_setup(test_gpu_contention, set_up),
        cmocka_unit_test_setup(test_constraints, set_up),
        cmocka_unit_test_setup(test_just_fits, set_up),
        cmocka_unit_test_setup(test_bad_vm_is_skipped, set_up),
        cmocka_unit_test_setup(test_nothing_to_look_at, set_up),
        cmocka_unit_test_setup(test_threshold, set_up),
        cmocka_unit_test_setup(test_min_gain, set_up),
        cmocka_unit_test_setup(test_hold, set_up),
        cmocka_unit_test_setup(test_move_limits, set_up),
        cmocka_unit_test_setup(test_paper_by_hand, set_up),
        cmocka_unit_test_setup(test_paper_without_target, set_up),
        cmocka_unit_test_setup(test_explain_reference, set_up),
        cmocka_unit_test_setup(test_demo, set_up),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
