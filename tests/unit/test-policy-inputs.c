/* SPDX-License-Identifier: Apache-2.0
 *
 * What the policy makes of figures that are missing, in doubt or bad, and whether the sentences of
 * a plan are true to the figures.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "policy/policy.h"
#include "tests/unit/policy-cases.h"

/* The VM that moves needs 1 GiB. */
static void
test_memory_of_a_host(void **state)
{
    (void)state;
    static const struct {
        int64_t total;
        int64_t free;
        bool allowed;
        bool noted;
    } cases[] = {
        {0, 0, true, true},          {0, GIB, true, false},      {0, GIB - 1, false, false},
        {8 * GIB, GIB, true, false}, {8 * GIB, 0, false, false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        to->memory_bytes = cases[i].total;
        to->memory_free_bytes = cases[i].free;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, cases[i].allowed ? VG_PLAN_CHANGES : VG_PLAN_INFEASIBLE);
        assert_int_equal(policy_says(plan->notes, "the memory of host 'to' is unknown"),
                         cases[i].noted);
        if (!cases[i].allowed)
            assert_true(
                policy_says(plan->why, "VM 'a' needs 1.00 GiB of memory, but host 'to' has"));
    }
}

/* The same of a GPU, and a vGPU of 1 GiB. */
static void
test_memory_of_a_gpu(void **state)
{
    (void)state;
    static const struct {
        int64_t total;
        int64_t free;
        bool allowed;
    } cases[] = {
        {0, 0, true},         {0, GIB, true},      {0, GIB - 1, false},
        {8 * GIB, GIB, true}, {8 * GIB, 0, false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        policy_add_use(from->vms->pdata[0], "card0", "t", 0.1);
        struct vg_snap_gpu *gpu = policy_add_gpu(to, "card0", "t", 1);
        gpu->memory_bytes = cases[i].total;
        gpu->memory_free_bytes = cases[i].free;
        assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
        g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "a", NULL);
        const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
        assert_int_equal(candidate->verdict == VG_CANDIDATE_FORBIDDEN, !cases[i].allowed);
    }
}

/* Two pools of one CPU lose half a core each. The broken VM was seen on both: as one pool of two
 * CPUs with CPU 2, they would lose nothing. */
static void
test_bad_vm_joins_no_pool(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(snapshot, "h", 4);
    struct vg_snap_vm *bad = policy_add_vm(host, "bad", 1, 0);
    const int32_t others[] = {1, 2};
    g_array_append_vals(bad->cpus, others, G_N_ELEMENTS(others));
    bad->problem = g_strdup("its clock ran backwards");
    policy_add_vm(host, "a", 1.5, 0);
    policy_add_vm(host, "b", 1.5, 1);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(
        policy_says(plan->why, "host 'h' loses 0.50 cores on CPU 0 (1.50 demanded, 1 available)"));
}

/* Of the profiles with good data most have windows of 1 s, and the longest has four. */
static void
test_bad_vm_chooses_no_windows(void **state)
{
    (void)state;
    static const double cpu[] = {1, 1, 1, 1, 1, 1};
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    from->source = VG_SOURCE_LIVE;
    policy_set_profile(from->vms->pdata[0], cpu, 4);
    policy_set_profile(from->vms->pdata[1], cpu, 4);
    static const char *const names[] = {"bad0", "bad1", "bad2", "bad3"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        struct vg_snap_vm *bad = policy_add_vm(from, names[i], 1, 0);
        policy_set_profile(bad, cpu, 6);
        bad->profile.window_ns = i > 0 ? 2 * S : S;
        bad->problem = g_strdup("broken");
    }
    policy_config.hold_ns = 5 * S;
    g_autoptr(vg_plan) early = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(early->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(early->why, "only 4 s are recorded"));
    policy_config.hold_ns = 4 * S;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    for (guint i = 0; i < plan->notes->len; i++)
        assert_null(strstr(plan->notes->pdata[i], "window length"));
}

/* One GPU-intensive VM and one whose class cannot be trusted: 1 of 1, a majority. */
static void
test_bad_vm_has_no_vote(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    ((struct vg_snap_vm *)from->vms->pdata[0])->preemptions_per_s = 50;
    policy_add_vm(to, "gpu", 0.1, -1)->vm_class = VG_CLASS_GPU;
    policy_add_vm(to, "bad", 0.1, -1)->problem = g_strdup("broken");
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_non_null(strstr(action->reason.text, "GPU-intensive VMs: 1 of 1."));
}

/* Of six windows those from `first` on lose a core, `busy` of them: half a core is asked for. */
static void
test_hold_is_told(void **state)
{
    (void)state;
    static const struct {
        enum vg_snapshot_source source;
        int64_t window_ns;
        guint first, busy;
        const char *words;
    } cases[] = {
        {VG_SOURCE_TRACE, 10 * S, 0, 3,
         ", but not for long enough: its mean over the last 30 s is 0.00, below the threshold of "
         "0.50"},
        {VG_SOURCE_EXAMPLE, S / 4, 0, 3, NULL},
        {VG_SOURCE_TRACE, S, 2, 3, NULL},
        {VG_SOURCE_LIVE, S, 0, 6, "the mean over the last 30 s counts, but only 6 s are recorded"},
        {VG_SOURCE_LIVE, 10 * S, 1, 3, "its mean over the last 30 s is 0.33"},
        {VG_SOURCE_LIVE, 10 * S, 3, 2, "host 'from' loses 0.33 cores, below the threshold of 0.50"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        double cpu[6] = {0};
        for (guint w = 0; w < cases[i].busy; w++)
            cpu[cases[i].first + w] = 1;
        from->source = cases[i].source;
        for (guint v = 0; v < from->vms->len; v++) {
            struct vg_snap_vm *vm = from->vms->pdata[v];
            policy_set_profile(vm, cpu, G_N_ELEMENTS(cpu));
            vm->profile.window_ns = cases[i].window_ns;
            vm->run_share += vm->preempt_share; /* no measured wait, which has no history */
            vm->preempt_share = 0;
        }
        policy_config.contention_threshold = 0.5;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, cases[i].words ? VG_PLAN_NOTHING_TO_DO : VG_PLAN_CHANGES);
        if (cases[i].words)
            assert_true(policy_says(plan->why, cases[i].words));
    }
}

/* VMs want 7.5 of 8 CPUs all the time. A program of the host took two cores for a minute and ended
 * 40 s ago, so that a mean over a minute still has 0.63 of it, and the last 30 s have nothing. */
static void
test_hold_of_a_host_program(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        double cpu[300], own[300];
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
        struct vg_snap_host *from = policy_add_host(snapshot, "from", 8);
        policy_add_host(snapshot, "to", 8);
        for (guint w = 0; w < 300; w++) {
            cpu[w] = 7.5 / 5;
            own[w] = w >= 200 && w < 260 ? 2 : 0;
        }
        for (int v = 0; v < 5; v++) {
            g_autofree char *name = g_strdup_printf("vm%d", v);
            struct vg_snap_vm *vm = policy_add_vm(from, name, 1.5, -1);
            policy_set_profile(vm, cpu, G_N_ELEMENTS(cpu));
            vm->run_share = 1.5;
            vm->preempt_share = 0;
        }
        from->own_share = 0.63;
        if (known > 0) {
            from->own_profile.window_ns = S;
            g_array_append_vals(from->own_profile.cpu, own, G_N_ELEMENTS(own));
        }
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->verdict, known > 0 ? VG_PLAN_NOTHING_TO_DO : VG_PLAN_CHANGES);
        if (known > 0)
            assert_true(policy_says(
                plan->why,
                "host 'from' loses 0.30 cores on CPUs (VMs demand 7.50, the host itself "
                "uses 0.40, 8 available), but not for long enough: its mean over the last "
                "30 s is 0.00, below the threshold of 0.05"));
    }
}

/* VMs are bound to CPU 0. They lost 0.2 cores to a program that took 0.5 on average, and a whole
 * core in every other window: 0.4 cores of CPU 0 then, and nothing in the other windows. */
static void
test_own_use_of_a_pool(void **state)
{
    (void)state;
    static const double cpu[] = {0.4, 0.4, 0.4, 0.4}, own[] = {0, 1, 0, 1};
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(snapshot, "host", 4);
    policy_add_host(snapshot, "other", 4);
    for (int v = 0; v < 2; v++) {
        struct vg_snap_vm *vm = policy_add_vm(host, v == 0 ? "a" : "b", 0.4, 0);
        struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
        loss->aggressor = g_strdup("host:user");
        loss->share = 0.1;
        g_ptr_array_add(vm->lost_to, loss);
        policy_set_profile(vm, cpu, G_N_ELEMENTS(cpu));
        vm->run_share = 0.3;
        vm->preempt_share = 0.1;
    }
    host->own_share = 0.5;
    host->own_profile.window_ns = S;
    g_array_append_vals(host->own_profile.cpu, own, G_N_ELEMENTS(own));
    policy_config.max_moves = 0;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(policy_says(plan->why, "host 'host' loses 0.10 cores on CPU 0 (VMs demand 0.80, "
                                       "the host itself uses 0.20, 1 available)"));
}

/* An older vgpud reports own_share, and no own_known. */
static void
test_unknown_own_use(void **state)
{
    static const struct {
        bool known;
        double share;
        bool noted;
    } cases[] = {{false, 0, true}, {true, 0, false}, {false, 0.1, false}};
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL, *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        to->own_known = cases[i].known;
        to->own_share = cases[i].share;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(plan->actions->len, 1);
        assert_int_equal(
            policy_says(plan->notes, "the CPU time that host 'to' itself uses is unknown"),
            cases[i].noted);
    }
}

/* Two VMs wait for the same program at the same time, each 0.3 cores. It used 0.3. Counted twice,
 * it would use 0.6 of the 2 CPUs, and 2.2 would be wanted. */
static void
test_host_time_counts_once(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *host = policy_add_host(snapshot, "host", 4);
        policy_add_host(snapshot, "other", 4);
        for (int32_t v = 0; v < 2; v++) {
            struct vg_snap_vm *vm = policy_add_vm(host, v == 0 ? "a" : "b", 0.8, 0);
            const int32_t second = 1;
            g_array_append_val(vm->cpus, second);
            struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
            loss->aggressor = g_strdup("host:user");
            loss->share = 0.3;
            g_ptr_array_add(vm->lost_to, loss);
            vm->run_share = 0.5;
            vm->preempt_share = 0.3;
        }
        host->own_share = known > 0 ? 0.3 : 0;
        policy_config.max_moves = 0;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        if (known == 0)
            assert_true(policy_says(plan->why,
                                    "host 'host' loses 0.20 cores on CPUs 0-1 (VMs "
                                    "demand 1.60, the host itself uses 0.60, 2 available)"));
        else
            assert_true(policy_says(plan->why, "on host 'host', VM 'a' loses 0.30 cores to "
                                               "waiting, although there are enough CPUs"));
    }
}

static void
assert_reason(vg_snapshot *snapshot, const char *vm, const char *reason)
{
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, vm, NULL);
    assert_string_equal(why->reason, reason);
}

/* What floats wants 2 cores. VMs bound to CPU 0 to 2 use all of these in one window of two and
 * nothing in the other: 4 - 3 and 4 - 0 CPUs are left, 2.5 on average, and half a core is lost. */
static void
test_what_pools_leave_is_told(void **state)
{
    (void)state;
    static const double bound[] = {1, 0};
    static const double any[] = {2, 2};
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = policy_add_host(snapshot, "h", 4);
    static const char *const names[] = {"p0", "p1", "p2"};
    for (int32_t i = 0; i < 3; i++)
        policy_set_profile(policy_add_vm(host, names[i], 1, i), bound, G_N_ELEMENTS(bound));
    policy_set_profile(policy_add_vm(host, "any", 2, -1), any, G_N_ELEMENTS(any));
    policy_config.hold_ns = 0;
    assert_reason(snapshot, "any",
                  "host 'h' loses 0.50 cores on CPUs (2.00 demanded, pinned VMs leave 2.50)");
}

/* As many digits as it takes for the sentence to be true. */
static void
test_figures_are_told_apart(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_vm *a = from->vms->pdata[0];
    struct vg_snap_vm *b = from->vms->pdata[1];
    a->run_share = 0.0499;
    a->preempt_share = 0;
    b->run_share = 1;
    b->preempt_share = 0;
    assert_reason(snapshot, "a", "host 'from' loses 0.0499 cores, below the threshold of 0.0500");

    a->run_share = 1;
    policy_config.horizon_ns = 1000000 * S;
    policy_config.min_gain = 1;
    g_autoptr(vg_plan) dear = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(
        policy_says(dear->why, "the move gains 1.000 cores, 0.99999 after its cost; 1.00000 are"));
    policy_config.min_gain = 0;
    policy_config.horizon_ns = 83 * S / 10; /* 8 s of copying, 0.3 s of standstill: 8.3 core-s */
    g_autoptr(vg_plan) nothing = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_true(policy_says(nothing->why, "the move gains 1.000 cores, less than its cost"));

    policy_config.rule = VG_RULE_PAPER_THRESHOLD;
    a->preemptions_per_s = 10.004;
    assert_reason(snapshot, "a",
                  "VM 'a' is CPU-intensive (1.00) and is preempted "
                  "10.004 times per second, more than 10.000");
    a->preemptions_per_s = 10;
    assert_reason(snapshot, "a",
                  "VM 'a' is CPU-intensive (1.00) and is preempted "
                  "10.0 times per second, not more than 10.0");
}

/* The note is for hosts whose times are known and have no moment in common. */
static void
test_times_of_hosts(void **state)
{
    (void)state;
    static const struct {
        int64_t times[3][2]; /* s */
        bool noted;
    } cases[] = {
        {{{0, 0}, {0, 0}, {0, 0}}, false},  {{{0, 10}, {0, 0}, {5, 15}}, false},
        {{{0, 0}, {7, 7}, {5, 15}}, false}, {{{0, 0}, {0, 10}, {10, 20}}, true},
        {{{0, 10}, {0, 4}, {5, 10}}, true}, {{{-5, 10}, {0, 4}, {3, 10}}, false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        static const char *const names[] = {"a", "b", "c"};
        for (size_t h = 0; h < G_N_ELEMENTS(names); h++) {
            struct vg_snap_host *host = policy_add_host(snapshot, names[h], 1);
            host->begin_ns = cases[i].times[h][0] * S;
            host->end_ns = cases[i].times[h][1] * S;
        }
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_int_equal(policy_says(plan->notes, "the hosts were measured at different times"),
                         cases[i].noted);
    }
}

/* The example of vgpud-policy(7), and with a shape: in four windows of which the VMs use the GPU in
 * two all the time and in two half of it, 0.9 / 0.75 = 1.2 and 0.6 of the mean are wanted, that is
 * 1 and 0.6 by each: 1 and 0.2 are lost. */
static void
test_gpu_demand(void **state)
{
    (void)state;
    static const double shape[] = {1, 0.5, 1, 0.5};
    static const double cpu[] = {0.1, 0.1, 0.1, 0.1};
    for (int shaped = 0; shaped < 2; shaped++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *host = policy_add_host(snapshot, "h", 4);
        static const char *const names[] = {"a", "b"};
        for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
            struct vg_snap_vm *vm = policy_add_vm(host, names[i], 0.1, -1);
            policy_add_use(vm, "card0", "t", 0.5);
            ((struct vg_snap_gpu_use *)vm->gpu->pdata[0])->wait_share = 0.5;
            vm->gpu_intensity = 0.9;
            policy_set_profile(vm, cpu, shaped ? G_N_ELEMENTS(cpu) : 0);
            if (shaped)
                g_array_append_vals(vm->profile.gpu, shape, G_N_ELEMENTS(shape));
        }
        policy_config.hold_ns = 0;
        assert_reason(snapshot, "a",
                      shaped ? "host 'h' loses 0.60 engines on engine 'rcs0' of GPU 'card0' (1.60 "
                               "demanded, 1 available)"
                             : "host 'h' loses 0.80 engines on engine 'rcs0' of GPU 'card0' (1.80 "
                               "demanded, 1 available)");
    }
}

/* The paper's rule moves the VM whatever the model says, and the plan as a whole says so. On a host
 * with room the VM leaves the CPU it shares; on one CPU that others want all the time it wins
 * nothing and costs 8.3 core-seconds in 600 s. */
static void
test_paper_notes_a_bad_forecast(void **state)
{
    (void)state;
    for (int cpus = 1; cpus <= 4; cpus += 3) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        ((struct vg_snap_vm *)from->vms->pdata[0])->preemptions_per_s = 50;
        to->cpus = cpus;
        policy_add_vm(to, "gpu", 1, -1)->vm_class = VG_CLASS_GPU;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
        assert_int_equal(plan->actions->len, 1);
        const struct vg_plan_action *action = plan->actions->pdata[0];
        bool doubted = cpus == 1;
        assert_int_equal(strstr(action->reason.text, "does not expect") != NULL, doubted);
        assert_int_equal(policy_says(plan->notes,
                                     "the contention model does not expect the move "
                                     "of VM 'a' to pay off: the move gains 0.000 cores, "
                                     "-0.014 after its cost"),
                         doubted);
    }
}

/* A GPU of 8 GiB with one proxy, whose socket is that of VM 'a': for ten windows. Returns the
 * socket. */
static struct vg_snap_proxy_socket *
add_proxy(struct vg_snap_host *host, const char *gpu, const char *address, double run,
          double lacked)
{
    struct vg_snap_proxy *proxy = vg_record_new(&vg_snap_proxy_record);
    struct vg_snap_proxy_socket *socket = vg_record_new(&vg_snap_proxy_socket_record);
    const int32_t known = 1;

    proxy->at = g_strdup(gpu);
    proxy->gpu = g_strdup(gpu);
    proxy->gpus = 1;
    proxy->memory_bytes = 8 * GIB;
    proxy->window_ns = S;
    socket->socket = g_strdup(address);
    socket->address = g_strdup(address);
    socket->vm = g_strdup("a");
    socket->weight = 1;
    socket->clients = run > 0;
    for (int i = 0; i < 10; i++) {
        g_array_append_val(proxy->known, known);
        g_array_append_val(socket->run, run);
        g_array_append_val(socket->lacked, lacked);
    }
    g_ptr_array_add(proxy->sockets, socket);
    g_ptr_array_add(host->proxies, proxy);
    return socket;
}

/* Programs have 1 GiB at a GPU that others want, too, and could go to one where others have 4 GiB
 * and two proxies keep some. */
static void
test_memory_of_a_proxy(void **state)
{
    (void)state;
    static const struct {
        int64_t kept, kept_there;
        const char *why;
    } cases[] = {
        {0, 0, NULL},
        {2 * GIB, GIB, NULL},
        {3 * GIB, 1,
         "programs in VM 'a' cannot move to GPU 'free' of host 'to': the GPU has too little free "
         "memory: of 8192 MiB, programs use 4096 and arriving programs have reserved 3072, while "
         "these programs need 1024"},
        {8 * GIB, 0, "have reserved 8192"},
    };
    policy_config.hold_ns = 10 * S;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_snap_host *from = NULL;
        struct vg_snap_host *to = NULL;
        g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
        add_proxy(from, "full", "tcp:192.0.2.1:1", 0.5, 0.4)->used_bytes = GIB;
        struct vg_snap_proxy_socket *rival = add_proxy(from, "full", "tcp:192.0.2.1:2", 0.5, 0.4);
        g_free(rival->vm);
        rival->vm = g_strdup("b");
        struct vg_snap_proxy_socket *there = add_proxy(to, "free", "tcp:192.0.2.2:1", 0, 0);
        there->used_bytes = 4 * GIB;
        there->reserved_bytes = cases[i].kept;
        add_proxy(to, "free", "tcp:192.0.2.2:2", 0, 0)->reserved_bytes = cases[i].kept_there;
        ((struct vg_snap_proxy *)from->proxies->pdata[1])->at[0] = 'F';
        ((struct vg_snap_proxy *)to->proxies->pdata[1])->at[0] = 'F';
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        const struct vg_plan_proxy_action *action =
            plan->proxies->len > 0 ? plan->proxies->pdata[0] : NULL;
        assert_int_equal(action && action->to, !cases[i].why);
        if (cases[i].why)
            assert_true(policy_says(plan->why, cases[i].why));
        for (guint k = 0; action && action->to && k < action->reason.inputs->len; k++) {
            const struct vg_plan_input *input = action->reason.inputs->pdata[k];
            if (strcmp(input->name, "to_reserved_bytes") == 0)
                assert_true(input->value == (double)(cases[i].kept + cases[i].kept_there));
            if (strcmp(input->name, "to_free_bytes") == 0)
                assert_true(input->value ==
                            (double)(4 * GIB - cases[i].kept - cases[i].kept_there));
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_of_a_host, policy_set_up),
        cmocka_unit_test_setup(test_memory_of_a_gpu, policy_set_up),
        cmocka_unit_test_setup(test_memory_of_a_proxy, policy_set_up),
        cmocka_unit_test_setup(test_bad_vm_joins_no_pool, policy_set_up),
        cmocka_unit_test_setup(test_bad_vm_chooses_no_windows, policy_set_up),
        cmocka_unit_test_setup(test_bad_vm_has_no_vote, policy_set_up),
        cmocka_unit_test_setup(test_hold_is_told, policy_set_up),
        cmocka_unit_test_setup(test_hold_of_a_host_program, policy_set_up),
        cmocka_unit_test_setup(test_own_use_of_a_pool, policy_set_up),
        cmocka_unit_test_setup(test_unknown_own_use, policy_set_up),
        cmocka_unit_test_setup(test_host_time_counts_once, policy_set_up),
        cmocka_unit_test_setup(test_what_pools_leave_is_told, policy_set_up),
        cmocka_unit_test_setup(test_figures_are_told_apart, policy_set_up),
        cmocka_unit_test_setup(test_times_of_hosts, policy_set_up),
        cmocka_unit_test_setup(test_gpu_demand, policy_set_up),
        cmocka_unit_test_setup(test_paper_notes_a_bad_forecast, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy-inputs", tests, NULL, NULL);
}
