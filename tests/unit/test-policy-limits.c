/* SPDX-License-Identifier: Apache-2.0
 *
 * What keeps the policy from moving: every hard constraint, every gate, bad data, empty input.
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
#include "model/gpu-target.h"
#include "policy/evacuate.h"
#include "policy/policy.h"
#include "tests/unit/policy-cases.h"

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
spoil_unmanaged(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->unmanaged = true;
}

static void
spoil_managed(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->manager = g_strdup("oVirt");
}

static void
spoil_cold(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        ((struct vg_snap_vm *)from->vms->pdata[i])->only_cold = g_strdup("it has Venus");
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
        policy_add_use(from->vms->pdata[i], "card0", type, 0.1);
}

static void
spoil_gpu_type(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    policy_add_gpu(to, "card0", "other", 9);
}

static void
spoil_gpu_type_unknown(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, NULL);
    policy_add_gpu(to, "card0", "t", 9);
}

static void
spoil_gpu_free(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    policy_add_gpu(to, "card0", "t", 0);
}

static void
spoil_whole_gpu_type(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "10de:2331");
    policy_add_gpu(to, "card0", "10de:2330", 1);
}

static void
spoil_whole_gpu_free(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "10de:2331");
    policy_add_gpu(to, "card0", "10de:2331", 0);
}

/* As older snapshots are: the only GPU of the target is that of a VM there. */
static void
spoil_whole_gpu_used(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "passthrough");
    vg_snap_host_add_gpu(to, "card0");
    policy_add_use(policy_add_vm(to, "owner", 0.1, -1), "card0", "passthrough", 0.1);
}

static void
spoil_gpu_memory(struct vg_snap_host *from, struct vg_snap_host *to)
{
    need_gpu(from, "t");
    policy_add_gpu(to, "card0", "t", 1)->memory_free_bytes = GIB - 1;
}

static void
spoil_affinity(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    for (guint i = 0; i < from->vms->len; i++)
        g_ptr_array_add(((struct vg_snap_vm *)from->vms->pdata[i])->affinity, g_strdup("g"));
    ((struct vg_snap_vm *)from->vms->pdata[1])->pinned = true; /* or they would move together */
}

static void
spoil_anti_affinity(struct vg_snap_host *from, struct vg_snap_host *to)
{
    struct vg_snap_vm *enemy = policy_add_vm(to, "enemy", 0.1, -1);
    g_ptr_array_add(enemy->anti_affinity, g_strdup("g"));
    for (guint i = 0; i < from->vms->len; i++)
        g_ptr_array_add(((struct vg_snap_vm *)from->vms->pdata[i])->anti_affinity, g_strdup("g"));
}

static void
spoil_data(struct vg_snap_host *from, struct vg_snap_host *to)
{
    (void)to;
    struct vg_snap_vm *bad = policy_add_vm(from, "bad", 5, 0);
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
        {spoil_never_move, NULL, "VM 'a' has the policy `never`"},
        {spoil_unmanaged, NULL, "libvirt on host 'from' does not know VM 'a'"},
        {spoil_managed, NULL, "VM 'a' is managed by oVirt, which alone may move it"},
        {spoil_cold, NULL, "VM 'a' can only be moved while it is shut down: it has Venus"},
        {spoil_pinned, NULL, "VM 'a' is pinned"},
        {spoil_memory, "memory", "needs 1.00 GiB of memory, but host 'to' has 1.00 GiB free"},
        {spoil_cpu_model, "cpu-model", "needs CPU model 'Icelake', but host 'to' has 'Haswell'"},
        {spoil_cpu_model_unknown, "cpu-model", "the CPU model of host 'to' is unknown"},
        {spoil_gpu_type, "gpu-type", "has a GPU of type 't', which host 'to' does not offer"},
        {spoil_gpu_type_unknown, "gpu-type", "the vGPU type of VM 'a' on GPU 'card0' is not known"},
        {spoil_gpu_free, "gpu-free", "host 'to' has no free GPU of type 't' for VM 'a'"},
        {spoil_whole_gpu_type, "gpu-type",
         "a GPU of type '10de:2331', which host 'to' does not offer"},
        {spoil_whole_gpu_free, "gpu-free", "no free GPU of type '10de:2331' for VM 'a'"},
        {spoil_whole_gpu_used, "gpu-free", "no free GPU of type 'passthrough' for VM 'a'"},
        {spoil_gpu_memory, "gpu-memory", "VM 'a' needs 1.00 GiB of GPU memory"},
        {spoil_affinity, "affinity",
         "VM 'a' must be on the same host as VM 'b' (affinity group 'g')"},
        {spoil_anti_affinity, "anti-affinity", "VM 'a' must not be on the same host as VM 'enemy'"},
        {spoil_data, NULL, "the data of VM 'bad' is invalid"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        cases[i].spoil(from, to);
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, VG_PLAN_INFEASIBLE);
        assert_int_equal(plan->actions->len, 0);
        assert_true(policy_says(plan->why, cases[i].sentence));

        g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "a", NULL);
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
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    need_gpu(from, "t");
    policy_add_gpu(to, "card0", "t", 1)->memory_free_bytes = GIB;
    to->memory_free_bytes = GIB;
    need_model(from);
    to->cpu_model = g_strdup("Icelake");
    policy_config.max_moves_per_host = 2;
    policy_config.min_gain = 0;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1); /* and the second VM does not fit any more */
}

/* A VM that was started with an older model than its host has runs on any host like that. */
static void
test_older_cpu_model(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    need_model(from);
    from->cpu_model = g_strdup("SapphireRapids");
    to->cpu_model = g_strdup("SapphireRapids");
    policy_config.min_gain = 0;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(plan->actions->len > 0);
}

/* The GPU of the target is named, by gpu_placement: of two free ones the empty one, or the one in
 * use. */
static void
test_evacuate_names_gpus(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_EXAMPLE);
    struct vg_snap_host *from = vg_snapshot_add_host(snapshot, "from");
    struct vg_snap_host *to = vg_snapshot_add_host(snapshot, "to");
    struct vg_snap_vm *vms[] = {vg_snap_host_add_vm(from, "vm"), vg_snap_host_add_vm(to, "other")};

    for (size_t i = 0; i < G_N_ELEMENTS(vms); i++) {
        struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
        vms[i]->vcpus = 1;
        use->device = g_strdup("0000:41:00.0");
        use->engine = g_strdup("sm");
        use->vgpu_type = g_strdup("12Q");
        use->share = 0.1;
        g_ptr_array_add(vms[i]->gpu, use);
    }
    for (int i = 1; i <= 2; i++) {
        g_autofree char *device = g_strdup_printf("0000:4%d:00.0", i);
        struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(to, device);
        struct vg_snap_vgpu_type *type = vg_record_new(&vg_snap_vgpu_type_record);
        type->type = g_strdup("12Q");
        type->free = i;
        g_ptr_array_add(gpu->vgpu_types, type);
    }
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    for (int how = 0; how < VG_GPU_PLACEMENT_MAX; how++) {
        policy_config.gpu_placement = (enum vg_gpu_placement)how;
        g_autoptr(GPtrArray) list = vg_policy_evacuate(snapshot, &policy_config, "from");
        assert_int_equal(list->len, 1);
        const struct vg_evacuation *one = list->pdata[0];
        assert_int_equal(one->gpus->len, 1);
        const struct vg_gpu_target *gpu = one->gpus->pdata[0];
        assert_string_equal(gpu->type, "12Q");
        assert_string_equal(gpu->from, "0000:41:00.0");
        assert_string_equal(gpu->to,
                            how == VG_GPU_PLACEMENT_PACK ? "0000:41:00.0" : "0000:42:00.0");
    }
}

/* A host is emptied: the largest VM is placed first, each where room is left by those before it,
 * and those that cannot leave say why. */
static void
test_evacuate(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_EXAMPLE);
    struct vg_snap_host *from = vg_snapshot_add_host(snapshot, "from");
    struct vg_snap_host *small = vg_snapshot_add_host(snapshot, "small");
    struct vg_snap_host *large = vg_snapshot_add_host(snapshot, "large");
    struct vg_snap_host *closed = vg_snapshot_add_host(snapshot, "closed");
    static const struct {
        const char *name;
        int64_t gib;
        const char *reason;
    } cases[] = {
        {"two", 2, "has space for the VM"},
        {"one", 1, "has space for the VM"},
        {"kept", 1, "the policy `never`"},
        {"left-over", 1, "no host can take the VM"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_vm *vm = vg_snap_host_add_vm(from, cases[i].name);
        vm->vcpus = 1;
        vm->memory_bytes = cases[i].gib * GIB;
        vm->never_move = strcmp(cases[i].name, "kept") == 0;
    }
    /* Bad data keeps no VM from leaving. */
    ((struct vg_snap_vm *)from->vms->pdata[0])->problem = g_strdup("no source measures it");
    from->maintenance = true;
    small->memory_bytes = large->memory_bytes = closed->memory_bytes = 8 * GIB;
    small->memory_free_bytes = GIB + GIB / 2;
    large->memory_free_bytes = 2 * GIB + GIB / 2;
    closed->memory_free_bytes = 8 * GIB;
    closed->maintenance = true;
    /* Of the two small ones, one finds no room. */
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    g_autoptr(GPtrArray) list = vg_policy_evacuate(snapshot, &policy_config, "from");
    assert_int_equal(list->len, G_N_ELEMENTS(cases));
    unsigned placed[2] = {0};
    for (guint i = 0; i < list->len; i++) {
        const struct vg_evacuation *one = list->pdata[i];
        if (i == 0) {
            assert_string_equal(one->vm, "two");
            assert_string_equal(one->to, "large");
            assert_true(one->seconds > 0);
        }
        if (strcmp(one->vm, "kept") == 0) {
            assert_null(one->to);
            assert_non_null(strstr(one->reason, cases[2].reason));
        } else if (!one->to) {
            assert_non_null(strstr(one->reason, cases[3].reason));
            placed[0]++;
        } else {
            assert_non_null(strstr(one->reason, cases[0].reason));
            placed[1]++;
        }
    }
    assert_int_equal(placed[0], 1);
    assert_int_equal(placed[1], 2);
    g_autoptr(GPtrArray) none = vg_policy_evacuate(snapshot, &policy_config, "nowhere");
    assert_int_equal(none->len, 0);
}

/* A whole GPU is one of the same PCI id; in older snapshots, any that nobody has, also where the
 * target knows PCI ids already. */
static void
test_whole_gpus(void **state)
{
    static const struct {
        const char *needed, *offered; /* NULL: the target says nothing of its GPU */
    } cases[] = {{"10de:2331", "10de:2331"}, {"passthrough", NULL}, {"passthrough", "10de:2331"}};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL, *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        need_gpu(from, cases[i].needed);
        if (cases[i].offered)
            policy_add_gpu(to, "card0", cases[i].offered, 1);
        else
            vg_snap_host_add_gpu(to, "card0");
        policy_config.max_moves_per_host = 2;
        policy_config.min_gain = 0;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, 1); /* and there is no second GPU */
    }
}

static void
test_bad_vm_is_skipped(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_vm *bad = policy_add_vm(from, "bad", 1, 0);
    bad->problem = g_strdup("its clock ran backwards");
    struct vg_snap_vm *worse = policy_add_vm(to, "worse", 1, 0);
    worse->run_share = (double)INFINITY;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    assert_int_equal(plan->skipped->len, 2);
    const struct vg_plan_skip *skip = plan->skipped->pdata[0];
    assert_string_equal(skip->vm, "bad");
    assert_string_equal(skip->host, "from");
    assert_string_equal(skip->reason, "its clock ran backwards");
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S); /* as if they were not there */
}

/* It is not moved, whoever it is, and what it wants counts all the same. */
static void
test_unmanaged_vm_is_left_out(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL, *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    ((struct vg_snap_vm *)from->vms->pdata[0])->unmanaged = true;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);

    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "b");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S); /* 2 wanted of CPU 0 */
    assert_int_equal(plan->skipped->len, 1);
    const struct vg_plan_skip *skip = plan->skipped->pdata[0];
    assert_string_equal(skip->vm, "a");
    assert_string_equal(skip->reason, "libvirt on the VM's host does not know the VM");
}

static void
test_nothing_to_look_at(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) empty = vg_snapshot_new(VG_SOURCE_LIVE);
    for (int rule = 0; rule < VG_RULE_MAX; rule++) {
        g_autoptr(vg_plan) plan = policy_plan_of(empty, (enum vg_rule_id)rule);
        assert_int_equal(plan->verdict, VG_PLAN_NOTHING_TO_DO);
        assert_true(policy_says(plan->why, "the snapshot contains no hosts"));

        g_autoptr(vg_snapshot) one = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *host = policy_add_host(one, "lonely", 1);
        policy_add_vm(host, "a", 1, 0)->preemptions_per_s = 50;
        policy_add_vm(host, "b", 1, 0);
        g_autoptr(vg_plan) alone = policy_plan_of(one, (enum vg_rule_id)rule);
        /* The paper's rule looks for a majority, which nobody forbids here. */
        assert_int_equal(alone->verdict,
                         rule == VG_RULE_COMPLEMENT ? VG_PLAN_INFEASIBLE : VG_PLAN_NOTHING_TO_DO);
        assert_true(policy_says(alone->why, "the snapshot contains no other hosts"));

        g_autoptr(vg_snapshot) calm = vg_snapshot_new(VG_SOURCE_TRACE);
        host = policy_add_host(calm, "calm", 4);
        struct vg_snap_vm *quiet = policy_add_vm(host, "a", 0.5, -1);
        quiet->preempt_share = 0.01;
        policy_add_host(calm, "other", 4);
        g_autoptr(vg_plan) nothing = policy_plan_of(calm, (enum vg_rule_id)rule);
        assert_int_equal(nothing->verdict, VG_PLAN_NOTHING_TO_DO);
        assert_true(nothing->why->len > 0);
    }
    g_autoptr(GError) err = NULL;
    vg_snapshot *open = vg_snapshot_new(VG_SOURCE_TRACE);
    assert_null(vg_policy_plan(open, &policy_config, VG_RULE_COMPLEMENT, &err));
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
        struct vg_snap_host *from = policy_add_host(snapshot, "from", 1);
        struct vg_snap_vm *a = policy_add_vm(from, "a", 1, 0);
        a->run_share = i == 0 ? 1.05 : 1.0499;
        a->preempt_share = 0;
        policy_add_host(snapshot, "to", 4);
        policy_config.min_gain = 0.001;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, i == 0 ? VG_PLAN_CHANGES : VG_PLAN_NOTHING_TO_DO);
        if (i == 1)
            assert_true(policy_says(plan->why, "below the threshold of 0.05"));
    }
}

/* The cost is 8.3 / 600 = 0.013833 cores; the gain of moving "a" is what is lost beyond 1 CPU. */
static void
test_min_gain(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    policy_config.min_gain = 0.98;
    g_autoptr(vg_plan) passes = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(passes->verdict, VG_PLAN_CHANGES);
    policy_config.min_gain = 0.99; /* 1 - 0.0138 = 0.986 */
    g_autoptr(vg_plan) fails = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(fails->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(
        fails->why, "the move gains 1.000 cores, 0.986 after its cost; 0.990 are required"));

    /* The target has one CPU, of which 0.85 are wanted: one of the two VMs of one core could win
     * the whole core that is lost, and wins 0.15 of it there. */
    policy_config.min_gain = 0.05;
    g_autoptr(vg_snapshot) tight = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *full = policy_add_host(tight, "full", 1);
    policy_add_vm(full, "a", 1, 0);
    policy_add_vm(full, "b", 1, 0);
    policy_add_vm(policy_add_host(tight, "nearly", 1), "c", 0.85, 0);
    policy_config.min_gain_fraction = 0.14;
    g_autoptr(vg_plan) enough = policy_plan_of(tight, VG_RULE_COMPLEMENT);
    assert_int_equal(enough->verdict, VG_PLAN_CHANGES);
    policy_config.min_gain_fraction = 0.16;
    g_autoptr(vg_plan) little = policy_plan_of(tight, VG_RULE_COMPLEMENT);
    assert_int_equal(little->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(little->why, "16 % are required"));
}

/* A move of 1 core that costs 0.0138 wins 0.986. At an age of 60 s it must win twice the 0.49 of
 * min_gain, and at 61 s more than it does. Both hosts count, the older one alone. */
static void
test_old_figures(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_host *const hosts[] = {from, to};

    policy_config.min_gain = 0.49;
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        hosts[i]->age_ns = 60 * S;
        g_autoptr(vg_plan) twice = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(twice->verdict, VG_PLAN_CHANGES);
        assert_true(policy_says(twice->notes, "the figures are up to 60 s old; moves to and from "
                                              "this host must gain more"));
        hosts[i]->age_ns = 61 * S;
        hosts[1 - i]->age_ns = 30 * S;
        g_autoptr(vg_plan) more = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(more->verdict, VG_PLAN_NOTHING_TO_DO);
        g_autofree char *why =
            g_strdup_printf("the move gains 1.000 cores, 0.986 after its cost; 0.988 are required, "
                            "2.02 times as much as "
                            "usual because the figures of host '%s' are 61 s old",
                            hosts[i]->name);
        assert_true(policy_says(more->why, why));
        policy_config.stale_ns = 0;
        g_autoptr(vg_plan) always = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(always->verdict, VG_PLAN_CHANGES);
        policy_config.stale_ns = 60 * S;
        hosts[0]->age_ns = hosts[1]->age_ns = 0;
    }
    g_autoptr(vg_plan) new = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_false(policy_says(new->notes, " s old"));
}

/* A part of what a move could win at most is asked for, too: of old figures never more than all. */
static void
test_old_figures_of_a_tight_host(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) tight = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *full = policy_add_host(tight, "full", 1);
    struct vg_snap_host *nearly = policy_add_host(tight, "nearly", 1);

    policy_add_vm(full, "a", 1, 0);
    policy_add_vm(full, "b", 1, 0);
    policy_add_vm(nearly, "c", 0.85, 0);
    policy_config.min_gain_fraction = 0.07;
    nearly->age_ns = 60 * S;
    g_autoptr(vg_plan) enough = policy_plan_of(tight, VG_RULE_COMPLEMENT);
    assert_int_equal(enough->verdict, VG_PLAN_CHANGES);
    nearly->age_ns = 90 * S;
    g_autoptr(vg_plan) little = policy_plan_of(tight, VG_RULE_COMPLEMENT);
    assert_int_equal(little->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(little->why, "17.5 % are required, 2.5 times as much as usual because "
                                         "the figures of host 'nearly' are 90 s old"));
    policy_config.min_gain = 0;
    nearly->age_ns = 36000 * S;
    g_autoptr(vg_plan) never = policy_plan_of(tight, VG_RULE_COMPLEMENT);
    assert_true(policy_says(never->why, "100 % are required"));
}

/* Each of 24 VMs of one core wins only 1 of the 23 that one CPU lacks, and all it could: the worse
 * the overload, the more a move is worth. */
static void
test_worst_overload_is_relieved(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) crowd = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(crowd, "crowd", 1);
    for (int i = 0; i < 24; i++) {
        g_autofree char *name = g_strdup_printf("vm%02d", i);
        policy_add_vm(host, name, 1, 0);
    }
    policy_add_host(crowd, "to", 64);
    g_autoptr(vg_plan) plan = policy_plan_of(crowd, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
}

/* One host with two VMs of ten cores, which win 8 of 10 on a target of 8 CPUs, and one with two of
 * 0.9: what the first loses must not hold up the move of the second. */
static void
test_gate_is_per_move(void **state)
{
    (void)state;
    policy_config.min_gain_fraction = 0.9;
    for (int alone = 0; alone < 2; alone++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *bad = policy_add_host(snapshot, "bad", 1);
        policy_add_vm(bad, "big0", 10, 0);
        policy_add_vm(bad, "big1", 10, 0);
        struct vg_snap_host *small = policy_add_host(snapshot, "small", 1);
        policy_add_vm(small, "x", 0.9, 0);
        policy_add_vm(small, "y", 0.9, 0)->never_move = alone;
        policy_add_host(snapshot, "to1", 8);
        policy_add_host(snapshot, "to2", 8);
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
        assert_int_equal(plan->actions->len, 1);
        const struct vg_plan_action *action = plan->actions->pdata[0];
        assert_string_equal(action->vm, "x");
        assert_int_equal(action->gain.lost_cpu_ns_per_s, 800000000);
        assert_true(policy_says(plan->why,
                                "the best other move is to move 'big0' from 'bad' to 'to2': the "
                                "move gains 8.000 of the 10.000 possible cores; 90 % are "
                                "required"));
        assert_string_equal(action->runner_up.what, "move 'x' from 'small' to 'to2'");
    }
}

/* The only move that wins enough is compared with the best that does not. */
static void
test_runner_up_that_fails(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    policy_add_vm(from, "c", 0.01, 0);
    ((struct vg_snap_vm *)from->vms->pdata[1])->never_move = true;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "a");
    assert_string_equal(action->runner_up.what, "move 'c' from 'from' to 'to'");
    assert_non_null(strstr(action->runner_up.why, "the move gains 0.010 cores"));
    assert_int_equal(action->runner_up.gain.lost_cpu_ns_per_s, 10000000);
}

/* Two vGPUs of 4 GiB of one VM: a GPU with 6 GiB has room for one of them. */
static void
test_gpu_memory_of_two(void **state)
{
    (void)state;
    for (int gib = 6; gib <= 8; gib += 2) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        struct vg_snap_vm *a = from->vms->pdata[0];
        policy_add_use(a, "card0", "t", 0.8);
        policy_add_use(a, "card1", "t", 0.7);
        for (guint i = 0; i < a->gpu->len; i++)
            ((struct vg_snap_gpu_use *)a->gpu->pdata[i])->memory_bytes = 4 * GIB;
        a->gpu_intensity = 0.9;
        policy_add_gpu(to, "card7", "t", 9)->memory_free_bytes = gib * GIB;
        assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
        g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "a", NULL);
        const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
        if (gib == 6) {
            assert_string_equal(candidate->constraint, "gpu-memory");
            continue;
        }
        /* Both are one GPU there: 0.8 + 0.7 wanted of one engine. */
        assert_null(candidate->constraint);
        assert_int_equal(candidate->gain.gpu_wait_ns_per_s, -500000000);
    }
}

/* Where two GPUs have room, the second vGPU of a VM goes to the one that the first left idle. */
static void
test_two_gpus(void **state)
{
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_vm *a = from->vms->pdata[0];

    (void)state;
    policy_add_use(a, "card0", "t", 0.8);
    policy_add_use(a, "card1", "t", 0.7);
    a->gpu_intensity = 0.9;
    policy_add_gpu(to, "card7", "t", 9);
    policy_add_gpu(to, "card8", "t", 9);
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "a", NULL);
    const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
    assert_null(candidate->constraint);
    assert_int_equal(candidate->gain.gpu_wait_ns_per_s, 0);
}

/* 1 PiB at 1 MB/s with 64 cores copying is 7e19 ns, more than a plan can hold. */
static void
test_endless_copy(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    ((struct vg_snap_vm *)from->vms->pdata[0])->memory_bytes = INT64_C(1) << 50;
    to->memory_bytes = 0;
    to->memory_free_bytes = 0;
    policy_config.bandwidth = 1000000;
    policy_config.copy_cores = 64;
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "a", NULL);
    const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
    assert_true(candidate->cost.lost_cpu_ns == VG_JSON_INT_MAX);
    assert_int_equal(candidate->verdict, VG_CANDIDATE_NO_GAIN);
}

/* A pool that loses 0.2 cores beside an engine that loses 0.5, by what an engine is worth. */
static void
test_worst_place(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(snapshot, "h", 4);
    policy_add_vm(host, "a", 0.6, 0);
    policy_add_vm(host, "b", 0.6, 0);
    struct vg_snap_vm *c = policy_add_vm(host, "c", 0.1, -1);
    struct vg_snap_vm *d = policy_add_vm(host, "d", 0.1, -1);
    policy_add_use(c, "card0", "t", 0.75);
    policy_add_use(d, "card0", "t", 0.75);
    g_autoptr(vg_plan) equal = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(policy_says(equal->why, "host 'h' loses 0.50 engines on engine 'rcs0'"));
    policy_config.gpu_weight = 0.1;
    g_autoptr(vg_plan) light = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(policy_says(light->why, "host 'h' loses 0.20 cores on CPU 0"));
    policy_config.gpu_weight = 1;
    policy_config.contention_threshold = 0.6;
    g_autoptr(vg_plan) none = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(policy_says(none->why, "host 'h' loses 0.50 engines, below the threshold"));
}

/* A move may win more than the place that the reason names can lose, so it names the others, too.
 */
static void
test_other_places(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(snapshot, "h", 4);
    policy_add_vm(host, "a", 0.9, 0);
    policy_add_vm(host, "b", 0.9, 0);
    policy_add_use(policy_add_vm(host, "c", 0.7, 1), "card0", "t", 0.75);
    policy_add_use(policy_add_vm(host, "d", 0.6, 1), "card0", "t", 0.75);
    policy_add_host(snapshot, "to", 2);
    policy_config.gpu_weight = 0.1;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(plan->actions->len > 0);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_true(g_str_has_prefix(
        action->reason.text, "Host 'h' loses 0.80 cores on CPU 0 (1.80 demanded, 1 available); all "
                             "its CPUs together lose 1.10 cores; its GPUs lose 0.50 "
                             "engines. VM "));
}

/* Contention in the newest `busy` of `n` windows. */
static enum vg_plan_verdict
verdict_of_history(enum vg_snapshot_source source, guint n, guint busy)
{
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    g_autofree double *cpu = g_new0(double, n);
    for (guint i = 0; i < n; i++)
        cpu[i] = i >= n - busy ? 1.0 : 0.5;
    from->source = source;
    for (guint v = 0; n > 0 && v < from->vms->len; v++) {
        struct vg_snap_vm *vm = from->vms->pdata[v];
        policy_set_profile(vm, cpu, n);
        vm->run_share += vm->preempt_share; /* no measured wait, which has no history */
        vm->preempt_share = 0;
    }
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    return plan->verdict;
}

static void
test_hold(void **state)
{
    (void)state;
    /* A core is lost in each busy window: the newest 30 s and all that is known must lose 0.1. */
    policy_config.contention_threshold = 0.1;
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 6), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 5), VG_PLAN_NOTHING_TO_DO);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 300, 30), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 300, 29), VG_PLAN_NOTHING_TO_DO);
    policy_config.hold_long_ns = 0;
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 5), VG_PLAN_NOTHING_TO_DO);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 6), VG_PLAN_CHANGES);
    policy_config.hold_long_ns = S; /* below hold: as hold */
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 60, 6), VG_PLAN_CHANGES);
    /* A live host must have been watched for that long, a recording not. */
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 29, 29), VG_PLAN_NOTHING_TO_DO);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 30, 30), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_TRACE, 6, 6), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_TRACE, 6, 1), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_EXAMPLE, 0, 0), VG_PLAN_CHANGES);
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 0, 0), VG_PLAN_NOTHING_TO_DO);
    policy_config.hold_ns = 0;
    assert_int_equal(verdict_of_history(VG_SOURCE_LIVE, 0, 0), VG_PLAN_CHANGES);
}

/* A share is rounded up, and at least 3; a number is as it is. */
static void
test_share_of_moves(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n_hosts;
        int64_t moves;
    } cases[] = {{"10%", 4, 3},     {"10%", 30, 3}, {"10%", 31, 4}, {"12.5%", 80, 10},
                 {"12.5%", 81, 11}, {"100%", 5, 5}, {"0", 500, 0},  {"2", 500, 2}};
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_policy_config config;
        g_autofree char *text = g_strdup_printf("[policy]\nmax_moves_per_plan=%s\n", cases[i].text);
        assert_int_equal(vg_policy_config_parse(text, strlen(text), &config, NULL), 0);
        assert_int_equal(vg_policy_max_moves(&config, cases[i].n_hosts), cases[i].moves);
        g_autofree char *dump = vg_policy_config_dump(&config);
        g_autofree char *line = g_strdup_printf("\nmax_moves_per_plan=%s\n", cases[i].text);
        assert_non_null(strstr(dump, line));
    }
    static const char *const bad[] = {"0%", "101%", "10 %", "-1", "%", "1001"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        struct vg_policy_config config;
        g_autoptr(GError) err = NULL;
        g_autofree char *text = g_strdup_printf("[policy]\nmax_moves_per_plan=%s\n", bad[i]);
        assert_int_equal(vg_policy_config_parse(text, strlen(text), &config, &err), -1);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    }
}

/* Two full hosts, two empty ones: a move each, both in the first wave. */
static void
test_move_limits(void **state)
{
    (void)state;
    for (int limit = 1; limit <= 3; limit++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        for (int h = 0; h < 2; h++) {
            struct vg_snap_host *host = policy_add_host(snapshot, h ? "full2" : "full1", 1);
            policy_add_vm(host, "a", 1, 0);
            policy_add_vm(host, "b", 1, 0);
            policy_add_vm(host, "c", 1, 0);
        }
        policy_add_host(snapshot, "to1", 1);
        policy_add_host(snapshot, "to2", 1);
        policy_config.max_moves = limit;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, MIN(limit, 2));
        if (limit < 2)
            continue;
        const struct vg_plan_action *first = plan->actions->pdata[0];
        const struct vg_plan_action *second = plan->actions->pdata[1];
        assert_string_equal(first->from, "full1");
        assert_string_equal(first->to, "to1");
        assert_string_equal(second->from, "full2");
        assert_string_equal(second->to, "to2");
        assert_int_equal(first->wave, 1);
        assert_int_equal(second->wave, 1);
        assert_int_equal(first->group, 1);
        assert_int_equal(second->group, 2);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_constraints, policy_set_up),
        cmocka_unit_test_setup(test_just_fits, policy_set_up),
        cmocka_unit_test_setup(test_older_cpu_model, policy_set_up),
        cmocka_unit_test_setup(test_evacuate, policy_set_up),
        cmocka_unit_test_setup(test_evacuate_names_gpus, policy_set_up),
        cmocka_unit_test_setup(test_whole_gpus, policy_set_up),
        cmocka_unit_test_setup(test_bad_vm_is_skipped, policy_set_up),
        cmocka_unit_test_setup(test_unmanaged_vm_is_left_out, policy_set_up),
        cmocka_unit_test_setup(test_nothing_to_look_at, policy_set_up),
        cmocka_unit_test_setup(test_threshold, policy_set_up),
        cmocka_unit_test_setup(test_min_gain, policy_set_up),
        cmocka_unit_test_setup(test_old_figures, policy_set_up),
        cmocka_unit_test_setup(test_old_figures_of_a_tight_host, policy_set_up),
        cmocka_unit_test_setup(test_worst_overload_is_relieved, policy_set_up),
        cmocka_unit_test_setup(test_gate_is_per_move, policy_set_up),
        cmocka_unit_test_setup(test_runner_up_that_fails, policy_set_up),
        cmocka_unit_test_setup(test_gpu_memory_of_two, policy_set_up),
        cmocka_unit_test_setup(test_two_gpus, policy_set_up),
        cmocka_unit_test_setup(test_endless_copy, policy_set_up),
        cmocka_unit_test_setup(test_worst_place, policy_set_up),
        cmocka_unit_test_setup(test_other_places, policy_set_up),
        cmocka_unit_test_setup(test_hold, policy_set_up),
        cmocka_unit_test_setup(test_share_of_moves, policy_set_up),
        cmocka_unit_test_setup(test_move_limits, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy-limits", tests, NULL, NULL);
}
