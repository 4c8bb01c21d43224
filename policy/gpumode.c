/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates the candidates and decides.
 */
#include "config.h"

#include <math.h>

#include "policy/gpumode-private.h"

#define NS_PER_S  1e9
#define NS_PER_MS 1e6

/* ---- simulation ---- */

/* A run in progress: its requests by id, and its VMs. */
struct watch {
    GArray *arrivals;     /* int64_t, at id - 1 */
    GPtrArray *latencies; /* GArray of int64_t */
};

static void
on_record(void *data, const struct vg_gpusched_record *record)
{
    const struct watch *watch = data;

    if (record->kind == VG_GPUSCHED_QUEUED) {
        g_array_append_val(watch->arrivals, record->ts_ns);
    } else if (record->kind == VG_GPUSCHED_DONE) {
        int64_t latency =
            record->ts_ns - g_array_index(watch->arrivals, int64_t, record->workload - 1);
        g_array_append_val((GArray *)watch->latencies->pdata[record->vm], latency);
    }
}

static void
free_array(void *array)
{
    g_array_unref(array);
}

static GArray *
gpumode_figures_of(const struct watch *watch, const struct vg_gpusched_result *result)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(struct vg_gpustream_figures));

    for (unsigned int i = 0; i < result->vms->len; i++) {
        const struct vg_gpusched_vm_result *vm = result->vms->pdata[i];
        int64_t exec_ns = 0;
        int64_t wait_ns = 0;
        for (unsigned int k = 0; k < vm->gpu->len; k++) {
            exec_ns += g_array_index(vm->gpu, struct vg_gpusched_figures, k).exec_ns;
            wait_ns += g_array_index(vm->gpu, struct vg_gpusched_figures, k).wait_ns;
        }
        const struct vg_gpustream_figures figures = vg_gpustream_figures_of(
            watch->latencies->pdata[i], exec_ns, wait_ns, result->duration_ns);
        g_array_append_val(all, figures);
    }
    return all;
}

/* Returns a struct vg_gpustream_figures for each VM. */
static GArray *
simulate(const struct vg_gpusched_scenario *scenario, GError **err)
{
    g_autoptr(GArray) arrivals = g_array_new(FALSE, FALSE, sizeof(int64_t));
    g_autoptr(GPtrArray) latencies = g_ptr_array_new_with_free_func(free_array);
    struct watch watch = {arrivals, latencies};

    for (unsigned int i = 0; i < scenario->vms->len; i++)
        g_ptr_array_add(latencies, g_array_new(FALSE, FALSE, sizeof(int64_t)));
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, on_record, &watch, err);
    if (!sim || vg_gpusched_run(sim, err) < 0)
        return NULL;
    g_autoptr(vg_gpusched_result) result = vg_gpusched_get_result(sim);
    return gpumode_figures_of(&watch, result);
}

/* Returns the scenario with the candidate's settings. The VMs are copies that borrow members. */
static GArray *
simulate_candidate(const struct vg_gpumode_advice *advice,
                   const struct vg_gpumode_candidate *candidate, GError **err)
{
    const struct vg_gpusched_scenario *present = advice->scenario;
    g_autoptr(GPtrArray) vms = g_ptr_array_new_with_free_func(g_free);
    struct vg_gpusched_scenario scenario = *present;

    for (unsigned int i = 0; i < present->vms->len; i++) {
        const struct vg_gpumode_vm *is = &g_array_index(candidate->vms, struct vg_gpumode_vm, i);
        struct vg_gpusched_vm *vm = g_memdup2(present->vms->pdata[i], sizeof(*vm));
        vm->weight = is->weight;
        vm->quantum_ns = is->quantum_ns;
        g_ptr_array_add(vms, vm);
    }
    scenario.vms = vms;
    scenario.mode = candidate->mode;
    scenario.timeslice_ns = candidate->timeslice_ns;
    scenario.preemptible = vg_gpumode_preempts(present, advice->platform);
    return simulate(&scenario, err);
}

/* ---- does the model fit? ---- */

static double
part(double value, double of)
{
    return of > 0 ? fabs(value - of) / of : 0;
}

static double
model_error(const struct vg_gpumode_advice *advice, const struct vg_gpumode_config *config)
{
    double error = (double)NAN;

    for (unsigned int i = 0; i < advice->measured->len; i++) {
        const struct vg_gpustream_figures *is =
            &g_array_index(advice->measured, struct vg_gpustream_figures, i);
        const struct vg_gpustream_figures *model =
            &g_array_index(advice->simulated, struct vg_gpustream_figures, i);
        if (is->requests < (uint64_t)config->min_requests)
            continue;
        error = fmax(error, part(model->requests_per_s, is->requests_per_s));
        error = fmax(error, part((double)model->latency_mean_ns, (double)is->latency_mean_ns));
    }
    return error;
}

/* ---- what a candidate wins and costs ---- */

static const struct vg_gpustream_figures *
now_of(const struct vg_gpumode_advice *advice, uint32_t vm)
{
    return &g_array_index(advice->simulated, struct vg_gpustream_figures, vm);
}

static const struct vg_gpustream_figures *
then_of(const struct vg_gpumode_candidate *candidate, uint32_t vm)
{
    return &g_array_index(candidate->vms, struct vg_gpumode_vm, vm).then;
}

/* Returns the change for requests that complete in both cases. Requests that never complete show in
 * the requests per second. */
static int64_t
p95_change(const struct vg_gpumode_advice *advice, const struct vg_gpumode_candidate *candidate,
           uint32_t vm)
{
    const struct vg_gpustream_figures *now = now_of(advice, vm);
    const struct vg_gpustream_figures *then = then_of(candidate, vm);

    return now->requests > 0 && then->requests > 0 ? then->latency_p95_ns - now->latency_p95_ns : 0;
}

static void
measure_candidate(const struct vg_gpumode_advice *advice, struct vg_gpumode_candidate *candidate)
{
    double worst = -HUGE_VAL;

    for (uint32_t vm = 0; vm < candidate->vms->len; vm++) {
        const struct vg_gpustream_figures *now = now_of(advice, vm);
        int64_t change = p95_change(advice, candidate, vm);
        candidate->gain_wait_ns_per_s += now->wait_ns_per_s - then_of(candidate, vm)->wait_ns_per_s;
        double relative = (double)change / (double)MAX(1, now->latency_p95_ns);
        if (now->requests > 0 && relative > worst) {
            worst = relative;
            candidate->worst_vm = vm;
            candidate->worst_p95_change_ns = change;
        }
    }
}

/* ---- reasons ---- */

static const char *
name_of(const struct vg_gpumode_advice *advice, uint32_t vm)
{
    return ((const struct vg_gpusched_vm *)advice->scenario->vms->pdata[vm])->name;
}

static double
needed_gain(const struct vg_gpumode_candidate *candidate, const struct vg_gpumode_config *config)
{
    return candidate->price == VG_GPUMODE_LIVE ? config->min_gain : config->min_gain_disruptive;
}

/* Explains which VM is treated too badly, or returns NULL. */
static char *
worsening(const struct vg_gpumode_advice *advice, const struct vg_gpumode_candidate *candidate,
          const struct vg_gpumode_config *config)
{
    for (uint32_t vm = 0; vm < candidate->vms->len; vm++) {
        const struct vg_gpustream_figures *now = now_of(advice, vm);
        const struct vg_gpustream_figures *then = then_of(candidate, vm);
        int64_t change = p95_change(advice, candidate, vm);
        if (change > config->ignore_worsening_ns &&
            (double)change > config->max_worsening * (double)now->latency_p95_ns)
            return g_strdup_printf("the p95 latency of '%s' would rise from %.3f to %.3f ms",
                                   name_of(advice, vm), (double)now->latency_p95_ns / NS_PER_MS,
                                   (double)then->latency_p95_ns / NS_PER_MS);
        if (then->requests_per_s < (1 - config->max_worsening) * now->requests_per_s)
            return g_strdup_printf("the requests per second of '%s' would fall from %.1f to %.1f",
                                   name_of(advice, vm), now->requests_per_s, then->requests_per_s);
    }
    return NULL;
}

/* Explains why nothing can be proposed, or returns NULL if the model is reliable. */
static char *
disbelief(const struct vg_gpumode_advice *advice, const struct vg_gpumode_config *config)
{
    if (isnan(advice->error))
        return g_strdup_printf("no VM has %" G_GINT64_FORMAT
                               " requests, the minimum for a comparison",
                               config->min_requests);
    if (advice->error > config->max_model_error)
        return g_strdup_printf("the model does not fit the recording: the simulation of the "
                               "current mode differs by %.0f %%, more than the limit of %.0f %%",
                               100 * advice->error, 100 * config->max_model_error);
    return NULL;
}

/* Explains why this candidate is not proposed, or returns NULL. */
static char *
objection(const struct vg_gpumode_advice *advice, const struct vg_gpumode_candidate *candidate,
          const struct vg_gpumode_config *config)
{
    double gain = (double)candidate->gain_wait_ns_per_s / NS_PER_S;

    if (candidate->price == VG_GPUMODE_NOT_OFFERED && advice->platform == VG_GPUMODE_UNKNOWN)
        return g_strdup("it is unknown whether the platform offers this mode; it is simulated "
                        "for comparison");
    if (candidate->price == VG_GPUMODE_NOT_OFFERED)
        return g_strdup_printf("%s does not offer this mode; it is simulated for comparison",
                               vg_gpumode_platform_names[advice->platform]);
    char *why = disbelief(advice, config);
    if (why)
        return why;
    if (gain < needed_gain(candidate, config))
        return g_strdup_printf("the mode avoids %.3f s of waiting per second; %.3f are required",
                               gain, needed_gain(candidate, config));
    return worsening(advice, candidate, config);
}

/* ---- deciding ---- */

static double
surplus(const struct vg_gpumode_candidate *candidate, const struct vg_gpumode_config *config)
{
    return (double)candidate->gain_wait_ns_per_s / NS_PER_S - needed_gain(candidate, config);
}

static void
judge(struct vg_gpumode_advice *advice, struct vg_gpumode_candidate *candidate,
      const struct vg_gpumode_config *config)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GArray) then = simulate_candidate(advice, candidate, &error);

    if (!then) {
        candidate->reason = g_strdup_printf("cannot simulate the mode: %s", error->message);
        return;
    }
    for (unsigned int i = 0; i < then->len; i++)
        g_array_index(candidate->vms, struct vg_gpumode_vm, i).then =
            g_array_index(then, struct vg_gpustream_figures, i);
    measure_candidate(advice, candidate);
    candidate->reason = objection(advice, candidate, config);
}

/* Returns the candidate that exceeds its required gain the most. */
static struct vg_gpumode_candidate *
find_best(const struct vg_gpumode_advice *advice, const struct vg_gpumode_config *config)
{
    struct vg_gpumode_candidate *best = NULL;

    for (unsigned int i = 0; i < advice->candidates->len; i++) {
        struct vg_gpumode_candidate *candidate = advice->candidates->pdata[i];
        if (!candidate->reason && (!best || surplus(candidate, config) > surplus(best, config)))
            best = candidate;
    }
    return best;
}

static void
propose(struct vg_gpumode_advice *advice, struct vg_gpumode_candidate *best)
{
    best->proposed = true;
    best->reason = g_strdup_printf("GPU requests wait %.3f s less per second; the worst change of "
                                   "a p95 latency is %+.3f ms, for '%s'",
                                   (double)best->gain_wait_ns_per_s / NS_PER_S,
                                   (double)best->worst_p95_change_ns / NS_PER_MS,
                                   name_of(advice, best->worst_vm));
    advice->why = g_strdup_printf("%s, %s: %s", vg_gpusched_mode_names[best->mode],
                                  vg_gpumode_price_names[best->price], best->reason);
    for (unsigned int i = 0; i < advice->candidates->len; i++) {
        struct vg_gpumode_candidate *candidate = advice->candidates->pdata[i];
        if (!candidate->reason)
            candidate->reason = g_strdup("possible, but the proposed mode is better");
    }
}

static void
decide(struct vg_gpumode_advice *advice, const struct vg_gpumode_config *config)
{
    struct vg_gpumode_candidate *best = find_best(advice, config);

    if (best) {
        propose(advice, best);
        return;
    }
    advice->why = disbelief(advice, config);
    if (!advice->why && advice->platform == VG_GPUMODE_UNKNOWN)
        advice->why = g_strdup("the modes that the platform offers are unknown");
    if (!advice->why)
        advice->why = g_strdup("no mode that the platform offers is sufficiently better");
}

struct vg_gpumode_advice *
vg_gpumode_advise(const struct vg_gpusched_scenario *scenario, enum vg_gpumode_platform platform,
                  const GArray *measured, const struct vg_gpumode_config *config, GError **err)
{
    g_autoptr(vg_gpumode_advice) advice = g_new0(struct vg_gpumode_advice, 1);

    advice->platform = platform;
    advice->scenario = scenario;
    advice->candidates = g_ptr_array_new_with_free_func(vg_gpumode_candidate_free);
    advice->simulated = simulate(scenario, err);
    if (!advice->simulated)
        return NULL;
    const GArray *is = measured ? measured : advice->simulated;
    advice->measured = g_array_new(FALSE, FALSE, sizeof(struct vg_gpustream_figures));
    g_array_append_vals(advice->measured, is->data, is->len);
    advice->error = model_error(advice, config);
    vg_gpumode_add_candidates(advice);
    for (unsigned int i = 0; i < advice->candidates->len; i++)
        judge(advice, advice->candidates->pdata[i], config);
    decide(advice, config);
    return g_steal_pointer(&advice);
}

void
vg_gpumode_advice_free(struct vg_gpumode_advice *advice)
{
    if (!advice)
        return;
    g_clear_pointer(&advice->measured, g_array_unref);
    g_clear_pointer(&advice->simulated, g_array_unref);
    g_ptr_array_unref(advice->candidates);
    g_free(advice->why);
    g_free(advice);
}
