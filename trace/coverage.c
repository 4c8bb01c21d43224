/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/coverage.h"

#include <string.h>

#include "trace/adapter.h"

void
vg_coverage_init(struct vg_coverage *coverage)
{
    *coverage = (struct vg_coverage){
        .begin_ns = VG_TIME_UNKNOWN,
        .end_ns = VG_TIME_UNKNOWN,
        .all_begin_ns = VG_TIME_UNKNOWN,
        .all_end_ns = VG_TIME_MAX,
        .late_cpus = g_array_new(FALSE, FALSE, sizeof(int32_t)),
    };
}

void
vg_coverage_clear(struct vg_coverage *coverage)
{
    g_clear_pointer(&coverage->late_cpus, g_array_unref);
}

void
vg_coverage_add_told(struct vg_coverage *coverage, int32_t cpu)
{
    if (cpu >= 0)
        coverage->told_cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

bool
vg_coverage_is_told(const struct vg_coverage *coverage, int32_t cpu)
{
    return coverage->told_cpus[cpu / 64] >> (cpu % 64) & 1;
}

static int
coverage_compare_cpus(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

void
vg_coverage_add_late(struct vg_coverage *coverage, int32_t cpu, int64_t begin_ns)
{
    vg_coverage_add_told(coverage, cpu);
    if (begin_ns <= coverage->begin_ns)
        return;
    coverage->all_begin_ns = MAX(coverage->all_begin_ns, begin_ns);
    for (unsigned int i = 0; i < coverage->late_cpus->len; i++) {
        if (g_array_index(coverage->late_cpus, int32_t, i) == cpu)
            return;
    }
    g_array_append_val(coverage->late_cpus, cpu);
    g_array_sort(coverage->late_cpus, coverage_compare_cpus);
}

void
vg_coverage_add_event(struct vg_coverage *coverage, const char *event_name)
{
    const struct vg_adapter *adapter = vg_adapter_find(event_name);

    if (!adapter || adapter->type != VG_EVENT_GPU)
        return;
    /* That workloads are queued says nothing of the driver's requests. */
    if (adapter->gpu_op != VG_GPU_QUEUED || !g_strstr_len(event_name, -1, "gvt_workload"))
        coverage->gpu_ops |= 1U << adapter->gpu_op;
}

bool
vg_coverage_begin(const struct vg_coverage *coverage, int64_t *ret_ns)
{
    if (coverage->begin_ns == VG_TIME_UNKNOWN || coverage->end_ns == VG_TIME_UNKNOWN ||
        coverage->late_cpus->len == 0 || coverage->all_begin_ns >= coverage->end_ns ||
        coverage->all_begin_ns - coverage->begin_ns <=
            (coverage->end_ns - coverage->begin_ns) / 100)
        return false;
    *ret_ns = coverage->all_begin_ns;
    return true;
}
