/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports VMs whose guests draw and compute through Venus: the number of their contexts, and the
 * memory and CPU time of the processes that serve them. QEMU starts virglrenderer's render server,
 * "virgl_render_se" in the kernel. The server starts a process for each context of a guest,
 * "virgl-ID-NAME" (server/render_worker.c, server/render_context.c of virglrenderer 1.1).
 *
 * If a driver works for these processes, another source may report the VM's use of the GPU.
 * lavapipe has no driver. It computes in these processes, so their CPU time counts as GPU time.
 * This source therefore reports a VM only if no other source knows any work of it.
 *
 * A process that has ended has left its CPU time to the process that waited for it. Both are
 * counted together, so no time is lost between two readings.
 */
#include "config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectors/gpu-cards.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"

#define NAME   "venus"
#define ENGINE "cpu"

#define SERVER_START  "virgl_render_se"
#define CONTEXT_START "virgl-"

/* The total of the last reading. */
struct venus_vm {
    int64_t cpu_ns;
    int64_t unreported_ns; /* the part after the end of the last window */
    int64_t reported_ns;   /* end of the reported time */
    uint64_t generation;
};

/* What a VM's processes use now. */
struct venus_reading {
    bool any;
    uint32_t contexts;
    int64_t cpu_ns; /* since they were started */
    int64_t memory_bytes;
};

struct venus_source {
    vg_gpu_source base; /* first */
    char *proc;
    char *drm;
    int64_t tick_ns;
    GHashTable *vms; /* id of the VM -> struct venus_vm */
    uint64_t generation;
    bool has_node;
    unsigned with_server;
    uint32_t contexts;
};

/* Reads the size of a process's private and shared memory that is not backed by files. */
static int64_t
venus_memory_of(const struct venus_source *source, int32_t pid)
{
    static const char *const names[] = {"\nRssAnon:", "\nRssShmem:"};
    char path[PATH_MAX], text[VG_PROC_TEXT_MAX];
    int64_t bytes = 0;

    snprintf(path, sizeof(path), "%s/%" PRId32 "/status", source->proc, pid);
    if (vg_proc_read(path, text, sizeof(text)) <= 0)
        return 0;
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        const char *at = strstr(text, names[i]);
        const uint64_t kib = at ? g_ascii_strtoull(at + strlen(names[i]), NULL, 10) : 0;
        bytes += (int64_t)(MIN(kib, (uint64_t)INT32_MAX) * 1024);
    }
    return bytes;
}

static void
venus_read_process(const struct venus_source *source, int32_t pid, struct venus_reading *reading)
{
    char path[PATH_MAX], text[VG_PROC_TEXT_MAX];
    struct vg_proc_stat stat;

    snprintf(path, sizeof(path), "%s/%" PRId32 "/stat", source->proc, pid);
    if (vg_proc_read(path, text, sizeof(text)) <= 0 || !vg_proc_parse_stat(text, &stat))
        return;
    const bool is_context = g_str_has_prefix(stat.comm, CONTEXT_START);
    if (!is_context && !g_str_has_prefix(stat.comm, SERVER_START))
        return;
    reading->any = true;
    reading->contexts += is_context && stat.state != 'Z';
    reading->cpu_ns += (int64_t)(stat.cpu_ticks + stat.child_ticks) * source->tick_ns;
    reading->memory_bytes += venus_memory_of(source, pid);
}

/* Returns the CPU time up to end that was not reported before. It does not report time before the
 * first reading of the VM, whether or not the VM had a render server then. */
static int64_t
venus_advance(struct venus_source *source, uint32_t vm_id, int64_t cpu_ns, int64_t end_ns,
              int64_t now_ns)
{
    void *key = GUINT_TO_POINTER(vm_id);
    struct venus_vm *vm = g_hash_table_lookup(source->vms, key);
    const int64_t all_ns = vm ? MAX(cpu_ns - vm->cpu_ns, 0) + vm->unreported_ns : 0;

    if (!vm) {
        vm = g_new0(struct venus_vm, 1);
        vm->reported_ns = now_ns;
        g_hash_table_insert(source->vms, key, vm);
    }
    const int64_t more_ns = vg_gpu_window_share(all_ns, vm->reported_ns, end_ns, now_ns);
    vm->unreported_ns = all_ns - more_ns;
    vm->reported_ns = MAX(vm->reported_ns, MIN(end_ns, now_ns));
    vm->cpu_ns = cpu_ns;
    vm->generation = source->generation;
    return more_ns;
}

/* The engine in the rows of collectors/gpu-proxy.c, which are the work of other programs. */
#define PROXY_ENGINE "opencl"

/* Returns whether another source reports GPU work that may be the VM's Venus work. */
static bool
venus_is_reported(const struct vg_vm_sample *vm)
{
    for (guint i = 0; i < vm->gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(vm->gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->engine, PROXY_ENGINE) != 0 &&
            (gpu->busy_ns > 0 || gpu->exec_ns > 0 || gpu->requests > 0))
            return true;
    }
    return false;
}

static void
venus_add(GArray *gpus, const struct vg_gpu_sample *more)
{
    int64_t bytes = 0, peak_bytes = 0;

    vg_gpu_window_get_memory(gpus, NAME, &bytes, &peak_bytes);
    vg_gpu_window_add(gpus, more);
    vg_gpu_window_set_memory(gpus, NAME, bytes + more->mem_bytes, peak_bytes + more->mem_bytes);
}

static void
venus_report(struct venus_source *source, const struct vg_proc_vm *vm,
             const struct venus_reading *reading, int64_t cpu_ns, struct vg_window *window)
{
    struct vg_vm_sample *sample = vg_gpu_window_vm(window, vm);
    const bool stands = !venus_is_reported(sample);
    struct vg_gpu_sample more = {.device = NAME,
                                 .engine = ENGINE,
                                 .busy_ns = stands ? cpu_ns : 0,
                                 .exec_ns = stands ? cpu_ns : 0,
                                 .lacks = VG_GPU_ONLY_WORK | (stands ? 0 : VG_GPU_NO_WORK),
                                 .contexts = reading->contexts,
                                 .mem_bytes = reading->memory_bytes,
                                 .mem_peak_bytes = reading->memory_bytes};

    venus_add(sample->gpus, &more);
    venus_add(window->gpus, &more);
    source->with_server++;
    source->contexts += reading->contexts;
}

static void
venus_forget_gone(struct venus_source *source)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, source->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct venus_vm *)value)->generation != source->generation)
            g_hash_table_iter_remove(&iter);
    }
}

static void
venus_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                  struct vg_window *window)
{
    struct venus_source *source = (struct venus_source *)base;

    source->generation++;
    source->with_server = 0;
    source->contexts = 0;
    for (guint i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        struct venus_reading reading = {0};
        int32_t pid;
        for (unsigned k = 1; (pid = vg_proc_vm_pid_at(vm, k)) > 0; k++)
            venus_read_process(source, pid, &reading);
        const int64_t cpu_ns =
            venus_advance(source, vm->id, reading.cpu_ns, window->end_ns, now_ns);
        if (reading.any)
            venus_report(source, vm, &reading, cpu_ns, window);
        vg_thread_beat(self);
    }
    venus_forget_gone(source);
}

/* QEMU needs a render node to serve a guest through Venus. */
static bool
venus_ready(vg_gpu_source *base, int64_t now_ns)
{
    struct venus_source *source = (struct venus_source *)base;

    (void)now_ns;
    source->has_node = vg_gpu_cards_can_render(source->drm);
    return source->has_node;
}

static bool
venus_describe(const vg_gpu_source *base, GString *text)
{
    const struct venus_source *source = (const struct venus_source *)base;

    if (!source->has_node)
        g_string_append(text, "this host has no render node");
    else if (source->with_server == 0)
        g_string_append(text, "no VM has a render server");
    else
        g_string_append_printf(text,
                               "%u VM%s with a render server, %u context%s; its CPU time is shown "
                               "as GPU time where no driver reports GPU time (lavapipe); no source "
                               "reports its requests",
                               source->with_server, source->with_server == 1 ? "" : "s",
                               source->contexts, source->contexts == 1 ? "" : "s");
    return false;
}

static void
venus_close(vg_gpu_source *base)
{
    g_hash_table_remove_all(((struct venus_source *)base)->vms);
}

static void
venus_free(vg_gpu_source *base)
{
    struct venus_source *source = (struct venus_source *)base;

    g_hash_table_unref(source->vms);
    g_free(source->proc);
    g_free(source->drm);
    g_free(source);
}

static const struct vg_gpu_source_ops venus_ops = {
    .name = NAME,
    .ready = venus_ready,
    .read = venus_read_source,
    .describe = venus_describe,
    .close = venus_close,
    .free = venus_free,
};

vg_gpu_source *
vg_gpu_venus_new(const char *proc, const char *drm)
{
    struct venus_source *source = g_new0(struct venus_source, 1);

    source->base.ops = &venus_ops;
    source->proc = g_strdup(proc);
    source->drm = g_strdup(drm);
    source->tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);
    source->vms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return &source->base;
}
