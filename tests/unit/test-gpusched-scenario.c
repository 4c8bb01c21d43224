/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios from JSON, good ones and hostile ones; what holds whatever the scenario is.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "tests/unit/chance.h"
#include "tests/unit/gpusched-cases.h"

static struct vg_gpusched_scenario *
read_text(const char *text, GError **err)
{
    return vg_gpusched_scenario_from_json(text, strlen(text), err);
}

/* ---- reading ---- */

static void
test_everything(void **state)
{
    (void)state;
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_gpusched_scenario) scenario = read_text(
        "{\"seed\": 7, \"duration_ms\": 1.5, \"mode\": \"quantum\", \"generation\": \"old\","
        " \"engines\": [\"vcs0\", \"rcs0\"], \"params\": {\"timeslice_us\": 250.5,"
        " \"switch_cost_us\": 3, \"preemptible\": true}, \"vms\": [{\"name\": \"vm1\","
        " \"weight\": 16, \"start_ms\": 0.25, \"stop_ms\": 1, \"share\": 0.5,"
        " \"quantum_us\": 0, \"start_priority\": false, \"jobs\": [{\"engine\": \"rcs0\","
        " \"size_us\": {\"dist\": \"lognormal\", \"mean\": 2, \"sigma\": 0.5},"
        " \"loop\": \"closed\", \"depth\": 3, \"think_us\": {\"dist\": \"uniform\", \"min\": 1,"
        " \"max\": 2}}, {\"size_us\": {\"dist\": \"fixed\", \"value\": 0.5}, \"loop\": \"open\","
        " \"interarrival_us\": {\"dist\": \"exponential\", \"mean\": 9}}]}]}",
        &error);
    assert_non_null(scenario);
    assert_int_equal(scenario->seed, 7);
    assert_int_equal(scenario->duration_ns, 1500000);
    assert_int_equal(scenario->mode, VG_GPUSCHED_QUANTUM);
    assert_int_equal(scenario->generation, VG_GPUSCHED_OLD);
    assert_int_equal(scenario->n_engines, 2);
    assert_string_equal(vg_gpusched_engine_names[scenario->engines[0]], "vcs0");
    assert_int_equal(scenario->timeslice_ns, 250500);
    assert_int_equal(scenario->switch_cost_ns, 3000);
    assert_true(scenario->preemptible);
    const struct vg_gpusched_vm *vm = scenario->vms->pdata[0];
    assert_int_equal(vm->weight, 16);
    assert_int_equal(vm->start_ns, 250000);
    assert_int_equal(vm->stop_ns, MS);
    assert_int_equal(vm->quantum_ns, 0);
    assert_false(vm->start_priority);
    const struct vg_gpusched_job *job = &g_array_index(vm->jobs, struct vg_gpusched_job, 0);
    assert_int_equal(job->engine, 1);
    assert_int_equal(job->depth, 3);
    gpusched_assert_near(job->size.a, 2000, 0);
    gpusched_assert_near(job->size.b, 0.5, 0);
    gpusched_assert_near(job->gap.b, 2000, 0);
    job = &g_array_index(vm->jobs, struct vg_gpusched_job, 1);
    assert_int_equal(job->engine, 0);
    assert_int_equal(job->loop, VG_GPUSCHED_OPEN);
    gpusched_assert_near(job->size.a, 500, 0);
}

static void
test_defaults(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = read_text(
        "{\"vms\": [{\"name\": \"a\", \"stop_ms\": null, \"jobs\": [{\"size_us\": {\"dist\": "
        "\"fixed\", \"value\": 1}}]}, {\"name\": \"idle\"}]}",
        NULL);
    assert_non_null(scenario);
    assert_int_equal(scenario->seed, 1);
    assert_int_equal(scenario->duration_ns, 10 * S);
    assert_int_equal(scenario->mode, VG_GPUSCHED_GVTG);
    assert_int_equal(scenario->timeslice_ns, MS);
    assert_string_equal(vg_gpusched_engine_names[scenario->engines[0]], "rcs0");
    const struct vg_gpusched_vm *vm = scenario->vms->pdata[0];
    assert_int_equal(vm->weight, 4);
    assert_true(vm->stop_ns == VG_GPUSCHED_NEVER);
    assert_true(vm->start_priority);
    assert_int_equal(vm->quantum_ns, -1);
    const struct vg_gpusched_job *job = &g_array_index(vm->jobs, struct vg_gpusched_job, 0);
    assert_int_equal(job->loop, VG_GPUSCHED_CLOSED);
    assert_int_equal(job->depth, 1);
}

/* What is wrong, and what the message must have. */
static const struct {
    const char *text;
    const char *says;
} bad_texts[] = {
    {"", "not JSON"},
    {"null", "null"},
    {"[]", "(document)"},
    {"{\"vms\": [{\"name\": \"a\"}]", "not JSON"},
    {"{\"vms\": [{\"name\": \"a\"}], \"seed\": NaN}", "not JSON"},
    {"{}", "vms: is missing"},
    {"{\"vms\": []}", "vms: at least one VM is required"},
    {"{\"vms\": {}}", "vms: must be an array"},
    {"{\"vms\": [1]}", "vms[0]: must be an object"},
    {"{\"vms\": [{}]}", "vms[0].name: is missing"},
    {"{\"vms\": [{\"name\": 1}]}", "vms[0].name: must be a string"},
    {"{\"vms\": [{\"name\": \"\"}]}", "vms[0].name: is empty"},
    {"{\"vms\": [{\"name\": \"a\\nb\"}]}", "vms[0].name: is empty or has unprintable"},
    {"{\"vms\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"a\"}]}",
     "vms[2].name: another VM"},
    {"{\"sed\": 1, \"vms\": [{\"name\": \"a\"}]}", "sed: is unknown; the known members are seed"},
    {"{\"seed\": -1, \"vms\": [{\"name\": \"a\"}]}", "seed: -1 is out of range"},
    {"{\"seed\": 1.5, \"vms\": [{\"name\": \"a\"}]}", "seed: must be a whole number"},
    /* Which json-c refuses by itself since 0.18, without a word of what it is for. */
    {"{\"seed\": 99999999999999999999, \"vms\": [{\"name\": \"a\"}]}", ""},
    {"{\"seed\": 1e30, \"vms\": [{\"name\": \"a\"}]}", "seed: "},
    {"{\"duration_ms\": 0, \"vms\": [{\"name\": \"a\"}]}", "duration_ms: 0 is out of range"},
    {"{\"duration_ms\": 3600001, \"vms\": [{\"name\": \"a\"}]}", "duration_ms: 3600001 is out"},
    {"{\"duration_ms\": 1e999, \"vms\": [{\"name\": \"a\"}]}", "duration_ms: "},
    {"{\"duration_ms\": \"1\", \"vms\": [{\"name\": \"a\"}]}", "duration_ms: must be a number"},
    {"{\"mode\": \"fair\", \"vms\": [{\"name\": \"a\"}]}", "mode: 'fair' is unknown"},
    {"{\"mode\": 1, \"vms\": [{\"name\": \"a\"}]}", "mode: must be a string"},
    {"{\"generation\": \"middle\", \"vms\": [{\"name\": \"a\"}]}", "generation: 'middle'"},
    {"{\"engines\": [], \"vms\": [{\"name\": \"a\"}]}", "engines: at least one engine is required"},
    {"{\"engines\": [\"rcs9\"], \"vms\": [{\"name\": \"a\"}]}", "engines[0]: 'rcs9'"},
    {"{\"engines\": [\"rcs0\", \"rcs0\"], \"vms\": [{\"name\": \"a\"}]}",
     "engines[1]: appears twice"},
    {"{\"params\": {\"timeslice\": 1}, \"vms\": [{\"name\": \"a\"}]}",
     "params.timeslice: is unknown"},
    {"{\"params\": {\"timeslice_us\": 99}, \"vms\": [{\"name\": \"a\"}]}", "params.timeslice_us: "},
    {"{\"params\": {\"switch_cost_us\": -1}, \"vms\": [{\"name\": \"a\"}]}",
     "params.switch_cost_us: "},
    {"{\"params\": {\"preemptible\": 1}, \"vms\": [{\"name\": \"a\"}]}", "params.preemptible: "},
    {"{\"vms\": [{\"name\": \"a\", \"weight\": 0}]}", "vms[0].weight: 0 is out of range"},
    {"{\"vms\": [{\"name\": \"a\", \"weight\": 1025}]}", "vms[0].weight: 1025"},
    {"{\"vms\": [{\"name\": \"a\", \"colour\": 1}]}", "vms[0].colour: is unknown"},
    {"{\"vms\": [{\"name\": \"a\", \"start_ms\": -1}]}", "vms[0].start_ms: "},
    {"{\"vms\": [{\"name\": \"a\", \"start_ms\": 5, \"stop_ms\": 5}]}", "vms[0]: stop_ms"},
    {"{\"vms\": [{\"name\": \"a\", \"share\": 0}]}", "vms[0].share: 0 is out of range"},
    {"{\"vms\": [{\"name\": \"a\", \"share\": 1}, {\"name\": \"b\"}]}", "leaves no time"},
    {"{\"vms\": [{\"name\": \"a\", \"share\": 0.6}, {\"name\": \"b\", \"share\": 0.6}]}",
     "more than 1"},
    {"{\"vms\": [{\"name\": \"a\", \"quantum_us\": 99}]}", "vms[0].quantum_us: "},
    {"{\"vms\": [{\"name\": \"a\", \"start_priority\": 0}]}", "vms[0].start_priority: "},
    {"{\"vms\": [{\"name\": \"a\", \"jobs\": 1}]}", "vms[0].jobs: must be an array"},
};

/* Of a job. */
static const struct {
    const char *text;
    const char *says;
} bad_jobs[] = {
    {"{}", "size_us: is missing"},
    {"{\"size_us\": 1}", "size_us: must be an object"},
    {"{\"size_us\": {}}", "size_us.dist: is missing"},
    {"{\"size_us\": {\"dist\": \"zipf\"}}", "size_us.dist: 'zipf' is unknown"},
    {"{\"size_us\": {\"dist\": \"fixed\"}}", "size_us.value: is missing"},
    {"{\"size_us\": {\"dist\": \"fixed\", \"value\": -1}}", "size_us.value: -1 is out"},
    {"{\"size_us\": {\"dist\": \"fixed\", \"value\": 60000001}}", "size_us.value: 60000001"},
    {"{\"size_us\": {\"dist\": \"fixed\", \"value\": 1, \"mean\": 1}}", "size_us.mean: is unknown"},
    {"{\"size_us\": {\"dist\": \"uniform\", \"min\": 2, \"max\": 1}}", "size_us: max is"},
    {"{\"size_us\": {\"dist\": \"uniform\", \"min\": 2}}", "size_us.max: is missing"},
    {"{\"size_us\": {\"dist\": \"lognormal\", \"mean\": 2}}", "size_us.sigma: is missing"},
    {"{\"size_us\": {\"dist\": \"lognormal\", \"mean\": 2, \"sigma\": 11}}", "size_us.sigma: 11"},
    {"{\"engine\": \"vcs0\", \"size_us\": {\"dist\": \"fixed\", \"value\": 1}}",
     "engine: this GPU"},
    {"{\"depth\": 0, \"size_us\": {\"dist\": \"fixed\", \"value\": 1}}", "depth: 0 is out"},
    {"{\"depth\": 257, \"size_us\": {\"dist\": \"fixed\", \"value\": 1}}", "depth: 257 is out"},
    {"{\"loop\": \"open\", \"size_us\": {\"dist\": \"fixed\", \"value\": 1}}",
     "interarrival_us: is missing"},
    {"{\"loop\": \"open\", \"think_us\": {}}", "think_us: is unknown"},
    {"{\"loop\": \"closed\", \"interarrival_us\": {}}", "interarrival_us: is unknown"},
    {"{\"loop\": \"half\"}", "loop: 'half' is unknown"},
};

static void
assert_refused(const char *text, const char *says)
{
    g_autoptr(GError) error = NULL;

    assert_null(read_text(text, &error));
    assert_true(g_error_matches(error, VG_ERROR, VG_E_INVALID));
    if (!strstr(error->message, says))
        fail_msg("'%s' does not say '%s' of %s", error->message, says, text);
}

static void
test_hostile(void **state)
{
    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(bad_texts); i++)
        assert_refused(bad_texts[i].text, bad_texts[i].says);
    for (size_t i = 0; i < G_N_ELEMENTS(bad_jobs); i++) {
        g_autofree char *text =
            g_strdup_printf("{\"vms\": [{\"name\": \"a\", \"jobs\": [%s]}]}", bad_jobs[i].text);
        g_autofree char *says = g_strdup_printf("vms[0].jobs[0].%s", bad_jobs[i].says);
        assert_refused(text, says);
    }
}

/* ---- limits ---- */

static char *
repeat(const char *item, int n)
{
    GString *text = g_string_new(NULL);

    for (int i = 0; i < n; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "," : "", item);
    return g_string_free(text, FALSE);
}

static void
check_limit(const char *text, const char *says)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_gpusched_scenario) scenario = read_text(text, &error);

    if (says)
        assert_refused(text, says);
    else if (!scenario)
        fail_msg("%s", error->message);
}

static void
test_limits(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        g_autofree char *jobs = repeat("{\"size_us\": {\"dist\": \"fixed\", \"value\": 1}}",
                                       VG_GPUSCHED_JOBS_MAX + over);
        g_autofree char *one =
            g_strdup_printf("{\"vms\": [{\"name\": \"a\", \"jobs\": [%s]}]}", jobs);
        check_limit(one, over ? "vms[0].jobs: 17 items, more than 16" : NULL);

        GString *vms = g_string_new("{\"vms\": [{\"name\": \"-\"}");
        for (int i = 1; i < VG_GPUSCHED_VMS_MAX + over; i++)
            g_string_append_printf(vms, ", {\"name\": \"%d\"}", i);
        g_string_append(vms, "]}");
        check_limit(vms->str, over ? "vms: 257 items, more than 256" : NULL);
        g_string_free(vms, TRUE);

        g_autofree char *name = g_strnfill((gsize)(VG_GPUSCHED_NAME_MAX + over), 'x');
        g_autofree char *named = g_strdup_printf("{\"vms\": [{\"name\": \"%s\"}]}", name);
        check_limit(named, over ? "vms[0].name: the string has 256 bytes" : NULL);

        g_autofree char *blanks = g_strnfill(
            (gsize)(VG_GPUSCHED_JSON_MAX + over) - strlen("{\"vms\": [{\"name\": \"a\"}]}"), ' ');
        g_autofree char *padded = g_strconcat(blanks, "{\"vms\": [{\"name\": \"a\"}]}", NULL);
        check_limit(padded, over ? "more than 1048576" : NULL);
    }
}

/* What C can make and JSON cannot. */
static void
test_check(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_GVTG);
    g_autoptr(GError) error = NULL;
    assert_int_equal(vg_gpusched_scenario_check(scenario, NULL), -1); /* no VM */
    struct vg_gpusched_vm *vm = gpusched_add(scenario, "a", 4, MS, 1);
    assert_int_equal(vg_gpusched_scenario_check(scenario, NULL), 0);
    gpusched_add_request(vm, 0, 5, 1);
    gpusched_add_request(vm, 0, 4, 1);
    assert_null(vg_gpusched_new(scenario, NULL, NULL, &error));
    assert_non_null(strstr(error->message, "VM 'a': request 1"));
    g_array_set_size(vm->stream, 1);
    g_array_index(vm->jobs, struct vg_gpusched_job, 0).engine = 1;
    assert_int_equal(vg_gpusched_scenario_check(scenario, NULL), -1);
    g_array_index(vm->jobs, struct vg_gpusched_job, 0).engine = 0;
    g_array_index(vm->jobs, struct vg_gpusched_job, 0).size.a = G_MAXDOUBLE;
    assert_int_equal(vg_gpusched_scenario_check(scenario, NULL), -1);
}

/* ---- random scenarios ---- */

static struct vg_gpusched_dist
random_dist(GRand *rand, double least, double scale)
{
    struct vg_gpusched_dist dist = {
        .kind = (enum vg_gpusched_dist_kind)g_rand_int_range(rand, 0, VG_GPUSCHED_DIST_MAX),
        .a = g_rand_double_range(rand, least, scale),
    };

    if (dist.kind == VG_GPUSCHED_UNIFORM)
        dist.b = dist.a + g_rand_double_range(rand, 0, scale);
    else if (dist.kind == VG_GPUSCHED_LOGNORMAL)
        dist.b = g_rand_double_range(rand, 0, 2);
    return dist;
}

static void
add_random_job(GRand *rand, const struct vg_gpusched_scenario *scenario, struct vg_gpusched_vm *vm)
{
    struct vg_gpusched_job job = {
        .engine = (uint8_t)g_rand_int_range(rand, 0, (gint32)scenario->n_engines),
        .loop = (enum vg_gpusched_loop)g_rand_int_range(rand, 0, VG_GPUSCHED_LOOP_MAX),
        .depth = (uint32_t)g_rand_int_range(rand, 1, 5),
        .size = random_dist(rand, 0, g_rand_boolean(rand) ? 30e6 : 1e6),
        /* Twenty jobs whose requests come every 50 us stay below VG_GPUSCHED_WAITING_MAX in 1.5 s.
         */
        .gap = random_dist(rand, 50e3, 20e6),
    };
    g_array_append_val(vm->jobs, job);
}

static void
add_random_vm(GRand *rand, struct vg_gpusched_scenario *scenario, int i)
{
    g_autofree char *name = g_strdup_printf("vm%d", i);
    struct vg_gpusched_vm *vm = vg_gpusched_scenario_add_vm(scenario, name);

    vm->weight = (uint32_t)g_rand_int_range(rand, 1, 17);
    vm->start_priority = g_rand_boolean(rand);
    if (g_rand_boolean(rand))
        vm->start_ns = g_rand_int_range(rand, 0, 600 * MS);
    if (g_rand_int_range(rand, 0, 3) == 0)
        vm->stop_ns = vm->start_ns + g_rand_int_range(rand, 1, 600 * MS);
    if (g_rand_boolean(rand))
        vm->share = g_rand_double_range(rand, 0.01, 0.15);
    if (g_rand_boolean(rand))
        vm->quantum_ns = g_rand_int_range(rand, MS / 10, 8 * MS);
    for (int n = g_rand_int_range(rand, 0, 4); n > 0; n--)
        add_random_job(rand, scenario, vm);
    vm->replay = (enum vg_gpusched_loop)g_rand_int_range(rand, 0, VG_GPUSCHED_LOOP_MAX);
    vm->repeat = g_rand_boolean(rand);
    int64_t arrival = 0;
    for (int n = g_rand_int_range(rand, 0, 3) * 20; n > 0; n--) {
        arrival += g_rand_int_range(rand, 0, 10 * MS);
        gpusched_add_request(vm, (uint8_t)g_rand_int_range(rand, 0, (gint32)scenario->n_engines),
                             arrival, g_rand_int_range(rand, MS / 100, 5 * MS));
        struct vg_gpusched_request *request =
            &g_array_index(vm->stream, struct vg_gpusched_request, vm->stream->len - 1);
        request->think_ns = g_rand_int_range(rand, 0, MS);
        request->ahead = (uint32_t)g_rand_int_range(rand, 0, 4);
    }
}

static struct vg_gpusched_scenario *
random_scenario(uint32_t seed)
{
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    struct vg_gpusched_scenario *scenario = gpusched_make(VG_GPUSCHED_GVTG);

    scenario->seed = seed;
    scenario->duration_ns = g_rand_int_range(rand, 1, 1500 * MS);
    scenario->generation = (enum vg_gpusched_generation)g_rand_int_range(rand, 0, 2);
    scenario->n_engines = (uint32_t)g_rand_int_range(rand, 1, 4);
    for (uint32_t e = 0; e < scenario->n_engines; e++)
        scenario->engines[e] = (uint8_t)e;
    scenario->timeslice_ns = g_rand_int_range(rand, MS / 10, 5 * MS);
    if (g_rand_boolean(rand))
        scenario->switch_cost_ns = g_rand_int_range(rand, 0, MS);
    scenario->preemptible = g_rand_boolean(rand);
    for (int n = g_rand_int_range(rand, 1, 6); n > 0; n--)
        add_random_vm(rand, scenario, n);
    return scenario;
}

static bool
is_same(const struct gpusched_run *a, const struct gpusched_run *b)
{
    if (a->records->len != b->records->len)
        return false;
    for (unsigned int i = 0; i < a->records->len; i++) {
        const struct vg_gpusched_record *x =
            &g_array_index(a->records, struct vg_gpusched_record, i);
        const struct vg_gpusched_record *y =
            &g_array_index(b->records, struct vg_gpusched_record, i);
        if (x->ts_ns != y->ts_ns || x->kind != y->kind || x->vm != y->vm ||
            x->workload != y->workload || x->next_vgpu != y->next_vgpu)
            return false;
    }
    return true;
}

/* gpusched_run() checks what holds for every run. */
static void
test_random(void **state)
{
    (void)state;
    uint64_t first = chance_seed();
    unsigned rounds = chance_rounds(40, 1000);

    for (uint64_t seed = first; seed < first + rounds; seed++) {
        chance_print(seed); /* a failure is of the last one printed */
        for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
            g_autoptr(vg_gpusched_scenario) scenario = random_scenario((uint32_t)seed);
            scenario->mode = (enum vg_gpusched_mode)mode;
            g_autoptr(gpusched_run_t) run = gpusched_run(scenario);
            g_autoptr(gpusched_run_t) again = gpusched_run(scenario);
            assert_true(is_same(run, again));
        }
    }
}

/* ---- random numbers ---- */

static struct vg_gpusched_vm *
add_poisson(struct vg_gpusched_scenario *scenario, const char *name, double gap, double size)
{
    struct vg_gpusched_vm *vm = gpusched_add(scenario, name, 4, 0, 0);
    const struct vg_gpusched_job job = {
        .loop = VG_GPUSCHED_OPEN,
        .size = {VG_GPUSCHED_LOGNORMAL, size, 0.8},
        .gap = {VG_GPUSCHED_EXPONENTIAL, gap, 0},
    };
    g_array_append_val(vm->jobs, job);
    return vm;
}

static void
test_seeds(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    add_poisson(scenario, "a", 5e6, 1e6);
    g_autoptr(gpusched_run_t) first = gpusched_run(scenario);
    g_autoptr(gpusched_run_t) same = gpusched_run(scenario);
    scenario->seed = 2;
    g_autoptr(gpusched_run_t) other = gpusched_run(scenario);

    assert_true(is_same(first, same));
    assert_false(is_same(first, other));
}

/* Neither another VM nor another mode changes when a VM's requests come. */
static void
test_streams_are_independent(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) alone = gpusched_make(VG_GPUSCHED_WEIGHTED);
    g_autoptr(vg_gpusched_scenario) both = gpusched_make(VG_GPUSCHED_BEST_EFFORT);
    add_poisson(alone, "a", 5e6, 1e6);
    add_poisson(both, "b", 5e6, 1e6);
    add_poisson(both, "a", 5e6, 1e6);
    g_autoptr(gpusched_run_t) x = gpusched_run(alone);
    g_autoptr(gpusched_run_t) y = gpusched_run(both);

    for (unsigned int i = 0; i < 1000; i++) {
        int64_t at = gpusched_time_of(x, VG_GPUSCHED_QUEUED, 0, i);
        assert_true(at > 0);
        assert_int_equal(at, gpusched_time_of(y, VG_GPUSCHED_QUEUED, 1, i));
        assert_int_not_equal(at, gpusched_time_of(y, VG_GPUSCHED_QUEUED, 0, i));
    }
}

/* 100 s of one request each ms on average, of 0.5 ms each: 100,000 +- 1 %. An M/G/1 queue waits
 * l E[S^2] / (2 (1 - rho)) on average (Pollaczek, Khinchine); E[S^2] of a lognormal is m^2 e^(s^2).
 */
static void
test_queueing_theory(void **state)
{
    (void)state;
    g_autoptr(vg_gpusched_scenario) scenario = gpusched_make(VG_GPUSCHED_WEIGHTED);
    scenario->duration_ns = 100 * S;
    add_poisson(scenario, "a", 1e6, 0.5e6);
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, NULL, NULL, NULL);
    assert_int_equal(vg_gpusched_run(sim, NULL), 0);
    g_autoptr(vg_gpusched_result) result = vg_gpusched_get_result(sim);
    const struct vg_gpusched_figures *figures =
        &g_array_index(result->gpus, struct vg_gpusched_figures, 0);

    gpusched_assert_near((double)figures->requests, 100000, 1000);
    gpusched_assert_near(figures->share, 0.5, 0.01);
    double wait = 1e-6 * 0.25e12 * 1.8965 / (2 * 0.5); /* e^0.64 = 1.8965 */
    gpusched_assert_near((double)figures->wait_ns / (double)figures->requests / wait, 1, 0.05);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),      cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_hostile),         cmocka_unit_test(test_limits),
        cmocka_unit_test(test_check),           cmocka_unit_test(test_random),
        cmocka_unit_test(test_seeds),           cmocka_unit_test(test_streams_are_independent),
        cmocka_unit_test(test_queueing_theory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
