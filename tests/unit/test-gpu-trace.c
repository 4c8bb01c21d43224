/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU requests by tracepoints: a tracefs of files, rings made by hand, and figures that can be
 * worked out in the head. Formats are those of the kernels that are named beside them. At last, the
 * tracepoints that the kernel here has.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/perf_event.h>
#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-cards.h"
#include "collectors/gpu-trace.h"
#include "collectors/gpu-tracepoints.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"
#include "tests/unit/fake-proc.h"
#include "tests/unit/idle-thread.h"
#include "tests/unit/window-gpu.h"

#define MS         VG_NS_PER_MS
#define S          VG_NS_PER_S
#define PAGE_BYTES 4096
#define DATA_BYTES 4096
#define CPUS       2
#define WINDOW_NS  (100 * MS)

/* A VM, and a process that is none. Their numbers are no process's here. */
#define QEMU     VG_TID_LIMIT
#define QEMU_TID (VG_TID_LIMIT - 1)
#define GAME     (VG_TID_LIMIT - 2)
#define KWORKER  (VG_TID_LIMIT - 3)
#define DEVICE   "0000:00:02.0"
#define CARD_XE  "0000:03:00.0"

#define COMMON                                                                                     \
 "format:\n"                                                                                       \
 "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                            \
 "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                            \
 "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                    \
 "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* Linux 6.17: drm_sched_job_queue and drm_sched_job_run. */
#define JOB_FORMAT                                                                                 \
 COMMON "\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n"                         \
        "\tfield:u32 job_count;\toffset:12;\tsize:4;\tsigned:0;\n"                                 \
        "\tfield:int hw_job_count;\toffset:16;\tsize:4;\tsigned:1;\n"                              \
        "\tfield:__data_loc char[] dev;\toffset:20;\tsize:4;\tsigned:0;\n"                         \
        "\tfield:u64 fence_context;\toffset:24;\tsize:8;\tsigned:0;\n"                             \
        "\tfield:u64 fence_seqno;\toffset:32;\tsize:8;\tsigned:0;\n"                               \
        "\tfield:u64 client_id;\toffset:40;\tsize:8;\tsigned:0;\n"

/* drm_sched_job_done */
#define DONE_FORMAT                                                                                \
 COMMON "\tfield:u64 fence_context;\toffset:8;\tsize:8;\tsigned:0;\n"                              \
        "\tfield:u64 fence_seqno;\toffset:16;\tsize:8;\tsigned:0;\n"

/* Linux 6.1: drm_sched_job and drm_run_job; drm_sched_process_job. */
#define OLD_JOB_FORMAT                                                                             \
 COMMON "\tfield:struct drm_sched_entity * entity;\toffset:8;\tsize:8;\tsigned:0;\n"               \
        "\tfield:struct dma_fence * fence;\toffset:16;\tsize:8;\tsigned:0;\n"                      \
        "\tfield:__data_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n"                        \
        "\tfield:uint64_t id;\toffset:32;\tsize:8;\tsigned:0;\n"                                   \
        "\tfield:u32 job_count;\toffset:40;\tsize:4;\tsigned:0;\n"                                 \
        "\tfield:int hw_job_count;\toffset:44;\tsize:4;\tsigned:1;\n"
#define OLD_DONE_FORMAT COMMON "\tfield:struct dma_fence * fence;\toffset:8;\tsize:8;\tsigned:0;\n"

/* Linux 5.5 to 6.18: i915_request_*; the last member is flags, tail, port or completed. */
#define I915_FORMAT                                                                                \
 COMMON "\tfield:u32 dev;\toffset:8;\tsize:4;\tsigned:0;\n"                                        \
        "\tfield:u64 ctx;\toffset:16;\tsize:8;\tsigned:0;\n"                                       \
        "\tfield:u16 class;\toffset:24;\tsize:2;\tsigned:0;\n"                                     \
        "\tfield:u16 instance;\toffset:26;\tsize:2;\tsigned:0;\n"                                  \
        "\tfield:u32 seqno;\toffset:28;\tsize:4;\tsigned:0;\n"                                     \
        "\tfield:u32 completed;\toffset:32;\tsize:4;\tsigned:0;\n"

#define FENCE_FORMAT                                                                               \
 COMMON "\tfield:__data_loc char[] driver;\toffset:8;\tsize:4;\tsigned:0;\n"                       \
        "\tfield:__data_loc char[] timeline;\toffset:12;\tsize:4;\tsigned:0;\n"                    \
        "\tfield:unsigned int context;\toffset:16;\tsize:4;\tsigned:0;\n"                          \
        "\tfield:unsigned int seqno;\toffset:20;\tsize:4;\tsigned:0;\n"

enum {
    QUEUE = 1001,
    RUN,
    DONE,
    OLD_QUEUE,
    OLD_RUN,
    OLD_DONE,
    I915_QUEUE,
    I915_IN,
    I915_OUT,
    FENCE
};

/* ---- a host ---- */

struct host {
    const char *proc; /* of the fixture; everything else is below it */
    char *drm;
    char *tracefs;
    vg_gpu_source *source;
    struct vg_proc_vm vm;
    GPtrArray *vms;
    int64_t now_ns;          /* the end of the newest window */
    struct vg_window window; /* the newest */
    /* The rings, and what is asked of them. */
    vg_perf_merge *merge; /* NULL: closed */
    unsigned opened;
    size_t tracepoints;
    bool refuses;
    uint64_t lost;
    struct {
        _Alignas(8) char page[PAGE_BYTES];
        _Alignas(8) char data[DATA_BYTES];
    } rings[CPUS];
};

static struct perf_event_mmap_page *
page_of(struct host *h, int cpu)
{
    return (struct perf_event_mmap_page *)(void *)h->rings[cpu].page;
}

static void
read_format(struct host *h, const char *tracefs, const char *tracepoint)
{
    g_autofree char *path = g_strdup_printf("%s/events/%s/format", tracefs, tracepoint);
    g_autofree char *text = NULL;

    assert_true(g_file_get_contents(path, &text, NULL, NULL));
    vg_perf_format *format = vg_perf_format_parse(text, path, NULL);
    assert_non_null(format);
    vg_perf_merge_add_format(h->merge, format);
}

static void *
open_rings(void *data, vg_perf_merge *merge, const char *tracefs, const struct vg_perf_set *set,
           GError **err)
{
    struct host *h = data;

    assert_null(h->merge);
    assert_in_range(set->n, 1, VG_PERF_TRACEPOINTS_MAX);
    assert_false(set->arrivals);
    if (h->refuses) {
        vg_error(err, VG_E_DENIED, "one must not look");
        return NULL;
    }
    h->merge = merge;
    h->tracepoints = set->n;
    h->opened++;
    memset(h->rings, 0, sizeof(h->rings));
    for (size_t i = 0; i < set->n; i++)
        read_format(h, tracefs, set->tracepoints[i].path);
    for (int i = 0; i < CPUS; i++)
        vg_perf_merge_add_cpu(merge, i, h->rings[i].page, PAGE_BYTES, DATA_BYTES);
    return h;
}

static void
close_rings(void *handle)
{
    struct host *h = handle;

    for (int i = 0; i < CPUS; i++)
        vg_perf_merge_remove_cpu(h->merge, i);
    h->merge = NULL;
}

static int
fd_of_rings(const void *handle)
{
    (void)handle;
    return -1;
}

static int
follow_cpus(void *handle, GError **err)
{
    (void)handle;
    (void)err;
    return 0;
}

static uint64_t
lost_of_rings(void *handle, int32_t cpu)
{
    const struct host *h = handle;

    return cpu == 0 ? h->lost : 0;
}

static const struct vg_gpu_rings fake_rings = {
    .open = open_rings,
    .close = close_rings,
    .fd = fd_of_rings,
    .follow_cpus = follow_cpus,
    .lost = lost_of_rings,
};

/* ---- what there is ---- */

static void
put_tracepoint(struct host *h, const char *tracepoint, int id, const char *format)
{
    g_autofree char *dir = g_strdup_printf("%s/events/%s", h->tracefs, tracepoint);
    g_autofree char *path = g_strdup_printf("%s/format", dir);
    g_autofree char *text =
        g_strdup_printf("name: %s\nID: %d\n%s", strchr(tracepoint, '/') + 1, id, format);

    assert_int_equal(g_mkdir_with_parents(dir, 0700), 0);
    fake_proc_write(path, text, strlen(text));
}

static void
put_scheduler(struct host *h)
{
    put_tracepoint(h, "gpu_scheduler/drm_sched_job_queue", QUEUE, JOB_FORMAT);
    put_tracepoint(h, "gpu_scheduler/drm_sched_job_run", RUN, JOB_FORMAT);
    put_tracepoint(h, "gpu_scheduler/drm_sched_job_done", DONE, DONE_FORMAT);
}

static void
put_old_scheduler(struct host *h)
{
    put_tracepoint(h, "gpu_scheduler/drm_sched_job", OLD_QUEUE, OLD_JOB_FORMAT);
    put_tracepoint(h, "gpu_scheduler/drm_run_job", OLD_RUN, OLD_JOB_FORMAT);
    put_tracepoint(h, "gpu_scheduler/drm_sched_process_job", OLD_DONE, OLD_DONE_FORMAT);
}

static void
put_i915(struct host *h)
{
    put_tracepoint(h, "i915/i915_request_queue", I915_QUEUE, I915_FORMAT);
    put_tracepoint(h, "i915/i915_request_in", I915_IN, I915_FORMAT);
    put_tracepoint(h, "i915/i915_request_out", I915_OUT, I915_FORMAT);
    put_tracepoint(h, "dma_fence/dma_fence_signaled", FENCE, FENCE_FORMAT);
}

static void
put_link(const struct host *h, const char *name, const char *target)
{
    g_autofree char *path = g_build_filename(h->drm, name, NULL);
    g_autofree char *dir = g_path_get_dirname(path);

    assert_int_equal(g_mkdir_with_parents(dir, 0700), 0);
    assert_int_equal(symlink(target, path), 0);
}

/* As in /sys/class/drm, where a card's device is a link to a directory, which is also here. */
static void
put_card(const struct host *h, int n, const char *device, const char *driver, bool renders)
{
    g_autofree char *in_sys = g_strdup_printf("%s/devices/%s", h->proc, device);
    g_autofree char *link = g_strdup_printf("%s/driver", in_sys);
    g_autofree char *drivers = g_strdup_printf("../../drivers/%s", driver);
    g_autofree char *card = g_strdup_printf("card%d/device", n);
    g_autofree char *connector = g_strdup_printf("card%d-DP-1/device", n);
    g_autofree char *node = g_strdup_printf("renderD%d/device", 128 + n);

    assert_int_equal(g_mkdir_with_parents(in_sys, 0700), 0);
    assert_int_equal(symlink(drivers, link), 0);
    put_link(h, card, in_sys);
    put_link(h, connector, "../card");
    if (renders)
        put_link(h, node, in_sys);
}

static void
begin_host(struct host *h, const char *proc)
{
    const struct fake_task game = {.pid = GAME, .tid = GAME, .comm = "game"};

    *h = (struct host){.proc = proc, .now_ns = S, .vm = {.id = 5, .pid = QEMU, .name = "vm"}};
    h->drm = g_build_filename(proc, "drm", NULL);
    h->tracefs = g_build_filename(proc, "tracefs", NULL);
    h->vms = g_ptr_array_new();
    g_ptr_array_add(h->vms, &h->vm);
    fake_proc_task(proc, &game);
    vg_window_init(&h->window, false);
}

static void
begin_source(struct host *h, double budget)
{
    const struct vg_gpu_trace_options options = {
        .proc = h->proc,
        .drm = h->drm,
        .tracefs = h->tracefs,
        .budget = budget,
        .retry_ns = 30 * S,
        .rings = &fake_rings,
        .rings_data = h,
    };

    h->source = vg_gpu_trace_new(&options);
}

/* One with a GPU of i915's, whose tracepoints are open. */
static void
begin(struct host *h, const char *proc)
{
    begin_host(h, proc);
    put_card(h, 0, DEVICE, "i915", true);
    put_scheduler(h);
    put_i915(h);
    begin_source(h, 0);
    assert_true(h->source->ops->ready(h->source, h->now_ns));
}

static void
end(struct host *h)
{
    h->source->ops->close(h->source);
    assert_null(h->merge);
    vg_gpu_source_free(h->source);
    g_ptr_array_unref(h->vms);
    vg_window_clear(&h->window);
    g_free(h->drm);
    g_free(h->tracefs);
}

/* The begin of the next window; what other sources tell goes in there. */
static void
next_begin(struct host *h)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->window.begin_ns = h->now_ns;
    h->now_ns += WINDOW_NS;
    h->window.end_ns = h->now_ns;
}

static void
next_end(struct host *h)
{
    h->source->ops->sample(h->source, h->now_ns);
    h->source->ops->read(h->source, h->vms, idle_thread, h->now_ns, &h->window);
    vg_gpu_window_finish(&h->window);
}

static void
next(struct host *h)
{
    next_begin(h);
    next_end(h);
}

static void
expect_text(struct host *h, bool less, const char *want)
{
    g_autoptr(GString) text = g_string_new(NULL);

    assert_int_equal(h->source->ops->describe(h->source, text), less);
    assert_string_equal(text->str, want);
}

/* ---- what the kernel does ---- */

static void
write_record(struct host *h, int cpu, const void *record, size_t size)
{
    struct perf_event_mmap_page *page = page_of(h, cpu);

    assert_true(page->data_head - page->data_tail + size <= DATA_BYTES);
    for (size_t i = 0; i < size; i++)
        h->rings[cpu].data[(page->data_head + i) % DATA_BYTES] = ((const char *)record)[i];
    page->data_head += size;
}

struct id {
    int32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
};

/* A sample with that raw data, by a thread. time in ms. */
static void
put_raw(struct host *h, int cpu, int64_t ms, int32_t pid, int32_t tid, const void *raw, size_t size)
{
    struct {
        struct perf_event_header header;
        struct id id;
        uint32_t size;
        char raw[200];
    } __attribute__((packed)) r = {.id = {pid, tid, (uint64_t)(ms * MS), (uint32_t)cpu, 0}};
    /* Four bytes before the data, which is padded so that the whole is of words. */
    size_t padded = (size + 4 + 7) / 8 * 8 - 4;

    assert_true(padded <= sizeof(r.raw));
    memcpy(r.raw, raw, size);
    r.size = (uint32_t)padded;
    r.header = (struct perf_event_header){PERF_RECORD_SAMPLE, 0,
                                          (uint16_t)(offsetof(__typeof__(r), raw) + padded)};
    write_record(h, cpu, &r, r.header.size);
}

static void
put_lost(struct host *h, int cpu, int64_t ms, uint64_t count)
{
    const struct {
        struct perf_event_header header;
        uint64_t id, lost;
        struct id sample_id;
    } r = {
        {PERF_RECORD_LOST, 0, sizeof(r)}, 1, count, {0, 0, (uint64_t)(ms * MS), (uint32_t)cpu, 0}};

    write_record(h, cpu, &r, sizeof(r));
}

static void
put_job_of(struct host *h, int cpu, int64_t ms, uint16_t type, int32_t pid, int32_t tid,
           const char *device, const char *ring, uint64_t context, uint64_t seqno)
{
    struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint32_t name, job_count;
        int32_t hw_job_count;
        uint32_t dev;
        uint64_t context, seqno, client;
        char texts[64];
    } raw = {.type = type, .pid = tid, .context = context, .seqno = seqno};
    unsigned texts = offsetof(__typeof__(raw), texts);
    unsigned name_size = (unsigned)strlen(ring) + 1, dev_size = (unsigned)strlen(device) + 1;

    raw.name = texts | name_size << 16;
    memcpy(raw.texts, ring, name_size);
    raw.dev = (texts + name_size) | dev_size << 16;
    memcpy(raw.texts + name_size, device, dev_size);
    put_raw(h, cpu, ms, pid, tid, &raw, texts + name_size + dev_size);
}

/* On the ring that all jobs here are on. */
static void
put_job(struct host *h, int cpu, int64_t ms, uint16_t type, int32_t pid, int32_t tid,
        uint64_t seqno)
{
    put_job_of(h, cpu, ms, type, pid, tid, DEVICE, "gfx", 401, seqno);
}

static void
put_done(struct host *h, int cpu, int64_t ms, uint64_t context, uint64_t seqno)
{
    const struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint64_t context, seqno;
    } raw = {.type = DONE, .context = context, .seqno = seqno};

    /* Whoever was interrupted: it has nothing to do with the job. */
    put_raw(h, cpu, ms, GAME, GAME, &raw, sizeof(raw));
}

/* fence: its address; by the scheduler of Linux 6.1. */
static void
put_old_job(struct host *h, int64_t ms, uint16_t type, const char *ring, uint64_t id,
            uint64_t fence)
{
    struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint64_t entity, fence;
        uint32_t name, pad;
        uint64_t id;
        uint32_t job_count;
        int32_t hw_job_count;
        char text[16];
    } raw = {.type = type, .entity = 0xffff8880aaaa0000, .fence = fence, .id = id};

    raw.name = (uint32_t)(offsetof(__typeof__(raw), text) | (strlen(ring) + 1) << 16);
    g_strlcpy(raw.text, ring, sizeof(raw.text));
    put_raw(h, 0, ms, QEMU, QEMU_TID, &raw, sizeof(raw));
}

static void
put_old_done(struct host *h, int64_t ms, uint64_t fence)
{
    const struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint64_t fence;
    } raw = {.type = OLD_DONE, .fence = fence};

    put_raw(h, 1, ms, 0, 0, &raw, sizeof(raw));
}

static void
put_i915_request(struct host *h, int cpu, int64_t ms, uint16_t type, int32_t pid, int32_t tid,
                 uint32_t seqno, uint32_t completed)
{
    const struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint32_t dev, pad;
        uint64_t ctx;
        uint16_t class, instance;
        uint32_t seqno, completed;
    } raw = {.type = type, .ctx = 44, .seqno = seqno, .completed = completed};

    put_raw(h, cpu, ms, pid, tid, &raw, sizeof(raw));
}

static void
put_fence(struct host *h, int cpu, int64_t ms, const char *driver, uint32_t context, uint32_t seqno)
{
    struct {
        uint16_t type;
        uint8_t flags, preempt_count;
        int32_t pid;
        uint32_t driver, timeline, context, seqno;
        char texts[32];
    } raw = {.type = FENCE, .context = context, .seqno = seqno};
    unsigned texts = offsetof(__typeof__(raw), texts), size = (unsigned)strlen(driver) + 1;

    raw.driver = raw.timeline = texts | size << 16;
    memcpy(raw.texts, driver, size);
    put_raw(h, cpu, ms, 0, 0, &raw, sizeof(raw));
}

/* ---- what is told ---- */

static const struct vg_gpu_request_sample *
request_at(struct host *h, unsigned i)
{
    assert_true(i < h->window.gpu_requests->len);
    return &g_array_index(h->window.gpu_requests, struct vg_gpu_request_sample, i);
}

/* ---- figures ---- */

/* Two CPUs, one record of each that comes out of order, and a request over two windows. */
static void
test_scheduler(void **state)
{
    struct host h;

    begin(&h, *state);
    next_begin(&h);
    put_job(&h, 1, 1020, RUN, KWORKER, KWORKER, 1);
    put_done(&h, 1, 1050, 401, 1);
    put_job(&h, 0, 1010, QUEUE, QEMU, QEMU_TID, 1);
    put_job(&h, 0, 1060, QUEUE, QEMU, QEMU_TID, 2);
    put_job(&h, 1, 1080, RUN, KWORKER, KWORKER, 2);
    /* This one is of the next window, though it is there already. */
    put_done(&h, 1, 1130, 401, 2);
    next_end(&h);
    const struct vg_vm_sample *vm = window_gpu_vm(&h.window, h.vm.id);
    assert_string_equal(vm->name, "vm");
    assert_int_equal(vm->pid, QEMU);
    assert_int_equal(vm->gpus->len, 1);
    const struct vg_gpu_sample *gpu = window_gpu_find(vm->gpus, DEVICE, "gfx");
    assert_int_equal(gpu->busy_ns, 50 * MS);
    assert_int_equal(gpu->exec_ns, 50 * MS);
    assert_int_equal(gpu->wait_ns, 30 * MS);
    assert_int_equal(gpu->requests, 1);
    assert_int_equal(gpu->partial, 0);
    assert_int_equal(gpu->open, 1);
    assert_int_equal(gpu->open_oldest_ns, 40 * MS);
    assert_int_equal(gpu->latency_mean_ns, 40 * MS);
    assert_int_equal(gpu->queue_len_max, 1);
    /* Waiting or running: 1010 to 1050 and 1060 to 1100. */
    assert_int_equal(vm->gpu_active_ns, 80 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, DEVICE, "gfx")->busy_ns, 50 * MS);
    assert_int_equal(h.window.gpu_processes->len, 0);
    assert_int_equal(h.window.gpu_requests->len, 1);
    const struct vg_gpu_request_sample *request = request_at(&h, 0);
    assert_int_equal(request->vm, h.vm.id);
    assert_int_equal(request->pid, QEMU);
    assert_int_equal(request->context, 401);
    assert_int_equal(request->seqno, 1);
    assert_int_equal(request->queued_ns, 1010 * MS);
    assert_int_equal(request->run_ns, 1020 * MS);
    assert_int_equal(request->end_ns, 1050 * MS);
    assert_string_equal(g_array_index(h.window.gpus, struct vg_gpu_sample, request->gpu).engine,
                        "gfx");
    next(&h);
    gpu = window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx");
    assert_int_equal(gpu->busy_ns, 30 * MS);
    assert_int_equal(gpu->wait_ns, 0);
    assert_int_equal(gpu->requests, 1);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 30 * MS);
    assert_int_equal(request_at(&h, 0)->queued_ns, 1060 * MS);
    /* Nothing happens, and that is known. */
    next(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->busy_ns, 0);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 0);
    assert_int_equal(h.window.gpu_requests->len, 0);
    assert_int_equal(h.window.lost_events, 0);
    assert_int_equal(h.source->ops->spent_ns(h.source), 0);
    expect_text(&h, false, "7 of gpu_scheduler, i915, dma_fence");
    end(&h);
}

/* i915 tells the number of the card, and its fence the end. */
static void
test_i915(void **state)
{
    struct host h;

    begin(&h, *state);
    next_begin(&h);
    put_i915_request(&h, 0, 1010, I915_QUEUE, QEMU, QEMU_TID, 7, 0);
    put_i915_request(&h, 1, 1030, I915_IN, 0, 0, 7, 0);
    /* Taken off for another one, and back. */
    put_i915_request(&h, 1, 1040, I915_OUT, 0, 0, 7, 0);
    put_i915_request(&h, 1, 1060, I915_IN, 0, 0, 7, 0);
    put_fence(&h, 0, 1090, DEVICE, 44, 7);
    /* Of others that have fences. */
    put_fence(&h, 0, 1091, "virtio_gpu", 9, 9);
    put_fence(&h, 0, 1092, "drm_sched", 10, 9);
    next_end(&h);
    const struct vg_gpu_sample *gpu =
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "rcs0");
    assert_int_equal(gpu->busy_ns, 40 * MS);
    assert_int_equal(gpu->wait_ns, 40 * MS);
    assert_int_equal(gpu->requests, 1);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 80 * MS);
    assert_int_equal(h.window.gpus->len, 1);
    end(&h);
}

/* Who asks is known by its process: threads of a VM, others, and the kernel, which is nobody. */
static void
test_owners(void **state)
{
    struct host h;
    g_autofree char *task = g_strdup_printf("%s/%d/task/%d", (char *)*state, KWORKER, KWORKER);
    g_autofree char *path = g_build_filename(task, "stat", NULL);
    /* PF_KTHREAD and PF_WQ_WORKER. */
    static const char kernel[] = "1 (gpu) I 2 0 0 0 -1 2097184 0 0 0 0 0 0 0 0 20 0 1 0 99";

    begin(&h, *state);
    assert_int_equal(g_mkdir_with_parents(task, 0700), 0);
    fake_proc_write(path, kernel, strlen(kernel));
    next_begin(&h);
    for (unsigned i = 0; i < 4; i++) {
        static const int32_t pids[] = {QEMU, QEMU, GAME, KWORKER};
        static const int32_t tids[] = {QEMU, QEMU_TID, GAME, KWORKER};
        put_job_of(&h, 0, 1010 + i, QUEUE, pids[i], tids[i], DEVICE, "gfx", 401 + 2 * i, 1);
        put_job_of(&h, 1, 1020 + i, RUN, KWORKER, KWORKER, DEVICE, "gfx", 401 + 2 * i, 1);
    }
    for (unsigned i = 0; i < 4; i++)
        put_done(&h, 1, 1030 + i, 401 + 2 * i, 1);
    next_end(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->requests, 2);
    assert_int_equal(window_gpu_find(h.window.gpus, DEVICE, "gfx")->requests, 4);
    assert_int_equal(h.window.vms->len, 1);
    assert_int_equal(h.window.gpu_processes->len, 1);
    const struct vg_gpu_process_sample *game =
        &g_array_index(h.window.gpu_processes, struct vg_gpu_process_sample, 0);
    assert_int_equal(game->pid, GAME);
    assert_string_equal(game->comm, "game");
    assert_string_equal(game->gpu.device, DEVICE);
    assert_int_equal(game->gpu.exec_ns, 1 * MS); /* since the one in front of it is done */
    assert_int_equal(request_at(&h, 0)->vm, h.vm.id);
    assert_int_equal(request_at(&h, 2)->vm, VG_PROCESS_NO_ID);
    assert_int_equal(request_at(&h, 2)->pid, GAME);
    assert_int_equal(request_at(&h, 3)->pid, 0);
    end(&h);
}

/* A process is found to be a VM after it has used a GPU: all of the window is the VM's. It ends
 * with a request that is open, and comes back with the same pid. */
static void
test_vms_come_and_go(void **state)
{
    struct host h;

    begin(&h, *state);
    /* A process that is there, as long as it is no VM. */
    h.vm.pid = getpid();
    g_ptr_array_set_size(h.vms, 0);
    next_begin(&h);
    put_job(&h, 0, 1010, QUEUE, h.vm.pid, h.vm.pid, 1);
    put_job(&h, 0, 1020, RUN, KWORKER, KWORKER, 1);
    next_end(&h);
    assert_int_equal(h.window.vms->len, 0);
    g_ptr_array_add(h.vms, &h.vm);
    next(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->busy_ns,
        WINDOW_NS);
    g_ptr_array_set_size(h.vms, 0);
    /* Its last one, in which it was still there. */
    next(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->busy_ns,
        WINDOW_NS);
    next(&h);
    assert_int_equal(h.window.vms->len, 0);
    assert_int_equal(h.window.gpu_processes->len, 0);
    next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, DEVICE, "gfx")->busy_ns, 0);
    h.vm.id = 6;
    g_ptr_array_add(h.vms, &h.vm);
    next_begin(&h);
    put_job_of(&h, 0, 1510, QUEUE, h.vm.pid, h.vm.pid, DEVICE, "gfx", 501, 1);
    put_job_of(&h, 0, 1520, RUN, KWORKER, KWORKER, DEVICE, "gfx", 501, 1);
    put_done(&h, 0, 1530, 501, 1);
    next_end(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->busy_ns, 10 * MS);
    assert_int_equal(h.window.vms->len, 1);
    end(&h);
}

/* ---- beside other sources ---- */

static void
tell(struct host *h, const char *device, const char *engine, int64_t busy_ns, int64_t bytes)
{
    struct vg_gpu_sample gpu = {.busy_ns = busy_ns, .exec_ns = busy_ns, .mem_bytes = bytes};

    g_strlcpy(gpu.device, device, sizeof(gpu.device));
    g_strlcpy(gpu.engine, engine, sizeof(gpu.engine));
    vg_gpu_window_add(vg_gpu_window_vm(&h->window, &h->vm)->gpus, &gpu);
    vg_gpu_window_add(h->window.gpus, &gpu);
}

/* fdinfo calls engines by other names: of one VM and device only one of both counts. */
static void
test_tracepoints_lead(void **state)
{
    struct host h;

    begin(&h, *state);
    for (int64_t ms = 1000; ms < 1300; ms += 100) {
        next_begin(&h);
        tell(&h, DEVICE, "copy", 0, 4096);
        tell(&h, DEVICE, "render", ms == 1000 ? 22 * MS : 0, 4096);
        tell(&h, "0000:c1:00.0", "sm", 33 * MS, 1 << 20);
        if (ms == 1000) {
            put_job(&h, 0, 1010, QUEUE, QEMU, QEMU_TID, 1);
            put_job(&h, 0, 1020, RUN, KWORKER, KWORKER, 1);
            put_done(&h, 0, 1040, 401, 1);
        }
        next_end(&h);
        const struct vg_vm_sample *vm = window_gpu_vm(&h.window, h.vm.id);
        assert_int_equal(vm->gpus->len, 2);
        const struct vg_gpu_sample *gpu = window_gpu_find(vm->gpus, DEVICE, "gfx");
        assert_int_equal(gpu->busy_ns, ms == 1000 ? 20 * MS : 0);
        /* What they do not tell is kept. */
        assert_int_equal(gpu->mem_bytes, 4096);
        assert_int_equal(window_gpu_find(vm->gpus, "0000:c1:00.0", "sm")->mem_bytes, 1 << 20);
        assert_int_equal(vm->gpu_active_ns, 33 * MS);
        assert_int_equal(h.window.gpus->len, 2);
        assert_int_equal(window_gpu_find(h.window.gpus, DEVICE, "gfx")->mem_bytes, 4096);
    }
    /* A request of before they were opened: they do not see it, the other one does. */
    next_begin(&h);
    tell(&h, DEVICE, "render", 90 * MS, 4096);
    next_end(&h);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpus->len, 1);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "render")->busy_ns,
        90 * MS);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 90 * MS);
    end(&h);
}

/* The window's GPUs are sorted in the end, and requests stay with theirs. */
static void
test_rows_of_requests(void **state)
{
    struct host h;

    begin(&h, *state);
    next_begin(&h);
    tell(&h, "0000:c1:00.0", "sm", MS, 0);
    for (unsigned i = 0; i < 3; i++) {
        static const char *const rings[] = {"sdma0", "gfx", "comp"};
        put_job_of(&h, 0, 1010, QUEUE, QEMU, QEMU_TID, DEVICE, rings[i], 401 + 2 * i, 1);
        put_job_of(&h, 0, 1020, RUN, KWORKER, KWORKER, DEVICE, rings[i], 401 + 2 * i, 1);
        put_done(&h, 0, 1030, 401 + 2 * i, 1);
    }
    next_end(&h);
    assert_int_equal(h.window.gpus->len, 4);
    for (unsigned i = 0; i < 3; i++) {
        static const char *const rings[] = {"sdma0", "gfx", "comp"};
        const struct vg_gpu_sample *gpu =
            &g_array_index(h.window.gpus, struct vg_gpu_sample, request_at(&h, i)->gpu);
        assert_string_equal(gpu->engine, rings[i]);
        assert_string_equal(gpu->device, DEVICE);
    }
    end(&h);
}

/* ---- devices ---- */

static void
test_names_of_cards(void **state)
{
    struct host h;

    begin_host(&h, *state);
    put_card(&h, 0, "0000:02:00.0", "ast", false);
    put_card(&h, 1, DEVICE, "i915", true);
    put_card(&h, 12, "fec00000.gpu", "panfrost", true);
    g_autoptr(vg_gpu_cards) cards = vg_gpu_cards_new(h.drm);
    assert_null(vg_gpu_cards_device(cards, "card1"));
    vg_gpu_cards_read(cards);
    assert_string_equal(vg_gpu_cards_device(cards, "card0"), "0000:02:00.0");
    assert_string_equal(vg_gpu_cards_device(cards, "card1"), DEVICE);
    assert_string_equal(vg_gpu_cards_device(cards, DEVICE), DEVICE);
    assert_string_equal(vg_gpu_cards_device(cards, "i915"), DEVICE);
    assert_string_equal(vg_gpu_cards_driver(cards, DEVICE), "i915");
    /* One that is on no bus is called as fdinfo calls it. */
    assert_string_equal(vg_gpu_cards_device(cards, "card12"), "panfrost");
    assert_string_equal(vg_gpu_cards_device(cards, "fec00000.gpu"), "panfrost");
    assert_string_equal(vg_gpu_cards_driver(cards, "panfrost"), "panfrost");
    assert_null(vg_gpu_cards_device(cards, "ast"));
    assert_null(vg_gpu_cards_device(cards, "card"));
    assert_null(vg_gpu_cards_device(cards, "card1-DP-1"));
    assert_null(vg_gpu_cards_device(cards, ""));
    /* Two of one driver. */
    put_card(&h, 2, "0000:04:00.0", "i915", true);
    vg_gpu_cards_read(cards);
    assert_null(vg_gpu_cards_device(cards, "i915"));
    assert_string_equal(vg_gpu_cards_device(cards, "card2"), "0000:04:00.0");
    begin_source(&h, 0);
    end(&h);
}

/* Linux before 6.17 does not tell the device; the queues of xe are of an engine each, whose job
 * numbers are the same, and which runs one at a time. */
static void
test_queues_of_xe(void **state)
{
    struct host h;

    begin_host(&h, *state);
    put_card(&h, 0, CARD_XE, "xe", true);
    put_old_scheduler(&h);
    put_tracepoint(&h, "xe/xe_sched_job_exec", FENCE + 1, DONE_FORMAT);
    begin_source(&h, 0);
    assert_true(h.source->ops->ready(h.source, h.now_ns));
    assert_int_equal(h.tracepoints, 3);
    next_begin(&h);
    put_old_job(&h, 1010, OLD_QUEUE, "rcs5", 1, 0xffff888000001000);
    put_old_job(&h, 1010, OLD_QUEUE, "rcs17", 1, 0xffff888000002000);
    put_old_job(&h, 1020, OLD_RUN, "rcs5", 1, 0xffff888000001000);
    put_old_job(&h, 1030, OLD_RUN, "rcs17", 1, 0xffff888000002000);
    put_old_done(&h, 1050, 0xffff888000001000);
    put_old_done(&h, 1060, 0xffff888000002000);
    next_end(&h);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpus->len, 1);
    const struct vg_gpu_sample *gpu =
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, CARD_XE, "rcs");
    assert_int_equal(gpu->requests, 2);
    assert_int_equal(gpu->busy_ns, 40 * MS);
    assert_int_equal(gpu->exec_ns, 40 * MS);
    assert_int_equal(gpu->wait_ns, 50 * MS);
    assert_int_equal(h.window.gpus->len, 1);
    end(&h);
}

/* A card appears after its tracepoints: until then it has the name that the record gives it. */
static void
test_card_appears(void **state)
{
    struct host h;

    begin_host(&h, *state);
    put_card(&h, 1, CARD_XE, "xe", true);
    put_i915(&h);
    begin_source(&h, 0);
    assert_true(h.source->ops->ready(h.source, h.now_ns));
    for (int64_t ms = 1000; ms < 1200; ms += 100) {
        uint32_t seqno = ms == 1000 ? 1 : 2;
        next_begin(&h);
        put_i915_request(&h, 0, ms + 10, I915_QUEUE, QEMU, QEMU_TID, seqno, 0);
        put_i915_request(&h, 0, ms + 20, I915_IN, 0, 0, seqno, 0);
        put_i915_request(&h, 0, ms + 50, I915_OUT, 0, 0, seqno, 1);
        if (ms == 1000)
            put_card(&h, 0, DEVICE, "i915", true);
        next_end(&h);
        const char *name = ms == 1000 ? "card0" : DEVICE;
        assert_int_equal(
            window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, name, "rcs0")->busy_ns,
            30 * MS);
    }
    end(&h);
}

/* ---- losses ---- */

/* A request that is open when records are lost is partial from then on, and nothing else; one that
 * comes after the loss is none of them. */
static void
test_loss(void **state)
{
    struct host h;

    begin(&h, *state);
    next_begin(&h);
    put_job(&h, 0, 1010, QUEUE, QEMU, QEMU_TID, 1);
    put_job(&h, 0, 1020, RUN, KWORKER, KWORKER, 1);
    put_lost(&h, 0, 1090, 12);
    next_end(&h);
    assert_int_equal(h.window.lost_events, 12);
    expect_text(
        &h, true,
        "7 of gpu_scheduler, i915, dma_fence, whose events came faster than they were read");
    const struct vg_gpu_sample *gpu =
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx");
    assert_int_equal(gpu->busy_ns, 0);
    assert_int_equal(gpu->wait_ns, 10 * MS);
    assert_int_equal(gpu->partial, 1);
    assert_true(gpu->confidence > 0 && gpu->confidence < 0.5);
    assert_int_equal(gpu->open, 0);
    for (int i = 0; i < 55; i++) {
        next(&h);
        assert_int_equal(h.window.lost_events, 0);
        gpu = window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx");
        assert_int_equal(gpu->busy_ns, 0);
        assert_int_equal(gpu->partial, 0);
        assert_int_equal(gpu->open, 0);
    }
    assert_true(window_gpu_find(h.window.gpus, DEVICE, "gfx")->confidence >= 1);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 0);
    expect_text(&h, false, "7 of gpu_scheduler, i915, dma_fence");
    next_begin(&h);
    int64_t ms = h.window.begin_ns / MS;
    put_lost(&h, 0, ms + 1, 1);
    next_end(&h);
    put_job(&h, 0, ms + 105, QUEUE, QEMU, QEMU_TID, 9);
    put_job(&h, 0, ms + 110, RUN, KWORKER, KWORKER, 9);
    for (unsigned i = 0; i < 60; i++)
        next(&h);
    assert_int_equal(window_gpu_find(h.window.gpus, DEVICE, "gfx")->busy_ns, WINDOW_NS);
    end(&h);
}

/* A full ring has no room for the record of what was lost. */
static void
test_full_ring(void **state)
{
    struct host h;

    begin(&h, *state);
    next_begin(&h);
    h.lost = 3;
    for (uint64_t n = 1; page_of(&h, 0)->data_head + 112 <= DATA_BYTES; n++)
        put_job(&h, 0, 1010, QUEUE, QEMU, QEMU_TID, n);
    next_end(&h);
    assert_int_equal(h.window.lost_events, 3);
    assert_int_equal(page_of(&h, 0)->data_tail, page_of(&h, 0)->data_head);
    assert_in_range(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->queue_len_max, 30,
        40);
    next(&h);
    assert_int_equal(h.window.lost_events, 0);
    end(&h);
}

static void
test_damage(void **state)
{
    struct host h;
    const struct perf_event_header bad = {PERF_RECORD_SAMPLE, 0, 7};

    begin(&h, *state);
    next_begin(&h);
    put_done(&h, 0, 1010, 1, 1);
    write_record(&h, 0, &bad, sizeof(bad));
    next_end(&h);
    assert_int_equal(h.window.lost_events, 1);
    assert_int_equal(h.window.discontinuities, 1);
    end(&h);
}

/* ---- what it costs ---- */

static void
test_budget(void **state)
{
    struct host h;
    g_autoptr(GString) text = g_string_new(NULL);

    begin_host(&h, *state);
    put_card(&h, 0, DEVICE, "i915", true);
    put_scheduler(&h);
    begin_source(&h, 1e-9);
    for (int64_t off_ns = 30 * S; off_ns <= 120 * S; off_ns *= 2) {
        assert_true(h.source->ops->ready(h.source, h.now_ns));
        for (unsigned i = 0; i < 3; i++) {
            assert_non_null(h.merge);
            next_begin(&h);
            put_done(&h, 0, h.window.begin_ns / MS + 10, 401, 1);
            next_end(&h);
            assert_int_equal(h.source->ops->spent_ns(h.source), VG_PERF_RECORD_NS);
        }
        assert_null(h.merge);
        /* fdinfo goes on, as without them. */
        assert_false(h.source->ops->ready(h.source, h.now_ns));
        assert_true(h.source->ops->describe(h.source, g_string_truncate(text, 0)));
        assert_true(g_str_has_prefix(text->str, "paused: they took "));
        assert_non_null(strstr(text->str, " more than the budget of 1e-07 %"));
        assert_false(h.source->ops->ready(h.source, h.now_ns + off_ns - 1));
        h.now_ns += off_ns;
        /* The clock that is waited for is the kernel's. */
        if (h.now_ns + S > vg_clock_monotonic_ns())
            break;
    }
    end(&h);
}

/* ---- who is there ---- */

static void
test_driver_is_loaded(void **state)
{
    struct host h;

    begin_host(&h, *state);
    begin_source(&h, 0);
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    expect_text(&h, false, "no DRM driver has a render node here");
    put_card(&h, 0, DEVICE, "i915", true);
    put_tracepoint(&h, "dma_fence/dma_fence_signaled", FENCE, FENCE_FORMAT);
    /* Fences alone tell of no request. */
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    expect_text(&h, false, "no loaded GPU driver has tracepoints for requests");
    put_i915(&h);
    assert_false(h.source->ops->ready(h.source, h.now_ns + 9 * S));
    h.now_ns += 10 * S;
    assert_true(h.source->ops->ready(h.source, h.now_ns));
    expect_text(&h, false, "4 of i915, dma_fence");
    assert_int_equal(h.opened, 1);
    /* And another one, while they are open. */
    put_scheduler(&h);
    next(&h);
    assert_int_equal(h.opened, 1);
    h.now_ns += 10 * S;
    next(&h);
    assert_int_equal(h.opened, 2);
    expect_text(&h, false, "7 of gpu_scheduler, i915, dma_fence");
    next_begin(&h);
    int64_t ms = h.window.begin_ns / MS;
    put_job(&h, 0, ms + 10, QUEUE, QEMU, QEMU_TID, 1);
    put_job(&h, 0, ms + 20, RUN, KWORKER, KWORKER, 1);
    put_done(&h, 0, ms + 50, 401, 1);
    next_end(&h);
    assert_int_equal(
        window_gpu_find(window_gpu_vm(&h.window, h.vm.id)->gpus, DEVICE, "gfx")->busy_ns, 30 * MS);
    end(&h);
}

static void
test_no_permission(void **state)
{
    struct host h;

    begin_host(&h, *state);
    put_card(&h, 0, DEVICE, "i915", true);
    put_i915(&h);
    h.refuses = true;
    begin_source(&h, 0);
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    expect_text(&h, true, "one must not look");
    h.refuses = false;
    assert_false(h.source->ops->ready(h.source, h.now_ns + 30 * S - 1));
    assert_true(h.source->ops->ready(h.source, h.now_ns + 30 * S));
    expect_text(&h, false, "4 of i915, dma_fence");
    end(&h);
}

/* Nothing is told twice. */
static void
test_which_tracepoints(void **state)
{
    struct host h;
    g_autoptr(GString) text = g_string_new(NULL);

    begin_host(&h, *state);
    put_tracepoint(&h, "xe/xe_sched_job_run", 1, DONE_FORMAT);
    put_tracepoint(&h, "amdgpu/amdgpu_cs_ioctl", 2, DONE_FORMAT);
    put_tracepoint(&h, "gvt/gvt_command", 3, DONE_FORMAT);
    put_tracepoint(&h, "gvt/render_mmio", 4, DONE_FORMAT);
    GArray *found = vg_gpu_tracepoints_find(h.tracefs);
    vg_gpu_tracepoints_describe(found, text);
    assert_string_equal(text->str, "gvt, amdgpu, xe");
    assert_int_equal(found->len, 3);
    g_array_unref(found);
    put_old_scheduler(&h);
    found = vg_gpu_tracepoints_find(h.tracefs);
    vg_gpu_tracepoints_describe(found, g_string_truncate(text, 0));
    assert_string_equal(text->str, "gpu_scheduler, gvt, amdgpu");
    g_array_unref(found);
    put_scheduler(&h);
    found = vg_gpu_tracepoints_find(h.tracefs);
    vg_gpu_tracepoints_describe(found, g_string_truncate(text, 0));
    assert_string_equal(text->str, "gpu_scheduler, gvt");
    g_array_unref(found);
    begin_source(&h, 0);
    end(&h);
}

/* ---- the kernel here ---- */

/* Mounts a file system of the kernel where nobody else sees it. */
static bool
mount_here(const char *type, const char *path)
{
    return g_mkdir_with_parents(path, 0700) == 0 && mount(type, path, type, 0, NULL) == 0;
}

static bool
may_mount(void)
{
    if (unshare(CLONE_NEWNS) == 0 && mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0)
        return true;
    print_message("# no mount namespace of one's own: %s\n", strerror(errno));
    return false;
}

/* From linux/sync_file's test driver, drivers/dma-buf/sw_sync.c. */
struct sw_sync_fence {
    uint32_t value;
    char name[32];
    int32_t fence;
};
#define SW_SYNC_CREATE _IOWR('W', 0, struct sw_sync_fence)
#define SW_SYNC_INC    _IOW('W', 1, uint32_t)

/* Signals so many fences. false: this kernel has nothing to do it with. */
static bool
signal_fences(const char *debugfs, uint32_t n)
{
    g_autofree char *path = g_build_filename(debugfs, "sync", "sw_sync", NULL);
    int timeline = mount_here("debugfs", debugfs) ? open(path, O_RDWR | O_CLOEXEC) : -1;

    for (uint32_t i = 1; timeline >= 0 && i <= n; i++) {
        struct sw_sync_fence fence = {.value = i, .name = "vgpud"};
        const uint32_t one = 1;
        assert_int_equal(ioctl(timeline, SW_SYNC_CREATE, &fence), 0);
        assert_int_equal(ioctl(timeline, SW_SYNC_INC, &one), 0);
        close(fence.fence);
    }
    if (timeline >= 0)
        close(timeline);
    return timeline >= 0;
}

static void
test_fences_of_this_kernel(void **state)
{
    static const struct vg_perf_tracepoint tracepoints[] = {{"dma_fence/dma_fence_signaled", false},
                                                            {"nobody/has_this", true}};
    static const struct vg_perf_set set = {
        .tracepoints = tracepoints, .n = 2, .ring_bytes = 64 * 1024, .all_bytes = 1024 * 1024};
    g_autofree char *tracefs = g_build_filename(*state, "tracing", NULL);
    g_autofree char *debugfs = g_build_filename(*state, "debug", NULL);
    g_autoptr(GError) err = NULL;
    struct vg_event event;
    unsigned signaled = 0;

    if (!may_mount() || !mount_here("tracefs", tracefs)) {
        print_message("# no tracefs\n");
        skip();
    }
    vg_perf_merge *merge = vg_perf_merge_new();
    vg_perf_events *events = vg_perf_events_open(merge, tracefs, &set, true, &err);
    if (!events) {
        print_message("# no perf events: %s\n", err->message);
        vg_perf_merge_free(merge);
        umount2(tracefs, MNT_DETACH);
        skip();
    }
    assert_false(vg_perf_events_see_optional(events));
    assert_false(vg_perf_events_see_arrivals(events));
    bool could = signal_fences(debugfs, 64);
    vg_perf_merge_look(merge, vg_perf_events_lost, events);
    while (vg_perf_merge_next(merge, INT64_MAX, &event))
        signaled += event.type == VG_EVENT_GPU && event.gpu.op == VG_GPU_DONE;
    if (could)
        assert_true(signaled > 0);
    else
        print_message("# no sw_sync in this kernel: nothing to signal fences with\n");
    vg_perf_events_free(events);
    vg_perf_merge_free(merge);
    umount2(debugfs, MNT_DETACH);
    umount2(tracefs, MNT_DETACH);
}

/* Whatever there is: it is opened and read, or it is said why not. */
static void
test_tracepoints_of_this_kernel(void **state)
{
    struct host h;
    g_autoptr(GString) text = g_string_new(NULL);
    int64_t now_ns = vg_clock_monotonic_ns();

    begin_host(&h, *state);
    put_card(&h, 0, DEVICE, "i915", true);
    if (!may_mount() || !mount_here("tracefs", h.tracefs))
        print_message("# no tracefs\n");
    const struct vg_gpu_trace_options options = {
        .proc = "/proc", .drm = h.drm, .tracefs = h.tracefs, .budget = 1};
    h.source = vg_gpu_trace_new(&options);
    h.now_ns = now_ns;
    bool opened = h.source->ops->ready(h.source, now_ns);
    for (unsigned i = 0; opened && i < 3; i++) {
        assert_true(h.source->ops->fd(h.source) >= 0);
        next(&h);
    }
    h.source->ops->describe(h.source, text);
    print_message("# %s\n", text->str);
    assert_true(text->len > 0);
    umount2(h.tracefs, MNT_DETACH);
    end(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_PROC_TEST(test_scheduler),
        FAKE_PROC_TEST(test_i915),
        FAKE_PROC_TEST(test_owners),
        FAKE_PROC_TEST(test_vms_come_and_go),
        FAKE_PROC_TEST(test_tracepoints_lead),
        FAKE_PROC_TEST(test_rows_of_requests),
        FAKE_PROC_TEST(test_names_of_cards),
        FAKE_PROC_TEST(test_queues_of_xe),
        FAKE_PROC_TEST(test_card_appears),
        FAKE_PROC_TEST(test_loss),
        FAKE_PROC_TEST(test_full_ring),
        FAKE_PROC_TEST(test_damage),
        FAKE_PROC_TEST(test_budget),
        FAKE_PROC_TEST(test_driver_is_loaded),
        FAKE_PROC_TEST(test_no_permission),
        FAKE_PROC_TEST(test_which_tracepoints),
        FAKE_PROC_TEST(test_fences_of_this_kernel),
        FAKE_PROC_TEST(test_tracepoints_of_this_kernel),
    };

    return cmocka_run_group_tests_name("gpu-trace", tests, idle_thread_start, idle_thread_stop);
}
