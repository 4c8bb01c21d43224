/* SPDX-License-Identifier: Apache-2.0
 *
 * Views: VMs and samples that follow from their time.
 */
#include "config.h"

#include <inttypes.h>

#include "model/lost-series.h"
#include "tests/tools/fake-private.h"

#define ODD_GPU "gpu/\"x\" \xc3\xa4"
#define BOOT_ID "0b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01"

void
fake_fill_figures(struct vg_cpu_figures *cpu, int64_t scale)
{
    *cpu = (struct vg_cpu_figures){
        .observed_ns = 1000 * scale,
        .run_ns = 600 * scale,
        .guest_ns = 550 * scale,
        .preempt_ns = 200 * scale,
        .wake_wait_ns = 50 * scale,
        .blocked_ns = 150 * scale,
        .entries = (uint64_t)scale / 1000,
        .preemptions = (uint64_t)scale / 2000,
        .wakeups = (uint64_t)scale / 3000,
        .blocks = (uint64_t)scale / 3000,
        .switches_out = (uint64_t)scale / 1200,
        .exits = {[VG_EXIT_HLT] = (uint64_t)scale / 4000},
        .clipped = 1,
    };
}

static const char *
vm_name(int64_t i, char buf[32])
{
    static const char *const names[] = {"alpha", "beta", "gamma/\"x\" \xc3\xa4", "del\nta\n2"};

    if (i < (int64_t)G_N_ELEMENTS(names))
        return names[i];
    g_snprintf(buf, 32, "vm-%05" PRId64, i);
    return buf;
}

static void
add_sample(struct vg_window *window, int64_t i, const struct fake_options *options, int64_t scale)
{
    struct vg_vm_sample sample;
    int64_t n = options->vms;
    char name[32];

    vg_vm_sample_init(&sample);
    sample.id = (uint32_t)i;
    sample.pid = (int32_t)(1000 + i);
    g_strlcpy(sample.name, vm_name(i, name), sizeof(sample.name));
    if (i != 1 && i != 3)
        g_snprintf(sample.uuid, sizeof(sample.uuid), FAKE_UUID, (unsigned)i);
    sample.guest_known = true;
    sample.gpu_known = i == 0;
    sample.gpu_active_ns = i == 0 ? 400 * scale : 0;
    fake_fill_figures(&sample.cpu, scale * (i + 1));
    for (int32_t k = 0; k < 2; k++) {
        struct vg_vcpu_sample vcpu = {.tid = (int32_t)(2000 + 2 * i + k), .index = k};
        fake_fill_figures(&vcpu.cpu, scale * (i + 1) / 2);
        g_array_append_val(sample.vcpus, vcpu);
        int32_t cpu = (int32_t)(i % 8) + k;
        g_array_append_val(sample.cpus, cpu);
        vg_window_add_place(sample.places, cpu, 300 * scale, 40 * scale);
    }
    sample.cpus_allowed = sample.places_counted = i % 2 == 0;
    struct vg_lost_to by_vm = {.kind = VG_AGGRESSOR_VM,
                               .vm_id = (uint32_t)((i + 1) % n),
                               .ns = 150 * scale * (i + 1),
                               .vcpu_ns = 100 * scale * (i + 1),
                               .emulator_ns = 50 * scale * (i + 1),
                               .count = 7};
    struct vg_lost_to by_self = {
        .kind = VG_AGGRESSOR_SELF, .ns = 60 * scale, .vcpu_ns = 60 * scale, .count = 2};
    struct vg_lost_to by_kernel = {.kind = VG_AGGRESSOR_HOST_KERNEL, .ns = 40 * scale, .count = 3};
    struct vg_lost_to by_user = {.kind = VG_AGGRESSOR_HOST_USER, .ns = 30 * scale, .count = 9};
    const struct vg_lost_process processes[] = {
        {.pid = 70,
         .comm = "back\033up",
         .cgroup = "/system.slice/backup.service",
         .ns = 20 * scale,
         .count = 5},
        {.pid = 71, .pids = 3, .comm = "\xff", .ns = 1 * scale, .count = 1},
        {.pid = 72, .ns = 1 * scale},
        {.pid = 73, .comm = "back\033up", .ns = 2 * scale, .count = 1}};
    if (n > 1)
        g_array_append_val(sample.lost_to, by_vm);
    g_array_append_val(sample.lost_to, by_self);
    g_array_append_val(sample.lost_to, by_kernel);
    g_array_append_val(sample.lost_to, by_user);
    g_array_append_vals(sample.lost_processes, processes, G_N_ELEMENTS(processes));
    if (i < options->gpu_vms) {
        struct vg_gpu_sample gpu = {.device = "0000:41:00.0",
                                    .engine = "rcs0",
                                    .requests = 120,
                                    .busy_ns = 300 * scale / (i + 1),
                                    .exec_ns = 320 * scale,
                                    .wait_ns = 90 * scale,
                                    .latency_p50_ns = 1000000,
                                    .latency_p95_ns = 2000000,
                                    .latency_p99_ns = 3000000,
                                    .latency_max_ns = 4000000,
                                    .queue_len_avg = 0.5,
                                    .open = 2,
                                    .open_oldest_ns = 1500000000,
                                    .confidence = 1,
                                    .queue_len_max = 4};
        g_array_append_val(sample.gpus, gpu);
        if (i == 0)
            g_array_append_val(window->gpus, gpu);
    }
    g_array_append_val(window->vms, sample);
}

/* A GPU that only records know, and a process that is no VM. */
static void
add_odd_gpu(struct vg_window *window, int64_t scale)
{
    struct vg_gpu_process_sample process = {
        .pid = 77,
        .comm = "Xorg",
        .gpu = {.device = ODD_GPU, .engine = "rcs0", .requests = 3, .busy_ns = 200 * scale}};

    g_array_append_val(window->gpus, process.gpu);
    g_array_append_val(window->gpu_processes, process);
}

/* Ten requests of a window, which the first VM, nobody, and a VM that is gone share. Always two
 * end at once. */
static void
add_requests(struct vg_window *window)
{
    static const char *const devices[] = {"0000:41:00.0", ODD_GPU};
    struct vg_vm_sample gone;
    int64_t begin = window->begin_ns;

    vg_vm_sample_init(&gone);
    gone.id = UINT32_MAX / 2;
    g_strlcpy(gone.name, "departed", sizeof(gone.name));
    g_strlcpy(gone.uuid, FAKE_DEPARTED, sizeof(gone.uuid));
    g_array_append_val(window->vms, gone);
    for (guint i = 0; i < G_N_ELEMENTS(devices); i++) {
        struct vg_gpu_sample gpu = {.engine = "rcs0"};
        g_strlcpy(gpu.device, devices[i], sizeof(gpu.device));
        g_array_append_val(window->gpus, gpu);
    }
    for (int64_t i = 0; i < 10; i++) {
        int64_t end = begin + (i / 2 + 1) * 100 * VG_NS_PER_MS;
        const struct vg_gpu_request_sample request = {
            .gpu = i == 9,
            .vm = i == 0   ? VG_PROCESS_NO_ID
                  : i == 1 ? gone.id
                           : 0,
            .pid = i == 0 ? 0 : 1000,
            .coalesced = i == 2,
            .context = i == 3 ? UINT64_MAX : 7,
            .seqno = (uint64_t)(begin / VG_NS_PER_S * 10 + i),
            .queued_ns = i == 4 ? VG_TIME_UNKNOWN : end - 50 * VG_NS_PER_MS,
            .submitted_ns = VG_TIME_UNKNOWN,
            .ready_ns = end - 40 * VG_NS_PER_MS,
            .run_ns = end - 30 * VG_NS_PER_MS,
            .end_ns = end,
            .exec_ns = 30 * VG_NS_PER_MS,
            .left_out = i == 9 ? 2 : 0,
        };
        g_array_append_val(window->gpu_requests, request);
    }
}

/* The log with the requests of one more window. */
static vg_gpu_log *
log_requests(vg_gpu_log *take_log, int64_t end_ns, const struct fake_options *options)
{
    struct vg_window window;

    vg_window_init(&window, false);
    window.end_ns = end_ns;
    window.begin_ns = end_ns - VG_NS_PER_S;
    add_requests(&window);
    if (options->vms > 0)
        add_sample(&window, 0, options, 1);
    vg_gpu_log *log = vg_gpu_log_add(take_log, &window);
    vg_window_clear(&window);
    return log;
}

static void
add_snapshot_vm(struct vg_snap_host *host, int64_t i, int64_t n)
{
    char name[32];
    char other[32];
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, vm_name(i, name));

    if (i != 1 && i != 3)
        vm->uuid = g_strdup_printf(FAKE_UUID, (unsigned)i);
    vm->pid = 1000 + i;
    vm->vcpus = 2;
    vm->memory_bytes = INT64_C(1) << 30;
    vm->vm_class = i == 0 ? VG_CLASS_MIXED : i % 2 ? VG_CLASS_CPU : VG_CLASS_IDLE;
    /* Means, whose order is not that of the newest window. */
    vm->cpu_intensity = (double)(i + 1) / (double)n;
    vm->gpu_intensity = i == 0 ? 0.4 : 0;
    vm->gpu_known = i == 0;
    vm->guest_known = true;
    vm->run_share = 0.6;
    vm->preempt_share = 0.01 * (double)(n - i);
    vm->wake_wait_share = 0.05;
    vm->preemptions_per_s = 12.5;
    vm->profile.window_ns = VG_NS_PER_S;
    for (int k = 0; k < 3; k++) {
        double wanted = 0.5 + 0.1 * k;
        g_array_append_val(vm->profile.cpu, wanted);
    }
    if (n > 1) {
        struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
        loss->aggressor = g_strdup(vm_name((i + 1) % n, other));
        loss->share = 0.15;
        loss->count_per_s = 7;
        g_ptr_array_add(vm->lost_to, loss);
    }
}

static vg_inventory *
make_inventory(void)
{
    vg_inventory *inventory = vg_inventory_new("test-host");

    inventory->uuid = g_strdup("11111111-2222-4333-8444-555555555555");
    inventory->cpus = 8;
    inventory->cpu_model = g_strdup("test-cpu");
    inventory->memory_bytes = INT64_C(64) << 30;
    inventory->memory_free_bytes = INT64_C(32) << 30;
    inventory->hypervisor = g_strdup("QEMU 7.2.22");
    inventory->libvirt_uri = g_strdup("qemu:///system");
    struct vg_inv_gpu *gpu = vg_inventory_add_gpu(inventory, "0000:41:00.0");
    gpu->vendor = g_strdup("0x8086");
    gpu->numa_node = -1;
    struct vg_inv_mdev_type *type = vg_record_new(&vg_inv_mdev_type_record);
    type->type = g_strdup("i915-GVTg_V5_4");
    type->available = 2;
    g_ptr_array_add(gpu->mdev_types, type);
    struct vg_inv_mdev *mdev = vg_record_new(&vg_inv_mdev_record);
    mdev->uuid = g_strdup("99999999-2222-4333-8444-555555555555");
    mdev->type = g_strdup("i915-GVTg_V5_4");
    g_ptr_array_add(gpu->mdevs, mdev);
    struct vg_inv_vm *vm = vg_inventory_add_vm(inventory, "alpha");
    vm->uuid = g_strdup_printf(FAKE_UUID, 0);
    vm->id = 3;
    vm->pid = 1000;
    vm->vcpus = 2;
    vm->state = VG_DOMAIN_RUNNING;
    vm->nova_managed = true;
    vm->nova.name = g_strdup("web-1");
    vm->nova.project_name = g_strdup("graphics");
    vm->nova.project_id = g_strdup("9f8e7d6c");
    struct vg_inv_device *device = vg_record_new(&vg_inv_device_record);
    device->kind = g_strdup("mdev");
    device->address = g_strdup("99999999-2222-4333-8444-555555555555");
    device->is_gpu = true;
    g_ptr_array_add(vm->devices, device);
    struct vg_inv_vcpu *vcpu = vg_record_new(&vg_inv_vcpu_record);
    vcpu->tid = 2000;
    g_ptr_array_add(vm->threads, vcpu);
    return inventory;
}

/* What VMs have taken so far, all by name. */
static void
make_lost_series(vg_view *view)
{
    vg_lost_series *series = vg_lost_series_new(VG_LOST_SERIES_TOP_MAX);

    vg_lost_series_step(series, &view->totals, false);
    view->lost_series = vg_lost_series_list(series);
    vg_lost_series_free(series);
}

/* Two programs of the host, one of which may have used more. */
static void
add_programs(struct vg_window *window, int64_t scale)
{
    const struct vg_lost_process programs[] = {
        {.pid = 70,
         .pids = 3,
         .comm = "ma\033ke",
         .cgroup = "/user.slice",
         .ns = 12000000000 * scale,
         .error_ns = scale > 1 ? 1000000 : 0},
        {.pid = 71, .pids = 1, .comm = "\xff", .ns = 500000000 * scale}};

    g_array_append_vals(window->programs, programs, G_N_ELEMENTS(programs));
    window->programs_ns = 10 * VG_NS_PER_S * scale;
    window->programs_end_ns = window->end_ns;
}

vg_view *
fake_make_view(fake_backend *fake)
{
    vg_view *view = vg_view_new();
    int64_t n = fake->options.vms;

    view->seq = ++fake->seq;
    view->boot_id = BOOT_ID;
    view->made_ns = vg_clock_realtime_ns();
    view->started_ns = FAKE_BEGIN_NS;
    view->window_ns = VG_NS_PER_S;
    view->windows = view->seq;
    view->provenance = (struct vg_provenance){.source = "procfs",
                                              .series = "live",
                                              .gpu_source = "lttng",
                                              .confidence = 0.75,
                                              .cost_ns = 120000};
    vg_provenance_set_all(&view->provenance, "procfs", 0.75);
    vg_provenance_lacks(&view->provenance, VG_MEASURE_LOST_TO, "\"nobody\" knows");
    view->clock_offset_ns = FAKE_BEGIN_NS;
    view->snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    view->inventory = make_inventory();
    g_ptr_array_unref(view->gpu_parts);
    view->gpu_parts = vg_gpu_parts(view->inventory, NULL);
    struct vg_snap_host *host = vg_snapshot_add_host(view->snapshot, "test-host");
    host->cpus = 8;
    host->store_bytes = INT64_C(5) << 29;
    vg_window_init(&view->totals, false);
    vg_window_init(&view->newest, false);
    view->totals.end_ns = (int64_t)view->seq * VG_NS_PER_S;
    view->newest.end_ns = view->totals.end_ns;
    view->newest.begin_ns = view->newest.end_ns - VG_NS_PER_S;
    for (int32_t i = 0; i < 4; i++) {
        struct vg_host_cpu cpu = {.cpu = i,
                                  .node = i < 3 ? i / 2 : -1,
                                  .busy_ns = 700000000,
                                  .idle_ns = 300000000,
                                  .wait_ns = i == 1 ? -1 : 5};
        g_array_append_val(view->newest.cpus, cpu);
    }
    view->newest.host = (struct vg_host_sample){
        .pressure_ns = -1, .own_ns = 200000000, .idle_ns = 1200000000, .load = {1.5, 2, 0.25}};
    view->newest.host.pressure[VG_RESOURCE_IO] = (struct vg_pressure){-1, -1};
    view->newest.host.no_pressure = "made up";
    add_programs(&view->totals, (int64_t)view->seq);
    add_programs(&view->newest, 1);
    add_odd_gpu(&view->totals, 1000000 * (int64_t)view->seq);
    add_odd_gpu(&view->newest, 1000000);
    for (int64_t i = 0; i < n && !fake->churn; i++) {
        add_snapshot_vm(host, i, n);
        add_sample(&view->totals, i, &fake->options, 1000000 * (int64_t)view->seq);
        add_sample(&view->newest, i, &fake->options, 1000000);
    }
    if (fake->churn)
        fake_churn_step(fake->churn, view, host);
    else
        make_lost_series(view);
    fake->gpu_log = log_requests(fake->gpu_log, view->newest.end_ns, &fake->options);
    view->gpu_log = vg_gpu_log_ref(fake->gpu_log);
    if (vg_snapshot_seal(view->snapshot, NULL) < 0)
        vg_bug("the made-up snapshot is wrong");
    return view;
}
