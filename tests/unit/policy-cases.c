/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/policy-cases.h"

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

struct vg_policy_config policy_config;

int
policy_set_up(void **state)
{
    (void)state;
    vg_policy_config_init(&policy_config);
    return 0;
}

/* A VM of `cores` constant demand, half of it waiting, on the given CPU (or any, -1). */
struct vg_snap_vm *
policy_add_vm(struct vg_snap_host *host, const char *name, double cores, int32_t cpu)
{
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, name);
    vm->vcpus = 1;
    vm->memory_bytes = GIB;
    vm->run_share = cores / 2;
    vm->preempt_share = cores / 2;
    vm->vm_class = cores >= 0.3 ? VG_CLASS_CPU : VG_CLASS_IDLE;
    vm->cpu_intensity = MIN(cores, 1);
    if (cpu >= 0)
        g_array_append_val(vm->cpus, cpu);
    return vm;
}

void
policy_add_use(struct vg_snap_vm *vm, const char *device, const char *type, double share)
{
    struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
    use->device = g_strdup(device);
    use->engine = g_strdup("rcs0");
    use->vgpu_type = g_strdup(type);
    use->share = share;
    use->memory_bytes = GIB;
    g_ptr_array_add(vm->gpu, use);
    vm->vm_class = VG_CLASS_GPU;
    vm->gpu_known = true;
    vm->gpu_intensity = share;
}

struct vg_snap_gpu *
policy_add_gpu(struct vg_snap_host *host, const char *device, const char *type, int64_t n_free)
{
    struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(host, device);
    struct vg_snap_vgpu_type *entry = vg_record_new(&vg_snap_vgpu_type_record);
    entry->type = g_strdup(type);
    entry->free = n_free;
    g_ptr_array_add(gpu->vgpu_types, entry);
    gpu->memory_bytes = 8 * GIB;
    gpu->memory_free_bytes = 8 * GIB;
    return gpu;
}

struct vg_snap_host *
policy_add_host(vg_snapshot *snapshot, const char *name, int64_t cpus)
{
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);
    host->cpus = cpus;
    host->memory_bytes = 64 * GIB;
    host->memory_free_bytes = 64 * GIB;
    return host;
}

vg_plan *
policy_plan_of(vg_snapshot *snapshot, enum vg_rule_id rule)
{
    g_autoptr(GError) err = NULL;
    if (vg_snapshot_seal(snapshot, &err) < 0)
        fail_msg("%s", err->message);
    vg_plan *plan = vg_policy_plan(snapshot, &policy_config, rule, &err);
    assert_non_null(plan);
    return plan;
}

void
policy_assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6)
        fail_msg("%.9f is not %.9f", value, expected);
}

double
policy_input_of(const struct vg_plan_action *action, const char *name)
{
    for (guint i = 0; i < action->reason.inputs->len; i++) {
        const struct vg_plan_input *input = action->reason.inputs->pdata[i];
        if (strcmp(input->name, name) == 0)
            return input->value;
    }
    fail_msg("there is no input '%s'", name);
    return 0;
}

bool
policy_says(const GPtrArray *sentences, const char *part)
{
    for (guint i = 0; i < sentences->len; i++) {
        if (strstr(sentences->pdata[i], part))
            return true;
    }
    for (guint i = 0; i < sentences->len; i++)
        print_message("# %s\n", (const char *)sentences->pdata[i]);
    return false;
}

/* Two cores wanted of CPU 0, and an empty host. */
vg_snapshot *
policy_make_pair(struct vg_snap_host **ret_from, struct vg_snap_host **ret_to)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    snapshot->end_ns = 10 * S;
    *ret_from = policy_add_host(snapshot, "from", 2);
    *ret_to = policy_add_host(snapshot, "to", 4);
    policy_add_vm(*ret_from, "a", 1.0, 0);
    policy_add_vm(*ret_from, "b", 1.0, 0);
    return snapshot;
}

void
policy_set_profile(struct vg_snap_vm *vm, const double *cpu, guint n)
{
    vm->profile.window_ns = S;
    g_array_set_size(vm->profile.cpu, 0);
    g_array_append_vals(vm->profile.cpu, cpu, n);
}
