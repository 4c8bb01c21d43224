/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdict on a move, from figures whose means and variances are worked out by hand.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "move/verdict.h"

#define S     INT64_C(1000000000)
#define STEPS 6

/* Lost cores, step by step, and the number of VMs. */
struct side {
    double lost[STEPS];
    double vms;
};

static void
assert_near(int64_t ns, double cores, double epsilon)
{
    const double off = (double)ns / 1e9 - cores;

    if (off > epsilon || off < -epsilon)
        fail_msg("%g instead of %g", (double)ns / 1e9, cores);
}

static void
fill(GArray *steps, const struct side *side)
{
    for (guint i = 0; i < STEPS; i++) {
        g_array_index(steps, struct vg_verdict_step, i) = (struct vg_verdict_step){
            .measured_ns = VG_VERDICT_STEP_NS,
            .known = true,
            .vms = side->vms,
            .run_ns = 4 * VG_VERDICT_STEP_NS,
            .lost_ns = (int64_t)(side->lost[i] * VG_VERDICT_STEP_NS),
        };
    }
}

static struct vg_verdict_host *
host_of(const char *name, int64_t arrived, const struct side *before, const struct side *after)
{
    struct vg_verdict_host *host = vg_verdict_host_new(name, STEPS);

    host->arrived = arrived;
    fill(host->before, before);
    fill(host->after, after);
    return host;
}

/* A move from a to b, after which a loses this. */
struct ground {
    struct vg_verdict_question question;
    vg_move_verdict *verdict;
};

static void
ground_init(struct ground *ground, const struct side *before, const struct side *after)
{
    static const struct side empty = {.vms = 0}, one = {.vms = 1};

    *ground =
        (struct ground){.question = {.hosts = g_ptr_array_new_with_free_func(vg_verdict_host_free),
                                     .others = g_ptr_array_new_with_free_func(vg_verdict_host_free),
                                     .min_gain = 0.05,
                                     .gpu_weight = 1},
                        .verdict = vg_record_new(&vg_move_verdict_record)};
    g_ptr_array_add(ground->question.hosts, host_of("a", -1, before, after));
    g_ptr_array_add(ground->question.hosts, host_of("b", 1, &empty, &one));
}

static void
ground_clear(struct ground *ground)
{
    g_ptr_array_unref(ground->question.hosts);
    g_ptr_array_unref(ground->question.others);
    vg_move_verdict_free(ground->verdict);
}

static const struct vg_move_verdict *
judge(struct ground *ground)
{
    vg_verdict_judge(&ground->question, ground->verdict);
    return ground->verdict;
}

/* Two sides whose samples vary by 0.1 around the mean: a variance of 0.012 of each sample, 0.002 of
 * each mean, and 0.004 of the difference, with 10 degrees of freedom: +-2.228 * 0.06325. */
#define VARIES(mean)                                                                               \
 {                                                                                                 \
  (mean) - 0.1, (mean) + 0.1, (mean)-0.1, (mean) + 0.1, (mean)-0.1, (mean) + 0.1                   \
 }
#define HALF 0.14091

static void
test_results(void **state)
{
    static const struct {
        double before, after;
        double predicted; /* 0: nothing was */
        enum vg_verdict_result result;
    } cases[] = {
        {1.0, 0.5, 0, VG_VERDICT_HELPED},        {0.5, 1.0, 0, VG_VERDICT_WORSE},
        {1.0, 0.85, 0, VG_VERDICT_HELPED},      /* between 0.009 and 0.291 */
        {1.0, 0.87, 0, VG_VERDICT_CANNOT_TELL}, /* between -0.011 and 0.271 */
        {1.0, 1.0, 0, VG_VERDICT_CANNOT_TELL},  /* 0.14 may be won or lost, which is worth a move */
        {1.0, 1.0, 0.3, VG_VERDICT_NO_EFFECT},  /* but it is less than half of what was predicted */
        {1.0, 1.0, 0.2, VG_VERDICT_CANNOT_TELL},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct side before = {VARIES(cases[i].before), 2};
        const struct side after = {VARIES(cases[i].after), 1};
        struct ground ground;
        ground_init(&ground, &before, &after);
        ground.question.predicted = cases[i].predicted > 0;
        ground.question.cpu_gain = cases[i].predicted;
        const struct vg_move_verdict *verdict = judge(&ground);
        if (verdict->result != cases[i].result)
            fail_msg("case %zu: %s: %s", i, vg_verdict_names[verdict->result], verdict->why);
        const double gain = cases[i].before - cases[i].after;
        assert_true(verdict->measured);
        assert_near(verdict->gain_ns_per_s, gain, 1e-6);
        assert_near(verdict->low_ns_per_s, gain - HALF, 1e-4);
        assert_near(verdict->high_ns_per_s, gain + HALF, 1e-4);
        assert_non_null(strstr(verdict->why, "there was no other host"));
        ground_clear(&ground);
    }
}

/* Samples that do not vary leave no doubt. */
static void
test_small_and_certain(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0.96, 0.96, 0.96, 0.96, 0.96, 0.96}, 1};
    struct ground ground;

    (void)state;
    ground_init(&ground, &before, &after);
    assert_int_equal(judge(&ground)->result, VG_VERDICT_NO_EFFECT);
    ground_clear(&ground);
}

static void
test_other_hosts(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0, 0, 0, 0, 0, 0}, 1};
    const struct side half = {{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 3};
    const struct side less = {{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 3};
    const struct side more = {{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 4};
    const struct side none = {.vms = 0};
    struct ground ground;

    (void)state;
    ground_init(&ground, &before, &after);
    GPtrArray *others = ground.question.others;
    g_ptr_array_add(others, host_of("c", 0, &half, &less));
    /* These do not serve: a VM came; there is none; not all is known. */
    g_ptr_array_add(others, host_of("d", 0, &half, &more));
    g_ptr_array_add(others, host_of("e", 0, &none, &none));
    g_ptr_array_add(others, host_of("f", 0, &half, &half));
    for (guint i = 0; i < STEPS; i++)
        g_array_index(((struct vg_verdict_host *)others->pdata[3])->after, struct vg_verdict_step,
                      i)
            .known = false;
    const struct vg_move_verdict *verdict = judge(&ground);
    assert_int_equal(verdict->others->len, 1);
    assert_string_equal(verdict->others->pdata[0], "c");
    assert_int_equal(verdict->others_ns_per_s, -800 * S / 1000);
    assert_int_equal(verdict->gain_ns_per_s, 200 * S / 1000);
    assert_int_equal(verdict->result, VG_VERDICT_HELPED);
    ground_clear(&ground);
}

/* Two other hosts that differ: their changes of -0.1 and +0.1 have a variance of 0.01 of their
 * mean, of which two hosts have four times as much, with one degree of freedom: +-12.71 * 0.2. */
static void
test_other_hosts_differ(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0, 0, 0, 0, 0, 0}, 1};
    const struct side half = {{0.5, 0.5, 0.5, 0.5, 0.5, 0.5}, 3};
    const struct side less = {{0.4, 0.4, 0.4, 0.4, 0.4, 0.4}, 3};
    const struct side more = {{0.6, 0.6, 0.6, 0.6, 0.6, 0.6}, 3};
    struct ground ground;

    (void)state;
    ground_init(&ground, &before, &after);
    g_ptr_array_add(ground.question.others, host_of("c", 0, &half, &less));
    g_ptr_array_add(ground.question.others, host_of("d", 0, &half, &more));
    const struct vg_move_verdict *verdict = judge(&ground);
    assert_near(verdict->others_ns_per_s, 0, 1e-6);
    assert_near(verdict->high_ns_per_s, 1 + 12.71 * 0.2, 1e-3);
    assert_int_equal(verdict->result, VG_VERDICT_CANNOT_TELL);
    ground_clear(&ground);
}

static void
test_unknown(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0, 0, 0, 0, 0, 0}, 1};
    struct ground ground;

    (void)state;
    for (int i = 0; i < 5; i++) {
        static const char *const words[] = {"is unknown for the period before",
                                            "for only 40 of 60 s after", "it is away",
                                            "in the period before", "2 VMs before and 1 after"};
        ground_init(&ground, &before, &after);
        struct vg_verdict_host *a = ground.question.hosts->pdata[0];
        struct vg_verdict_step *first = &g_array_index(a->before, struct vg_verdict_step, 0);
        struct vg_verdict_step *last = &g_array_index(a->after, struct vg_verdict_step, STEPS - 2);
        if (i == 0)
            first[0].known = first[1].known = false;
        else if (i == 1)
            last[0] = last[1] = (struct vg_verdict_step){0};
        else if (i == 2)
            a->reason = g_strdup("it is away");
        else if (i == 3)
            first[2].vms = 1.5;
        else
            a->arrived = 0;
        const struct vg_move_verdict *verdict = judge(&ground);
        assert_int_equal(verdict->result, VG_VERDICT_CANNOT_TELL);
        assert_false(verdict->measured);
        assert_int_equal(verdict->hosts->len, 2);
        if (!strstr(verdict->why, words[i]))
            fail_msg("case %d: %s", i, verdict->why);
        ground_clear(&ground);
    }
    /* One step of six may be missing. */
    ground_init(&ground, &before, &after);
    g_array_index(((struct vg_verdict_host *)ground.question.hosts->pdata[1])->after,
                  struct vg_verdict_step, 3) = (struct vg_verdict_step){0};
    assert_int_equal(judge(&ground)->result, VG_VERDICT_HELPED);
    ground_clear(&ground);
}

/* Each host lacks another step of six, so that few steps show all hosts. */
static void
test_few_common_steps(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0, 0, 0, 0, 0, 0}, 1};
    const struct side steady = {{1, 1, 1, 1, 1, 1}, 1};

    (void)state;
    for (guint missing = 2; missing <= STEPS; missing++) {
        g_autofree char *part =
            g_strdup_printf("at the same time for only %u of 60 s %s the move",
                            (STEPS - missing) * 10, missing % 2 == 0 ? "before" : "after");
        struct ground ground;
        ground_init(&ground, &before, &after);
        GPtrArray *hosts = ground.question.hosts;
        while (hosts->len < missing)
            g_ptr_array_add(hosts, host_of("more", 0, &steady, &steady));
        for (guint h = 0; h < missing; h++) {
            const struct vg_verdict_host *host = hosts->pdata[h];
            GArray *steps = missing % 2 == 0 ? host->before : host->after;
            g_array_index(steps, struct vg_verdict_step, h) = (struct vg_verdict_step){0};
        }
        const struct vg_move_verdict *verdict = judge(&ground);
        assert_int_equal(verdict->result, VG_VERDICT_CANNOT_TELL);
        assert_false(verdict->measured);
        if (!strstr(verdict->why, part))
            fail_msg("%u: %s", missing, verdict->why);
        ground_clear(&ground);
    }
}

static void
test_the_vms_want_less(void **state)
{
    const struct side before = {{1, 1, 1, 1, 1, 1}, 2};
    const struct side after = {{0, 0, 0, 0, 0, 0}, 1};
    struct ground ground;

    (void)state;
    ground_init(&ground, &before, &after);
    for (guint h = 0; h < 2; h++) {
        const struct vg_verdict_host *host = ground.question.hosts->pdata[h];
        for (guint i = 0; i < STEPS; i++)
            g_array_index(host->after, struct vg_verdict_step, i).run_ns = VG_VERDICT_STEP_NS;
    }
    const struct vg_move_verdict *verdict = judge(&ground);
    assert_int_equal(verdict->result, VG_VERDICT_CANNOT_TELL);
    assert_non_null(strstr(verdict->why, "9.00 cores before, 2.00 after"));
    assert_int_equal(verdict->gain_ns_per_s, S);
    ground_clear(&ground);
}

static void
wait_for_gpus(const struct ground *ground, bool after, double share)
{
    for (guint h = 0; h < 2; h++) {
        const struct vg_verdict_host *host = ground->question.hosts->pdata[h];
        for (guint i = 0; i < STEPS; i++) {
            struct vg_verdict_step *step =
                &g_array_index(after ? host->after : host->before, struct vg_verdict_step, i);
            step->gpu_of_ns = VG_VERDICT_STEP_NS;
            step->gpu_wait_ns = h == 0 ? (int64_t)(share * VG_VERDICT_STEP_NS) : 0;
        }
    }
}

static void
test_gpus(void **state)
{
    const struct side before = {{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 2};
    const struct side after = {{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 1};
    struct ground ground;

    (void)state;
    ground_init(&ground, &before, &after);
    ground.question.gpu_weight = 2;
    wait_for_gpus(&ground, false, 0.6);
    wait_for_gpus(&ground, true, 0.1);
    const struct vg_move_verdict *verdict = judge(&ground);
    assert_int_equal(verdict->result, VG_VERDICT_HELPED);
    assert_true(verdict->gpu_measured);
    assert_int_equal(verdict->gpu_before_ns_per_s, 600 * S / 1000);
    assert_int_equal(verdict->gain_ns_per_s, S);
    ground_clear(&ground);
    /* It was to help there, and that is not known. */
    ground_init(&ground, &before, &after);
    ground.question.predicted = true;
    ground.question.gpu_gain = 0.5;
    wait_for_gpus(&ground, false, 0.6);
    verdict = judge(&ground);
    assert_int_equal(verdict->result, VG_VERDICT_CANNOT_TELL);
    assert_false(verdict->gpu_measured);
    assert_non_null(strstr(verdict->why, "GPU requests wait on these hosts is unknown"));
    ground_clear(&ground);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_results),           cmocka_unit_test(test_small_and_certain),
        cmocka_unit_test(test_other_hosts),       cmocka_unit_test(test_other_hosts_differ),
        cmocka_unit_test(test_unknown),           cmocka_unit_test(test_few_common_steps),
        cmocka_unit_test(test_the_vms_want_less), cmocka_unit_test(test_gpus),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
