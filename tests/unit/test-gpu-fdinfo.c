/* SPDX-License-Identifier: Apache-2.0
 *
 * What DRM drivers tell of open files: the text of several drivers, odd text, and a fake /proc
 * whose clients come, share descriptors, fall back and go.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/fdinfo-text.h"
#include "collectors/gpu-source.h"
#include "collectors/gpu-window.h"
#include "collectors/gpu.h"
#include "host/proc-scan.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-proc.h"
#include "tests/unit/idle-thread.h"
#include "tests/unit/window-gpu.h"

#define S      VG_NS_PER_S
#define MS     VG_NS_PER_MS
#define PID    100
#define DEVICE "0000:03:00.0"

/* ---- the text ---- */

/* As i915 writes it, with what every file has before. */
static const char i915[] = "pos:\t0\n"
                           "flags:\t02100002\n"
                           "mnt_id:\t26\n"
                           "ino:\t685\n"
                           "drm-driver:\ti915\n"
                           "drm-client-id:\t7\n"
                           "drm-pdev:\t0000:00:02.0\n"
                           "drm-total-system0:\t12 MiB\n"
                           "drm-shared-system0:\t4 MiB\n"
                           "drm-resident-system0:\t8192 KiB\n"
                           "drm-total-stolen-system0:\t0\n"
                           "drm-engine-render:\t9288864723 ns\n"
                           "drm-engine-copy:\t2035071108 ns\n"
                           "drm-engine-video:\t0 ns\n"
                           "drm-engine-capacity-video:\t2\n"
                           "drm-engine-video-enhance:\t0 ns\n";

static const char xe[] = "drm-driver:\txe\n"
                         "drm-client-id:\t3\n"
                         "drm-pdev:\t0000:03:00.0\n"
                         "drm-total-system:\t0\n"
                         "drm-total-gtt:\t192 KiB\n"
                         "drm-resident-gtt:\t192 KiB\n"
                         "drm-total-vram0:\t23992 KiB\n"
                         "drm-shared-vram0:\t16 MiB\n"
                         "drm-resident-vram0:\t23000 KiB\n"
                         "drm-cycles-rcs:\t28257900\n"
                         "drm-total-cycles-rcs:\t7655183225\n"
                         "drm-cycles-vcs:\t5\n"
                         "drm-total-cycles-vcs:\t7655183225\n"
                         "drm-engine-capacity-vcs:\t2\n";

static const struct vg_fdinfo_engine *
engine_of(const struct vg_fdinfo *info, const char *name)
{
    static const struct vg_fdinfo_engine none;

    for (unsigned i = 0; i < info->n_engines; i++) {
        if (strcmp(info->engines[i].name, name) == 0)
            return &info->engines[i];
    }
    fail_msg("no engine %s", name);
    return &none;
}

static void
test_text_of_i915(void **state)
{
    struct vg_fdinfo info;

    (void)state;
    assert_true(vg_fdinfo_parse(i915, &info));
    assert_string_equal(info.driver, "i915");
    assert_string_equal(info.device, "0000:00:02.0");
    assert_true(info.has_client);
    assert_int_equal(info.client, 7);
    assert_int_equal(info.n_engines, 4);
    assert_true(engine_of(&info, "render")->has_busy);
    assert_int_equal(engine_of(&info, "render")->busy_ns, 9288864723);
    assert_int_equal(engine_of(&info, "render")->capacity, 1);
    assert_int_equal(engine_of(&info, "video")->capacity, 2);
    assert_int_equal(engine_of(&info, "video-enhance")->busy_ns, 0);
    /* It has no memory of its own: what is resident counts, not what was requested. */
    assert_int_equal(info.memory_bytes, 8192 * 1024);
}

static void
test_text_of_xe(void **state)
{
    struct vg_fdinfo info;

    (void)state;
    assert_true(vg_fdinfo_parse(xe, &info));
    assert_int_equal(info.n_engines, 2);
    const struct vg_fdinfo_engine *rcs = engine_of(&info, "rcs");
    assert_false(rcs->has_busy);
    assert_true(rcs->has_cycles);
    assert_int_equal(rcs->cycles, 28257900);
    assert_int_equal(rcs->total_cycles, 7655183225);
    assert_int_equal(engine_of(&info, "vcs")->capacity, 2);
    /* Its own memory, without that of the host. */
    assert_int_equal(info.memory_bytes, 23000 * 1024);
}

static void
test_text_of_amdgpu(void **state)
{
    struct vg_fdinfo info;

    (void)state;
    assert_true(vg_fdinfo_parse("drm-driver:\tamdgpu\ndrm-client-id: 12\ndrm-pdev: 0000:C3:00.0\n"
                                "drm-memory-vram:\t2048 KiB\ndrm-memory-gtt:  100 KiB\n"
                                "amd-evicted-vram:\t7 KiB\ndrm-engine-gfx:\t55 ns\n",
                                &info));
    assert_string_equal(info.device, "0000:c3:00.0");
    assert_int_equal(info.memory_bytes, 2048 * 1024);
    assert_int_equal(info.n_engines, 1);
    /* A device that is on no PCI bus has the name of its driver. */
    assert_true(vg_fdinfo_parse("drm-driver: v3d\ndrm-client-id: 1\n", &info));
    assert_string_equal(info.device, "v3d");
    assert_int_equal(info.n_engines, 0);
}

static void
test_odd_text(void **state)
{
    struct vg_fdinfo info;
    g_autoptr(GString) many = g_string_new("drm-driver: x\n");

    (void)state;
    assert_false(vg_fdinfo_parse("", &info));
    assert_false(vg_fdinfo_parse("pos:\t0\nflags:\t02\n", &info));
    assert_false(vg_fdinfo_parse("drm-driver:\n", &info));
    assert_true(vg_fdinfo_parse(
        "drm-driver: x\n:\n\n   \nno colon\ndrm-engine-: 5 ns\ndrm-engine-a: 5 parsecs\n"
        "drm-engine-b: -5 ns\ndrm-engine-c: 99999999999999999999 ns\ndrm-engine-d:\n"
        "drm-engine-capacity-e: 3\ndrm-cycles-f: 9\ndrm-engine-g: 18446744073709551615 ns\n"
        "drm-engine-a-name-that-is-longer-than-any-other-that-a-driver-has-ever-given-it: 5 ns\n"
        "drm-engine-\xc3\xa9: 5 ns\n"
        "drm-memory-vram: 99999999999999999 GiB\ndrm-client-id: x",
        &info));
    assert_int_equal(info.n_engines, 1);
    assert_string_equal(info.engines[0].name, "g");
    assert_int_equal(info.engines[0].busy_ns, UINT64_MAX);
    assert_false(info.has_client);
    assert_int_equal(info.memory_bytes, 0);
    /* What is too much is left out. */
    for (unsigned i = 0; i <= VG_FDINFO_ENGINES_MAX; i++)
        g_string_append_printf(many, "drm-engine-e%u: %u ns\ndrm-memory-r%u: 9000000000 GiB\n", i,
                               i, i);
    assert_true(vg_fdinfo_parse(many->str, &info));
    assert_int_equal(info.n_engines, VG_FDINFO_ENGINES_MAX);
    assert_in_range(info.memory_bytes, 1, INT64_MAX);
    /* Zero is not allowed, and nothing is divided by it. */
    assert_true(
        vg_fdinfo_parse("drm-driver: x\ndrm-engine-a: 5 ns\ndrm-engine-capacity-a: 0\n", &info));
    assert_int_equal(info.engines[0].capacity, 1);
}

/* ---- a fake /proc ---- */

struct host {
    const char *proc;
    char *drm; /* of a render node; made below proc */
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
    h->source = vg_gpu_fdinfo_new(proc, h->drm);
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
    vg_window_clear(&h->window);
    g_free(h->drm);
}

/* Opens, or writes anew, a descriptor of a process. */
static void
put_fd(const struct host *h, int pid, int fd, const char *target, const char *fdinfo)
{
    g_autofree char *links = g_strdup_printf("%s/%d/fd", h->proc, pid);
    g_autofree char *infos = g_strdup_printf("%s/%d/fdinfo", h->proc, pid);
    g_autofree char *link = g_strdup_printf("%s/%d", links, fd);
    g_autofree char *info = g_strdup_printf("%s/%d", infos, fd);

    g_mkdir_with_parents(links, 0700);
    g_mkdir_with_parents(infos, 0700);
    unlink(link);
    assert_int_equal(symlink(target, link), 0);
    fake_proc_write(info, fdinfo, strlen(fdinfo));
}

static void
close_fd(const struct host *h, int pid, int fd)
{
    g_autofree char *link = g_strdup_printf("%s/%d/fd/%d", h->proc, pid, fd);
    g_autofree char *info = g_strdup_printf("%s/%d/fdinfo/%d", h->proc, pid, fd);

    assert_int_equal(unlink(link), 0);
    assert_int_equal(unlink(info), 0);
}

static void
put_client(const struct host *h, int pid, int fd, unsigned client, int64_t busy_ns)
{
    g_autofree char *text =
        g_strdup_printf("pos: 0\ndrm-driver: i915\ndrm-pdev: %s\ndrm-client-id: %u\n"
                        "drm-engine-render: %" G_GINT64_FORMAT " ns\ndrm-resident-local0: 10 MiB\n",
                        DEVICE, client, busy_ns);

    put_fd(h, pid, fd, "/dev/dri/renderD128", text);
}

/* One window later. */
static void
next(struct host *h)
{
    vg_window_clear(&h->window);
    vg_window_init(&h->window, false);
    h->window.begin_ns = h->now_ns;
    h->now_ns += S;
    h->window.end_ns = h->now_ns;
    assert_true(h->source->ops->ready(h->source, h->now_ns));
    h->source->ops->read(h->source, h->vms, idle_thread, h->now_ns, &h->window);
    vg_gpu_window_finish(&h->window);
}

static const struct vg_gpu_sample *
engine_of_vm(struct host *h, const char *engine)
{
    return window_gpu_find(window_gpu_vm(&h->window, h->vm.id)->gpus, NULL, engine);
}

static void
test_two_clients_add_up(void **state)
{
    struct host h;

    begin(&h, *state);
    put_client(&h, PID, 5, 1, 7 * S);
    put_client(&h, PID, 9, 2, 0);
    /* Others that a QEMU has. */
    put_fd(&h, PID, 0, "/dev/null", "pos: 0\n");
    put_fd(&h, PID, 1, "socket:[1234]", "pos: 0\n");
    put_fd(&h, PID, 2, "anon_inode:kvm-vcpu:0", "pos: 0\n");
    /* A disk with the name of a card. */
    put_fd(&h, PID, 3, "/images/card0.qcow2", "pos: 0\n");
    next(&h);
    /* They count from their first reading on. */
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 0);
    put_client(&h, PID, 5, 1, 7 * S + 300 * MS);
    put_client(&h, PID, 9, 2, 100 * MS);
    next(&h);
    const struct vg_gpu_sample *gpu = engine_of_vm(&h, "render");
    assert_string_equal(gpu->device, DEVICE);
    assert_int_equal(gpu->busy_ns, 400 * MS);
    assert_int_equal(gpu->exec_ns, 400 * MS);
    assert_int_equal(gpu->mem_bytes, 20 << 20);
    assert_int_equal(gpu->mem_peak_bytes, 20 << 20);
    const struct vg_vm_sample *vm = window_gpu_vm(&h.window, h.vm.id);
    assert_int_equal(vm->gpu_active_ns, 400 * MS);
    assert_int_equal(vm->pid, PID);
    assert_string_equal(vm->name, "vm");
    assert_int_equal(h.window.gpus->len, 1);
    assert_int_equal(window_gpu_find(h.window.gpus, NULL, "render")->busy_ns, 400 * MS);
    assert_int_equal(window_gpu_find(h.window.gpus, NULL, "render")->mem_bytes, 20 << 20);
    /* Two at once cannot make one engine busier than always. */
    put_client(&h, PID, 5, 1, 8 * S + 200 * MS);
    put_client(&h, PID, 9, 2, 900 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, S);
    assert_int_equal(engine_of_vm(&h, "render")->exec_ns, 1700 * MS);
    end(&h);
}

/* Several descriptors of one client, also in another process, are one client. */
static void
test_shared_descriptors(void **state)
{
    struct host h;
    struct vg_proc_vm other = {.id = 1, .pid = PID + 1, .name = "other"};

    begin(&h, *state);
    g_ptr_array_add(h.vms, &other);
    for (int64_t busy_ns = 0; busy_ns <= 200 * MS; busy_ns += 200 * MS) {
        put_client(&h, PID, 5, 1, busy_ns);
        put_client(&h, PID, 6, 1, busy_ns);
        put_client(&h, PID, 7, 1, busy_ns);
        put_client(&h, PID + 1, 5, 1, busy_ns);
        next(&h);
    }
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 200 * MS);
    assert_null(vg_window_find_vm(&h.window, 1));
    assert_int_equal(window_gpu_find(h.window.gpus, NULL, "render")->busy_ns, 200 * MS);
    /* The one that was read is closed: another one goes on. */
    close_fd(&h, PID, 5);
    put_client(&h, PID, 6, 1, 500 * MS);
    put_client(&h, PID, 7, 1, 500 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 300 * MS);
    end(&h);
}

/* A VM's GPU work may be done by what its QEMU has started. */
static void
test_helpers_work_for_their_vm(void **state)
{
    struct host h;
    int32_t helper = PID + 1;

    begin(&h, *state);
    h.vm.helpers = g_array_new(FALSE, FALSE, sizeof(int32_t));
    g_array_append_val(h.vm.helpers, helper);
    for (int64_t busy_ns = 0; busy_ns <= 200 * MS; busy_ns += 200 * MS) {
        put_client(&h, PID, 5, 1, busy_ns);
        put_client(&h, helper, 5, 2, busy_ns);
        next(&h);
    }
    assert_int_equal(engine_of_vm(&h, "render")->exec_ns, 400 * MS);
    assert_int_equal(engine_of_vm(&h, "render")->mem_bytes, 20 << 20);
    g_array_unref(h.vm.helpers);
    end(&h);
}

static void
test_a_client_closes(void **state)
{
    struct host h;

    begin(&h, *state);
    put_client(&h, PID, 5, 1, 0);
    put_client(&h, PID, 6, 2, 0);
    next(&h);
    close_fd(&h, PID, 5);
    put_client(&h, PID, 6, 2, 100 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 100 * MS);
    /* A new one with the number and the descriptor of the first counts anew. */
    put_client(&h, PID, 5, 1, 900 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 0);
    close_fd(&h, PID, 5);
    close_fd(&h, PID, 6);
    next(&h);
    /* That it does nothing is known. */
    const struct vg_vm_sample *vm = window_gpu_vm(&h.window, h.vm.id);
    assert_int_equal(vm->gpus->len, 0);
    assert_int_equal(vm->gpu_active_ns, 0);
    g_ptr_array_set_size(h.vms, 0);
    next(&h);
    assert_int_equal(h.window.vms->len, 0);
    end(&h);
}

/* A driver may tell less than before, and then catches up. */
static void
test_a_counter_falls_back(void **state)
{
    struct host h;
    static const int64_t told_ms[] = {1000, 1200, 1150, 1180, 1300, 100000};
    static const int64_t busy_ms[] = {0, 200, 0, 0, 100, 1000};

    begin(&h, *state);
    for (unsigned i = 0; i < G_N_ELEMENTS(told_ms); i++) {
        put_client(&h, PID, 5, 1, told_ms[i] * MS);
        next(&h);
        assert_int_equal(engine_of_vm(&h, "render")->busy_ns, busy_ms[i] * MS);
    }
    end(&h);
}

/* Two video engines as one: both busy is 1. */
static void
test_capacity(void **state)
{
    struct host h;

    begin(&h, *state);
    for (int64_t busy_ms = 0; busy_ms <= 1200; busy_ms += 1200) {
        g_autofree char *text = g_strdup_printf("drm-driver: i915\ndrm-pdev: %s\ndrm-client-id: 1\n"
                                                "drm-engine-video: %" G_GINT64_FORMAT
                                                " ns\ndrm-engine-capacity-video: 2\n",
                                                DEVICE, busy_ms * MS);
        put_fd(&h, PID, 5, "/dev/dri/renderD128", text);
        next(&h);
    }
    assert_int_equal(engine_of_vm(&h, "video")->busy_ns, 600 * MS);
    assert_int_equal(engine_of_vm(&h, "video")->exec_ns, 1200 * MS);
    end(&h);
}

/* xe tells cycles, and those that went by. */
static void
test_cycles(void **state)
{
    struct host h;
    static const unsigned long long cycles[][2] = {{500, 100000}, {750, 101000}, {750, 101000}};
    static const int64_t busy_ms[] = {0, 250, 0};

    begin(&h, *state);
    for (unsigned i = 0; i < G_N_ELEMENTS(cycles); i++) {
        g_autofree char *text =
            g_strdup_printf("drm-driver: xe\ndrm-pdev: %s\ndrm-client-id: 1\n"
                            "drm-cycles-rcs: %llu\ndrm-total-cycles-rcs: %llu\n",
                            DEVICE, cycles[i][0], cycles[i][1]);
        put_fd(&h, PID, 5, "/renderD128", text);
        next(&h);
        assert_int_equal(engine_of_vm(&h, "rcs")->busy_ns, busy_ms[i] * MS);
    }
    end(&h);
}

/* amdgpu tells only of engines that have worked. */
static void
test_an_engine_appears(void **state)
{
    struct host h;

    begin(&h, *state);
    put_client(&h, PID, 5, 1, 0);
    next(&h);
    put_fd(&h, PID, 5, "/dev/dri/renderD128",
           "drm-driver: i915\ndrm-pdev: " DEVICE "\ndrm-client-id: 1\n"
           "drm-engine-render: 5000000 ns\ndrm-engine-copy: 30000000 ns\n");
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 5 * MS);
    assert_int_equal(engine_of_vm(&h, "copy")->busy_ns, 30 * MS);
    assert_int_equal(window_gpu_vm(&h.window, h.vm.id)->gpu_active_ns, 30 * MS);
    end(&h);
}

/* A number may become another file, either way round, and that is noticed after a while. */
static void
test_numbers_are_used_again(void **state)
{
    struct host h;

    begin(&h, *state);
    put_client(&h, PID, 4, 9, 0);
    put_fd(&h, PID, 5, "/dev/null", "pos: 0\n");
    next(&h);
    put_client(&h, PID, 5, 1, 0);
    put_fd(&h, PID, 4, "socket:[1]", "pos: 0\n");
    for (unsigned i = 0; i < 11; i++)
        next(&h);
    put_client(&h, PID, 5, 1, 70 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 70 * MS);
    end(&h);
}

/* 100 descriptors, 30 of them DRM files of 10 clients. */
static void
test_many_descriptors(void **state)
{
    struct host h;

    begin(&h, *state);
    for (int fd = 0; fd < 100; fd++) {
        if (fd < 30)
            put_client(&h, PID, fd, (unsigned)fd % 10, 0);
        else
            put_fd(&h, PID, fd, fd % 2 ? "socket:[1]" : "/images/disk", "pos: 0\n");
    }
    next(&h);
    for (int fd = 0; fd < 30; fd++)
        put_client(&h, PID, fd, (unsigned)fd % 10, 2 * MS);
    next(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 20 * MS);
    end(&h);
}

static void
test_files_without_a_client(void **state)
{
    struct host h;

    begin(&h, *state);
    /* No number to tell it from others by; no engine. */
    put_fd(&h, PID, 5, "/dev/dri/renderD128", "drm-driver: x\ndrm-engine-a: 5 ns\n");
    put_fd(&h, PID, 6, "/dev/dri/card0", "drm-driver: ast\ndrm-client-id: 4\n");
    next(&h);
    next(&h);
    assert_int_equal(h.window.vms->len, 0);
    assert_int_equal(h.window.gpus->len, 0);
    end(&h);
}

/* amdgpu of Linux 5.14 to 5.18. */
static const char old_amdgpu[] = "pos:\t0\nflags:\t02100002\npdev:\t0000:08:00.0\n"
                                 "pasid:\t32771\nvram mem:\t1234 kB\ngtt mem:\t20 kB\n"
                                 "cpu mem:\t0 kB\ngfx0:\t12.34%\ncompute0:\t1.00%\n";

static void
assert_says(const struct host *h, bool less, const char *text)
{
    g_autoptr(GString) said = g_string_new(NULL);

    assert_int_equal(h->source->ops->describe(h->source, said), less);
    assert_string_equal(said->str, text);
}

/* Files are open, and nobody knows what is done with them: that is not "none". */
static void
test_drivers_that_report_nothing(void **state)
{
    struct host h;
    struct vg_proc_vm other = {.id = 1, .pid = PID + 1, .name = "other"};

    begin(&h, *state);
    g_ptr_array_add(h.vms, &other);
    next(&h);
    assert_says(&h, false, "no VM has opened a DRM device");
    put_fd(&h, PID, 5, "/dev/dri/renderD128", old_amdgpu);
    put_fd(&h, PID, 6, "/dev/dri/renderD128", old_amdgpu);
    /* i915 before 5.19, and nouveau. */
    put_fd(&h, PID + 1, 7, "/dev/dri/renderD129", "pos:\t0\nflags:\t02100002\n");
    for (unsigned i = 0; i < 25; i++) {
        next(&h);
        next(&h);
        assert_says(
            &h, true,
            "2 VMs with 3 open DRM files whose driver does not report use (i915 and amdgpu do "
            "since Linux 5.19)");
    }
    assert_int_equal(h.window.gpus->len, 0);
    /* One of the two VMs has a newer driver's client, too. */
    put_client(&h, PID, 9, 1, 0);
    close_fd(&h, PID + 1, 7);
    for (unsigned i = 0; i < 12; i++)
        next(&h);
    assert_says(
        &h, true,
        "1 VM with DRM clients, 1 VM with 2 open DRM files whose driver does not report use "
        "(i915 and amdgpu do since Linux 5.19)");
    close_fd(&h, PID, 5);
    close_fd(&h, PID, 6);
    for (unsigned i = 0; i < 12; i++)
        next(&h);
    assert_says(&h, false, "1 VM with DRM clients");
    end(&h);
}

/* amdgpu reports an engine once it has worked. */
static void
test_clients_without_work(void **state)
{
    struct host h;

    begin(&h, *state);
    put_fd(&h, PID, 5, "/dev/dri/renderD128", "drm-driver: amdgpu\ndrm-client-id: 4\n");
    next(&h);
    assert_says(&h, false, "1 VM with DRM clients that report no work");
    end(&h);
}

static void
test_old_text(void **state)
{
    struct vg_fdinfo info;

    (void)state;
    assert_false(vg_fdinfo_parse(old_amdgpu, &info));
    assert_true(vg_fdinfo_is_old(old_amdgpu));
    assert_false(vg_fdinfo_is_old(i915));
    assert_false(vg_fdinfo_is_old("pos:\t0\nflags:\t02\n"));
    assert_false(vg_fdinfo_is_old(""));
}

/* Reads a window as somebody else. */
static void
next_as_nobody(struct host *h)
{
    assert_int_equal(seteuid(65534), 0);
    next(h);
    assert_int_equal(seteuid(0), 0);
}

static void
allow(const struct host *h, const char *name, mode_t mode)
{
    g_autofree char *path = g_strdup_printf("%s/%d/%s", h->proc, PID, name);

    assert_int_equal(chmod(path, mode), 0);
}

/* As with CAP_SYS_PTRACE, without which nothing is seen, and without CAP_DAC_READ_SEARCH, without
 * which there are no links. */
static void
test_others_files(void **state)
{
    struct host h;
    g_autoptr(GString) said = g_string_new(NULL);

    if (geteuid() != 0) {
        print_message("# it takes root to become somebody else\n");
        skip();
    }
    begin(&h, *state);
    put_client(&h, PID, 5, 1, 0);
    put_fd(&h, PID, 6, "/dev/dri/renderD128", "pos: 0\n");
    assert_int_equal(chmod(h.proc, 0755), 0);
    assert_int_equal(chmod(h.drm, 0755), 0);
    allow(&h, ".", 0755);
    allow(&h, "fd", 0500);
    allow(&h, "fdinfo", 0755);
    allow(&h, "fdinfo/5", 0644);
    allow(&h, "fdinfo/6", 0644);
    next_as_nobody(&h);
    put_client(&h, PID, 5, 1, 300 * MS);
    next_as_nobody(&h);
    assert_int_equal(engine_of_vm(&h, "render")->busy_ns, 300 * MS);
    assert_false(h.source->ops->describe(h.source, said));
    allow(&h, "fdinfo", 0500);
    for (unsigned i = 0; i < 3; i++)
        next_as_nobody(&h);
    assert_true(h.source->ops->describe(h.source, g_string_truncate(said, 0)));
    assert_string_equal(said->str, "vgpud cannot read VMs' open files without CAP_SYS_PTRACE, "
                                   "see vgpud(8)");
    end(&h);
}

/* ---- the collector ---- */

static void
put_vm(const char *proc)
{
    const char cmdline[] = "qemu-system-x86_64\0-name\0guest=alpha,debug-threads=on";
    const struct fake_task vcpu = {.pid = PID, .tid = PID + 1, .comm = "CPU 0/KVM", .start = 9};

    fake_proc_process(proc, PID, "qemu", 9, 2, cmdline, sizeof(cmdline));
    fake_proc_task(proc, &vcpu);
}

static void
test_collector(void **state)
{
    struct host h;
    vg_gpu_source *sources[1];

    begin(&h, *state);
    put_vm(h.proc);
    put_client(&h, PID, 5, 1, 0);
    sources[0] = vg_gpu_fdinfo_new(h.proc, h.drm);
    const struct vg_gpu_options options = {
        .proc = h.proc, .window_ns = 50 * MS, .sample_ns = 10 * MS};
    struct collector_run *run = fake_clock_run(vg_gpu_new(&options, sources, 1));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "fdinfo: 1 VM with DRM clients");
    g_autoptr(vg_report) first = collector_run_wait(run, VG_REPORT_WINDOW);
    /* Of the grid. Counters lose nothing. */
    assert_int_equal(first->window.end_ns % (50 * MS), 0);
    assert_int_equal(first->window.begin_ns % (50 * MS), 0);
    assert_true(first->provenance.besides);
    assert_true(first->provenance.confidence >= 1);
    assert_string_equal(first->provenance.source, "gpu");
    assert_string_equal(first->provenance.series, "live");
    assert_false(vg_provenance_knows(&first->provenance, VG_MEASURE_RUN));
    assert_int_equal(first->window.vms->len, 1);
    put_client(&h, PID, 5, 1, 20 * MS);
    g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
    const struct vg_vm_sample *vm = &g_array_index(report->window.vms, struct vg_vm_sample, 0);
    assert_string_equal(vm->name, "alpha");
    assert_int_equal(vm->vcpus->len, 0);
    assert_int_equal(vm->cpu.observed_ns, 0);
    assert_int_equal(window_gpu_find(vm->gpus, NULL, "render")->busy_ns, 20 * MS);
    fake_clock_end(run);
    end(&h);
}

/* There is nothing to see: that is told once, and windows go on, so that nobody waits for them. */
static void
test_collector_without_a_gpu(void **state)
{
    vg_gpu_source *sources[1];

    put_vm(*state);
    sources[0] = vg_gpu_fdinfo_new(*state, "/nowhere");
    const struct vg_gpu_options options = {
        .proc = *state, .window_ns = 20 * MS, .sample_ns = 10 * MS};
    struct collector_run *run = fake_clock_run(vg_gpu_new(&options, sources, 1));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "fdinfo: no DRM driver has a render node here");
    for (unsigned i = 0; i < 5; i++) {
        g_autoptr(vg_report) report = collector_run_any(run);
        assert_int_equal(report->kind, VG_REPORT_WINDOW);
        assert_int_equal(report->window.vms->len, 0);
    }
    fake_clock_end(run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_i915),
        cmocka_unit_test(test_text_of_xe),
        cmocka_unit_test(test_text_of_amdgpu),
        cmocka_unit_test(test_odd_text),
        FAKE_PROC_TEST(test_two_clients_add_up),
        FAKE_PROC_TEST(test_shared_descriptors),
        FAKE_PROC_TEST(test_helpers_work_for_their_vm),
        FAKE_PROC_TEST(test_a_client_closes),
        FAKE_PROC_TEST(test_a_counter_falls_back),
        FAKE_PROC_TEST(test_capacity),
        FAKE_PROC_TEST(test_cycles),
        FAKE_PROC_TEST(test_an_engine_appears),
        FAKE_PROC_TEST(test_numbers_are_used_again),
        FAKE_PROC_TEST(test_many_descriptors),
        FAKE_PROC_TEST(test_files_without_a_client),
        FAKE_PROC_TEST(test_drivers_that_report_nothing),
        FAKE_PROC_TEST(test_clients_without_work),
        cmocka_unit_test(test_old_text),
        FAKE_PROC_TEST(test_others_files),
        FAKE_PROC_TEST(test_collector),
        FAKE_PROC_TEST(test_collector_without_a_gpu),
    };

    return cmocka_run_group_tests_name("gpu-fdinfo", tests, idle_thread_start, idle_thread_stop);
}
