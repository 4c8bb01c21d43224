/* SPDX-License-Identifier: Apache-2.0
 *
 * Recorded requests as scenarios, and which mode of a GPU's scheduler is proposed for them. What is
 * recorded here is a simulation with generators, so that its present mode is known.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "policy/gpumode-private.h"
#include "policy/gpumode.h"
#include "tests/unit/gpusched-cases.h"

/* ---- recording ---- */

/* What ran, from its arrival to its end. */
static GArray *
requests_of(const struct gpusched_run *run)
{
    GArray *requests = g_array_new(FALSE, TRUE, sizeof(struct vg_gpustream_request));
    GArray *all = g_array_new(FALSE, TRUE, sizeof(struct vg_gpustream_request));
    g_autoptr(GArray) since = g_array_new(FALSE, TRUE, sizeof(int64_t));

    for (unsigned int i = 0; i < run->records->len; i++) {
        const struct vg_gpusched_record *record =
            &g_array_index(run->records, struct vg_gpusched_record, i);
        if (record->kind == VG_GPUSCHED_SWITCH || record->kind == VG_GPUSCHED_VM_START)
            continue;
        if (record->kind == VG_GPUSCHED_QUEUED) {
            const struct vg_gpustream_request request = {
                .arrival_ns = record->ts_ns, .vm = record->vm, .engine = record->engine};
            g_array_append_val(all, request);
            g_array_set_size(since, all->len);
        }
        struct vg_gpustream_request *request =
            &g_array_index(all, struct vg_gpustream_request, record->workload - 1);
        int64_t *started = &g_array_index(since, int64_t, record->workload - 1);
        if (record->kind == VG_GPUSCHED_STARTED || record->kind == VG_GPUSCHED_RESUMED)
            *started = record->ts_ns;
        if (record->kind == VG_GPUSCHED_PREEMPTED || record->kind == VG_GPUSCHED_DONE)
            request->exec_ns += record->ts_ns - *started;
        if (record->kind == VG_GPUSCHED_DONE) {
            request->done_ns = record->ts_ns;
            g_array_append_val(requests, *request);
        }
    }
    g_array_unref(all);
    return requests;
}

struct recording {
    struct vg_gpusched_scenario *scenario; /* with streams */
    GArray *measured;
};

static void
recording_clear(struct recording *recording)
{
    vg_gpusched_scenario_free(recording->scenario);
    g_array_unref(recording->measured);
}

typedef struct recording recorded;
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(recorded, recording_clear)

/* The same VMs, with what they asked for in a run of the scenario instead of generators. */
static struct recording
record(const struct vg_gpusched_scenario *scenario)
{
    g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
    g_autoptr(GArray) requests = requests_of(run);
    struct vg_gpusched_scenario *replay = vg_gpusched_scenario_new();
    GPtrArray *vms = replay->vms;

    *replay = *scenario;
    replay->vms = vms;
    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        struct vg_gpusched_vm *copy = gpusched_add(replay, vm->name, vm->weight, 0, 0);
        copy->quantum_ns = vm->quantum_ns;
        copy->share = vm->share;
    }
    return (struct recording){replay, vg_gpustream_fill(replay, requests)};
}

static struct vg_gpumode_config
defaults(void)
{
    struct vg_policy_config config;

    vg_policy_config_init(&config);
    return config.gpu_mode;
}

static struct vg_gpumode_advice *
advise(const struct recording *recording, enum vg_gpumode_platform platform,
       const struct vg_gpumode_config *config)
{
    g_autoptr(GError) error = NULL;
    struct vg_gpumode_advice *advice =
        vg_gpumode_advise(recording->scenario, platform, recording->measured, config, &error);

    if (!advice)
        fail_msg("%s", error->message);
    return advice;
}

static const struct vg_gpumode_candidate *
candidate_at(const struct vg_gpumode_advice *advice, unsigned int i)
{
    return advice->candidates->pdata[i];
}

/* NULL: nothing is. Checks that at most one is, and that each one says why. */
static const struct vg_gpumode_candidate *
proposed(const struct vg_gpumode_advice *advice)
{
    const struct vg_gpumode_candidate *found = NULL;

    assert_non_null(advice->why);
    for (unsigned int i = 0; i < advice->candidates->len; i++) {
        const struct vg_gpumode_candidate *candidate = candidate_at(advice, i);
        assert_non_null(candidate->reason);
        assert_true(!candidate->proposed || !found);
        if (candidate->proposed)
            found = candidate;
    }
    return found;
}

static const struct vg_gpumode_candidate *
find_mode(const struct vg_gpumode_advice *advice, enum vg_gpusched_mode mode)
{
    for (unsigned int i = 0; i < advice->candidates->len; i++) {
        if (candidate_at(advice, i)->mode == mode)
            return candidate_at(advice, i);
    }
    fail_msg("no candidate has the mode %s", vg_gpusched_mode_names[mode]);
    return candidate_at(advice, 0);
}

static const struct vg_gpumode_vm *
vm_of(const struct vg_gpumode_candidate *candidate, uint32_t vm)
{
    return &g_array_index(candidate->vms, struct vg_gpumode_vm, vm);
}

static const struct vg_gpustream_figures *
now_of(const struct vg_gpumode_advice *advice, uint32_t vm)
{
    return &g_array_index(advice->simulated, struct vg_gpustream_figures, vm);
}

/* ---- streams ---- */

/* A scenario of one VM on one engine; times in ms: arrival, end, size. */
static struct vg_gpusched_scenario *
fill(const int (*times)[3], size_t n, int duration_ms, GArray **ret_measured)
{
    struct vg_gpusched_scenario *scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    g_autoptr(GArray) requests = g_array_new(FALSE, TRUE, sizeof(struct vg_gpustream_request));

    scenario->duration_ns = duration_ms * MS;
    gpusched_add(scenario, "a", 4, 0, 0);
    for (size_t i = n; i-- > 0;) { /* in the wrong order */
        const struct vg_gpustream_request request = {
            .arrival_ns = times[i][0] * MS,
            .done_ns = times[i][1] * MS,
            .exec_ns = times[i][2] * MS,
        };
        g_array_append_val(requests, request);
    }
    g_autoptr(GArray) measured = vg_gpustream_fill(scenario, requests);
    if (ret_measured)
        *ret_measured = g_array_ref(measured);
    return scenario;
}

static void
assert_request(const struct vg_gpusched_scenario *scenario, unsigned int i, int think_ms,
               uint32_t ahead)
{
    const struct vg_gpusched_vm *vm = scenario->vms->pdata[0];
    const struct vg_gpusched_request *request =
        &g_array_index(vm->stream, struct vg_gpusched_request, i);

    assert_true(vm->replay == VG_GPUSCHED_CLOSED && vm->repeat);
    assert_int_equal(request->think_ns, think_ms * MS);
    assert_int_equal(request->ahead, ahead);
}

static void
test_one_at_a_time(void **state)
{
    static const int times[][3] = {{2, 12, 10}, {15, 35, 5}, {35, 36, 1}};

    (void)state;
    GArray *measured;
    g_autoptr(vg_gpusched_scenario) scenario = fill(times, 3, 40, &measured);
    assert_request(scenario, 0, 2 + 4, 0); /* the edges */
    assert_request(scenario, 1, 3, 0);
    assert_request(scenario, 2, 0, 0);

    const struct vg_gpustream_figures *figures =
        &g_array_index(measured, struct vg_gpustream_figures, 0);
    assert_int_equal(figures->requests, 3);
    gpusched_assert_near(figures->requests_per_s, 75, 1e-6);
    gpusched_assert_near(figures->share, 16. / 40, 1e-9);
    assert_int_equal(figures->wait_ns_per_s, 15 * MS * 25);
    assert_int_equal(figures->latency_mean_ns, 31 * MS / 3);
    assert_int_equal(figures->latency_p50_ns, 10 * MS);
    assert_int_equal(figures->latency_p95_ns, 20 * MS);
    g_array_unref(measured);
}

/* Two frames in flight; then a batch of three, and one that waits for all of it. */
static void
test_many_at_a_time(void **state)
{
    static const int frames[][3] = {{0, 10, 10}, {0, 20, 10}, {11, 30, 10}, {21, 40, 10}};
    static const int batch[][3] = {{0, 5, 5}, {1, 10, 5}, {1, 15, 5}, {18, 23, 5}};

    (void)state;
    g_autoptr(vg_gpusched_scenario) double_buffer = fill(frames, 4, 40, NULL);
    assert_request(double_buffer, 1, 0, 1);
    assert_request(double_buffer, 2, 1, 1);
    assert_request(double_buffer, 3, 1, 1);
    g_autoptr(vg_gpusched_scenario) batches = fill(batch, 4, 40, NULL);
    assert_request(batches, 1, 1, 1);
    assert_request(batches, 2, 0, 2);
    assert_request(batches, 3, 3, 0);
}

/* Every 16 ms, whatever happened; and requests that nobody can be waiting for. */
static void
test_open(void **state)
{
    int paced[40][3];
    int flood[VG_GPUSTREAM_DEPTH_MAX + 1][3];

    (void)state;
    for (int i = 0; i < 40; i++) {
        int size = 1 + i * 7 % 12;
        memcpy(paced[i], (int[]){16 * i, 16 * i + size, size}, sizeof(paced[i]));
    }
    g_autoptr(vg_gpusched_scenario) display = fill(paced, 40, 640, NULL);
    assert_request(display, 39, 16, 39);
    for (int i = 0; i < 40; i++) /* the same, but 3 ms after the one before */
        paced[i][0] = i == 0 ? 0 : paced[i - 1][1] + 3, paced[i][1] = paced[i][0] + paced[i][2];
    g_autoptr(vg_gpusched_scenario) client = fill(paced, 40, 640, NULL);
    assert_request(client, 39, 3, 0);

    for (int i = 0; i <= VG_GPUSTREAM_DEPTH_MAX; i++)
        memcpy(flood[i], (int[]){i, 100 + i, 1}, sizeof(flood[i]));
    g_autoptr(vg_gpusched_scenario) window = fill(flood, VG_GPUSTREAM_DEPTH_MAX, 200, NULL);
    g_autoptr(vg_gpusched_scenario) open = fill(flood, VG_GPUSTREAM_DEPTH_MAX + 1, 200, NULL);
    assert_request(window, VG_GPUSTREAM_DEPTH_MAX - 1, 1, VG_GPUSTREAM_DEPTH_MAX - 1);
    assert_request(open, VG_GPUSTREAM_DEPTH_MAX, 1, VG_GPUSTREAM_DEPTH_MAX);
}

/* Whatever is recorded of a mode, playing it again in that mode gives the same figures. */
static void
test_replay_is_faithful(void **state)
{
    (void)state;
    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make((enum vg_gpusched_mode)mode);
        scenario->preemptible = mode >= VG_GPUSCHED_BEST_EFFORT;
        gpusched_add(scenario, "frames", 4, 3 * MS, 2);
        gpusched_add(scenario, "batch", 2, 17 * MS, 1);
        struct vg_gpusched_vm *shy = gpusched_add(scenario, "shy", 8, MS, 1);
        g_array_index(shy->jobs, struct vg_gpusched_job, 0).gap =
            (struct vg_gpusched_dist){VG_GPUSCHED_EXPONENTIAL, 2e7, 0};
        g_auto(recorded) recording = record(scenario);
        const struct vg_gpumode_config config = defaults();
        g_autoptr(vg_gpumode_advice) advice = advise(&recording, VG_GPUMODE_UNKNOWN, &config);
        if (!(advice->error < 0.03))
            fail_msg("%s: %g", vg_gpusched_mode_names[mode], advice->error);
    }
}

/* ---- proposals ---- */

/* One of two has work, and gets half of the GPU: work-conserving GVT-g would give it all, but there
 * is no such thing; weights would give it more. */
static void
test_idle_neighbour(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "busy", 4, 10 * MS, 1);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_auto(recorded) recording = record(scenario);
    const struct vg_gpumode_config config = defaults();
    g_autoptr(vg_gpumode_advice) advice = advise(&recording, VG_GPUMODE_GVT_G, &config);

    gpusched_assert_near(now_of(advice, 0)->share, 0.5, 0.02);
    const struct vg_gpumode_candidate *conserving = find_mode(advice, VG_GPUSCHED_WORK_CONSERVING);
    assert_int_equal(conserving->price, VG_GPUMODE_NOT_OFFERED);
    assert_false(conserving->proposed);
    assert_non_null(strstr(conserving->reason, "gvt-g does not offer this mode"));
    gpusched_assert_near(
        vm_of(conserving, 0)->then.requests_per_s / now_of(advice, 0)->requests_per_s, 2, 0.06);
    gpusched_assert_near((double)conserving->gain_wait_ns_per_s / 1e9, 0.5, 0.02);

    /* 8 of 10. */
    const struct vg_gpumode_candidate *best = proposed(advice);
    assert_non_null(best);
    assert_int_equal(best->mode, VG_GPUSCHED_GVTG);
    assert_int_equal(best->price, VG_GPUMODE_NEEDS_RECREATE);
    assert_int_equal(vm_of(best, 0)->weight, 8);
    assert_int_equal(vm_of(best, 1)->weight, 2);
    gpusched_assert_near(vm_of(best, 0)->then.share, 0.8, 0.03);
    assert_int_equal(vm_of(best, 1)->then.requests, 0);
}

/* A batch of long requests and a desktop with short ones, no end of turns: quanta of some ms. */
static struct recording
record_batch(void)
{
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_QUANTUM);

    vg_gpumode_set_default(scenario, VG_GPUMODE_XE_SRIOV);
    struct vg_gpusched_vm *batch = gpusched_add(scenario, "batch", 4, 80 * MS, 1);
    struct vg_gpusched_vm *desktop = gpusched_add(scenario, "desktop", 4, 2 * MS, 1);
    g_array_index(batch->jobs, struct vg_gpusched_job, 0).gap =
        (struct vg_gpusched_dist){VG_GPUSCHED_FIXED, 1e6, 0};
    g_array_index(desktop->jobs, struct vg_gpusched_job, 0).gap =
        (struct vg_gpusched_dist){VG_GPUSCHED_EXPONENTIAL, 1.4e7, 0};
    batch->quantum_ns = 0;
    desktop->quantum_ns = 0;
    return record(scenario);
}

static void
test_long_and_short(void **state)
{
    (void)state;
    g_auto(recorded) recording = record_batch();
    const struct vg_gpumode_config config = defaults();
    g_autoptr(vg_gpumode_advice) advice = advise(&recording, VG_GPUMODE_XE_SRIOV, &config);
    const struct vg_gpumode_candidate *best = proposed(advice);

    assert_true(now_of(advice, 1)->latency_p95_ns > 60 * MS);
    assert_non_null(best);
    assert_int_equal(best->price, VG_GPUMODE_LIVE);
    assert_true(vm_of(best, 0)->quantum_ns > 0 && vm_of(best, 0)->quantum_ns <= 8 * MS);
    assert_true(vm_of(best, 1)->then.latency_p95_ns < 20 * MS);
    assert_true(vm_of(best, 0)->then.latency_p95_ns <= now_of(advice, 0)->latency_p95_ns * 6 / 5);
    assert_int_equal(best->worst_vm, 0);
    assert_true(best->worst_p95_change_ns > 0);
}

static void
test_thresholds(void **state)
{
    (void)state;
    g_auto(recorded) recording = record_batch();
    struct vg_gpumode_config config = defaults();
    config.max_worsening = 0.001;
    g_autoptr(vg_gpumode_advice) strict = advise(&recording, VG_GPUMODE_XE_SRIOV, &config);
    assert_null(proposed(strict));
    for (unsigned int i = 0; i < strict->candidates->len; i++)
        assert_non_null(strstr(candidate_at(strict, i)->reason, "'batch' would rise"));

    config = defaults();
    config.min_gain = 1;
    g_autoptr(vg_gpumode_advice) greedy = advise(&recording, VG_GPUMODE_I915_SRIOV, &config);
    assert_null(proposed(greedy));
    assert_non_null(strstr(candidate_at(greedy, 0)->reason, "1.000 are required"));

    config = defaults();
    config.max_model_error = 0;
    config.min_requests = 1000000;
    g_autoptr(vg_gpumode_advice) few = advise(&recording, VG_GPUMODE_XE_SRIOV, &config);
    assert_true(isnan(few->error));
    assert_null(proposed(few));
    assert_non_null(strstr(few->why, "the minimum for a comparison"));
}

static void
test_nothing_better(void **state)
{
    static const struct {
        enum vg_gpumode_platform platform;
        enum vg_gpusched_mode mode;
    } cases[] = {
        {VG_GPUMODE_GVT_G, VG_GPUSCHED_GVTG},
        {VG_GPUMODE_NVIDIA_VGPU, VG_GPUSCHED_BEST_EFFORT},
        {VG_GPUMODE_AMD_GIM, VG_GPUSCHED_QUANTUM},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(cases[i].mode);
        vg_gpumode_set_default(scenario, cases[i].platform);
        gpusched_add(scenario, "a", 4, 4 * MS, 1);
        gpusched_add(scenario, "b", 4, 4 * MS, 1);
        g_auto(recorded) recording = record(scenario);
        const struct vg_gpumode_config config = defaults();
        g_autoptr(vg_gpumode_advice) advice = advise(&recording, cases[i].platform, &config);
        assert_true(advice->candidates->len > 0);
        assert_null(proposed(advice));
        assert_non_null(strstr(advice->why, "no mode that the platform offers is"));
    }
}

/* Equal shares of NVIDIA with an idle neighbour: best effort is better, at its price. */
static void
test_needs_empty_gpu(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_EQUAL_SHARE);
    scenario->preemptible = true;
    gpusched_add(scenario, "busy", 4, 5 * MS, 1);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_auto(recorded) recording = record(scenario);
    struct vg_gpumode_config config = defaults();
    g_autoptr(vg_gpumode_advice) advice = advise(&recording, VG_GPUMODE_NVIDIA_VGPU, &config);
    const struct vg_gpumode_candidate *best = proposed(advice);

    assert_non_null(best);
    assert_int_equal(best->mode, VG_GPUSCHED_BEST_EFFORT);
    assert_int_equal(best->price, VG_GPUMODE_NEEDS_EMPTY_GPU);
    assert_non_null(strstr(advice->why, "needs-empty-gpu"));
    config.min_gain_disruptive = 0.6;
    g_autoptr(vg_gpumode_advice) dear = advise(&recording, VG_GPUMODE_NVIDIA_VGPU, &config);
    assert_null(proposed(dear));
}

/* Recorded under another scheduler than it is said to be. */
static void
test_misfit(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    gpusched_add(scenario, "busy", 4, 10 * MS, 1);
    gpusched_add(scenario, "idle", 4, 0, 0);
    g_auto(recorded) recording = record(scenario);
    recording.scenario->mode = VG_GPUSCHED_GVTG;
    const struct vg_gpumode_config config = defaults();
    g_autoptr(vg_gpumode_advice) advice = advise(&recording, VG_GPUMODE_GVT_G, &config);

    assert_true(advice->error > 0.45);
    assert_null(proposed(advice));
    assert_non_null(strstr(advice->why, "the model does not fit the recording"));
}

/* Nothing is known of the platform: everything is shown, nothing is proposed. */
static void
test_unknown_platform(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    gpusched_add(scenario, "busy", 4, 10 * MS, 1);
    gpusched_add(scenario, "idle", 4, 0, 0);
    const struct vg_gpumode_config config = defaults();
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_gpumode_advice) advice =
        vg_gpumode_advise(scenario, VG_GPUMODE_UNKNOWN, NULL, &config, &error);

    assert_non_null(advice);
    assert_true(advice->error == 0);
    assert_int_equal(advice->candidates->len, VG_GPUSCHED_MODE_MAX - 1);
    assert_null(proposed(advice));
}

/* A GPU that is known not to preempt does not in another mode either; that of another platform does
 * as that one usually does. */
static void
test_preemption(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_BEST_EFFORT);
    scenario->preemptible = false;

    assert_false(vg_gpumode_preempts(scenario, VG_GPUMODE_NVIDIA_VGPU));
    assert_true(vg_gpumode_preempts(scenario, VG_GPUMODE_XE_SRIOV));
    assert_false(vg_gpumode_preempts(scenario, VG_GPUMODE_GVT_G));
    scenario->preemptible = true;
    assert_true(vg_gpumode_preempts(scenario, VG_GPUMODE_NVIDIA_VGPU));
    assert_false(vg_gpumode_preempts(scenario, VG_GPUMODE_GVT_G));
}

static void
test_names(void **state)
{
    enum vg_gpumode_platform platform;
    g_autoptr(GError) error = NULL;

    (void)state;
    for (int i = 0; i < VG_GPUMODE_PLATFORM_MAX; i++) {
        assert_int_equal(
            vg_gpumode_platform_from_name(vg_gpumode_platform_names[i], &platform, &error), 0);
        assert_int_equal(platform, i);
    }
    assert_int_equal(vg_gpumode_platform_from_name("voodoo", &platform, &error), -1);
    assert_int_equal(error->code, VG_E_INVALID);
    assert_non_null(strstr(error->message, "xe-sriov"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_many_at_a_time),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_replay_is_faithful),
        cmocka_unit_test(test_idle_neighbour),
        cmocka_unit_test(test_long_and_short),
        cmocka_unit_test(test_thresholds),
        cmocka_unit_test(test_nothing_better),
        cmocka_unit_test(test_needs_empty_gpu),
        cmocka_unit_test(test_misfit),
        cmocka_unit_test(test_unknown_platform),
        cmocka_unit_test(test_preemption),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
