/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/vcpu-affinity.h"

#include <sched.h>

#include "model/event.h"

struct cpu_sets {
    cpu_set_t *all;
    cpu_set_t *one;
};

/* Finds the CPUs of a VM. Returns false if none of its threads could be queried. */
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

/* Lists the CPUs of a set. The set has space for many more CPUs than any host has, so empty words
 * are skipped. */
static void
vcpu_affinity_list(const cpu_set_t *set, size_t size, GArray *cpus)
{
    /* The type is smaller than the set that was allocated. */
    const __cpu_mask *words = set->__bits;

    g_array_set_size(cpus, 0);
    for (size_t word = 0; word < size / sizeof(*words); word++) {
        for (__cpu_mask bits = words[word]; bits; bits &= bits - 1) {
            int32_t cpu = (int32_t)(word * __NCPUBITS) + __builtin_ctzl(bits);
            g_array_append_val(cpus, cpu);
        }
    }
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
        vcpu_affinity_list(sets.all, size, sample->cpus);
        sample->cpus_allowed = true;
    }
    CPU_FREE(sets.all);
    CPU_FREE(sets.one);
}
