/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios as data: creation, destruction, and what a simulator needs from them.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "policy/gpusched-private.h"

const char *const vg_gpusched_mode_names[] = {
    [VG_GPUSCHED_GVTG] = "gvtg",
    [VG_GPUSCHED_NO_CARRY] = "no-carry",
    [VG_GPUSCHED_WORK_CONSERVING] = "work-conserving",
    [VG_GPUSCHED_WEIGHTED] = "weighted",
    [VG_GPUSCHED_BEST_EFFORT] = "best-effort",
    [VG_GPUSCHED_EQUAL_SHARE] = "equal-share",
    [VG_GPUSCHED_FIXED_SHARE] = "fixed-share",
    [VG_GPUSCHED_QUANTUM] = "quantum",
    [VG_GPUSCHED_MODE_MAX] = NULL,
};

const char *const vg_gpusched_generation_names[] = {
    [VG_GPUSCHED_NEW] = "new",
    [VG_GPUSCHED_OLD] = "old",
    [VG_GPUSCHED_GENERATION_MAX] = NULL,
};

/* i915's names for its engines: render, copy, video decode, video enhance, compute. */
const char *const vg_gpusched_engine_names[] = {
    "rcs0", "bcs0", "vcs0", "vcs1", "vecs0", "ccs0", "ccs1",
    "ccs2", "ccs3", "vcs2", "vcs3", "vecs1", NULL,
};

G_STATIC_ASSERT(G_N_ELEMENTS(vg_gpusched_engine_names) == VG_GPUSCHED_ENGINES_MAX + 1);

static void
free_vm(void *data)
{
    struct vg_gpusched_vm *vm = data;

    g_free(vm->name);
    g_array_unref(vm->jobs);
    g_array_unref(vm->stream);
    g_free(vm);
}

struct vg_gpusched_scenario *
vg_gpusched_scenario_new(void)
{
    struct vg_gpusched_scenario *scenario = g_new0(struct vg_gpusched_scenario, 1);

    scenario->seed = 1;
    scenario->duration_ns = INT64_C(10000000000);
    scenario->mode = VG_GPUSCHED_GVTG;
    scenario->generation = VG_GPUSCHED_NEW;
    scenario->n_engines = 1;
    scenario->timeslice_ns = INT64_C(1000000);
    scenario->vms = g_ptr_array_new_with_free_func(free_vm);
    return scenario;
}

void
vg_gpusched_scenario_free(struct vg_gpusched_scenario *scenario)
{
    if (!scenario)
        return;
    g_ptr_array_unref(scenario->vms);
    g_free(scenario);
}

struct vg_gpusched_vm *
vg_gpusched_scenario_add_vm(struct vg_gpusched_scenario *scenario, const char *name)
{
    struct vg_gpusched_vm *vm = g_new0(struct vg_gpusched_vm, 1);

    vm->name = g_strdup(name);
    vm->weight = 4; /* like the middle mdev type, _4 */
    vm->stop_ns = VG_GPUSCHED_NEVER;
    vm->start_priority = true;
    vm->quantum_ns = -1;
    vm->jobs = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_job));
    vm->stream = g_array_new(FALSE, FALSE, sizeof(struct vg_gpusched_request));
    vm->replay = VG_GPUSCHED_OPEN;
    g_ptr_array_add(scenario->vms, vm);
    return vm;
}

int
vg_gpusched_mode_from_name(const char *name, enum vg_gpusched_mode *ret, GError **err)
{
    g_autofree char *known = NULL;

    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        if (strcmp(vg_gpusched_mode_names[mode], name) == 0) {
            *ret = (enum vg_gpusched_mode)mode;
            return 0;
        }
    }
    known = g_strjoinv(", ", (char **)(void *)vg_gpusched_mode_names);
    return vg_error(err, VG_E_INVALID, "mode '%s' does not exist; the modes are %s", name, known);
}

/* ---- what a simulator needs ---- */

/* Returns whether the value is in the range. NaN is in no range. */
static bool
is_time(double ns)
{
    return ns >= 0 && ns <= (double)VG_GPUSCHED_TIME_MAX;
}

static bool
is_good_dist(const struct vg_gpusched_dist *dist)
{
    switch (dist->kind) {
    case VG_GPUSCHED_FIXED:
    case VG_GPUSCHED_EXPONENTIAL:
        return is_time(dist->a);
    case VG_GPUSCHED_UNIFORM:
        return is_time(dist->a) && is_time(dist->b) && dist->a <= dist->b;
    case VG_GPUSCHED_LOGNORMAL:
        return is_time(dist->a) && dist->b >= 0 && dist->b <= VG_GPUSCHED_SIGMA_MAX;
    case VG_GPUSCHED_DIST_MAX:
        break;
    }
    return false;
}

static int
check_jobs(const struct vg_gpusched_scenario *scenario, const struct vg_gpusched_vm *vm,
           GError **err)
{
    if (vm->jobs->len > VG_GPUSCHED_JOBS_MAX)
        return vg_error(err, VG_E_INVALID, "VM '%s': %u jobs, more than %d", vm->name,
                        vm->jobs->len, VG_GPUSCHED_JOBS_MAX);
    for (unsigned int i = 0; i < vm->jobs->len; i++) {
        const struct vg_gpusched_job *job = &g_array_index(vm->jobs, struct vg_gpusched_job, i);
        bool good_depth = job->depth >= 1 && job->depth <= VG_GPUSCHED_DEPTH_MAX;
        if (job->engine >= scenario->n_engines || job->loop >= VG_GPUSCHED_LOOP_MAX ||
            (job->loop == VG_GPUSCHED_CLOSED && !good_depth) || !is_good_dist(&job->size) ||
            !is_good_dist(&job->gap))
            return vg_error(err, VG_E_INVALID,
                            "VM '%s': job %u has an impossible engine, depth, size or time",
                            vm->name, i);
    }
    return 0;
}

static int
check_stream(const struct vg_gpusched_scenario *scenario, const struct vg_gpusched_vm *vm,
             GError **err)
{
    int64_t last = 0;

    if (vm->stream->len > VG_GPUSCHED_REQUESTS_MAX)
        return vg_error(err, VG_E_INVALID, "VM '%s': %u requests, more than %" G_GUINT64_FORMAT,
                        vm->name, vm->stream->len, VG_GPUSCHED_REQUESTS_MAX);
    for (unsigned int i = 0; i < vm->stream->len; i++) {
        const struct vg_gpusched_request *request =
            &g_array_index(vm->stream, struct vg_gpusched_request, i);
        if (request->engine >= scenario->n_engines || request->size_ns < 1 ||
            request->size_ns > VG_GPUSCHED_TIME_MAX || request->think_ns < 0 ||
            request->think_ns > VG_GPUSCHED_TIME_MAX || request->arrival_ns < last)
            return vg_error(err, VG_E_INVALID,
                            "VM '%s': request %u has an impossible engine, size or time, or "
                            "arrives before the previous request",
                            vm->name, i);
        last = request->arrival_ns;
    }
    return 0;
}

bool
vg_gpusched_is_name(const char *name)
{
    if (!name || *name == '\0' || strlen(name) > VG_GPUSCHED_NAME_MAX ||
        !g_utf8_validate(name, -1, NULL))
        return false;
    for (const char *c = name; *c; c = g_utf8_next_char(c)) {
        if (!g_unichar_isprint(g_utf8_get_char(c)))
            return false;
    }
    return true;
}

static int
check_vm(const struct vg_gpusched_scenario *scenario, const struct vg_gpusched_vm *vm, GError **err)
{
    if (!vg_gpusched_is_name(vm->name))
        return vg_error(err, VG_E_INVALID, "the name of a VM is empty, too long or not printable");
    if (vm->weight < 1 || vm->weight > VG_GPUSCHED_WEIGHT_MAX)
        return vg_error(err, VG_E_INVALID, "VM '%s': its weight %u is out of range (1 to %d)",
                        vm->name, vm->weight, VG_GPUSCHED_WEIGHT_MAX);
    if (vm->start_ns < 0 || vm->start_ns > VG_GPUSCHED_DURATION_MAX)
        return vg_error(err, VG_E_INVALID, "VM '%s': its start is out of range", vm->name);
    if (vm->stop_ns <= vm->start_ns)
        return vg_error(err, VG_E_INVALID, "VM '%s' stops before it starts", vm->name);
    if (vm->share != 0 && !(vm->share >= VG_GPUSCHED_SHARE_MIN && vm->share <= 1))
        return vg_error(err, VG_E_INVALID, "VM '%s': its share is out of range (%g to 1)", vm->name,
                        VG_GPUSCHED_SHARE_MIN);
    if (vm->quantum_ns != -1 && vm->quantum_ns != 0 &&
        (vm->quantum_ns < VG_GPUSCHED_TIMESLICE_MIN || vm->quantum_ns > VG_GPUSCHED_TIMESLICE_MAX))
        return vg_error(err, VG_E_INVALID, "VM '%s': its quantum is out of range", vm->name);
    if (check_jobs(scenario, vm, err) < 0)
        return -1;
    return check_stream(scenario, vm, err);
}

/* Checks shares. Every VM without a share needs at least VG_GPUSCHED_SHARE_MIN of the rest. */
static int
check_shares(const struct vg_gpusched_scenario *scenario, GError **err)
{
    unsigned int others = 0;
    double sum = 0;

    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        sum += vm->share;
        others += vm->share == 0;
    }
    /* Ten times 0.1 is not exactly 1. */
    if (sum + others * VG_GPUSCHED_SHARE_MIN > 1 + 1e-9)
        return vg_error(err, VG_E_INVALID, "the shares of the VMs sum up to %g%s", sum,
                        others > 0 ? ", which leaves no time for VMs without a share"
                                   : ", which is more than 1");
    return 0;
}

static int
check_names(const struct vg_gpusched_scenario *scenario, GError **err)
{
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);

    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        if (!g_hash_table_add(names, vm->name))
            return vg_error(err, VG_E_INVALID, "two VMs have the name '%s'", vm->name);
    }
    return 0;
}

static int
check_engines(const struct vg_gpusched_scenario *scenario, GError **err)
{
    uint32_t seen = 0;

    if (scenario->n_engines < 1 || scenario->n_engines > VG_GPUSCHED_ENGINES_MAX)
        return vg_error(err, VG_E_INVALID, "%u engines; there must be 1 to %d", scenario->n_engines,
                        VG_GPUSCHED_ENGINES_MAX);
    for (uint32_t e = 0; e < scenario->n_engines; e++) {
        uint32_t bit = UINT32_C(1) << MIN(scenario->engines[e], 31);
        if (scenario->engines[e] >= VG_GPUSCHED_ENGINES_MAX || (seen & bit))
            return vg_error(err, VG_E_INVALID, "engine %u is unknown or appears twice", e);
        seen |= bit;
    }
    return 0;
}

int
vg_gpusched_scenario_check(const struct vg_gpusched_scenario *scenario, GError **err)
{
    if (scenario->duration_ns < 1 || scenario->duration_ns > VG_GPUSCHED_DURATION_MAX)
        return vg_error(err, VG_E_INVALID, "the duration is out of range");
    if (scenario->mode >= VG_GPUSCHED_MODE_MAX ||
        scenario->generation >= VG_GPUSCHED_GENERATION_MAX)
        return vg_error(err, VG_E_INVALID, "the mode or the generation is unknown");
    if (scenario->timeslice_ns < VG_GPUSCHED_TIMESLICE_MIN ||
        scenario->timeslice_ns > VG_GPUSCHED_TIMESLICE_MAX)
        return vg_error(err, VG_E_INVALID, "the timeslice is out of range");
    if (scenario->switch_cost_ns < 0 || scenario->switch_cost_ns > VG_GPUSCHED_SWITCH_MAX)
        return vg_error(err, VG_E_INVALID, "the switch cost is out of range");
    if (scenario->vms->len < 1 || scenario->vms->len > VG_GPUSCHED_VMS_MAX)
        return vg_error(err, VG_E_INVALID, "%u VMs; there must be 1 to %d", scenario->vms->len,
                        VG_GPUSCHED_VMS_MAX);
    if (check_engines(scenario, err) < 0)
        return -1;
    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        if (check_vm(scenario, scenario->vms->pdata[i], err) < 0)
            return -1;
    }
    if (check_names(scenario, err) < 0)
        return -1;
    return check_shares(scenario, err);
}
