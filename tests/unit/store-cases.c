/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store-cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <glib/gstdio.h>

struct vg_store_options
store_case_options(const char *directory)
{
    return (struct vg_store_options){
        .directory = directory,
        .raw_days = 100000,
        .minute_days = 100000,
        .hour_days = 100000,
        .lost_top = 8,
        .memory_windows = 600,
        .log_commits = true,
        .retry_ns = 5 * VG_NS_PER_MS,
    };
}

void
store_case_use_memory(void)
{
    if (!g_getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        g_setenv("TMPDIR", "/dev/shm", TRUE);
}

char *
store_case_directory(void)
{
    g_autofree char *template = g_strdup_printf("%s/vgpud-store.XXXXXX", g_get_tmp_dir());

    if (!mkdtemp(template))
        abort();
    return g_steal_pointer(&template);
}

void
store_case_remove(char *take_directory)
{
    GDir *dir = g_dir_open(take_directory, 0, NULL);

    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(take_directory, name, NULL);
        if (g_remove(path) != 0)
            g_rmdir(path);
    }
    if (dir)
        g_dir_close(dir);
    g_rmdir(take_directory);
    g_free(take_directory);
}

const char *
store_case_key(guint vm, char *buf)
{
    if (vm % 2 == 0)
        snprintf(buf, VG_VM_NAME_MAX, "00000000-0000-4000-8000-%012u", vm);
    else
        store_case_name(vm, buf);
    return buf;
}

const char *
store_case_name(guint vm, char *buf)
{
    snprintf(buf, VG_VM_NAME_MAX, "vm-%u", vm);
    return buf;
}

/* 0 <= x < below, the same for the same arguments. */
static int64_t
mix(int64_t end_ns, guint vm, guint salt, int64_t below)
{
    uint64_t x = (uint64_t)end_ns * UINT64_C(0x9e3779b97f4a7c15) +
                 vm * UINT64_C(0xbf58476d1ce4e5b9) + salt * UINT64_C(0x94d049bb133111eb);

    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 32;
    return (int64_t)(x % (uint64_t)below);
}

struct vg_cpu_figures
store_case_figures(int64_t begin_ns, int64_t end_ns, guint vm)
{
    int64_t length = end_ns - begin_ns;
    struct vg_cpu_figures cpu = {
        .observed_ns = length,
        .run_ns = mix(end_ns, vm, 1, length / 2),
        .preempt_ns = mix(end_ns, vm, 2, length / 8),
        .wake_wait_ns = mix(end_ns, vm, 3, length / 8),
        .entries = (uint64_t)mix(end_ns, vm, 4, 20000),
        .preemptions = (uint64_t)mix(end_ns, vm, 5, 300),
        .wakeups = (uint64_t)mix(end_ns, vm, 6, 2000),
        .blocks = (uint64_t)mix(end_ns, vm, 7, 2000),
        .unseen_migrations = (uint64_t)mix(end_ns, vm, 8, 2),
        .clipped = (uint64_t)mix(end_ns, vm, 9, 3),
    };

    cpu.guest_ns = cpu.run_ns - cpu.run_ns / 10;
    cpu.blocked_ns = cpu.observed_ns - cpu.run_ns - cpu.preempt_ns - cpu.wake_wait_ns;
    cpu.switches_out = cpu.preemptions + cpu.blocks;
    cpu.exits[VG_EXIT_HLT] = cpu.entries / 2;
    cpu.exits[VG_EXIT_INTERRUPT] = cpu.entries / 4;
    cpu.exits[VG_EXIT_OTHER] = cpu.entries - cpu.entries / 2 - cpu.entries / 4;
    return cpu;
}

int64_t
store_case_lost_ns(int64_t end_ns, guint vm, guint i)
{
    return mix(end_ns, vm, 20 + i, 1000000);
}

static void
add_losses(struct vg_vm_sample *sample, int64_t end_ns, guint vm, guint vms)
{
    for (guint i = 0; i < STORE_CASE_LOSSES; i++) {
        struct vg_lost_to lost = {
            .kind = i == 0   ? VG_AGGRESSOR_SELF
                    : i == 1 ? VG_AGGRESSOR_HOST_KERNEL
                             : VG_AGGRESSOR_VM,
            .vm_id = i >= 2 ? 1000 + (vm + i - 1) % vms : 0,
            .ns = store_case_lost_ns(end_ns, vm, i),
            .count = i + 1,
        };
        g_array_append_val(sample->lost_to, lost);
    }
}

/* Now and then nobody tells one or the other. */
struct vg_host_sample
store_case_host(int64_t begin_ns, int64_t end_ns)
{
    struct vg_host_sample host = vg_host_sample_none();
    int64_t length = end_ns - begin_ns;

    if (mix(end_ns, 0, 40, 3) > 0)
        host.own_ns = mix(end_ns, 0, 41, length);
    if (mix(end_ns, 0, 42, 3) > 0) {
        host.idle_ns = mix(end_ns, 0, 43, length);
        host.steal_ns = mix(end_ns, 0, 44, length);
    }
    if (mix(end_ns, 0, 45, 3) > 0)
        host.load[0] = (double)mix(end_ns, 0, 46, 4000) / 100;
    for (guint i = 0; i < VG_RESOURCE_MAX && mix(end_ns, 0, 47, 3) > 0; i++) {
        host.pressure[i].some_ns = mix(end_ns, i, 48, length);
        host.pressure[i].full_ns = mix(end_ns, i, 49, length);
    }
    return host;
}

bool
store_case_is_bpf(int64_t end_ns)
{
    return mix(end_ns, 0, 50, 4) > 0;
}

void
store_case_put_window(vg_store *store, const char *source, const struct vg_window *window,
                      int64_t clock_offset_ns)
{
    const bool bpf = store_case_is_bpf(window->end_ns);
    struct vg_provenance provenance = {.measures = {{0}}};

    g_strlcpy(provenance.series, source, sizeof(provenance.series));
    g_strlcpy(provenance.source, bpf ? "bpf" : "procfs", sizeof(provenance.source));
    if (bpf)
        provenance.measures[VG_MEASURE_LOST_TO].source = "bpf";
    vg_store_put_window(store, &provenance, window, clock_offset_ns);
}

void
store_case_window(struct vg_window *ret, int64_t begin_ns, int64_t end_ns, guint vms)
{
    char buf[VG_VM_NAME_MAX];

    vg_window_init(ret, false);
    ret->begin_ns = begin_ns;
    ret->end_ns = end_ns;
    ret->lost_events = 3;
    ret->host = store_case_host(begin_ns, end_ns);
    for (guint i = 0; i < vms; i++) {
        struct vg_vm_sample sample;
        vg_vm_sample_init(&sample);
        sample.id = 1000 + i;
        sample.pid = (int32_t)(5000 + i);
        store_case_name(i, sample.name);
        if (i % 2 == 0)
            g_strlcpy(sample.uuid, store_case_key(i, buf), sizeof(sample.uuid));
        sample.guest_known = true;
        sample.gpu_known = i == 0;
        sample.gpu_active_ns = i == 0 ? (end_ns - begin_ns) / 4 : 0;
        sample.cpu = store_case_figures(begin_ns, end_ns, i);
        add_losses(&sample, end_ns, i, vms);
        g_array_append_val(ret->vms, sample);
    }
}

void
store_case_put(vg_store *store, const char *source, int64_t begin_ns, int64_t end_ns, guint vms)
{
    struct vg_window window;

    store_case_window(&window, begin_ns, end_ns, vms);
    store_case_put_window(store, source, &window, 0);
    vg_window_clear(&window);
}
