/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA programs release their GPUs without their cooperation: NVIDIA's driver copies their GPU
 * memory into the guest's memory, and back later, to the same addresses, on the same GPU or on
 * another one of its kind (guest/cuda-release.c, guest/cuda-restore.c). While the agent runs, it
 * watches for programs that the driver could not restore (guest/cuda-watch.h).
 */
#include "config.h"

#include <string.h>

#include "guest/cuda-drivers.h"
#include "guest/cuda-hold.h"
#include "guest/cuda-steps.h"
#include "guest/cuda-watch.h"
#include "guest/opencl-link.h"
#include "guest/provider.h"
#include "guest/units.h"
#include "guest/util.h"
#include "guest/work-private.h"

static void *
cuda_load(const struct vg_guest_config *config)
{
    return vg_cuda_watch_start(config);
}

static void
cuda_look(void *cookie)
{
    vg_cuda_watch_look(cookie);
}

static void
cuda_unload(void *cookie)
{
    vg_cuda_watch_end(cookie);
}

/* Excludes the processes whose units are stopped before CUDA is queried, and those that are
 * released as OpenCL programs. Returns how many of total are left. */
static size_t
cuda_leave_out_others(const struct vg_guest_config *config, size_t total)
{
    static struct vg_opencl_link opencl;
    struct vg_cuda_job *job = &vg_cuda_work;
    bool has_opencl = job->n > 0 && vg_opencl_link_open(&opencl, config->root, false) == 0;
    size_t n = 0;

    for (size_t i = 0; i < job->n; i++) {
        if (!vg_guest_units_of(config, job->processes[i].pid) &&
            !(has_opencl && vg_opencl_link_has(&opencl, job->processes[i].pid)))
            job->processes[n++] = job->processes[i];
    }
    if (has_opencl)
        vg_opencl_link_close(&opencl);
    total -= job->n - n;
    job->n = n;
    return total;
}

/* Explains why the GPUs could not be released now. The text is empty if they could. */
static void
cuda_check(struct vg_guest_work *work, size_t total, char *ret_why, size_t size)
{
    static struct vg_cuda_gpus gpus;
    int64_t need, free_bytes;

    ret_why[0] = '\0';
    if (total > VG_CUDA_PROCESSES_MAX) {
        vg_guest_put(ret_why, size, "%zu processes use the GPUs", total);
        return;
    }
    vg_cuda_callers_start(vg_cuda_work.n);
    const struct vg_cuda_process *bad = vg_cuda_release_ask(work, work->until_ms);
    /* The queries may have taken the snapshot that the first start began. */
    vg_cuda_callers_start(vg_cuda_work.n);
    if (vg_cuda_callers_gpus(&gpus, work->until_ms) == 0)
        vg_cuda_job_set_gpus(work, &vg_cuda_work, &gpus);
    if (bad)
        vg_guest_put(ret_why, size, "%d (%s): %s", (int)bad->pid, bad->comm, bad->why);
    else if (*gpus.why)
        vg_guest_put(ret_why, size, "%s", gpus.why);
    else if (vg_cuda_release_compare_memory(work->config->root, &need, &free_bytes) != 0)
        vg_guest_put(ret_why, size,
                     "%lld MiB of memory are needed, but only %lld MiB are available",
                     (long long)(need >> 20), (long long)(free_bytes >> 20));
    vg_cuda_callers_end();
}

static void
cuda_status(const struct vg_guest_work *look, json_object *about)
{
    struct vg_guest_work work = *look;
    char version[VG_CUDA_DRIVER_VERSION_MAX];
    char why[sizeof vg_cuda_work.processes->why + 64] = "";

    work.until_ms = vg_guest_now_ms() + VG_CUDA_GPUS_MS;
    size_t total = cuda_leave_out_others(work.config, vg_cuda_job_find(&work, &vg_cuda_work));
    bool busy = work.order->state && strcmp(work.order->state, "idle") != 0 &&
                strcmp(work.order->state, "resumed") != 0;
    /* A process that queries the driver opens the GPUs, which are leaving now or have left. */
    if (total > 0 && !busy)
        cuda_check(&work, total, why, sizeof why);
    vg_cuda_job_describe(&vg_cuda_work, about, NULL);
    vg_cuda_hold_describe(work.config, about);
    json_object_object_add(about, "releasable",
                           busy ? NULL : json_object_new_boolean(*why == '\0'));
    if (*why)
        json_object_object_add(about, "why", json_object_new_string(why));
    if (vg_cuda_driver_read(work.config->root, version) > 0)
        json_object_object_add(about, "driver", vg_cuda_driver_json(version));
}

const struct vg_guest_provider vg_guest_provider_cuda = {
    .name = "cuda",
    .load = cuda_load,
    .look = cuda_look,
    .unload = cuda_unload,
    .prepare = vg_cuda_release,
    .resume = vg_cuda_restore,
    .status = cuda_status,
};
