/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine on windows made by hand: rates, EWMA, profiles, identities, what is forgotten.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/error.h"
#include "engine/engine.h"
#include "model/window-sum.h"
#include "policy/policy.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)

static struct vg_policy_config config;

static void
assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6)
        fail_msg("%.9f is not %.9f", value, expected);
}

static void
window_init(struct vg_window *window, int64_t begin_ns, int64_t end_ns)
{
    vg_window_init(window, false);
    window->begin_ns = begin_ns;
    window->end_ns = end_ns;
}

static struct vg_vm_sample *
add_vm(struct vg_window *window, const char *name, int32_t pid, int64_t run_ns, int64_t preempt_ns)
{
    struct vg_vm_sample vm;
    vg_vm_sample_init(&vm);
    vm.id = window->vms->len;
    vm.pid = pid;
    g_strlcpy(vm.name, name, sizeof(vm.name));
    vm.guest_known = true;
    vm.cpu.run_ns = run_ns;
    vm.cpu.preempt_ns = preempt_ns;
    vm.cpu.observed_ns = window->end_ns - window->begin_ns;
    vm.cpu.preemptions = (uint64_t)(preempt_ns / (10 * MS));
    vm.cpu.blocked_ns = vm.cpu.observed_ns - run_ns - preempt_ns;
    struct vg_vcpu_sample vcpu = {.tid = pid + 1, .cpu = vm.cpu};
    g_array_append_val(vm.vcpus, vcpu);
    g_array_append_val(window->vms, vm);
    return &g_array_index(window->vms, struct vg_vm_sample, window->vms->len - 1);
}

static void
add_loss(struct vg_vm_sample *vm, enum vg_aggressor_kind kind, uint32_t id, int64_t ns,
         uint64_t count)
{
    struct vg_lost_to lost = {.kind = kind, .vm_id = id, .ns = ns, .count = count};
    g_array_append_val(vm->lost_to, lost);
}

static void
step_one(vg_engine *engine, int64_t begin_ns, int64_t end_ns, const char *name, int32_t pid,
         const char *uuid, int64_t run_ns)
{
    struct vg_window window;
    window_init(&window, begin_ns, end_ns);
    struct vg_vm_sample *vm = add_vm(&window, name, pid, run_ns, 0);
    g_strlcpy(vm->uuid, uuid, sizeof(vm->uuid));
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
}

static vg_snapshot *
read_snapshot(const vg_engine *engine, enum vg_engine_mode mode, int64_t cpus)
{
    const struct vg_engine_part part = {
        .source = mode == VG_ENGINE_LIVE ? VG_SOURCE_LIVE : VG_SOURCE_TRACE,
        .clock_offset_ns = 77,
    };
    g_autoptr(GError) err = NULL;
    struct vg_snap_host *host = vg_record_new(&vg_snap_host_record);
    host->name = g_strdup("host");
    host->cpus = cpus;
    const struct vg_snap_host *hosts[] = {host};
    vg_snapshot *snapshot = vg_engine_snapshot(engine, &part, hosts, 1, &err);
    vg_record_free(&vg_snap_host_record, host);
    if (!snapshot)
        fail_msg("%s", err->message);
    return snapshot;
}

static const struct vg_snap_vm *
vm_at(const vg_snapshot *snapshot, guint index)
{
    const struct vg_snap_host *host = snapshot->hosts->pdata[0];
    assert_true(index < host->vms->len);
    return host->vms->pdata[index];
}

static int
set_up(void **state)
{
    (void)state;
    vg_policy_config_init(&config);
    return 0;
}

/* Windows of 60 s = one half-life. */
static vg_engine *
rates_engine(enum vg_engine_mode mode)
{
    vg_engine *engine = vg_engine_new(&config, mode);
    const int64_t run[] = {30 * S, 0};
    for (int i = 0; i < 2; i++) {
        struct vg_window window;
        window_init(&window, i * 60 * S, (i + 1) * 60 * S);
        window.lost_events = 5;
        struct vg_vm_sample *a = add_vm(&window, "a", 10, run[i], i == 0 ? 6 * S : 0);
        const int32_t cpu = i == 0 ? 3 : 1;
        a->guest_known = i == 0;
        g_array_append_val(a->cpus, cpu);
        add_loss(a, VG_AGGRESSOR_VM, 1, i == 0 ? 4 * S : 0, i == 0 ? 300 : 0);
        if (i == 0)
            add_loss(a, VG_AGGRESSOR_HOST_KERNEL, 0, 2 * S, 60);
        add_vm(&window, "b", 20, 6 * S, 0);
        vg_engine_step(engine, &window, "host");
        vg_window_clear(&window);
    }
    return engine;
}

static void
test_rates(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = rates_engine(VG_ENGINE_MEAN);
    g_autoptr(vg_engine) live_engine = rates_engine(VG_ENGINE_LIVE);
    g_autoptr(vg_snapshot) mean = read_snapshot(engine, VG_ENGINE_MEAN, 4);
    const struct vg_snap_vm *a = vm_at(mean, 0);
    assert_string_equal(a->name, "a");
    assert_int_equal(a->pid, 10);
    assert_int_equal(a->vcpus, 1);
    assert_near(a->run_share, 0.25);      /* 30 of 120 s */
    assert_near(a->preempt_share, 0.05);  /* 6 of 120 s */
    assert_near(a->preemptions_per_s, 5); /* 600 in 120 s */
    assert_near(a->cpu_intensity, 0.3);   /* mean of 0.6 and 0 */
    assert_int_equal(a->vm_class, VG_CLASS_CPU);
    assert_true(a->guest_known); /* although its last window was idle */
    assert_false(a->gpu_known);
    assert_int_equal(a->cpus->len, 2);
    assert_int_equal(g_array_index(a->cpus, int32_t, 0), 1);
    const struct vg_snap_loss *worst = a->lost_to->pdata[0];
    assert_string_equal(worst->aggressor, "b");
    assert_near(worst->share, 4.0 / 120);
    assert_near(worst->count_per_s, 2.5);
    const struct vg_snap_loss *kernel = a->lost_to->pdata[1];
    assert_string_equal(kernel->aggressor, "host:kernel");
    assert_int_equal(a->profile.cpu->len, 2);
    assert_near(g_array_index(a->profile.cpu, double, 0), 0.6);
    assert_near(g_array_index(a->profile.cpu, double, 1), 0);
    assert_int_equal(a->profile.gpu->len, 0);
    assert_int_equal(mean->end_ns, 120 * S);
    assert_int_equal(mean->clock_offset_ns, 77);
    assert_int_equal(((struct vg_snap_host *)mean->hosts->pdata[0])->lost_events, 10);

    g_autoptr(vg_snapshot) live = read_snapshot(live_engine, VG_ENGINE_LIVE, 4);
    a = vm_at(live, 0);
    assert_false(a->guest_known);
    assert_near(a->run_share, 0.25); /* half way from 0.5 to 0 */
    assert_near(a->preempt_share, 0.05);
    assert_near(a->cpu_intensity, 0.3);
    assert_near(((struct vg_snap_loss *)a->lost_to->pdata[0])->share, 4.0 / 60 / 2);
    assert_int_equal(((struct vg_snap_host *)live->hosts->pdata[0])->lost_events, 5);
}

static void
test_gpu(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    struct vg_window window;
    window_init(&window, 0, S);
    struct vg_vm_sample *vm = add_vm(&window, "a", 10, S / 10, 0);
    vm->gpu_known = true;
    vm->gpu_active_ns = 600 * MS;
    struct vg_gpu_sample gpu = {
        .device = "card0", .engine = "rcs0", .busy_ns = 500 * MS, .wait_ns = 1500 * MS};
    g_array_append_val(vm->gpus, gpu);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);

    const struct vg_engine_part part = {.source = VG_SOURCE_TRACE};
    struct vg_snap_host *host = vg_record_new(&vg_snap_host_record);
    host->name = g_strdup("host");
    host->cpus = 2;
    struct vg_snap_vm *facts = vg_snap_host_add_vm(host, "a");
    facts->memory_bytes = 123;
    facts->pinned = true;
    struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
    use->device = g_strdup("card0");
    use->engine = g_strdup("any");
    use->vgpu_type = g_strdup("t4");
    use->memory_bytes = 99;
    g_ptr_array_add(facts->gpu, use);
    struct vg_snap_gpu_use *idle = vg_record_copy(&vg_snap_gpu_use_record, use);
    g_free(idle->device);
    idle->device = g_strdup("card1");
    idle->share = 0.9; /* what a description claims is no measurement */
    g_ptr_array_add(facts->gpu, idle);
    vg_snap_host_add_vm(host, "never-seen");
    const struct vg_snap_host *hosts[] = {host};
    g_autoptr(vg_snapshot) snapshot = vg_engine_snapshot(engine, &part, hosts, 1, NULL);
    vg_record_free(&vg_snap_host_record, host);
    assert_non_null(snapshot);
    assert_int_equal(((struct vg_snap_host *)snapshot->hosts->pdata[0])->vms->len, 1);
    const struct vg_snap_vm *a = vm_at(snapshot, 0);
    assert_true(a->gpu_known);
    assert_near(a->gpu_intensity, 0.6);
    assert_int_equal(a->vm_class, VG_CLASS_GPU);
    assert_near(g_array_index(a->profile.gpu, double, 0), 0.6);
    assert_int_equal(a->memory_bytes, 123);
    assert_true(a->pinned);
    assert_int_equal(a->gpu->len, 2);
    const struct vg_snap_gpu_use *unused = a->gpu->pdata[1];
    assert_string_equal(unused->device, "card1");
    assert_string_equal(unused->vgpu_type, "t4");
    assert_int_equal(unused->memory_bytes, 99);
    assert_near(unused->share, 0);
    const struct vg_snap_gpu_use *seen = a->gpu->pdata[0];
    assert_near(seen->share, 0.5);
    assert_near(seen->wait_share, 1.5);
    assert_string_equal(seen->vgpu_type, "t4");
    assert_int_equal(seen->memory_bytes, 99);
}

/* The profile keeps the newest 300 windows; a short last window is left out; a longer one starts
 * it anew; one that is late by less than 1 % belongs. */
static void
test_profile(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    step_one(engine, -400 * MS, 0, "a", 10, "", 0);
    for (int i = 0; i < 301; i++)
        step_one(engine, i * S, (i + 1) * S + (i == 200 ? 9 * MS : 0), "a", 10, "", (i + 1) * MS);
    step_one(engine, 301 * S, 301 * S + 500 * MS, "a", 10, "", 500 * MS);
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    const struct vg_snap_vm *vm = vm_at(snapshot, 0);
    assert_int_equal(vm->profile.window_ns, S);
    assert_int_equal(vm->profile.cpu->len, 300);
    assert_near(g_array_index(vm->profile.cpu, double, 0), 0.002); /* the second of 301 */
    assert_near(g_array_index(vm->profile.cpu, double, 299), 0.301);
}

static void
feed_twins(vg_engine *engine, int64_t begin_ns)
{
    struct vg_window window;
    window_init(&window, begin_ns, begin_ns + S);
    struct vg_vm_sample *vm = add_vm(&window, "twin", 30, 0, S / 2);
    add_loss(vm, VG_AGGRESSOR_VM, 1, S / 2, 5);
    add_vm(&window, "twin", 31, 0, 0);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
}

static void
test_identity(void **state)
{
    (void)state;
    static const char uuid[] = "00000000-0000-0000-0000-000000000001";
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    step_one(engine, 0, S, "a", 10, "", S);
    step_one(engine, S, 2 * S, "a", 10, uuid, S);       /* the UUID becomes known */
    step_one(engine, 2 * S, 3 * S, "new", 99, uuid, S); /* renamed and restarted: the same VM */
    g_autoptr(vg_snapshot) one = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    assert_int_equal(((struct vg_snap_host *)one->hosts->pdata[0])->vms->len, 1);
    assert_string_equal(vm_at(one, 0)->name, "new");
    assert_string_equal(vm_at(one, 0)->uuid, uuid);
    assert_int_equal(vm_at(one, 0)->profile.cpu->len, 3);

    feed_twins(engine, 3 * S);
    g_autoptr(vg_snapshot) mean = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    assert_int_equal(((struct vg_snap_host *)mean->hosts->pdata[0])->vms->len, 3);
}

/* Two without a UUID and with one name are two, told apart by pid, also as aggressors. */
static void
test_twins(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    feed_twins(engine, 0);
    g_autoptr(vg_snapshot) live = read_snapshot(engine, VG_ENGINE_LIVE, 1);
    assert_int_equal(((struct vg_snap_host *)live->hosts->pdata[0])->vms->len, 2);
    assert_string_equal(vm_at(live, 0)->name, "twin#30");
    assert_string_equal(vm_at(live, 1)->name, "twin#31");
    const struct vg_snap_loss *loss = vm_at(live, 0)->lost_to->pdata[0];
    assert_string_equal(loss->aggressor, "twin#31");

    /* One ends; the other is now called what both were, but took nothing from itself. */
    struct vg_window window;
    window_init(&window, S, 2 * S);
    add_vm(&window, "twin", 30, 0, 0);
    add_vm(&window, "other", 32, 0, 0);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
    g_autoptr(vg_snapshot) later = read_snapshot(engine, VG_ENGINE_LIVE, 1);
    assert_string_equal(vm_at(later, 1)->name, "twin");
    loss = vm_at(later, 1)->lost_to->pdata[0];
    assert_string_equal(loss->aggressor, "host:unknown");
}

/* A VM that is pinned later uses fewer CPUs; one of a recording may use all that it was seen on. */
static void
test_cpus(void **state)
{
    static const int32_t sets[][2] = {{0, 1}, {2, 3}};
    (void)state;
    for (int allowed = 0; allowed < 2; allowed++) {
        g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
        struct vg_window sum;
        vg_window_init(&sum, false);
        for (int i = 0; i < 2; i++) {
            struct vg_window window;
            window_init(&window, i * S, (i + 1) * S);
            struct vg_vm_sample *vm = add_vm(&window, "vm", 30, S, 0);
            g_array_append_vals(vm->cpus, sets[i], 2);
            vm->cpus_allowed = allowed;
            vg_engine_step(engine, &window, "host");
            vg_window_add(&sum, &window);
            vg_window_clear(&window);
        }
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
        const GArray *of_sum = g_array_index(sum.vms, struct vg_vm_sample, 0).cpus;
        const GArray *of_vm = vm_at(snapshot, 0)->cpus;
        assert_int_equal(of_vm->len, allowed ? 2 : 4);
        assert_int_equal(of_sum->len, allowed ? 2 : 4);
        assert_int_equal(g_array_index(of_vm, int32_t, 0), allowed ? 2 : 0);
        assert_int_equal(g_array_index(of_sum, int32_t, 0), allowed ? 2 : 0);
        vg_window_clear(&sum);
    }
}

/* Two windows in which the host took 1.5 and 0.5 cores, and one that does not tell. */
static void
test_what_the_host_itself_takes(void **state)
{
    static const int64_t own[] = {3 * S / 2, S / 2, -1};
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        enum vg_engine_mode of = mode == 0 ? VG_ENGINE_LIVE : VG_ENGINE_MEAN;
        g_autoptr(vg_engine) engine = vg_engine_new(&config, of);
        for (int i = 0; i < 3; i++) {
            struct vg_window window;
            window_init(&window, i * S, (i + 1) * S);
            add_vm(&window, "vm", 30, S, 0);
            window.host.own_ns = own[i];
            vg_engine_step(engine, &window, "host");
            vg_window_clear(&window);
        }
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, of, 1);
        const struct vg_snap_host *host = snapshot->hosts->pdata[0];
        assert_true(host->own_known);
        /* A second moves it by 1 - 2^(-1/60) of the way, with the half-life of a minute. */
        assert_near(host->own_share, mode == 1 ? 1.0 : 1.5 - (1 - pow(2, -1.0 / 60)));
    }
}

/* The host used half of its CPU, until its counters could no longer be read. */
static void
test_unknown_use_of_the_host_itself(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        enum vg_engine_mode of = mode == 0 ? VG_ENGINE_LIVE : VG_ENGINE_MEAN;
        g_autoptr(vg_engine) engine = vg_engine_new(&config, of);
        for (int i = 0; i < 5 + VG_ENGINE_OWN_WINDOWS; i++) {
            struct vg_window window;
            window_init(&window, i * S, (i + 1) * S);
            add_vm(&window, "vm", 30, S / 2, 0);
            window.host.own_ns = i == 4 + VG_ENGINE_OWN_WINDOWS ? 0 : i < 4 ? S / 2 : -1;
            vg_engine_step(engine, &window, "host");
            vg_window_clear(&window);
            g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, of, 1);
            const struct vg_snap_host *host = snapshot->hosts->pdata[0];
            const bool known = mode == 1 || i != 3 + VG_ENGINE_OWN_WINDOWS;
            assert_int_equal(vg_snap_host_knows_own(host), known);
            if (!known || i < 4)
                assert_near(host->own_share, known ? 0.5 : 0);
            assert_int_equal(host->own_profile.cpu->len, known ? i + 1 : 0);
        }
    }
}

/* The same windows as of the profiles of VMs: a late one is omitted. */
static void
test_profile_of_the_host_itself(void **state)
{
    static const struct {
        int64_t length_ns, own_ns;
    } windows[] = {{S, 0}, {S, S}, {3 * S, S}, {S, -1}, {S, S / 4}};
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    int64_t begin_ns = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(windows); i++) {
        struct vg_window window;
        window_init(&window, begin_ns, begin_ns + windows[i].length_ns);
        add_vm(&window, "vm", 30, windows[i].length_ns, 0);
        window.host.own_ns = windows[i].own_ns;
        vg_engine_step(engine, &window, "host");
        vg_window_clear(&window);
        begin_ns += windows[i].length_ns;
    }
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
    const struct vg_snap_host *host = snapshot->hosts->pdata[0];
    const GArray *own = host->own_profile.cpu;
    assert_int_equal(host->own_profile.window_ns, S);
    assert_int_equal(own->len, 4);
    assert_int_equal(vm_at(snapshot, 0)->profile.cpu->len, own->len);
    assert_near(g_array_index(own, double, 0), 0);
    assert_near(g_array_index(own, double, 1), 1);
    assert_near(g_array_index(own, double, 2), host->own_share); /* it is not known */
    assert_near(g_array_index(own, double, 3), 0.25);
}

/* Windows of the profile of a VM that came back after `away` windows without it. */
static guint
history_after(enum vg_engine_mode mode, int away)
{
    g_autoptr(vg_engine) engine = vg_engine_new(&config, mode);
    step_one(engine, 0, S, "gone", 10, "", S);
    for (int i = 1; i <= away; i++)
        step_one(engine, i * S, (i + 1) * S, "stays", 11, "", S);
    step_one(engine, (away + 1) * S, (away + 2) * S, "gone", 10, "", S);
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, mode, 1);
    return vm_at(snapshot, 0)->profile.cpu->len;
}

static void
test_forgets(void **state)
{
    (void)state;
    assert_int_equal(history_after(VG_ENGINE_LIVE, VG_ENGINE_FORGET_WINDOWS), 2);
    assert_int_equal(history_after(VG_ENGINE_LIVE, VG_ENGINE_FORGET_WINDOWS + 1), 1);
    assert_int_equal(history_after(VG_ENGINE_MEAN, VG_ENGINE_FORGET_WINDOWS + 1), 2);

    /* A recording is read as a whole: one that ended early has its class to the end. */
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    step_one(engine, 0, S, "early", 10, "", S);
    for (int i = 1; i <= 2 * VG_ENGINE_FORGET_WINDOWS; i++)
        step_one(engine, i * S, (i + 1) * S, "late", 11, "", 0);
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    assert_string_equal(vm_at(snapshot, 0)->name, "early");
    assert_int_equal(vm_at(snapshot, 0)->vm_class, VG_CLASS_CPU);
}

/* (0.5 + 0.1) s wanted of (1 + 0.1) s observed: the vCPU began late in the second window. The mean
 * of the windows' own values would be 0.75. */
static void
test_mean_of_times(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    for (int i = 0; i < 2; i++) {
        struct vg_window window;
        window_init(&window, i * S, (i + 1) * S);
        struct vg_vm_sample *vm = add_vm(&window, "a", 10, i ? 100 * MS : 500 * MS, 0);
        vm->cpu.observed_ns = i ? 100 * MS : S;
        vm->gpu_known = i == 1;
        vm->gpu_active_ns = i ? 250 * MS : 0;
        vg_engine_step(engine, &window, "host");
        vg_window_clear(&window);
    }
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    assert_near(vm_at(snapshot, 0)->cpu_intensity, 6.0 / 11);
    assert_near(vm_at(snapshot, 0)->gpu_intensity, 0.25); /* of the window that tells */
    assert_true(vm_at(snapshot, 0)->gpu_known);
}

/* 300 aggressors that take 1 ms each: 255 by name, the other 45 together. */
static void
test_many_aggressors(void **state)
{
    (void)state;
    const int n = 300;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    struct vg_window window;
    window_init(&window, 0, S);
    for (int i = 0; i <= n; i++) {
        g_autofree char *name = g_strdup_printf("vm%03d", i);
        add_vm(&window, name, 10 + i, 0, 0);
    }
    for (int i = 1; i <= n; i++)
        add_loss(&g_array_index(window.vms, struct vg_vm_sample, 0), VG_AGGRESSOR_VM, (uint32_t)i,
                 MS, 1);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_MEAN, 1);
    const struct vg_snap_vm *victim = vm_at(snapshot, 0);
    assert_int_equal(victim->lost_to->len, VG_SNAPSHOT_LOSSES_MAX);
    const struct vg_snap_loss *most = victim->lost_to->pdata[0];
    assert_string_equal(most->aggressor, "host:unknown");
    assert_near(most->share, 0.045);
    assert_near(most->count_per_s, 45);
}

/* Live, each window brings another 20 aggressors; those of 50 half-lives ago have made room, so the
 * newest are known by name. */
static void
test_faded_aggressors(void **state)
{
    (void)state;
    config.score.half_life_ns = S / 50;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    for (int w = 0; w < 20; w++) {
        struct vg_window window;
        window_init(&window, w * S, (w + 1) * S);
        add_vm(&window, "a-victim", 1, 0, 0);
        for (int i = 1; i <= 20; i++) {
            g_autofree char *name = g_strdup_printf("vm%d-%d", w, i);
            add_vm(&window, name, 100 * (w + 1) + i, 0, 0);
            add_loss(&g_array_index(window.vms, struct vg_vm_sample, 0), VG_AGGRESSOR_VM,
                     (uint32_t)i, MS, 1);
        }
        vg_engine_step(engine, &window, "host");
        vg_window_clear(&window);
    }
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
    const struct vg_snap_vm *victim = vm_at(snapshot, 0);
    assert_int_equal(victim->lost_to->len, 20);
    for (guint i = 0; i < victim->lost_to->len; i++) {
        const struct vg_snap_loss *loss = victim->lost_to->pdata[i];
        assert_true(g_str_has_prefix(loss->aggressor, "vm19-"));
    }
}

/* Live, one of twice the length says only that who measured came late; three in a row mean it. */
static void
test_longer_windows(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    static const int seconds[] = {1, 1, 1, 2, 1, 2, 2, 1, 2, 2, 2, 2};
    static const guint lengths[] = {1, 2, 3, 3, 4, 4, 4, 5, 5, 5, 1, 2};
    int64_t at = 0;
    for (size_t i = 0; i < G_N_ELEMENTS(seconds); i++) {
        step_one(engine, at, at + seconds[i] * S, "a", 10, "", S / 2);
        at += seconds[i] * S;
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
        const struct vg_snap_profile *profile = &vm_at(snapshot, 0)->profile;
        assert_int_equal(profile->cpu->len, lengths[i]);
        assert_int_equal(profile->window_ns, i < 10 ? S : 2 * S);
    }
}

/* Live, means over 5 minutes from the first hour on, which stay for a day when the VM leaves. */
static void
test_day(void **state)
{
    static const char uuid[] = "00000000-0000-4000-8000-000000000001";

    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    int64_t at = 0;
    for (int minute = 0; minute < 25 * 60; minute++, at += 60 * S) {
        const int64_t run_ns = minute % 10 < 5 ? 60 * S : 30 * S;
        step_one(engine, at, at + 60 * S, "a", 10, uuid, run_ns);
        if (minute != 58 && minute != 59 && minute != 25 * 60 - 1)
            continue;
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
        const struct vg_snap_profile *day = &vm_at(snapshot, 0)->day;
        assert_int_equal(day->cpu->len, minute == 58 ? 0 : minute == 59 ? 12 : 288);
        for (guint i = 0; i < day->cpu->len; i++)
            assert_near(g_array_index(day->cpu, double, i), i % 2 == 0 ? 1 : 0.5);
    }
    for (int minute = 0; minute <= 24 * 60; minute++, at += 60 * S) {
        step_one(engine, at, at + 60 * S, "b", 11, "", 0);
        if (minute > 0 && minute != VG_ENGINE_FORGET_WINDOWS && minute < 24 * 60)
            continue;
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
        const GPtrArray *departed =
            ((const struct vg_snap_host *)snapshot->hosts->pdata[0])->departed;
        assert_int_equal(departed->len, minute < 24 * 60);
        for (guint i = 0; i < departed->len; i++) {
            const struct vg_snap_departed *one = departed->pdata[i];
            assert_string_equal(one->uuid, uuid);
            assert_int_equal(one->age_ns, (minute + 1) * 60 * S);
            assert_int_equal(one->day.cpu->len, 288);
        }
    }
}

/* Windows of half the length: two are left out, with the third the profile starts anew. */
static void
test_shorter_windows(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    for (int i = 0; i < 5; i++)
        step_one(engine, i * S, (i + 1) * S, "a", 10, "", S);
    int64_t at = 5 * S;
    for (int i = 1; i <= 4; i++, at += S / 2) {
        step_one(engine, at, at + S / 2, "a", 10, "", S / 4);
        g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_LIVE, 1);
        const struct vg_snap_profile *profile = &vm_at(snapshot, 0)->profile;
        assert_int_equal(profile->cpu->len, i < VG_ENGINE_ODD_WINDOWS ? 5 : i - 2);
        assert_int_equal(profile->window_ns, i < VG_ENGINE_ODD_WINDOWS ? S : S / 2);
    }
}

static void
test_edges(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    step_one(engine, S, S, "a", 10, "", 0); /* no length: ignored */
    g_autoptr(vg_snapshot) nothing = read_snapshot(engine, VG_ENGINE_LIVE, 0);
    const struct vg_snap_host *host = nothing->hosts->pdata[0];
    assert_int_equal(host->vms->len, 0);
    assert_int_equal(host->cpus, 1);

    /* One long window: the whole of a recording; CPUs guessed from use. */
    struct vg_window window;
    window_init(&window, 0, 6 * S);
    struct vg_vm_sample *vm = add_vm(&window, "a", 10, 3 * S, 0);
    const int32_t cpu = 5;
    g_array_append_val(vm->cpus, cpu);
    vg_engine_step(engine, &window, "host");
    vg_window_clear(&window);
    g_autoptr(vg_snapshot) snapshot = read_snapshot(engine, VG_ENGINE_MEAN, 0);
    host = snapshot->hosts->pdata[0];
    assert_int_equal(host->cpus, 6);
    assert_near(vm_at(snapshot, 0)->run_share, 0.5);

    g_autoptr(GError) err = NULL;
    const struct vg_engine_part part = {.source = VG_SOURCE_TRACE};
    const struct vg_snap_host *twice[] = {host, host};
    assert_null(vg_engine_snapshot(engine, &part, twice, 2, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_CONFLICT));
}

/* Two VMs that want the same CPU all the time, and a second host with room: from windows to plan.
 */
static void
test_plan(void **state)
{
    (void)state;
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_MEAN);
    for (int i = 0; i < 6; i++) {
        struct vg_window window;
        window_init(&window, i * S, (i + 1) * S);
        for (int v = 0; v < 2; v++) {
            struct vg_vm_sample *vm = add_vm(&window, v ? "b" : "a", 10 + 10 * v, S / 2, S / 2);
            const int32_t cpu = 0;
            g_array_append_val(vm->cpus, cpu);
            add_loss(vm, VG_AGGRESSOR_VM, (uint32_t)(1 - v), S / 2, 50);
        }
        vg_engine_step(engine, &window, "busy");
        vg_window_clear(&window);
    }
    vg_snapshot *described = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *busy = vg_snapshot_add_host(described, "busy");
    struct vg_snap_host *calm = vg_snapshot_add_host(described, "calm");
    busy->cpus = 2;
    calm->cpus = 2;
    const struct vg_engine_part part = {.source = VG_SOURCE_TRACE, .note = "made by a test"};
    const struct vg_snap_host *hosts[] = {busy, calm};
    g_autoptr(vg_snapshot) snapshot = vg_engine_snapshot(engine, &part, hosts, 2, NULL);
    vg_snapshot_free(described);
    g_autoptr(vg_plan) plan = vg_policy_plan(snapshot, &config, VG_RULE_COMPLEMENT, NULL);
    assert_int_equal(plan->verdict, VG_PLAN_CHANGES);
    const struct vg_plan_action *action = plan->actions->pdata[0];
    assert_string_equal(action->vm, "a");
    assert_string_equal(action->to, "calm");
    assert_string_equal(action->role, "aggressor"); /* it took as much as it lost */
    assert_int_equal(action->gain.lost_cpu_ns_per_s, S);
}

/* A plan must not take a VM whose CPU use nobody measures for one that needs none. */
static void
test_only_gpu_use_is_a_problem(void **state)
{
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    const struct vg_engine_part part = {.source = VG_SOURCE_LIVE};

    (void)state;
    for (int measured = 0; measured < 2; measured++) {
        struct vg_window window;
        window_init(&window, measured * S, (measured + 1) * S);
        struct vg_vm_sample *vm = add_vm(&window, "a", 10, 0, 0);
        vm->gpu_known = true;
        vm->gpu_active_ns = 600 * MS;
        if (!measured) {
            vm->cpu = (struct vg_cpu_figures){0};
            g_array_set_size(vm->vcpus, 0);
        }
        vg_engine_step(engine, &window, "host");
        vg_window_clear(&window);
        struct vg_snap_host *host = vg_record_new(&vg_snap_host_record);
        host->name = g_strdup("host");
        const struct vg_snap_host *hosts[] = {host};
        g_autoptr(vg_snapshot) snapshot = vg_engine_snapshot(engine, &part, hosts, 1, NULL);
        vg_record_free(&vg_snap_host_record, host);
        assert_non_null(snapshot);
        const struct vg_snap_vm *a = vm_at(snapshot, 0);
        assert_true(a->gpu_known);
        if (measured)
            assert_null(a->problem);
        else
            assert_string_equal(a->problem, "only its GPU use is measured");
    }
}

/* Where all VMs that libvirt knows are described, one that is not is unmanaged. */
static void
test_unmanaged(void **state)
{
    g_autoptr(vg_engine) engine = vg_engine_new(&config, VG_ENGINE_LIVE);

    (void)state;
    step_one(engine, 0, S, "a", 10, "", S / 10);
    for (int described = 0; described < 2; described++) {
        for (int known = 0; known < 2; known++) {
            const struct vg_engine_part part = {.source = VG_SOURCE_LIVE, .described = described};
            struct vg_snap_host *host = vg_record_new(&vg_snap_host_record);
            host->name = g_strdup("host");
            vg_snap_host_add_vm(host, known ? "a" : "another");
            const struct vg_snap_host *hosts[] = {host};
            g_autoptr(vg_snapshot) snapshot = vg_engine_snapshot(engine, &part, hosts, 1, NULL);
            vg_record_free(&vg_snap_host_record, host);
            assert_non_null(snapshot);
            assert_int_equal(vm_at(snapshot, 0)->unmanaged, described && !known);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rates, set_up),
        cmocka_unit_test_setup(test_gpu, set_up),
        cmocka_unit_test_setup(test_only_gpu_use_is_a_problem, set_up),
        cmocka_unit_test_setup(test_unmanaged, set_up),
        cmocka_unit_test_setup(test_profile, set_up),
        cmocka_unit_test_setup(test_identity, set_up),
        cmocka_unit_test_setup(test_forgets, set_up),
        cmocka_unit_test_setup(test_edges, set_up),
        cmocka_unit_test_setup(test_plan, set_up),
        cmocka_unit_test_setup(test_cpus, set_up),
        cmocka_unit_test_setup(test_what_the_host_itself_takes, set_up),
        cmocka_unit_test_setup(test_unknown_use_of_the_host_itself, set_up),
        cmocka_unit_test_setup(test_profile_of_the_host_itself, set_up),
        cmocka_unit_test_setup(test_twins, set_up),
        cmocka_unit_test_setup(test_mean_of_times, set_up),
        cmocka_unit_test_setup(test_many_aggressors, set_up),
        cmocka_unit_test_setup(test_faded_aggressors, set_up),
        cmocka_unit_test_setup(test_shorter_windows, set_up),
        cmocka_unit_test_setup(test_longer_windows, set_up),
        cmocka_unit_test_setup(test_day, set_up),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
