/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/wanted-events.h"

#include "base/error.h"

#define SPELLINGS_MAX 3

enum wanted_part {
    PART_ESSENTIAL,
    PART_USEFUL,
    PART_GPU,     /* requests: most hosts have events of at most one driver */
    PART_WITH_GPU /* only describes requests that others report */
};

/* One of the spellings is enabled: the first one that the tracer knows. */
struct wanted {
    const char *spellings[VG_DIALECT_MAX][SPELLINGS_MAX];
    const char *without; /* what is missing from a recording without it; NULL: nothing important */
    enum wanted_part part;
};

/* Names that differ only in the system. Until 4.16, i915's requests had another one. */
#define GPU(system, event)                                                                         \
 {                                                                                                 \
  {{system ":" event}, {event}}, NULL, PART_GPU                                                    \
 }
#define I915(event)                                                                                \
 {                                                                                                 \
  {{"i915:i915_request_" event, "i915:i915_gem_request_" event},                                   \
   {"i915_request_" event, "i915_gem_request_" event}},                                            \
      NULL, PART_GPU                                                                               \
 }

/* sched_waking occurs for each wakeup that sched_wakeup also reports. Only the latter is recorded,
 * which is later and knows the CPU. The life of processes distinguishes threads from later ones
 * with the same ids. LTTng's state dump and task_rename provide names and processes. */
static const struct wanted wanted[] = {
    {{{"sched:sched_switch"}, {"sched_switch"}}, "which threads run", PART_ESSENTIAL},
    {{{"sched:sched_wakeup", "sched:sched_waking"}, {"sched_wakeup", "sched_waking"}},
     "the wait times of woken threads",
     PART_USEFUL},
    {{{"sched:sched_wakeup_new"}, {"sched_wakeup_new"}}, NULL, PART_USEFUL},
    {{{"sched:sched_migrate_task"}, {"sched_migrate_task"}},
     "the CPU for which a migrated thread waits",
     PART_USEFUL},
    {{{"sched:sched_process_fork"}, {"sched_process_fork"}}, NULL, PART_USEFUL},
    {{{"sched:sched_process_exec"}, {"sched_process_exec"}}, NULL, PART_USEFUL},
    {{{"sched:sched_process_exit"}, {"sched_process_exit"}}, NULL, PART_USEFUL},
    {{{"sched:sched_process_free"}, {"sched_process_free"}}, NULL, PART_USEFUL},
    {{{"task:task_rename"}, {NULL}}, NULL, PART_USEFUL},
    {{{NULL}, {"lttng_statedump_process_state"}}, "the names of sleeping processes", PART_USEFUL},
    {{{"kvm:kvm_entry"}, {"kvm_x86_entry", "kvm_entry"}}, "time in the guest", PART_USEFUL},
    {{{"kvm:kvm_exit"}, {"kvm_x86_exit", "kvm_exit"}}, "guest exits", PART_USEFUL},

    /* GPU requests, with up to four events each. This omits GVT-g's switches, with one event for
     * each of dozens of registers (render_mmio), and guest commands, with one event each
     * (gvt_command). xe's own events contain less than those of the DRM scheduler, which all
     * kernels with xe have. */
    {{{"gpu_scheduler:drm_sched_job_queue", "gpu_scheduler:drm_sched_job",
       "gpu_sched:amd_sched_job"},
      {"drm_sched_job_queue", "drm_sched_job", "amd_sched_job"}},
     NULL,
     PART_GPU},
    {{{"gpu_scheduler:drm_sched_job_run", "gpu_scheduler:drm_run_job"},
      {"drm_sched_job_run", "drm_run_job"}},
     NULL,
     PART_GPU},
    {{{"gpu_scheduler:drm_sched_job_done", "gpu_scheduler:drm_sched_process_job",
       "gpu_sched:amd_sched_process_job"},
      {"drm_sched_job_done", "drm_sched_process_job", "amd_sched_process_job"}},
     NULL,
     PART_GPU},
    GPU("amdgpu", "amdgpu_cs_ioctl"),
    GPU("amdgpu", "amdgpu_sched_run_job"),
    I915("queue"),
    I915("add"),
    I915("submit"),
    I915("execute"),
    I915("in"),
    I915("out"),
    I915("retire"),
    {{{"i915:intel_engine_notify", "i915:i915_gem_request_notify"},
      {"intel_engine_notify", "i915_gem_request_notify"}},
     NULL,
     PART_GPU},
    GPU("gvt", "gvt_workload_queue"),
    GPU("gvt", "gvt_workload_submit"),
    GPU("gvt", "gvt_workload_complete"),
    GPU("gvt", "gvt_sched_switch"),
    {{{"i915:i915_gem_object_create"}, {"i915_gem_object_create"}}, NULL, PART_WITH_GPU},
    {{{"i915:i915_gem_object_destroy"}, {"i915_gem_object_destroy"}}, NULL, PART_WITH_GPU},
    {{{"gpu_mem:gpu_mem_total"}, {"gpu_mem_total"}}, NULL, PART_WITH_GPU},
    {{{"dma_fence:dma_fence_signaled", "fence:fence_signaled"},
      {"dma_fence_signaled", "fence_signaled"}},
     NULL,
     PART_WITH_GPU},
};

int
vg_wanted_events_find(enum vg_event_dialect dialect, vg_has_event *has, const void *data,
                      struct vg_wanted_events *ret, GError **err)
{
    struct vg_wanted_events found = {
        .names = g_ptr_array_new(),
        .missing = g_ptr_array_new_with_free_func(g_free),
    };

    bool has_requests = false;

    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        const char *const *spellings = wanted[i].spellings[dialect];
        const char *name = NULL;
        if (wanted[i].part == PART_WITH_GPU && !has_requests)
            continue;
        for (size_t j = 0; j < SPELLINGS_MAX && spellings[j] && !name; j++)
            name = has(data, spellings[j]) ? spellings[j] : NULL;
        if (name)
            g_ptr_array_add(found.names, (void *)name);
        has_requests |= name && wanted[i].part == PART_GPU;
        if (name || !spellings[0] || !wanted[i].without)
            continue;
        if (wanted[i].part == PART_ESSENTIAL) {
            vg_wanted_events_clear(&found);
            return vg_error(err, VG_E_NOT_FOUND, "tracepoint %s, which shows %s, does not exist",
                            spellings[0], wanted[i].without);
        }
        g_ptr_array_add(found.missing, g_strdup_printf("%s: tracepoint %s does not exist",
                                                       wanted[i].without, spellings[0]));
    }
    *ret = found;
    return 0;
}

void
vg_wanted_events_clear(struct vg_wanted_events *events)
{
    g_clear_pointer(&events->names, g_ptr_array_unref);
    g_clear_pointer(&events->missing, g_ptr_array_unref);
}
