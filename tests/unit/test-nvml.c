/* SPDX-License-Identifier: Apache-2.0
 *
 * What NVIDIA's library tells, with a library that is made up (tests/tools/fake-nvml.c): per cent
 * become time, processes and vGPUs become VMs, and what fails or hangs is told.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "collectors/gpu.h"
#include "collectors/nvml-log.h"
#include "host/proc-scan.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-proc.h"
#include "tests/unit/idle-thread.h"
#include "tests/unit/window-gpu.h"

#define S        VG_NS_PER_S
#define MS       VG_NS_PER_MS
#define MIB      (INT64_C(1) << 20)
#define RETRY_NS (10 * S)
#define GPU      "0000:c1:00.0"
#define UUID_A   "b0c6e1d4-77a2-4a5e-8d3c-000000000001"
#define MDEV_B   "c75ee1d4-77a2-4a5e-8d3c-0000000000bb"

struct host {
    char *script; /* path */
    const char *proc;
    vg_gpu_source *source;
    struct vg_proc_vm a, b;
    GPtrArray *vms;
    int64_t now_ns;
    struct vg_window window; /* the newest */
    GString *said;
};

static char *
library(void)
{
    return g_build_filename(g_getenv("VG_BUILDDIR") ? g_getenv("VG_BUILDDIR") : ".", "tests",
                            "tools", "fake-nvml.so", NULL);
}

/* What the library answers from now on. */
static void
script(const struct host *h, const char *text)
{
    g_autoptr(GError) err = NULL;

    /* By another file of the same name: nobody reads half of it. */
    if (!g_file_set_contents(h->script, text, -1, &err))
        fail_msg("%s", err->message);
}

static void
begin(struct host *h, const char *proc, const char *text)
{
    g_autofree char *path = library();

    *h = (struct host){.proc = proc,
                       .now_ns = 1000 * S,
                       .a = {.id = 0, .pid = 100, .name = "alpha", .uuid = UUID_A},
                       .b = {.id = 1, .pid = 200, .name = "beta"},
                       .said = g_string_new(NULL)};
    h->script = g_build_filename(proc, "nvml", NULL);
    g_setenv("VG_FAKE_NVML", h->script, TRUE);
    script(h, text);
    h->source = vg_gpu_nvml_new(proc, path, RETRY_NS);
    h->vms = g_ptr_array_new();
    g_ptr_array_add(h->vms, &h->a);
    g_ptr_array_add(h->vms, &h->b);
    vg_window_init(&h->window, false);
}

static void
end(struct host *h)
{
    h->source->ops->close(h->source);
    vg_gpu_source_free(h->source);
    g_ptr_array_unref(h->vms);
    vg_window_clear(&h->window);
    g_string_free(h->said, TRUE);
    g_free(h->script);
}

/* What it says of itself; is it less than it should be? */
static bool
says(struct host *h)
{
    g_string_truncate(h->said, 0);
    return h->source->ops->describe(h->source, h->said);
}

static void
sample_after(struct host *h, int64_t ns)
{
    h->now_ns += ns;
    h->source->ops->sample(h->source, h->now_ns);
}

/* Reads a window of so many seconds that has been sampled up to now. */
static void
read_window(struct host *h, int64_t seconds)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->window.begin_ns = h->now_ns - seconds * S;
    h->window.end_ns = h->now_ns;
    h->source->ops->read(h->source, h->vms, idle_thread, h->now_ns, &h->window);
    vg_gpu_window_finish(&h->window);
}

/* One window later, with five samples in it. */
static void
next(struct host *h)
{
    assert_true(h->source->ops->ready(h->source, h->now_ns));
    for (unsigned i = 0; i < 5; i++)
        sample_after(h, 200 * MS);
    read_window(h, 1);
}

static const struct vg_gpu_process_sample *
process_at(const struct host *h, unsigned i)
{
    assert_true(i < h->window.gpu_processes->len);
    return &g_array_index(h->window.gpu_processes, struct vg_gpu_process_sample, i);
}

/* ---- the GPU ---- */

static void
test_use_is_averaged(void **state)
{
    struct host h;

    begin(&h, *state, "gpu 0:C1:0 NVIDIA L40\nrates 90 20\ncodecs 4 0\nmemory 500 46068\n");
    assert_true(h.source->ops->ready(h.source, h.now_ns));
    sample_after(&h, 0);
    read_window(&h, 1);
    /* Nothing has passed yet: there is memory alone. */
    assert_int_equal(h.window.gpus->len, 1);
    assert_true(window_gpu_find(h.window.gpus, GPU, "sm")->lacks & VG_GPU_NO_WORK);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->mem_bytes, 500 * MIB);
    sample_after(&h, 250 * MS);
    script(&h, "gpu 0:C1:0 NVIDIA L40\nrates 30 10\ncodecs 8 0\nmemory 900 46068\n");
    sample_after(&h, 250 * MS);
    sample_after(&h, 250 * MS);
    script(&h, "gpu 0:C1:0 NVIDIA L40\nrates 10 0\ncodecs 8 0\nmemory 600 46068\n");
    sample_after(&h, 250 * MS);
    read_window(&h, 1);
    assert_int_equal(h.window.gpus->len, 4);
    /* A quarter of a second each: 90 %, twice 30 %, 10 %. */
    const struct vg_gpu_sample *sm = window_gpu_find(h.window.gpus, GPU, "sm");
    assert_int_equal(sm->busy_ns, 400 * MS);
    assert_int_equal(sm->exec_ns, 400 * MS);
    assert_int_equal(sm->mem_bytes, 600 * MIB);
    assert_int_equal(sm->mem_peak_bytes, 900 * MIB);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "mem-bw")->busy_ns, 100 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "enc")->busy_ns, 70 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "dec")->busy_ns, 0);
    assert_int_equal(h.window.vms->len, 0);
    assert_false(says(&h));
    assert_string_equal(h.said->str, GPU " (NVIDIA L40): no vGPU instances");
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->busy_ns, 100 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->mem_peak_bytes, 600 * MIB);
    end(&h);
}

static void
test_no_utilization(void **state)
{
    struct host h;

    begin(&h, *state, "gpu 0:C1:0 X\nrates -3\ncodecs -3\nvgpus -3\ngpu 1:2:3 Y\nrates 50 0\n");
    next(&h);
    next(&h);
    assert_true(says(&h));
    assert_string_equal(h.said->str,
                        GPU " (X): no utilisation: NVML reports Not Supported: no vGPU instances: "
                            "NVML reports Not Supported, 0001:02:03.0 (Y): no vGPU instances");
    /* The other one is not the worse for it. */
    assert_int_equal(window_gpu_find(h.window.gpus, "0001:02:03.0", "sm")->busy_ns, 500 * MS);
    end(&h);
}

/* As in MIG mode: no rates, of the GPU, of its processes and of its vGPUs, but their memory. */
static void
test_only_memory(void **state)
{
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 X\nrates -3\ncodecs -3\nmemory 600 81920\nvgpu-use -3\nlog-api 0\n"
          "process-use -3\nprocess 200 0 0 0 0 250\nprocess 4711 0 0 0 0 50\n"
          "vgpu 11 " UUID_A " - 40 0 0 0 300\n");
    for (unsigned i = 0; i < 3; i++)
        next(&h);
    const struct vg_gpu_sample *all = window_gpu_find(h.window.gpus, GPU, "sm");
    assert_int_equal(h.window.gpus->len, 1);
    assert_int_equal(all->lacks, VG_GPU_ONLY_WORK | VG_GPU_NO_WORK);
    assert_int_equal(all->mem_bytes, 600 * MIB);
    const struct vg_gpu_sample *vgpu =
        window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm");
    assert_int_equal(vgpu->lacks, VG_GPU_ONLY_WORK | VG_GPU_NO_WORK);
    assert_int_equal(vgpu->mem_bytes, 300 * MIB);
    const struct vg_gpu_sample *process =
        window_gpu_find(window_gpu_vm(&h.window, h.b.id)->gpus, GPU, "sm");
    assert_int_equal(process->lacks, VG_GPU_ONLY_WORK | VG_GPU_NO_WORK);
    assert_int_equal(process->mem_bytes, 250 * MIB);
    assert_int_equal(h.window.gpu_processes->len, 1);
    assert_int_equal(process_at(&h, 0)->pid, 4711);
    assert_int_equal(process_at(&h, 0)->gpu.mem_bytes, 50 * MIB);
    end(&h);
}

/* A GPU in MIG mode: each slice has a row, with its work only if the library reports that. */
static void
test_slices(void **state)
{
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 X\nrates -3\ncodecs -3\nmemory 600 81920\nmig 1 0 40 250\nmig 5 1 -3 100\n");
    for (unsigned i = 0; i < 3; i++)
        next(&h);
    const struct vg_gpu_sample *first = window_gpu_find(h.window.gpus, GPU, "sm-mig-1-0");
    const struct vg_gpu_sample *second = window_gpu_find(h.window.gpus, GPU, "sm-mig-5-1");
    assert_int_equal(first->busy_ns, 400 * MS);
    assert_int_equal(first->mem_bytes, 250 * MIB);
    assert_int_equal(first->lacks, VG_GPU_ONLY_WORK);
    assert_int_equal(second->lacks, VG_GPU_ONLY_WORK | VG_GPU_NO_WORK);
    assert_int_equal(second->mem_bytes, 100 * MIB);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->mem_bytes, 600 * MIB);
    says(&h);
    assert_non_null(
        strstr(h.said->str, ": 2 MIG slices; NVML does not report the work of some of them"));
    /* A slice that no longer exists has no row. */
    script(&h, "gpu 0:C1:0 X\nrates -3\ncodecs -3\nmemory 600 81920\nmig 1 0 40 250\n");
    for (unsigned i = 0; i < 2; i++)
        next(&h);
    assert_int_equal(h.window.gpus->len, 2);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm-mig-1-0")->busy_ns, 400 * MS);
    end(&h);
}

/* Drivers and products without the cheap answers have samples. */
static void
test_only_samples(void **state)
{
    struct host h;

    begin(&h, *state, "gpu 0:C1:0 X\nonly-samples\nrates 30 10\ncodecs 8 4\n");
    next(&h);
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->busy_ns, 300 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "mem-bw")->busy_ns, 100 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "enc")->busy_ns, 80 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "dec")->busy_ns, 40 * MS);
    assert_false(says(&h));
    end(&h);
}

static unsigned
count_calls(const char *path, const char *function)
{
    g_autofree char *text = NULL;
    unsigned n = 0;

    assert_true(g_file_get_contents(path, &text, NULL, NULL));
    for (const char *at = text; (at = strstr(at, function)); at++)
        n++;
    return n;
}

/* What costs the driver much is not asked for where other answers have it. */
static void
test_costly_questions(void **state)
{
    struct host h;
    g_autofree char *calls = g_build_filename(*state, "calls", NULL);
    g_autofree char *text =
        g_strdup_printf("calls %s\ngpu 0:C1:0 X\nrates 0 0\nprocess 100 0 0 0 0 256\n", calls);

    begin(&h, *state, text);
    for (unsigned i = 0; i < 3; i++)
        next(&h);
    /* Idle: the process does nothing either, and has its memory. */
    assert_int_equal(count_calls(calls, "nvmlDeviceGetSamples"), 0);
    assert_int_equal(count_calls(calls, "nvmlDeviceGetProcessUtilization"), 0);
    assert_int_equal(count_calls(calls, "nvmlDeviceGetUtilizationRates"), 15);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     0);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->mem_bytes,
                     256 * MIB);
    g_autofree char *busy =
        g_strdup_printf("calls %s\ngpu 0:C1:0 X\nrates 20 0\nprocess 100 20 0 0 0 256\n", calls);
    script(&h, busy);
    next(&h);
    assert_int_equal(count_calls(calls, "nvmlDeviceGetProcessUtilization"), 5);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     200 * MS);
    /* Idle again, and at once. */
    script(&h, text);
    next(&h);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     0);
    end(&h);
}

/* ---- processes ---- */

static void
test_processes_are_vms(void **state)
{
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 X\nrates 80 0\nprocess 100 40 10 5 0 256\nprocess 200 0 0 0 0 64\n"
          "process 7777 40 0 0 0 999\n");
    next(&h);
    next(&h);
    next(&h);
    assert_int_equal(h.window.vms->len, 2);
    const struct vg_vm_sample *a = window_gpu_vm(&h.window, h.a.id);
    assert_int_equal(window_gpu_find(a->gpus, GPU, "sm")->busy_ns, 400 * MS);
    assert_int_equal(window_gpu_find(a->gpus, GPU, "mem-bw")->busy_ns, 100 * MS);
    assert_int_equal(window_gpu_find(a->gpus, GPU, "enc")->busy_ns, 50 * MS);
    assert_int_equal(window_gpu_find(a->gpus, GPU, "sm")->mem_bytes, 256 * MIB);
    assert_int_equal(a->gpu_active_ns, 400 * MS);
    assert_string_equal(a->uuid, UUID_A);
    /* The library leaves out who does nothing. */
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.b.id)->gpus, GPU, "sm")->busy_ns,
                     0);
    assert_false(says(&h));
    assert_string_equal(h.said->str, GPU " (X): 3 processes, 2 of VMs: no vGPU instances");
    /* One of the host's own, which /proc does not show. */
    assert_int_equal(h.window.gpu_processes->len, 1);
    assert_string_equal(process_at(&h, 0)->comm, "");
    assert_int_equal(process_at(&h, 0)->pid, 7777);
    assert_int_equal(process_at(&h, 0)->gpu.busy_ns, 400 * MS);
    /* Nobody does anything: the library has nothing to say, and after a while that means so. */
    script(&h, "gpu 0:C1:0 X\nrates 0 0\nprocess 100 0 0 0 0 256\n");
    for (unsigned i = 0; i < 4; i++)
        next(&h);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     0);
    assert_null(vg_window_find_vm(&h.window, h.b.id));
    end(&h);
}

/* Programs of the host itself, most busy first; one that is idle still has its memory. */
static void
test_processes_of_the_host(void **state)
{
    static const char line[] = "train\0--all";
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 X\nrates 90 0\nprocess 8001 10 5 0 0 100\nprocess 8002 70 30 0 2 4000\n"
          "process 8003 0 0 0 0 30\nprocess 0 5 0 0 0 1\nprocess 4294967295 5 0 0 0 1\n");
    fake_proc_process(h.proc, 8002, "train", 9, 1, line, sizeof(line));
    for (unsigned i = 0; i < 3; i++)
        next(&h);
    assert_int_equal(h.window.vms->len, 0);
    /* dec and mem-bw of 8002, mem-bw of 8001; sm of all three. */
    assert_int_equal(h.window.gpu_processes->len, 6);
    assert_string_equal(process_at(&h, 0)->gpu.engine, "dec");
    assert_string_equal(process_at(&h, 1)->gpu.engine, "mem-bw");
    assert_int_equal(process_at(&h, 1)->pid, 8002);
    assert_int_equal(process_at(&h, 2)->pid, 8001);
    const struct vg_gpu_process_sample *train = process_at(&h, 3);
    assert_int_equal(train->pid, 8002);
    assert_string_equal(train->comm, "train");
    assert_string_equal(train->gpu.device, GPU);
    assert_string_equal(train->gpu.engine, "sm");
    assert_int_equal(train->gpu.busy_ns, 700 * MS);
    assert_int_equal(train->gpu.mem_bytes, 4000 * MIB);
    assert_int_equal(process_at(&h, 4)->pid, 8001);
    assert_int_equal(process_at(&h, 5)->pid, 8003);
    assert_int_equal(process_at(&h, 5)->gpu.busy_ns, 0);
    assert_int_equal(process_at(&h, 5)->gpu.mem_bytes, 30 * MIB);
    assert_false(says(&h));
    assert_string_equal(h.said->str, GPU " (X): 3 processes, 0 of VMs: no vGPU instances");
    script(&h, "gpu 0:C1:0 X\nrates 0 0\n");
    next(&h);
    next(&h);
    assert_int_equal(h.window.gpu_processes->len, 0);
    end(&h);
}

/* More than are looked at: those that are known stay, and so does a VM among them. */
static void
test_a_crowd_of_processes(void **state)
{
    static const char alone[] = "gpu 0:C1:0 X\nrates 90 0\nprocess 100 40 0 0 0 256\n";
    struct host h;
    g_autofree char *crowd = g_strdup_printf("%scrowd 10000 2000\n", alone);

    begin(&h, *state, alone);
    next(&h);
    script(&h, crowd);
    for (unsigned i = 0; i < 5; i++) {
        next(&h);
        assert_int_equal(
            window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns, 400 * MS);
        if (i > 0)
            assert_int_equal(h.window.gpu_processes->len, 1023);
    }
    end(&h);
}

/* ---- vGPUs ---- */

static void
put_cmdline(const struct host *h, int pid, const char *device)
{
    g_autofree char *text =
        g_strdup_printf("qemu%c-device%c{\"driver\":\"vfio-pci\",\"id\":\"hostdev0\","
                        "\"sysfsdev\":\"/sys/bus/mdev/devices/%s\"}",
                        '\n', '\n', device);

    fake_proc_process(h->proc, pid, "qemu", 9, 1, text, strlen(text));
}

static void
test_vgpus_are_vms(void **state)
{
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 NVIDIA L40\nrates 75 0\nscheduler 2\n"
          /* By the UUID of the VM; by that of the mdev; of nobody. */
          "vgpu 11 B0C6E1D4-77A2-4A5E-8D3C-000000000001 - 40 10 2 0 1024\n"
          "vgpu 12 - " MDEV_B " 25 0 0 0 512\n"
          "vgpu 13 4711 c75ee1d4-77a2-4a5e-8d3c-00000000dead 10 0 0 0 1\n"
          /* A second one of the first VM. */
          "vgpu 14 " UUID_A " - 10 0 0 0 128\n");
    put_cmdline(&h, 100, "c75ee1d4-77a2-4a5e-8d3c-0000000000aa");
    put_cmdline(&h, 200, MDEV_B);
    next(&h);
    assert_int_equal(h.window.vms->len, 0);
    next(&h);
    assert_int_equal(h.window.vms->len, 2);
    const struct vg_gpu_sample *a =
        window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm");
    assert_int_equal(a->busy_ns, 500 * MS);
    assert_int_equal(a->mem_bytes, 1152 * MIB);
    assert_int_equal(a->mem_peak_bytes, 1152 * MIB);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "enc")->busy_ns,
                     20 * MS);
    const struct vg_gpu_sample *b =
        window_gpu_find(window_gpu_vm(&h.window, h.b.id)->gpus, GPU, "sm");
    assert_int_equal(b->busy_ns, 250 * MS);
    assert_int_equal(b->mem_bytes, 512 * MIB);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->busy_ns, 750 * MS);
    assert_true(says(&h));
    assert_string_equal(
        h.said->str,
        GPU " (NVIDIA L40): 4 vGPUs, scheduled equal share (could be best effort, fixed share), 1 "
            "of unknown VMs, scheduling turns only for the whole GPU because its log does not name "
            "vGPUs");
    /* One goes, one changes hands. */
    script(&h, "gpu 0:C1:0 NVIDIA L40\nrates 75 0\nvgpu 12 " UUID_A " - 25 0 0 0 512\n");
    next(&h);
    next(&h);
    assert_int_equal(h.window.vms->len, 1);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     250 * MS);
    assert_false(says(&h));
    end(&h);
}

static void
test_vgpus_without_utilization(void **state)
{
    struct host h;

    begin(&h, *state,
          "gpu 0:C1:0 X\nrates 75 0\nvgpu-use -3\nlog-api 0\nvgpu 11 " UUID_A " - 40 0 0 0 9\n");
    next(&h);
    next(&h);
    next(&h);
    assert_int_equal(h.window.vms->len, 1);
    const struct vg_gpu_sample *sm =
        window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm");
    assert_true(sm->lacks & VG_GPU_NO_WORK);
    assert_int_equal(sm->mem_bytes, 9 * MIB);
    assert_true(says(&h));
    assert_string_equal(
        h.said->str,
        GPU " (X): 1 vGPU, scheduled best effort (could be equal share, fixed share), no scheduler "
            "log: NVML reports Not Supported, no vGPU utilisation: NVML reports Not Supported");
    end(&h);
}

/* ---- the scheduler's log ---- */

static struct vg_nvml_log_entry
entry_of(unsigned runlist, unsigned long long time, unsigned long long total,
         unsigned long long run)
{
    return (struct vg_nvml_log_entry){
        .runlist = runlist, .time = time, .run_total = total, .run = run};
}

static void
test_log_meter(void **state)
{
    g_autofree struct vg_nvml_log_meter *meter = g_new0(struct vg_nvml_log_meter, 1);
    struct vg_nvml_log_entry log[VG_NVML_LOG_MAX];

    (void)state;
    log[0] = entry_of(1, 100, 1000, 10);
    log[1] = entry_of(2, 110, 500, 10);
    vg_nvml_log_meter_feed(meter, log, 2);
    assert_int_equal(meter->slices, 0);
    assert_int_equal(meter->run_ns, 0);
    /* The same again, two new ones of which one is at the same time as an old one of another run
     * list, and one of a run list that is new. */
    log[2] = entry_of(1, 110, 1007, 7);
    log[3] = entry_of(2, 130, 505, 5);
    log[4] = entry_of(9, 140, 3, 3);
    vg_nvml_log_meter_feed(meter, log, 5);
    assert_int_equal(meter->slices, 3);
    assert_int_equal(meter->run_ns, 15);
    vg_nvml_log_meter_feed(meter, log, 5);
    assert_int_equal(meter->slices, 3);
    /* All are new, so some were lost: what ran in them is in the total. */
    for (unsigned i = 0; i < VG_NVML_LOG_MAX; i++)
        log[i] = entry_of(1, 1000 + i, 5007 + i, 1);
    vg_nvml_log_meter_feed(meter, log, VG_NVML_LOG_MAX);
    assert_int_equal(meter->slices, 3 + VG_NVML_LOG_MAX);
    assert_int_equal(meter->run_ns, 15 + 4000 + VG_NVML_LOG_MAX - 1);
    /* More run lists than there is room for are counted all the same. */
    *meter = (struct vg_nvml_log_meter){.started = true};
    for (unsigned i = 0; i < 2 * VG_NVML_RUNLISTS_MAX; i++) {
        log[0] = entry_of(i, 10 + i, 1, 1);
        vg_nvml_log_meter_feed(meter, log, 1);
    }
    assert_int_equal(meter->slices, 2 * VG_NVML_RUNLISTS_MAX);
    assert_int_equal(meter->n_runlists, VG_NVML_RUNLISTS_MAX);
}

static void
check_log(const char *proc, const char *api, const char *second_vgpu)
{
    g_autofree char *before =
        g_strdup_printf("gpu 0:C1:0 X\nrates 75 0\n%svgpu 11 " UUID_A " - 40 0 0 0 9\n%s"
                        "log 1 1000 5000000 2000000\n",
                        api, second_vgpu);
    g_autofree char *after =
        g_strdup_printf("%slog 1 2000 9000000 4000000\nlog 2 3000 1000000 1000000\n", before);
    struct host h;

    begin(&h, proc, before);
    next(&h);
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->slices, 0);
    script(&h, after);
    next(&h);
    const struct vg_gpu_sample *gpu = window_gpu_find(h.window.gpus, GPU, "sm");
    assert_int_equal(gpu->slices, 2);
    assert_int_equal(gpu->exec_ns, 5 * MS);
    assert_int_equal(gpu->busy_ns, 750 * MS);
    /* Whose they are is known where there is one vGPU. */
    const struct vg_gpu_sample *a =
        window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm");
    assert_int_equal(a->slices, second_vgpu[0] ? 0 : 2);
    assert_int_equal(a->exec_ns, second_vgpu[0] ? 400 * MS : 5 * MS);
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->slices, 0);
    end(&h);
}

static void
test_log(void **state)
{
    check_log(*state, "", "");
    check_log(*state, "log-api 1\n", "");
    check_log(*state, "", "vgpu 12 - " MDEV_B " 25 0 0 0 512\n");
}

/* ---- what fails ---- */

static void
test_no_library(void **state)
{
    struct host h;

    begin(&h, *state, "");
    vg_gpu_source_free(h.source);
    h.source = vg_gpu_nvml_new(h.proc, "libnot-there.so.1", 0);
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    /* Most hosts have none. */
    assert_false(says(&h));
    assert_non_null(strstr(h.said->str, "libnot-there.so.1"));
    vg_gpu_source_free(h.source);
    h.source = vg_gpu_nvml_new(h.proc, "libm.so.6", 0);
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    assert_true(says(&h));
    assert_string_equal(
        h.said->str,
        "libm.so.6 has no nvmlInit_v2: it is not NVML, or its driver is older than 410");
    end(&h);
}

static void
test_no_gpu(void **state)
{
    struct host h;

    begin(&h, *state, "");
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    assert_false(says(&h));
    assert_string_equal(h.said->str, "no NVIDIA GPU");
    end(&h);
}

static void
test_driver_comes_later(void **state)
{
    struct host h;

    begin(&h, *state, "error 9\n");
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    assert_true(says(&h));
    assert_string_equal(
        h.said->str, "it cannot be started: NVML reports Driver Not Loaded; is the driver loaded, "
                     "and can vgpud access /dev/nvidia*? See vgpud(8)");
    script(&h, "gpu 0:C1:0 X\nrates 50 0\n");
    /* Not at once. */
    h.now_ns += RETRY_NS - 1;
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    h.now_ns += 1;
    assert_true(h.source->ops->ready(h.source, h.now_ns));
    assert_false(says(&h));
    end(&h);
}

static void
test_gpu_is_lost(void **state)
{
    struct host h;

    begin(&h, *state, "gpu 0:C1:0 X\nrates 50 0\ngpu 0:2:0 Y\nrates 20 0\n");
    next(&h);
    next(&h);
    script(&h, "gpu 0:C1:0 X\nrates -15\ngpu 0:2:0 Y\nrates 20 0\n");
    next(&h);
    assert_true(says(&h));
    assert_string_equal(h.said->str,
                        GPU " (X): lost: NVML reports GPU is lost, 0000:02:00.0 (Y): no "
                            "vGPU instances");
    assert_int_equal(h.window.gpus->len, 4);
    assert_int_equal(window_gpu_find(h.window.gpus, "0000:02:00.0", "sm")->busy_ns, 200 * MS);
    script(&h, "gpu 0:C1:0 X\nrates 50 0\ngpu 0:2:0 Y\nrates 20 0\n");
    for (unsigned i = 0; i < 14; i++)
        next(&h);
    assert_false(says(&h));
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->busy_ns, 500 * MS);
    end(&h);
}

/* An unknown error of something optional says nothing of the device. */
static void
test_one_function_fails(void **state)
{
    struct host h;

    begin(&h, *state, "gpu 0:C1:0 X\nrates 50 0\ncodecs -999\n");
    next(&h);
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, GPU, "sm")->busy_ns, 500 * MS);
    assert_false(says(&h));
    script(&h, "gpu 0:C1:0 X\nrates -999\n");
    next(&h);
    assert_true(says(&h));
    end(&h);
}

/* Samples of a process by the library's clock: one that is told again, and a clock that is set
 * back. */
static void
test_clock_of_samples(void **state)
{
    static const char line[] = "gpu 0:C1:0 X\nrates 60 0\nprocess 100 60 0 0 0 1\n";
    struct host h;

    begin(&h, *state, line);
    g_autofree char *at_5000 = g_strdup_printf("%stime 5000000000\n", line);
    g_autofree char *at_5001 = g_strdup_printf("%stime 5001000000\n", line);
    g_autofree char *at_4000 = g_strdup_printf("%stime 4000000000\n", line);
    script(&h, at_5000);
    next(&h);
    next(&h);
    script(&h, at_5001);
    next(&h);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     600 * MS);
    /* Two seconds are taken for a pause, then it is seen; told for two more, it is a pause again.
     */
    script(&h, at_4000);
    for (unsigned i = 0; i < 3; i++)
        next(&h);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     600 * MS);
    next(&h);
    next(&h);
    assert_int_equal(window_gpu_find(window_gpu_vm(&h.window, h.a.id)->gpus, GPU, "sm")->busy_ns,
                     0);
    end(&h);
}

/* The library is called by one thread, and let go of in the end. */
static void
test_collector(void **state)
{
    struct host h;
    g_autofree char *path = library();
    vg_gpu_source *sources[1];

    begin(&h, *state, "gpu 0:C1:0 X\nrates 50 0\n");
    sources[0] = vg_gpu_nvml_new(h.proc, path, RETRY_NS);
    const struct vg_gpu_options options = {
        .proc = h.proc, .window_ns = 100 * MS, .sample_ns = 20 * MS};
    struct collector_run *run = fake_clock_run(vg_gpu_new(&options, sources, 1));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "nvml: " GPU " (X): no vGPU instances");
    /* Of the first window nobody knows the begin. */
    vg_report_free(collector_run_wait(run, VG_REPORT_WINDOW));
    g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
    assert_int_equal(window_gpu_find(report->window.gpus, GPU, "sm")->busy_ns, 50 * MS);
    fake_clock_end(run);
    end(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_PROC_TEST(test_use_is_averaged),
        FAKE_PROC_TEST(test_no_utilization),
        FAKE_PROC_TEST(test_only_memory),
        FAKE_PROC_TEST(test_slices),
        FAKE_PROC_TEST(test_only_samples),
        FAKE_PROC_TEST(test_costly_questions),
        FAKE_PROC_TEST(test_processes_are_vms),
        FAKE_PROC_TEST(test_processes_of_the_host),
        FAKE_PROC_TEST(test_a_crowd_of_processes),
        FAKE_PROC_TEST(test_vgpus_are_vms),
        FAKE_PROC_TEST(test_vgpus_without_utilization),
        FAKE_PROC_TEST(test_log_meter),
        FAKE_PROC_TEST(test_log),
        FAKE_PROC_TEST(test_no_library),
        FAKE_PROC_TEST(test_no_gpu),
        FAKE_PROC_TEST(test_driver_comes_later),
        FAKE_PROC_TEST(test_gpu_is_lost),
        FAKE_PROC_TEST(test_one_function_fails),
        FAKE_PROC_TEST(test_clock_of_samples),
        FAKE_PROC_TEST(test_collector),
    };

    return cmocka_run_group_tests_name("nvml", tests, idle_thread_start, idle_thread_stop);
}
