/* SPDX-License-Identifier: Apache-2.0
 *
 * The render servers of VMs, in a /proc of files.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "tests/unit/fake-proc.h"
#include "tests/unit/idle-thread.h"
#include "tests/unit/window-gpu.h"

#define S  VG_NS_PER_S
#define MS VG_NS_PER_MS

#define PID     100
#define SERVER  110
#define CONTEXT 111
#define OTHER   112

struct host {
    const char *proc;
    char *drm;
    vg_gpu_source *source;
    struct vg_proc_vm vm;
    GPtrArray *vms;
    int64_t now_ns;
    struct vg_window window; /* the newest */
};

static void
begin(struct host *h, const char *proc)
{
    g_autofree char *node = g_build_filename(proc, "drm", "renderD128", NULL);

    *h = (struct host){.proc = proc, .now_ns = 1000 * S, .vm = {.pid = PID, .name = "vm"}};
    h->drm = g_build_filename(proc, "drm", NULL);
    assert_int_equal(g_mkdir_with_parents(node, 0700), 0);
    h->source = vg_gpu_venus_new(proc, h->drm);
    h->vm.helpers = g_array_new(FALSE, FALSE, sizeof(int32_t));
    h->vms = g_ptr_array_new();
    g_ptr_array_add(h->vms, &h->vm);
    vg_window_init(&h->window, false);
}

static void
end(struct host *h)
{
    h->source->ops->close(h->source);
    vg_gpu_source_free(h->source);
    g_ptr_array_unref(h->vms);
    g_array_unref(h->vm.helpers);
    vg_window_clear(&h->window);
    g_free(h->drm);
}

/* Writes the files of a helper; times are in ms, of which a tick is 1000 / ticks per second. */
static void
put(struct host *h, int32_t pid, const char *comm, char state, int64_t cpu_ms, int64_t child_ms,
    unsigned mib)
{
    const int64_t tick_ms = 1000 / sysconf(_SC_CLK_TCK);
    g_autofree char *dir = g_strdup_printf("%s/%d", h->proc, pid);
    g_autofree char *stat_path = g_build_filename(dir, "stat", NULL);
    g_autofree char *status_path = g_build_filename(dir, "status", NULL);
    g_autofree char *stat =
        g_strdup_printf("%d (%s) %c 1 1 1 0 -1 4194304 10 0 0 0 %d %d %d %d 20 0 1 0 5 0 0\n", pid,
                        comm, state, (int)(cpu_ms / tick_ms), 0, (int)(child_ms / tick_ms), 0);
    g_autofree char *status = g_strdup_printf("Name:\t%s\nVmRSS:\t999999 kB\nRssAnon:\t%u kB\n"
                                              "RssFile:\t77777 kB\nRssShmem:\t%u kB\n",
                                              comm, mib * 1024 / 2, mib * 1024 / 2);

    assert_int_equal(g_mkdir_with_parents(dir, 0700), 0);
    fake_proc_write(stat_path, stat, strlen(stat));
    fake_proc_write(status_path, status, strlen(status));
    for (guint i = 0; i < h->vm.helpers->len; i++)
        if (g_array_index(h->vm.helpers, int32_t, i) == pid)
            return;
    g_array_append_val(h->vm.helpers, pid);
}

static void
take_away(struct host *h, int32_t pid)
{
    g_autofree char *dir = g_strdup_printf("%s/%d", h->proc, pid);

    fake_proc_remove(dir);
    for (guint i = h->vm.helpers->len; i > 0; i--)
        if (g_array_index(h->vm.helpers, int32_t, i - 1) == pid)
            g_array_remove_index(h->vm.helpers, i - 1);
}

/* One window later. told: what others say that the VM did, or NULL. */
static void
next_after(struct host *h, const struct vg_gpu_sample *told)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->window.begin_ns = h->now_ns;
    h->now_ns += S;
    h->window.end_ns = h->now_ns;
    if (told)
        vg_gpu_window_add(vg_gpu_window_vm(&h->window, &h->vm)->gpus, told);
    assert_true(h->source->ops->ready(h->source, h->now_ns));
    h->source->ops->read(h->source, h->vms, idle_thread, h->now_ns, &h->window);
    vg_gpu_window_finish(&h->window);
}

static void
next(struct host *h)
{
    next_after(h, NULL);
}

/* Returns what is told of the VM, which must be. */
static const struct vg_gpu_sample *
of_vm(struct host *h)
{
    return window_gpu_find(window_gpu_vm(&h->window, h->vm.id)->gpus, "venus", "cpu");
}

static bool
is_silent(const struct host *h)
{
    return h->window.vms->len == 0 && h->window.gpus->len == 0;
}

static void
test_cpu_contexts_and_memory(void **state)
{
    struct host h;

    begin(&h, *state);
    put(&h, SERVER, "virgl_render_se", 'S', 50, 0, 2);
    put(&h, CONTEXT, "virgl-1-vkcube", 'R', 7000, 0, 40);
    put(&h, OTHER, "virtiofsd", 'R', 500, 0, 1000);
    next(&h);
    /* What came before the first reading is not told. */
    assert_int_equal(of_vm(&h)->busy_ns, 0);
    assert_int_equal(of_vm(&h)->contexts, 1);
    assert_int_equal(of_vm(&h)->lacks, VG_GPU_ONLY_WORK);
    assert_int_equal(of_vm(&h)->mem_bytes, 42 << 20);

    put(&h, SERVER, "virgl_render_se", 'S', 60, 0, 2);
    put(&h, CONTEXT, "virgl-1-vkcube", 'R', 7300, 0, 40);
    put(&h, OTHER, "virtiofsd", 'R', 1500, 0, 1000);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, 310 * MS);
    assert_int_equal(of_vm(&h)->exec_ns, 310 * MS);
    assert_int_equal(of_vm(&h)->requests, 0);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 310 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, "venus", "cpu")->exec_ns, 310 * MS);

    /* Several threads take more than a window has. */
    put(&h, CONTEXT, "virgl-1-vkcube", 'R', 9300, 0, 60);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, S);
    assert_int_equal(of_vm(&h)->exec_ns, 2 * S);
    assert_int_equal(of_vm(&h)->mem_bytes, 62 << 20);
    end(&h);
}

/* A context that ends leaves its time to the server; nothing is lost, and nothing counts twice. */
static void
test_context_ends(void **state)
{
    struct host h;

    begin(&h, *state);
    put(&h, SERVER, "virgl_render_se", 'S', 50, 0, 2);
    put(&h, CONTEXT, "virgl-1-a", 'R', 1000, 0, 40);
    put(&h, OTHER, "virgl-2-b", 'R', 500, 0, 8);
    next(&h);
    assert_int_equal(of_vm(&h)->contexts, 2);
    /* It has run for 100 ms more, and nobody has waited for it yet. */
    put(&h, CONTEXT, "virgl-1-a", 'Z', 1100, 0, 0);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, 100 * MS);
    assert_int_equal(of_vm(&h)->contexts, 1);
    take_away(&h, CONTEXT);
    put(&h, SERVER, "virgl_render_se", 'S', 50, 1100, 2);
    put(&h, OTHER, "virgl-2-b", 'R', 700, 0, 8);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, 200 * MS);
    assert_int_equal(of_vm(&h)->mem_bytes, 10 << 20);
    /* One that nobody waits for takes its time with it: never less than nothing. */
    take_away(&h, OTHER);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, 0);
    put(&h, SERVER, "virgl_render_se", 'S', 90, 1100, 2);
    next(&h);
    assert_int_equal(of_vm(&h)->busy_ns, 40 * MS);
    assert_int_equal(of_vm(&h)->contexts, 0);
    end(&h);
}

/* Where a driver tells what the VM has of a GPU, CPU time is no GPU time. */
static void
test_driver_tells(void **state)
{
    const struct vg_gpu_sample told = {.device = "0000:03:00.0", .engine = "gfx", .busy_ns = 5};
    const struct vg_gpu_sample proxied = {.device = "H100", .engine = "opencl", .busy_ns = 5};
    const struct vg_gpu_sample idle = {.device = "0000:03:00.0", .engine = "gfx"};
    struct host h;

    begin(&h, *state);
    put(&h, SERVER, "virgl_render_se", 'S', 50, 0, 2);
    put(&h, CONTEXT, "virgl-1-a", 'R', 1000, 0, 40);
    next_after(&h, &told);
    put(&h, CONTEXT, "virgl-1-a", 'R', 1500, 0, 40);
    next_after(&h, &told);
    assert_int_equal(of_vm(&h)->busy_ns, 0);
    assert_int_equal(of_vm(&h)->lacks, VG_GPU_ONLY_WORK | VG_GPU_NO_WORK);
    assert_int_equal(of_vm(&h)->contexts, 1);
    assert_int_equal(of_vm(&h)->mem_bytes, 42 << 20);
    put(&h, CONTEXT, "virgl-1-a", 'R', 1600, 0, 40);
    next_after(&h, &idle);
    assert_int_equal(of_vm(&h)->busy_ns, 100 * MS);
    assert_int_equal(of_vm(&h)->lacks, VG_GPU_ONLY_WORK);
    /* Programs of OpenCL that a proxy serves are others. */
    put(&h, CONTEXT, "virgl-1-a", 'R', 1700, 0, 40);
    next_after(&h, &proxied);
    assert_int_equal(of_vm(&h)->busy_ns, 100 * MS);
    end(&h);
}

static void
test_nothing_to_see(void **state)
{
    g_autoptr(GString) text = g_string_new(NULL);
    struct host h;

    begin(&h, *state);
    next(&h);
    assert_true(is_silent(&h));
    assert_false(h.source->ops->describe(h.source, text));
    assert_string_equal(text->str, "no VM has a render server");
    put(&h, OTHER, "virtiofsd", 'R', 500, 0, 10);
    next(&h);
    assert_true(is_silent(&h));
    /* All that it has done, it has done since the last reading. */
    put(&h, SERVER, "virgl_render_se", 'S', 50, 0, 2);
    next(&h);
    assert_int_equal(of_vm(&h)->contexts, 0);
    assert_int_equal(of_vm(&h)->busy_ns, 50 * MS);
    g_string_truncate(text, 0);
    assert_false(h.source->ops->describe(h.source, text));
    assert_non_null(strstr(text->str, "1 VM with a render server, 0 contexts; its CPU time"));
    fake_proc_remove(h.drm);
    assert_false(h.source->ops->ready(h.source, h.now_ns));
    g_string_truncate(text, 0);
    assert_false(h.source->ops->describe(h.source, text));
    assert_string_equal(text->str, "this host has no render node");
    end(&h);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_PROC_TEST(test_cpu_contexts_and_memory),
        FAKE_PROC_TEST(test_context_ends),
        FAKE_PROC_TEST(test_driver_tells),
        FAKE_PROC_TEST(test_nothing_to_see),
    };

    return cmocka_run_group_tests(tests, idle_thread_start, idle_thread_stop);
}
