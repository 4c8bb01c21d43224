/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a scenario of the GPU-scheduler simulator: no crash; what is accepted runs under
 * every mode for a while, in time order, and its figures fit the time.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "policy/gpusched.h"

#define DURATION_NS INT64_C(20000000)
#define STEPS_MAX   200000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool condition)
{
    if (!condition)
        abort();
}

static void
check_order(void *data, const struct vg_gpusched_record *record)
{
    int64_t *last = data;

    require(record->ts_ns >= *last && record->kind < VG_GPUSCHED_KIND_MAX);
    *last = record->ts_ns;
}

static void
check_figures(const struct vg_gpusched_result *result)
{
    for (unsigned int e = 0; e < result->gpus->len; e++) {
        const struct vg_gpusched_figures *figures =
            &g_array_index(result->gpus, struct vg_gpusched_figures, e);
        require(figures->busy_ns >= 0 && figures->busy_ns <= result->duration_ns);
        require(figures->exec_ns == figures->busy_ns && figures->wait_ns >= 0);
    }
}

static void
run_mode(const struct vg_gpusched_scenario *scenario)
{
    int64_t last = 0;
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, check_order, &last, NULL);
    int status = 1;

    require(sim != NULL);
    for (int i = 0; i < STEPS_MAX && status > 0; i++)
        status = vg_gpusched_step(sim, NULL);
    if (status == 0) {
        g_autoptr(vg_gpusched_result) result = vg_gpusched_get_result(sim);
        check_figures(result);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(vg_gpusched_scenario) scenario =
        vg_gpusched_scenario_from_json((const char *)data, size, NULL);

    if (!scenario)
        return 0;
    scenario->duration_ns = MIN(scenario->duration_ns, DURATION_NS);
    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        scenario->mode = (enum vg_gpusched_mode)mode;
        run_mode(scenario);
    }
    return 0;
}
