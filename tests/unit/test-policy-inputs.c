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
        assert_int_equal(policy_says(plan->notes, "the memory of host 'to' is not known"),
                         cases[i].noted);
        if (!cases[i].allowed)
            assert_true(policy_says(plan->why, "VM 'a' needs 1.00 GiB of memory, host 'to' has"));
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_memory_of_a_host, policy_set_up),
        cmocka_unit_test_setup(test_memory_of_a_gpu, policy_set_up),
    };
    return cmocka_run_group_tests_name("policy-inputs", tests, NULL, NULL);
}
