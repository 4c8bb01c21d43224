/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/vcpu-affinity.h"

#include <sched.h>

#include "model/event.h"

struct cpu_sets {
    cpu_set_t *all;
    cpu_set_t *one;
};

/* Finds the CPUs of a VM; false: none of its threads could be asked. */
static bool
affinity_of_vm(const struct vg_vm_sample *sample, const struct cpu_sets *sets, size_t size)
{
    bool known = false;

    CPU_ZERO_S(size, sets->all);
    for (guint i = 0; i < sample->vcpus->len; i++) {
        int32_t tid = g_array_index(sample->vcpus, struct vg_vcpu_sample, i).tid;
        if (sched_getaffinity(tid, size, sets->one) != 0)
            continue;
        CPU_OR_S(size, sets->all, sets->all, sets->one);
        known = true;
    }
    return known;
}

void
vg_vcpu_affinity_read(struct vg_window *window)
{
    size_t size = CPU_ALLOC_SIZE(VG_CPU_LIMIT);
    struct cpu_sets sets = {CPU_ALLOC(VG_CPU_LIMIT), CPU_ALLOC(VG_CPU_LIMIT)};

    for (guint v = 0; sets.all && sets.one && v < window->vms->len; v++) {
        struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, v);
        if (!affinity_of_vm(sample, &sets, size))
            continue;
        g_array_set_size(sample->cpus, 0);
        for (int32_t cpu = 0; cpu < VG_CPU_LIMIT; cpu++) {
            if (CPU_ISSET_S((size_t)cpu, size, sets.all))
                g_array_append_val(sample->cpus, cpu);
        }
        sample->cpus_allowed = true;
    }
    CPU_FREE(sets.all);
    CPU_FREE(sets.one);
}
