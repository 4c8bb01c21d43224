/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules on small clusters whose losses are sums one can do in one's head.
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
#include "tests/unit/policy-cases.h"

/* Lost now max(0, 2 - 1) = 1 core; with either VM gone 0. Copying 1 GiB at 128 MiB/s takes 8 s of
 * one core, the stun 0.3 s of one core: 8.3 s, over 600 s 0.013833 cores. */
static void
test_complement_by_hand(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);

    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "a"); /* a tie: first by name */
    assert_string_equal(action->from, "from");
    assert_string_equal(action->to, "to");
    assert_string_equal(action->role, "victim");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S);
    assert_int_equal(action->gain.gpu_wait_ns_per_s, 0);
    policy_assert_near(action->cost.migration_s, 8);
    policy_assert_near(action->cost.stun_s, 0.3);
    assert_int_equal(action->cost.lost_cpu_ns, 8300000000);
    assert_false(action->cost.memory_assumed);
    policy_assert_near(policy_input_of(action, "from_lost_cores_before"), 1);
    policy_assert_near(policy_input_of(action, "from_lost_cores_after"), 0);
    policy_assert_near(policy_input_of(action, "to_lost_cores_after"), 0);
    policy_assert_near(policy_input_of(action, "net_gain_cores"), 1 - 8.3 / 600);
    assert_string_equal(action->runner_up.what, "move 'b' from 'from' to 'to'");
    assert_non_null(strstr(action->runner_up.why, "comes first by name"));
    assert_int_equal(action->runner_up.gain.lost_cpu_ns_per_s, S);
    assert_non_null(strstr(action->reason.text,
                           "Host 'from' loses 1.00 cores on CPU 0 (2.00 demanded, 1 available)"));
    /* CPU 1 of the host is free: the whole core could be had without a migration. */
    assert_true(policy_says(plan->notes, "1.00 of the 1.00 lost cores could be recovered without a "
                                         "migration"));
    assert_true(g_str_has_prefix(plan->id, "plan-"));
    assert_int_equal(strlen(plan->id), 21);
}

/* Of hosts on which a VM loses nothing, the one with more idle cores gets it. */
static void
test_more_idle_host(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);

    policy_add_vm(to, "busy", 0.5, -1);
    policy_add_host(snapshot, "to2", to->cpus);
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    assert_string_equal(((const struct vg_plan_action *)plan->actions->pdata[0])->to, "to2");
}

static void
add_loss(struct vg_snap_vm *vm, const char *aggressor, double share)
{
    struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
    loss->aggressor = g_strdup(aggressor);
    loss->share = share;
    g_ptr_array_add(vm->lost_to, loss);
}

/* Three programs of the host have 1.5 of its 2 CPUs, so that a VM that wants one core gets a half:
 * 1 + 1.5 - 2 = 0.5 lost. On "busy" the same programs would cost it as much, on "idle" none. */
static void
test_what_the_host_itself_takes(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    snapshot->end_ns = 10 * S;
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 2);
    struct vg_snap_vm *vm = policy_add_vm(from, "starved", 1.0, -1);
    add_loss(vm, "host:user", 0.4);
    add_loss(vm, "host:kernel", 0.1);
    from->own_share = 1.5;
    policy_add_host(snapshot, "busy", 2)->own_share = 1.5;
    policy_add_host(snapshot, "idle", 2)->own_share = 0.5;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);

    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->to, "idle");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S / 2);
    policy_assert_near(policy_input_of(action, "from_own_cores"), 1.5);
    policy_assert_near(policy_input_of(action, "to_own_cores"), 0.5);
    assert_non_null(strstr(action->reason.text,
                           "Host 'from' loses 0.50 cores on CPUs (VMs demand 1.00, the host itself "
                           "uses 1.50, 2 available)"));
    assert_non_null(
        strstr(action->reason.text,
               "host 'idle' has 2 CPUs; its VMs demand 0.00 and the host itself uses 0.50"));
}

/* The VM is bound to CPU 0, where it lost 0.5 cores to programs, which is what it left of that CPU:
 * 1 + 0.5 - 1 = 0.5 lost. Its sister lost as much to the same programs at the same time; both ran
 * 0.1, so that these can have had 0.8, not 1.0. A snapshot from before own_share says the same. */
static void
test_what_the_host_takes_of_a_pool(void **state)
{
    (void)state;
    for (int sisters = 1; sisters <= 2; sisters++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
        struct vg_snap_host *host = policy_add_host(snapshot, "host", 4);
        for (int i = 0; i < sisters; i++) {
            g_autofree char *name = g_strdup_printf("vm%d", i);
            struct vg_snap_vm *vm = policy_add_vm(host, name, sisters == 1 ? 1.0 : 0.6, 0);
            vm->run_share = sisters == 1 ? 0.5 : 0.1;
            vm->preempt_share = 0.5;
            add_loss(vm, "host:user", 0.5);
            add_loss(vm, "host:idle", 0.3);
        }
        policy_add_host(snapshot, "other", 4);
        policy_config.max_moves = 0;
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_true(policy_says(
            plan->why, sisters == 1 ? "host 'host' loses 0.50 cores on CPU 0 (VMs demand 1.00, the "
                                      "host itself uses 0.50, 1 available)"
                                    : "host 'host' loses 1.00 cores on CPU 0 (VMs demand 1.20, the "
                                      "host itself uses 0.80, 1 available)"));
    }
}

/* "capped" is stopped by its quota for half of the time, and "free" takes what it leaves: of the
 * 2 cores that both would like, 1.5 are wanted, 1 is there. Where only its waits on an idle CPU
 * tell of the quota, there is nothing to gain. */
static void
test_a_quota_is_no_demand(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    struct vg_snap_vm *capped = from->vms->pdata[0];
    capped->run_share = capped->preempt_share = 0.5;
    capped->cpu_limit = 0.5;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S / 2);
    assert_non_null(strstr(action->reason.text, "(1.50 demanded, 1 available)"));
    assert_true(policy_says(plan->notes, "quota of VM 'a' lets it use 0.50 cores on every host"));

    /* A VM that ran for longer demands that time; the plan does not promise less. */
    capped->run_share = 0.75;
    capped->preempt_share = 0.25;
    g_autoptr(vg_plan) longer = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(longer->actions->len, 1);
    policy_assert_near(vg_snap_vm_demand(capped), 0.75);
    assert_true(policy_says(longer->notes, "VM 'a' ran for 0.75 cores, although its CPU quota"));
    assert_false(policy_says(longer->notes, "lets it use"));

    g_autoptr(vg_snapshot) alone = vg_snapshot_new(VG_SOURCE_TRACE);
    alone->end_ns = 10 * S;
    capped = policy_add_vm(policy_add_host(alone, "from", 2), "capped", 1.0, 0);
    capped->run_share = capped->preempt_share = 0.5;
    capped->preemptions_per_s = 20;
    add_loss(capped, "limit", 0.5);
    ((struct vg_snap_loss *)capped->lost_to->pdata[0])->count_per_s = 20;
    policy_add_host(alone, "to", 2);
    policy_assert_near(vg_snap_vm_demand(capped), 0.5);
    policy_assert_near(vg_snap_vm_lost(capped), 0);
    for (enum vg_rule_id rule = VG_RULE_COMPLEMENT; rule < VG_RULE_MAX; rule++) {
        g_autoptr(vg_plan) none = policy_plan_of(alone, rule);
        assert_int_equal(none->actions->len, 0);
    }
}

/* What holds for many hosts is one note that names some of them. */
static void
test_notes_of_hosts(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    static const char *const wanted[] = {
        "host 'a' is an example, not a measurement",
        "hosts 'a', 'b' are examples, not measurements",
        "hosts 'a', 'b', 'c' are examples, not measurements",
        "hosts 'a', 'b', 'c' and 1 more are examples, not measurements",
        "hosts 'a', 'b', 'c' and 2 more are examples, not measurements",
    };
    for (size_t n = 1; n <= G_N_ELEMENTS(names); n++) {
        g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_EXAMPLE);
        for (size_t i = 0; i < n; i++) {
            struct vg_snap_host *host = policy_add_host(snapshot, names[i], 1);
            host->end_ns = S;
            host->lost_events = i == 1 ? 0 : 7;
        }
        g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
        assert_true(policy_says(plan->notes, wanted[n - 1]));
        assert_int_equal(plan->notes->len, 2);
        if (n == 4)
            assert_true(policy_says(plan->notes, "hosts 'a', 'c', 'd': the recorder dropped 21 "
                                                 "events, so the figures may be too low"));
    }
}

/* Pools: {0,1} with 3.0 of 2 CPUs, {2} with 0.5 of 1, and 1.0 floating, which finds 5 - 2 - 0.5 =
 * 2.5 CPUs left: 1 core lost. A VM of 3.0 more floats over what is left, 1.5: 1.5 lost on top. */
static void
test_pools(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *pools = policy_add_host(snapshot, "pools", 5);
    policy_add_vm(pools, "p1", 1.5, 0);
    struct vg_snap_vm *bridge = policy_add_vm(pools, "p2", 1.5, 0);
    const int32_t one = 1;
    g_array_append_val(bridge->cpus, one);
    policy_add_vm(pools, "p3", 0.5, 2);
    policy_add_vm(pools, "p4", 1.0, -1);
    struct vg_snap_host *big = policy_add_host(snapshot, "big", 1);
    policy_add_vm(big, "newcomer", 3.0, -1);

    policy_config.max_moves = 0;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(
        plan->why, "host 'pools' loses 1.00 cores on CPUs 0-1 (3.00 demanded, 2 available)"));
    assert_true(
        policy_says(plan->why, "host 'big' loses 2.00 cores on CPUs (3.00 demanded, 1 available)"));
    assert_true(policy_says(plan->why, "the plan has 0 moves, which is the limit"));

    /* Wins 2 on big, loses 1.5 on pools. */
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "newcomer", NULL);
    const struct vg_plan_candidate *candidate = why->candidates->pdata[1];
    assert_string_equal(candidate->host, "pools");
    assert_int_equal(candidate->verdict, VG_CANDIDATE_BEST);
    assert_int_equal(candidate->gain.lost_cpu_ns_per_s, S / 2);
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
    struct vg_snap_host *a = policy_add_host(snapshot, "a", 1);
    policy_set_profile(policy_add_vm(a, "odd", 0.5, 0), odd, 4);
    policy_set_profile(policy_add_vm(a, "odd2", 0.5, 0), odd, 4);
    struct vg_snap_host *b = policy_add_host(snapshot, "b", 1);
    policy_set_profile(policy_add_vm(b, "odd3", 0.5, 0), odd, 4);
    struct vg_snap_host *c = policy_add_host(snapshot, "c", 1);
    policy_set_profile(policy_add_vm(c, "even", 0.5, 0), even, 4);

    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "odd");
    assert_string_equal(action->to, "c");
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S / 2);
    g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, &policy_config, "odd", NULL);
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
    struct vg_snap_host *a = policy_add_host(snapshot, "a", 8);
    policy_add_gpu(a, "card0", "t", 0);
    struct vg_snap_vm *x = policy_add_vm(a, "x", 0.1, -1);
    struct vg_snap_vm *y = policy_add_vm(a, "y", 0.1, -1);
    x->preempt_share = 0;
    y->preempt_share = 0;
    policy_add_use(x, "card0", "t", 0.7);
    policy_add_use(y, "card0", "t", 0.6);
    struct vg_snap_host *b = policy_add_host(snapshot, "b", 8);
    struct vg_snap_gpu *gpu = policy_add_gpu(b, "card7", "t", 1);
    struct vg_snap_engine *engine = vg_record_new(&vg_snap_engine_record);
    engine->engine = g_strdup("rcs0");
    engine->share = 0.35; /* the host's own work */
    g_ptr_array_add(gpu->engines, engine);

    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(plan->actions->len, 1);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    /* x: 0.3 won, 0.35 + 0.7 - 1 = 0.05 lost there. y: 0.3 won, nothing lost: y goes. */
    assert_string_equal(action->vm, "y");
    assert_int_equal(action->gain.gpu_wait_ns_per_s, 300000000);
    assert_int_equal(action->runner_up.gain.gpu_wait_ns_per_s, 250000000);
    /* 1 GiB of memory and 1 GiB of GPU memory; the latter counts as stun: 8 s + 0.3 s. */
    policy_assert_near(action->cost.migration_s, 16);
    policy_assert_near(action->cost.stun_s, 8.3);

    policy_config.gpu_weight = 0;
    g_autoptr(vg_plan) nothing = policy_plan_of(snapshot, VG_RULE_COMPLEMENT);
    assert_int_equal(nothing->verdict, VG_PLAN_NOTHING_TO_DO);
}

static vg_snapshot *
make_paper(void)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *from = policy_add_host(snapshot, "from", 1);
    policy_add_vm(from, "often", 1, 0)->preemptions_per_s = 90;
    policy_add_vm(from, "seldom", 1, 0)->preemptions_per_s = 10;
    policy_add_vm(from, "mixed", 1, 0)->preemptions_per_s = 500;
    ((struct vg_snap_vm *)from->vms->pdata[2])->vm_class = VG_CLASS_MIXED;
    static const struct {
        const char *host;
        int gpu;
        int other;
    } hosts[] = {{"few", 1, 0}, {"half", 2, 2}, {"most", 4, 1}};
    for (size_t h = 0; h < G_N_ELEMENTS(hosts); h++) {
        struct vg_snap_host *host = policy_add_host(snapshot, hosts[h].host, 8);
        for (int i = 0; i < hosts[h].gpu + hosts[h].other; i++) {
            g_autofree char *name = g_strdup_printf("vm%d", i);
            struct vg_snap_vm *vm = policy_add_vm(host, name, 0.1, -1);
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
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
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
    policy_config.paper_max_moves = 3;
    g_autoptr(vg_plan) all = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(all->actions->len, 1);
    policy_config.preempt_threshold = 90;
    g_autoptr(vg_plan) none = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(none->verdict, VG_PLAN_NOTHING_TO_DO);
    assert_true(policy_says(none->why, "no CPU-intensive VM is preempted more than 90.0 times"));
}

static void
test_paper_without_target(void **state)
{
    (void)state;
    struct vg_snap_host *from = NULL;
    struct vg_snap_host *to = NULL;
    g_autoptr(vg_snapshot) snapshot = policy_make_pair(&from, &to);
    ((struct vg_snap_vm *)from->vms->pdata[0])->preemptions_per_s = 11;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(plan->verdict, VG_PLAN_NOTHING_TO_DO); /* nothing is forbidden */
    assert_true(policy_says(plan->why, "host 'to' has no majority of GPU-intensive VMs: 0 of 0"));

    policy_add_vm(to, "g", 0.1, -1)->vm_class = VG_CLASS_GPU;
    to->maintenance = true;
    g_autoptr(vg_plan) forbidden = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(forbidden->verdict, VG_PLAN_INFEASIBLE);
    assert_true(policy_says(forbidden->why, "host 'to' is in maintenance"));
}

/* A move of one VM does not hide why another stays. */
static void
test_paper_tells_the_rest(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = make_paper();
    struct vg_snap_vm *seldom = ((struct vg_snap_host *)snapshot->hosts->pdata[0])->vms->pdata[1];
    seldom->preemptions_per_s = 100;
    seldom->pinned = true;
    g_autoptr(vg_plan) plan = policy_plan_of(snapshot, VG_RULE_PAPER_THRESHOLD);
    assert_int_equal(plan->actions->len, 1);
    assert_string_equal(((const struct vg_plan_action *)plan->actions->pdata[0])->vm, "often");
    assert_true(policy_says(plan->why, "VM 'seldom' is pinned"));
}

static const struct vg_plan_candidate *
candidate_of(const vg_explanation *explanation, const char *host)
{
    for (guint i = 0; i < explanation->candidates->len; i++) {
        const struct vg_plan_candidate *candidate = explanation->candidates->pdata[i];
        if (strcmp(candidate->host, host) == 0)
            return candidate;
    }
    fail_msg("host '%s' is not explained", host);
    return NULL;
}

/* Explaining goes by the configured rule: "best" is where its plan goes. */
static void
test_explain_by_rule(void **state)
{
    (void)state;
    g_autoptr(vg_snapshot) snapshot = make_paper();
    assert_int_equal(vg_snapshot_seal(snapshot, NULL), 0);
    policy_config.rule = VG_RULE_PAPER_THRESHOLD;
    g_autoptr(vg_explanation) often = vg_policy_explain(snapshot, &policy_config, "often", NULL);
    assert_int_equal(candidate_of(often, "most")->verdict, VG_CANDIDATE_BEST);
    assert_int_equal(candidate_of(often, "few")->verdict, VG_CANDIDATE_USEFUL);
    assert_int_equal(candidate_of(often, "half")->verdict, VG_CANDIDATE_NO_GAIN);
    assert_non_null(strstr(candidate_of(often, "half")->reason, "no majority"));
    assert_non_null(strstr(candidate_of(often, "most")->reason, "4 of 5"));
    assert_non_null(strstr(often->reason, "preempted 90.0 times per second, more than 10.0"));

    /* Not over the threshold, or of another class: no host is the best. */
    g_autoptr(vg_explanation) seldom = vg_policy_explain(snapshot, &policy_config, "seldom", NULL);
    assert_int_equal(candidate_of(seldom, "most")->verdict, VG_CANDIDATE_USEFUL);
    assert_non_null(strstr(seldom->reason, "10.0 times per second, not more than 10.0"));
    g_autoptr(vg_explanation) mixed = vg_policy_explain(snapshot, &policy_config, "mixed", NULL);
    assert_int_equal(candidate_of(mixed, "most")->verdict, VG_CANDIDATE_USEFUL);
    assert_non_null(strstr(mixed->reason, "has class mixed"));

    policy_config.rule = VG_RULE_COMPLEMENT;
    g_autoptr(vg_explanation) model = vg_policy_explain(snapshot, &policy_config, "often", NULL);
    assert_int_equal(candidate_of(model, "few")->verdict, VG_CANDIDATE_BEST); /* first of equals */
}

/* Reasons beyond the limit are counted, whatever the kept ones say. */
static void
test_many_whys(void **state)
{
    (void)state;
    g_autoptr(vg_plan) plan = vg_plan_new();
    for (int i = 0; i < VG_PLAN_WHY_MAX; i++)
        vg_plan_add_why(plan, "7 more reasons");
    vg_plan_add_why(plan, "dropped");
    assert_int_equal(plan->why->len, VG_PLAN_WHY_MAX + 1);
    assert_string_equal(plan->why->pdata[VG_PLAN_WHY_MAX], "1 more reasons");
    vg_plan_drop_whys(plan, 0);
    vg_plan_drop_whys(plan, 10);
    vg_plan_add_why(plan, "dropped, too");
    assert_int_equal(plan->why->len, VG_PLAN_WHY_MAX + 1);
    assert_string_equal(plan->why->pdata[VG_PLAN_WHY_MAX], "12 more reasons");
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
    assert_null(vg_policy_explain(snapshot, &policy_config, "nobody", &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_clear_error(&err);
    assert_null(vg_policy_explain(snapshot, &policy_config, "vm0", &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
    assert_non_null(strstr(err->message, "use 'few/vm0'"));
    g_autoptr(vg_explanation) by_path =
        vg_policy_explain(snapshot, &policy_config, "half/vm0", NULL);
    assert_string_equal(by_path->host, "half");
    g_autoptr(vg_explanation) by_uuid =
        vg_policy_explain(snapshot, &policy_config, "0000-AA", NULL);
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
        struct vg_snap_vm *vm = policy_add_vm(host, vms[i].name, 1, 0);
        vm->memory_bytes = 0;
        vm->run_share = vms[i].run / 6.2;
        vm->preempt_share = vms[i].preempt / 6.2;
        vm->wake_wait_share = vms[i].wake / 6.2;
        vm->preemptions_per_s = vms[i].preemptions / 6.2;
        vm->cpu_intensity = MIN(vg_snap_vm_demand(vm), 1);
        vm->vm_class = i < 2 ? VG_CLASS_CPU : VG_CLASS_IDLE;
        double demand = vg_snap_vm_demand(vm);
        const double profile[] = {demand, demand, demand, demand, demand, demand};
        policy_set_profile(vm, profile, 6);
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
        g_autoptr(vg_plan) plan = policy_plan_of(whole, (enum vg_rule_id)rule);
        assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
        /* Without vm-busy, the other two still lose 0.21 cores. */
        assert_int_equal(plan->actions->len, rule == VG_RULE_COMPLEMENT ? 2 : 1);
        const struct vg_plan_action *action = plan->actions->pdata[0];
        assert_string_equal(action->vm, "vm-busy");
        assert_string_equal(action->to, "gpu-host");
        /* vm-busy wants 6.216 / 6.2 = 1.0026 cores; all of it was lost by somebody. */
        assert_int_equal(action->gain.lost_cpu_ns_per_s / 1000000, 1002);
        assert_true(action->cost.memory_assumed);
        assert_true(policy_says(plan->notes, "host 'gpu-host' is an example, not a measurement"));
        assert_true(policy_says(plan->notes, "the plan assumes 4.0 GiB"));
        assert_true(policy_says(plan->notes, "were measured at different times"));
        /* What it waited for at home is no trouble of its new host. */
        for (guint i = 0; i < plan->why->len; i++)
            assert_null(strstr(plan->why->pdata[i], "'gpu-host' VM 'vm-busy' waits"));
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
        cmocka_unit_test_setup(test_complement_by_hand, policy_set_up),
        cmocka_unit_test_setup(test_more_idle_host, policy_set_up),
        cmocka_unit_test_setup(test_what_the_host_itself_takes, policy_set_up),
        cmocka_unit_test_setup(test_what_the_host_takes_of_a_pool, policy_set_up),
        cmocka_unit_test_setup(test_a_quota_is_no_demand, policy_set_up),
        cmocka_unit_test_setup(test_notes_of_hosts, policy_set_up),
        cmocka_unit_test_setup(test_pools, policy_set_up),
        cmocka_unit_test_setup(test_profiles_complement, policy_set_up),
        cmocka_unit_test_setup(test_gpu_contention, policy_set_up),
        cmocka_unit_test_setup(test_paper_by_hand, policy_set_up),
        cmocka_unit_test_setup(test_paper_without_target, policy_set_up),
        cmocka_unit_test_setup(test_paper_tells_the_rest, policy_set_up),
        cmocka_unit_test_setup(test_explain_by_rule, policy_set_up),
        cmocka_unit_test(test_many_whys),
        cmocka_unit_test_setup(test_explain_reference, policy_set_up),
        cmocka_unit_test_setup(test_demo, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
