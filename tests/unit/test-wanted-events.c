/* SPDX-License-Identifier: Apache-2.0
 *
 * What is recorded on kernels and tracers that have all, some or none of the tracepoints.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "trace/wanted-events.h"

/* The tracer has what is in this list, which NULL ends. */
static bool
has(const void *data, const char *name)
{
    return g_strv_contains(data, name);
}

static void
assert_names(const GPtrArray *names, const char *const *expected)
{
    for (unsigned int i = 0; i < names->len; i++)
        assert_true(expected[i] && strcmp(names->pdata[i], expected[i]) == 0);
    assert_null(expected[names->len]);
}

static void
test_kernel_with_everything(void **state)
{
    static const char *const all[] = {
        "sched:sched_switch",
        "sched:sched_wakeup",
        "sched:sched_waking",
        "sched:sched_wakeup_new",
        "sched:sched_migrate_task",
        "sched:sched_process_fork",
        "sched:sched_process_exec",
        "sched:sched_process_exit",
        "sched:sched_process_free",
        "task:task_rename",
        "kvm:kvm_entry",
        "kvm:kvm_exit",
        "kvm:kvm_pio",
        "irq:irq_handler_entry",
        NULL,
    };
    static const char *const expected[] = {
        "sched:sched_switch",
        "sched:sched_wakeup",
        "sched:sched_wakeup_new",
        "sched:sched_migrate_task",
        "sched:sched_process_fork",
        "sched:sched_process_exec",
        "sched:sched_process_exit",
        "sched:sched_process_free",
        "task:task_rename",
        "kvm:kvm_entry",
        "kvm:kvm_exit",
        NULL,
    };
    struct vg_wanted_events events;

    (void)state;
    assert_int_equal(vg_wanted_events_find(VG_DIALECT_KERNEL, has, all, &events, NULL), 0);
    assert_names(events.names, expected);
    assert_int_equal(events.missing->len, 0);
    vg_wanted_events_clear(&events);
}

static void
test_lttng_names(void **state)
{
    static const char *const recent[] = {"sched_switch",
                                         "sched_wakeup",
                                         "sched_migrate_task",
                                         "lttng_statedump_process_state",
                                         "kvm_x86_entry",
                                         "kvm_x86_exit",
                                         "kvm_entry",
                                         "kvm_exit",
                                         NULL};
    static const char *const expected_recent[] = {"sched_switch",
                                                  "sched_wakeup",
                                                  "sched_migrate_task",
                                                  "lttng_statedump_process_state",
                                                  "kvm_x86_entry",
                                                  "kvm_x86_exit",
                                                  NULL};
    static const char *const old[] = {"kvm_exit", "kvm_entry", "sched_waking", "sched_switch",
                                      NULL};
    static const char *const expected_old[] = {"sched_switch", "sched_waking", "kvm_entry",
                                               "kvm_exit", NULL};
    struct vg_wanted_events events;

    (void)state;
    assert_int_equal(vg_wanted_events_find(VG_DIALECT_LTTNG, has, recent, &events, NULL), 0);
    assert_names(events.names, expected_recent);
    assert_int_equal(events.missing->len, 0);
    vg_wanted_events_clear(&events);
    assert_int_equal(vg_wanted_events_find(VG_DIALECT_LTTNG, has, old, &events, NULL), 0);
    assert_names(events.names, expected_old);
    assert_int_equal(events.missing->len, 2);
    assert_non_null(strstr(events.missing->pdata[0], "sched_migrate_task"));
    assert_non_null(strstr(events.missing->pdata[1], "lttng_statedump_process_state"));
    vg_wanted_events_clear(&events);
}

static void
test_nothing_without_switches(void **state)
{
    static const char *const others[] = {"sched:sched_wakeup", "kvm:kvm_entry", "sched_switch",
                                         NULL};
    struct vg_wanted_events events = {0};
    GError *error = NULL;

    (void)state;
    assert_int_equal(vg_wanted_events_find(VG_DIALECT_KERNEL, has, others, &events, &error), -1);
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
    assert_non_null(strstr(error->message, "sched:sched_switch"));
    assert_null(events.names);
    g_error_free(error);
}

/* What is recorded besides CPU events; all[] has these, too. */
static void
assert_gpu_names(enum vg_event_dialect dialect, const char *const *all, const char *const *expected)
{
    struct vg_wanted_events events;

    assert_int_equal(vg_wanted_events_find(dialect, has, all, &events, NULL), 0);
    assert_string_equal(events.names->pdata[0], all[0]);
    g_ptr_array_remove_index(events.names, 0);
    assert_names(events.names, expected);
    vg_wanted_events_clear(&events);
}

static void
test_gpu_events_of_a_recent_amdgpu(void **state)
{
    static const char *const all[] = {"sched:sched_switch",
                                      "amdgpu:amdgpu_cs_ioctl",
                                      "amdgpu:amdgpu_cs",
                                      "amdgpu:amdgpu_sched_run_job",
                                      "amdgpu:amdgpu_vm_flush",
                                      "dma_fence:dma_fence_init",
                                      "dma_fence:dma_fence_signaled",
                                      "gpu_scheduler:drm_sched_job_queue",
                                      "gpu_scheduler:drm_sched_job_run",
                                      "gpu_scheduler:drm_sched_job_done",
                                      "gpu_scheduler:drm_sched_job_add_dep",
                                      NULL};
    static const char *const expected[] = {"gpu_scheduler:drm_sched_job_queue",
                                           "gpu_scheduler:drm_sched_job_run",
                                           "gpu_scheduler:drm_sched_job_done",
                                           "amdgpu:amdgpu_cs_ioctl",
                                           "amdgpu:amdgpu_sched_run_job",
                                           "dma_fence:dma_fence_signaled",
                                           NULL};

    (void)state;
    assert_gpu_names(VG_DIALECT_KERNEL, all, expected);
}

static void
test_gpu_events_of_old_kernels(void **state)
{
    static const char *const amd[] = {"sched:sched_switch", "gpu_sched:amd_sched_process_job",
                                      "gpu_sched:amd_sched_job", "fence:fence_signaled", NULL};
    static const char *const expected_amd[] = {
        "gpu_sched:amd_sched_job", "gpu_sched:amd_sched_process_job", "fence:fence_signaled", NULL};
    static const char *const gvt[] = {"sched_switch",         "gvt_command",
                                      "gvt_workload_submit",  "gvt_workload_queue",
                                      "i915_gem_request_in",  "i915_gem_request_out",
                                      "i915_gem_request_add", "intel_engine_notify",
                                      "render_mmio",          NULL};
    static const char *const expected_gvt[] = {"i915_gem_request_add",
                                               "i915_gem_request_in",
                                               "i915_gem_request_out",
                                               "intel_engine_notify",
                                               "gvt_workload_queue",
                                               "gvt_workload_submit",
                                               NULL};

    (void)state;
    assert_gpu_names(VG_DIALECT_KERNEL, amd, expected_amd);
    assert_gpu_names(VG_DIALECT_LTTNG, gvt, expected_gvt);
}

static void
test_gpu_events_of_i915_and_xe(void **state)
{
    static const char *const all[] = {
        "sched:sched_switch",          "i915:i915_request_queue",
        "i915:i915_request_add",       "i915:i915_request_retire",
        "i915:i915_gem_object_create", "i915:i915_gem_object_destroy",
        "xe:xe_sched_job_exec",        "xe:xe_sched_job_run",
        "xe:xe_hw_fence_signal",       "gpu_scheduler:drm_sched_job",
        "gpu_scheduler:drm_run_job",   "gpu_scheduler:drm_sched_process_job",
        "gpu_mem:gpu_mem_total",       NULL};
    static const char *const expected[] = {"gpu_scheduler:drm_sched_job",
                                           "gpu_scheduler:drm_run_job",
                                           "gpu_scheduler:drm_sched_process_job",
                                           "i915:i915_request_queue",
                                           "i915:i915_request_add",
                                           "i915:i915_request_retire",
                                           "i915:i915_gem_object_create",
                                           "i915:i915_gem_object_destroy",
                                           "gpu_mem:gpu_mem_total",
                                           NULL};

    (void)state;
    assert_gpu_names(VG_DIALECT_KERNEL, all, expected);
}

/* Fences alone are of display drivers and the like. */
static void
test_no_fences_without_requests(void **state)
{
    static const char *const all[] = {"sched:sched_switch", "dma_fence:dma_fence_signaled",
                                      "gpu_mem:gpu_mem_total", NULL};
    static const char *const expected[] = {NULL};

    (void)state;
    assert_gpu_names(VG_DIALECT_KERNEL, all, expected);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_with_everything),
        cmocka_unit_test(test_lttng_names),
        cmocka_unit_test(test_nothing_without_switches),
        cmocka_unit_test(test_gpu_events_of_a_recent_amdgpu),
        cmocka_unit_test(test_gpu_events_of_old_kernels),
        cmocka_unit_test(test_gpu_events_of_i915_and_xe),
        cmocka_unit_test(test_no_fences_without_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
