/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios from JSON. Unknown members are errors, so that a misspelled key does not silently
 * select a default.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "policy/gpusched-private.h"

#define DEPTH_MAX 6 /* document, vms, a VM, its jobs, a job, a distribution */
#define WORD_MAX  64
#define MS        1e6 /* in ns */
#define US        1e3

typedef struct vg_json_node node;

/* ---- members ---- */

/* Checks that there are no members except those in the list, which ends with NULL. */
static int
check_members(const node *object, const char *const *known, GError **err)
{
    if (vg_json_object(object, err) < 0)
        return -1;
    json_object_object_foreach(object->value, name, value)
    {
        if (g_strv_contains(known, name))
            continue;
        const node unknown = {.value = value, .parent = object, .member = name};
        g_autofree char *path = vg_json_path(&unknown);
        g_autofree char *list = g_strjoinv(", ", (char **)(void *)known);
        return vg_error(err, VG_E_INVALID, "%s: is unknown; the known members are %s", path, list);
    }
    return 0;
}

static int
bad_value(const node *at, GError **err, const char *what)
{
    g_autofree char *path = vg_json_path(at);

    return vg_error(err, VG_E_INVALID, "%s: %s", path, what);
}

/* Reads one of the names into *ret as its index. */
static int
read_word(const node *at, const char *const *names, int *ret, GError **err)
{
    const char *word;

    if (vg_json_string(at, WORD_MAX, &word, err) < 0)
        return -1;
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], word) == 0) {
            *ret = i;
            return 0;
        }
    }
    g_autofree char *path = vg_json_path(at);
    g_autofree char *list = g_strjoinv(", ", (char **)(void *)names);
    return vg_error(err, VG_E_INVALID, "%s: '%s' is unknown; the known values are %s", path, word,
                    list);
}

/* If the member is missing or null, the following functions leave *ret unchanged. */
static int
word_member(const node *object, const char *name, const char *const *names, int *ret, GError **err)
{
    node at;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &at, err);

    return found > 0 ? read_word(&at, names, ret, err) : found;
}

static int
int_member(const node *object, const char *name, int64_t min, int64_t max, int64_t *ret,
           GError **err)
{
    node at;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &at, err);

    return found > 0 ? vg_json_int64(&at, min, max, ret, err) : found;
}

static int
bool_member(const node *object, const char *name, bool *ret, GError **err)
{
    node at;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &at, err);

    return found > 0 ? vg_json_bool(&at, ret, err) : found;
}

/* Values are in the document's unit, but min, max and *ret are in ns. */
static int
time_member(const node *object, const char *name, double unit, int64_t min, int64_t max,
            int64_t *ret, GError **err)
{
    node at;
    double value;
    int found = vg_json_member(object, name, VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (vg_json_double(&at, (double)min / unit, (double)max / unit, &value, err) < 0)
        return -1;
    *ret = llrint(value * unit);
    return 0;
}

/* ---- distributions ---- */

static const char *const dist_names[] = {
    [VG_GPUSCHED_FIXED] = "fixed",
    [VG_GPUSCHED_UNIFORM] = "uniform",
    [VG_GPUSCHED_EXPONENTIAL] = "exponential",
    [VG_GPUSCHED_LOGNORMAL] = "lognormal",
    [VG_GPUSCHED_DIST_MAX] = NULL,
};

static const char *const dist_members[][4] = {
    [VG_GPUSCHED_FIXED] = {"dist", "value", NULL},
    [VG_GPUSCHED_UNIFORM] = {"dist", "min", "max", NULL},
    [VG_GPUSCHED_EXPONENTIAL] = {"dist", "mean", NULL},
    [VG_GPUSCHED_LOGNORMAL] = {"dist", "mean", "sigma", NULL},
};

static int
gpusched_json_number_of(const node *dist, const char *name, double max, double *ret, GError **err)
{
    node at;

    if (vg_json_member(dist, name, VG_JSON_REQUIRED, &at, err) < 0)
        return -1;
    return vg_json_double(&at, 0, max, ret, err);
}

/* Reads a distribution. Times in the document are in us. */
static int
read_dist(const node *at, struct vg_gpusched_dist *ret, GError **err)
{
    const double time_max = (double)VG_GPUSCHED_TIME_MAX / US;
    node kind_at;
    int kind;
    double a, b = 0;

    if (vg_json_member(at, "dist", VG_JSON_REQUIRED, &kind_at, err) < 0 ||
        read_word(&kind_at, dist_names, &kind, err) < 0 ||
        check_members(at, dist_members[kind], err) < 0 ||
        gpusched_json_number_of(at, dist_members[kind][1], time_max, &a, err) < 0)
        return -1;
    if (kind == VG_GPUSCHED_UNIFORM && gpusched_json_number_of(at, "max", time_max, &b, err) < 0)
        return -1;
    if (kind == VG_GPUSCHED_UNIFORM && b < a)
        return bad_value(at, err, "max is less than min");
    if (kind == VG_GPUSCHED_LOGNORMAL &&
        gpusched_json_number_of(at, "sigma", VG_GPUSCHED_SIGMA_MAX, &b, err) < 0)
        return -1;
    ret->kind = (enum vg_gpusched_dist_kind)kind;
    ret->a = a * US;
    ret->b = kind == VG_GPUSCHED_UNIFORM ? b * US : b;
    return 0;
}

static int
dist_member(const node *object, const char *name, enum vg_json_need need,
            struct vg_gpusched_dist *ret, GError **err)
{
    node at;
    int found = vg_json_member(object, name, need, &at, err);

    return found > 0 ? read_dist(&at, ret, err) : found;
}

/* ---- jobs ---- */

static const char *const loop_names[] = {
    [VG_GPUSCHED_CLOSED] = "closed",
    [VG_GPUSCHED_OPEN] = "open",
    [VG_GPUSCHED_LOOP_MAX] = NULL,
};

static const char *const job_members[][6] = {
    [VG_GPUSCHED_CLOSED] = {"engine", "size_us", "loop", "depth", "think_us", NULL},
    [VG_GPUSCHED_OPEN] = {"engine", "size_us", "loop", "interarrival_us", NULL},
};

static int
read_engine(const struct vg_gpusched_scenario *scenario, const node *job, uint8_t *ret,
            GError **err)
{
    node at;
    int engine;
    int found = vg_json_member(job, "engine", VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (read_word(&at, vg_gpusched_engine_names, &engine, err) < 0)
        return -1;
    for (uint32_t i = 0; i < scenario->n_engines; i++) {
        if (scenario->engines[i] == engine) {
            *ret = (uint8_t)i;
            return 0;
        }
    }
    return bad_value(&at, err, "this GPU does not have the engine (see engines)");
}

static int
gpusched_json_read_job(const struct vg_gpusched_scenario *scenario, const node *at,
                       struct vg_gpusched_vm *vm, GError **err)
{
    struct vg_gpusched_job job = {0};
    int loop = VG_GPUSCHED_CLOSED;
    int64_t depth = 1;

    if (word_member(at, "loop", loop_names, &loop, err) < 0 ||
        check_members(at, job_members[loop], err) < 0 ||
        read_engine(scenario, at, &job.engine, err) < 0 ||
        dist_member(at, "size_us", VG_JSON_REQUIRED, &job.size, err) < 0)
        return -1;
    if (loop == VG_GPUSCHED_OPEN) {
        if (dist_member(at, "interarrival_us", VG_JSON_REQUIRED, &job.gap, err) < 0)
            return -1;
    } else if (int_member(at, "depth", 1, VG_GPUSCHED_DEPTH_MAX, &depth, err) < 0 ||
               dist_member(at, "think_us", VG_JSON_OPTIONAL, &job.gap, err) < 0) {
        return -1;
    }
    job.loop = (enum vg_gpusched_loop)loop;
    job.depth = (uint32_t)depth;
    g_array_append_val(vm->jobs, job);
    return 0;
}

static int
read_jobs(const struct vg_gpusched_scenario *scenario, const node *vm_at, struct vg_gpusched_vm *vm,
          GError **err)
{
    node at;
    int found = vg_json_member(vm_at, "jobs", VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (vg_json_array(&at, VG_GPUSCHED_JOBS_MAX, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(&at); i++) {
        const node job = vg_json_item(&at, i);
        if (gpusched_json_read_job(scenario, &job, vm, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- VMs ---- */

static int
read_name(const struct vg_gpusched_scenario *scenario, const node *vm_at, const char **ret,
          GError **err)
{
    node at;

    if (vg_json_member(vm_at, "name", VG_JSON_REQUIRED, &at, err) < 0 ||
        vg_json_string(&at, VG_GPUSCHED_NAME_MAX, ret, err) < 0)
        return -1;
    if (!vg_gpusched_is_name(*ret))
        return bad_value(&at, err, "is empty or has unprintable characters");
    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *other = scenario->vms->pdata[i];
        if (strcmp(other->name, *ret) == 0)
            return bad_value(&at, err, "another VM has this name");
    }
    return 0;
}

static int
read_quantum(const node *vm_at, struct vg_gpusched_vm *vm, GError **err)
{
    node at;
    int found = vg_json_member(vm_at, "quantum_us", VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (time_member(vm_at, "quantum_us", US, 0, VG_GPUSCHED_TIMESLICE_MAX, &vm->quantum_ns, err) <
        0)
        return -1;
    if (vm->quantum_ns > 0 && vm->quantum_ns < VG_GPUSCHED_TIMESLICE_MIN)
        return bad_value(&at, err, "is less than 100 and not 0 (unlimited)");
    return 0;
}

static int
read_share(const node *vm_at, struct vg_gpusched_vm *vm, GError **err)
{
    node at;
    int found = vg_json_member(vm_at, "share", VG_JSON_OPTIONAL, &at, err);

    return found > 0 ? vg_json_double(&at, VG_GPUSCHED_SHARE_MIN, 1, &vm->share, err) : found;
}

static int
read_times(const node *at, struct vg_gpusched_vm *vm, GError **err)
{
    const int64_t max = VG_GPUSCHED_DURATION_MAX;

    if (time_member(at, "start_ms", MS, 0, max, &vm->start_ns, err) < 0 ||
        time_member(at, "stop_ms", MS, 0, max, &vm->stop_ns, err) < 0)
        return -1;
    if (vm->stop_ns <= vm->start_ns)
        return bad_value(at, err, "stop_ms is not later than start_ms");
    return 0;
}

static int
gpusched_json_read_vm(struct vg_gpusched_scenario *scenario, const node *at, GError **err)
{
    static const char *const known[] = {"name",  "weight",     "start_ms",       "stop_ms", "jobs",
                                        "share", "quantum_us", "start_priority", NULL};
    const char *name;

    if (check_members(at, known, err) < 0 || read_name(scenario, at, &name, err) < 0)
        return -1;
    struct vg_gpusched_vm *vm = vg_gpusched_scenario_add_vm(scenario, name);
    int64_t weight = vm->weight;
    if (int_member(at, "weight", 1, VG_GPUSCHED_WEIGHT_MAX, &weight, err) < 0 ||
        read_times(at, vm, err) < 0 || read_share(at, vm, err) < 0 ||
        read_quantum(at, vm, err) < 0 ||
        bool_member(at, "start_priority", &vm->start_priority, err) < 0)
        return -1;
    vm->weight = (uint32_t)weight;
    return read_jobs(scenario, at, vm, err);
}

static int
read_vms(struct vg_gpusched_scenario *scenario, const node *top, GError **err)
{
    node at;

    if (vg_json_member(top, "vms", VG_JSON_REQUIRED, &at, err) < 0 ||
        vg_json_array(&at, VG_GPUSCHED_VMS_MAX, err) < 0)
        return -1;
    if (vg_json_length(&at) == 0)
        return bad_value(&at, err, "at least one VM is required");
    for (size_t i = 0; i < vg_json_length(&at); i++) {
        const node vm = vg_json_item(&at, i);
        if (gpusched_json_read_vm(scenario, &vm, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- the document ---- */

static int
read_engines(struct vg_gpusched_scenario *scenario, const node *top, GError **err)
{
    node at;
    int found = vg_json_member(top, "engines", VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (vg_json_array(&at, VG_GPUSCHED_ENGINES_MAX, err) < 0)
        return -1;
    if (vg_json_length(&at) == 0)
        return bad_value(&at, err, "at least one engine is required");
    scenario->n_engines = 0;
    for (size_t i = 0; i < vg_json_length(&at); i++) {
        const node item = vg_json_item(&at, i);
        int engine;
        if (read_word(&item, vg_gpusched_engine_names, &engine, err) < 0)
            return -1;
        if (memchr(scenario->engines, engine, scenario->n_engines))
            return bad_value(&item, err, "appears twice");
        scenario->engines[scenario->n_engines++] = (uint8_t)engine;
    }
    return 0;
}

static int
read_params(struct vg_gpusched_scenario *scenario, const node *top, GError **err)
{
    static const char *const known[] = {"timeslice_us", "switch_cost_us", "preemptible", NULL};
    node at;
    int found = vg_json_member(top, "params", VG_JSON_OPTIONAL, &at, err);

    if (found <= 0)
        return found;
    if (check_members(&at, known, err) < 0 ||
        time_member(&at, "timeslice_us", US, VG_GPUSCHED_TIMESLICE_MIN, VG_GPUSCHED_TIMESLICE_MAX,
                    &scenario->timeslice_ns, err) < 0 ||
        time_member(&at, "switch_cost_us", US, 0, VG_GPUSCHED_SWITCH_MAX, &scenario->switch_cost_ns,
                    err) < 0)
        return -1;
    return bool_member(&at, "preemptible", &scenario->preemptible, err);
}

static int
read_scenario(struct vg_gpusched_scenario *scenario, const node *top, GError **err)
{
    static const char *const known[] = {"seed",    "duration_ms", "mode", "generation",
                                        "engines", "params",      "vms",  NULL};
    int mode = (int)scenario->mode;
    int generation = (int)scenario->generation;
    int64_t seed = (int64_t)scenario->seed;

    if (check_members(top, known, err) < 0 ||
        int_member(top, "seed", 0, VG_JSON_INT_MAX, &seed, err) < 0 ||
        time_member(top, "duration_ms", MS, 1, VG_GPUSCHED_DURATION_MAX, &scenario->duration_ns,
                    err) < 0 ||
        word_member(top, "mode", vg_gpusched_mode_names, &mode, err) < 0 ||
        word_member(top, "generation", vg_gpusched_generation_names, &generation, err) < 0 ||
        read_engines(scenario, top, err) < 0 || read_params(scenario, top, err) < 0)
        return -1;
    scenario->seed = (uint64_t)seed;
    scenario->mode = (enum vg_gpusched_mode)mode;
    scenario->generation = (enum vg_gpusched_generation)generation;
    return read_vms(scenario, top, err);
}

struct vg_gpusched_scenario *
vg_gpusched_scenario_from_json(const char *text, size_t size, GError **err)
{
    g_autoptr(json_object) document =
        vg_json_parse(text, size, VG_GPUSCHED_JSON_MAX, DEPTH_MAX, err);
    g_autoptr(vg_gpusched_scenario) scenario = NULL;

    if (!document)
        return NULL;
    const node top = vg_json_root(document);
    scenario = vg_gpusched_scenario_new();
    if (read_scenario(scenario, &top, err) < 0 || vg_gpusched_scenario_check(scenario, err) < 0)
        return NULL;
    return g_steal_pointer(&scenario);
}
