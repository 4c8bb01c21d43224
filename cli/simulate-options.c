/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/simulate-options.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

enum { KEY_DEVICE = 0x600, KEY_PLATFORM, KEY_PRESENT, KEY_TIMESLICE, KEY_WEIGHT };

#define NS_PER_MS 1e6

static const struct argp_option options_known[] = {
    {"device", KEY_DEVICE, "NAME", 0, "use this GPU of the recording", 4},
    {"platform", KEY_PLATFORM, "NAME", 0,
     "platform of the GPU: gvt-g, nvidia-vgpu, xe-sriov, i915-sriov, amd-gim or unknown", 4},
    {"present", KEY_PRESENT, "MODE", 0,
     "the GPU's current scheduler mode (default: the platform's)", 4},
    {"timeslice", KEY_TIMESLICE, "MS", 0, "current length of a turn; 0 means unlimited (quantum)",
     4},
    {"weight", KEY_WEIGHT, "VM=N", 0,
     "current weight of a VM's vGPU (default: 4); can be repeated, and can add VMs that were "
     "not recorded",
     4},
    {0},
};

static int64_t
parse_timeslice(const char *text, const struct argp_state *state)
{
    char *end;
    const double min_ms = (double)VG_GPUSCHED_TIMESLICE_MIN / NS_PER_MS;
    const double max_ms = (double)VG_GPUSCHED_TIMESLICE_MAX / NS_PER_MS;

    errno = 0;
    double ms = g_ascii_strtod(text, &end);
    bool good = errno == 0 && end != text && *end == '\0';
    if (!good || !(ms == 0 || (ms >= min_ms && ms <= max_ms)))
        vg_cli_usage(state, "--timeslice must be 0, or from %g to %g milliseconds, not '%s'",
                     min_ms, max_ms, text);
    return (int64_t)(ms * NS_PER_MS + 0.5);
}

static error_t
simulate_options_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_simulate_options *options = state->input;
    g_autoptr(GError) error = NULL;

    switch (key) {
    case KEY_DEVICE:
        options->device = arg;
        break;
    case KEY_PLATFORM:
        options->has_platform = vg_gpumode_platform_from_name(arg, &options->platform, &error) == 0;
        break;
    case KEY_PRESENT:
        options->has_present = vg_gpusched_mode_from_name(arg, &options->present, &error) == 0;
        break;
    case KEY_TIMESLICE:
        options->timeslice_ns = parse_timeslice(arg, state);
        break;
    case KEY_WEIGHT:
        g_ptr_array_add(options->weights, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (error)
        vg_cli_usage(state, "%s", error->message);
    return 0;
}

const struct argp vg_simulate_argp = {.options = options_known, .parser = simulate_options_parse};

void
vg_simulate_options_init(struct vg_simulate_options *options)
{
    *options = (struct vg_simulate_options){.timeslice_ns = -1, .weights = g_ptr_array_new()};
}

void
vg_simulate_options_clear(struct vg_simulate_options *options)
{
    g_clear_pointer(&options->weights, g_ptr_array_unref);
}

const char *
vg_simulate_options_given(const struct vg_simulate_options *options)
{
    if (options->has_platform)
        return "--platform";
    if (options->has_present)
        return "--present";
    if (options->timeslice_ns >= 0)
        return "--timeslice";
    return options->weights->len > 0 ? "--weight" : NULL;
}

/* ---- on a scenario ---- */

struct vg_gpusched_vm *
vg_simulate_find_vm(const struct vg_gpusched_scenario *scenario, const char *name)
{
    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        if (strcmp(vm->name, name) == 0)
            return vm;
    }
    return NULL;
}

struct vg_gpusched_vm *
vg_simulate_add_vm(struct vg_gpusched_scenario *scenario, const char *name)
{
    struct vg_gpusched_vm *vm = vg_gpusched_scenario_add_vm(scenario, name);

    vm->start_priority = false;
    return vm;
}

/* Reads "VM=N". */
static int
read_weight(const char *text, char **ret_name, uint32_t *ret_weight, GError **err)
{
    const char *sign = strrchr(text, '=');
    guint64 weight;

    if (!sign || sign == text ||
        !g_ascii_string_to_unsigned(sign + 1, 10, 1, VG_GPUSCHED_WEIGHT_MAX, &weight, NULL))
        return vg_error(err, VG_E_INVALID, "--weight must be VM=N with N from 1 to %d, not '%s'",
                        VG_GPUSCHED_WEIGHT_MAX, text);
    *ret_name = g_strndup(text, (size_t)(sign - text));
    *ret_weight = (uint32_t)weight;
    return 0;
}

int
vg_simulate_set_weights(struct vg_gpusched_scenario *scenario,
                        const struct vg_simulate_options *options, bool may_add, GError **err)
{
    for (unsigned int i = 0; i < options->weights->len; i++) {
        g_autofree char *name = NULL;
        uint32_t weight = 0;
        if (read_weight(options->weights->pdata[i], &name, &weight, err) < 0)
            return -1;
        struct vg_gpusched_vm *vm = vg_simulate_find_vm(scenario, name);
        if (!vm && !may_add)
            return vg_error(err, VG_E_NOT_FOUND, "--weight: unknown VM '%s'", name);
        if (!vm)
            vm = vg_simulate_add_vm(scenario, name);
        vm->weight = weight;
    }
    return 0;
}

int
vg_simulate_set_present(struct vg_gpusched_scenario *scenario,
                        const struct vg_simulate_options *options, GError **err)
{
    if (options->has_present)
        scenario->mode = options->present;
    if (options->timeslice_ns > 0)
        scenario->timeslice_ns = options->timeslice_ns;
    if (options->timeslice_ns == 0 && scenario->mode != VG_GPUSCHED_QUANTUM)
        return vg_error(err, VG_E_INVALID,
                        "--timeslice: unlimited turns are possible only in the mode quantum");
    for (unsigned int i = 0; i < scenario->vms->len && options->timeslice_ns >= 0; i++) {
        struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        vm->quantum_ns = options->timeslice_ns == 0 ? 0 : -1;
    }
    return vg_simulate_set_weights(scenario, options, false, err);
}
