/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/tools/fake-backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/thread.h"

#define BOOT_ID  "0b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01"
#define UUID_FMT "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c%04x"
#define BEGIN_NS INT64_C(1795200000000000000)
#define DEPARTED "5c9e2c3a-55aa-4c3e-9d54-2f1f6a3c9e02"

/* There from the start. */
static const struct {
    const char *name;
    enum vg_role role;
    bool expired;
} known_tokens[] = {
    {"reader", VG_ROLE_READER, false},
    {"operator", VG_ROLE_OPERATOR, false},
    {"admin", VG_ROLE_ADMIN, false},
    {"expired", VG_ROLE_ADMIN, true},
};

struct fake_backend {
    struct vg_backend table;
    struct fake_options options;
    pthread_mutex_t lock;
    vg_view *view;
    vg_gpu_log *gpu_log;
    GPtrArray *plans;  /* struct vg_saved_plan, oldest first */
    GPtrArray *tokens; /* struct vg_token; the text of each is its name and "-token" */
    GPtrArray *moves;  /* struct vg_migration, oldest first */
    GPtrArray *kept;   /* struct vg_reservation */
    GPtrArray *audit;  /* struct vg_audit_entry, oldest first */
    uint64_t refusals;
    uint64_t seq;
};

static void
fill_figures(struct vg_cpu_figures *cpu, int64_t scale)
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
        g_snprintf(sample.uuid, sizeof(sample.uuid), UUID_FMT, (unsigned)i);
    sample.guest_known = true;
    sample.gpu_known = i == 0;
    sample.gpu_active_ns = i == 0 ? 400 * scale : 0;
    fill_figures(&sample.cpu, scale * (i + 1));
    for (int32_t k = 0; k < 2; k++) {
        struct vg_vcpu_sample vcpu = {.tid = (int32_t)(2000 + 2 * i + k), .index = k};
        fill_figures(&vcpu.cpu, scale * (i + 1) / 2);
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
        {.pid = 72, .ns = 1 * scale}};
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
                                    .confidence = 1,
                                    .queue_len_max = 4};
        g_array_append_val(sample.gpus, gpu);
        if (i == 0)
            g_array_append_val(window->gpus, gpu);
    }
    g_array_append_val(window->vms, sample);
}

#define ODD_GPU "gpu/\"x\" \xc3\xa4"

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
    g_strlcpy(gone.uuid, DEPARTED, sizeof(gone.uuid));
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
        vm->uuid = g_strdup_printf(UUID_FMT, (unsigned)i);
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
    vm->uuid = g_strdup_printf(UUID_FMT, 0);
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

static vg_view *
make_view(fake_backend *fake)
{
    vg_view *view = vg_view_new();
    int64_t n = fake->options.vms;

    view->seq = ++fake->seq;
    view->boot_id = BOOT_ID;
    view->made_ns = vg_clock_realtime_ns();
    view->started_ns = BEGIN_NS;
    view->window_ns = VG_NS_PER_S;
    view->windows = view->seq;
    view->provenance = (struct vg_provenance){.source = "procfs",
                                              .series = "live",
                                              .gpu_source = "lttng",
                                              .confidence = 0.75,
                                              .cost_ns = 120000};
    vg_provenance_set_all(&view->provenance, "procfs", 0.75);
    vg_provenance_lacks(&view->provenance, VG_MEASURE_LOST_TO, "\"nobody\" knows");
    view->clock_offset_ns = BEGIN_NS;
    view->snapshot = vg_snapshot_new(VG_SOURCE_LIVE);
    view->inventory = make_inventory();
    g_ptr_array_unref(view->gpu_parts);
    view->gpu_parts = vg_gpu_parts(view->inventory, NULL);
    struct vg_snap_host *host = vg_snapshot_add_host(view->snapshot, "test-host");
    host->cpus = 8;
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
    add_odd_gpu(&view->totals, 1000000 * (int64_t)view->seq);
    add_odd_gpu(&view->newest, 1000000);
    for (int64_t i = 0; i < n; i++) {
        add_snapshot_vm(host, i, n);
        add_sample(&view->totals, i, &fake->options, 1000000 * (int64_t)view->seq);
        add_sample(&view->newest, i, &fake->options, 1000000);
    }
    fake->gpu_log = log_requests(fake->gpu_log, view->newest.end_ns, &fake->options);
    view->gpu_log = vg_gpu_log_ref(fake->gpu_log);
    if (vg_snapshot_seal(view->snapshot, NULL) < 0)
        vg_bug("the made-up snapshot is wrong");
    return view;
}

static vg_view *
get_view(void *data)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    return vg_view_ref(fake->view);
}

/* One source that measures, and some that do not for reasons that real ones have. */
static void
add_collectors(GPtrArray *parts)
{
    struct vg_part_status *live = vg_part_status_new(
        "collector:live", "degraded", true, g_strdup("by procfs; not by bpf; not by perf"));
    struct vg_part_status *gpu =
        vg_part_status_new("collector:gpu", "ok", true, g_strdup("fdinfo; not nvml"));

    live->since_ns = BEGIN_NS;
    live->sources = vg_source_states_new();
    vg_source_states_add(
        live->sources, "bpf", VG_SOURCE_ABSENT,
        g_strdup("the kernel does not take the BPF programs (they need CAP_BPF and "
                 "CAP_PERFMON): Operation not permitted"));
    vg_source_states_add(
        live->sources, "perf", VG_SOURCE_ABSENT,
        g_strdup("there are no tracepoints; `mount -t tracefs none /sys/kernel/tracing` as root"));
    vg_source_states_add(live->sources, "procfs", VG_SOURCE_USED, NULL);
    gpu->since_ns = BEGIN_NS;
    gpu->sources = vg_source_states_new();
    vg_source_states_add(gpu->sources, "fdinfo", VG_SOURCE_USED,
                         g_strdup("2 VMs with DRM clients"));
    vg_source_states_add(gpu->sources, "nvml", VG_SOURCE_ABSENT, g_strdup("no GPU of NVIDIA's"));
    g_ptr_array_add(parts, live);
    g_ptr_array_add(parts, gpu);
}

static GPtrArray *
get_status(void *data)
{
    fake_backend *fake = data;
    GPtrArray *parts = g_ptr_array_new_with_free_func(vg_part_status_free);
    bool ready = !fake->options.not_ready;

    g_ptr_array_add(parts, vg_part_status_new("engine", "ok", true, NULL));
    g_ptr_array_add(parts, vg_part_status_new("store", ready ? "ok" : "failed", ready,
                                              ready ? NULL : g_strdup("the disk is full")));
    add_collectors(parts);
    return parts;
}

static void
get_stats(void *data, struct vg_daemon_stats *ret)
{
    (void)data;
    *ret = (struct vg_daemon_stats){
        .store = {.state = VG_STORE_OK, .committed = 12, .bytes = 5 << 10, .free_bytes = 8 << 20},
        .cpu_s = 1.5,
        .rss_bytes = 1 << 20,
        .store_directory = "/var/lib/made-up",
        .raw_days = 2,
        .minute_days = 30,
        .hour_days = 365,
        .budget = 0.05,
        .libvirt = true,
        .gpu = true,
        .acting = true,
    };
}

static void
work(const fake_backend *fake)
{
    g_usleep((gulong)fake->options.job_ms * 1000);
}

/* A window each second since BEGIN_NS. */
static GArray *
get_samples(void *data, const struct vg_history_query *query, GError **err)
{
    g_autoptr(GArray) rows = vg_history_rows_new();
    int64_t step = query->step_ns ? query->step_ns : VG_NS_PER_S;

    work(data);
    if (g_str_has_prefix(query->vm, "fail-")) {
        vg_error(err, VG_E_IO, "the disk is broken");
        return NULL;
    }
    if (strcmp(query->vm, "departed") == 0) {
        vg_error(err, VG_E_NOT_FOUND, "nothing is stored of a VM '%s'", query->vm);
        return NULL;
    }
    if (strcmp(query->vm, "beta") != 0 && !g_str_has_prefix(query->vm, "5c9e2c3a-"))
        return g_steal_pointer(&rows);
    int64_t from = MAX(query->since_ns, BEGIN_NS);
    if (query->left_out && strcmp(query->vm, "beta") == 0)
        g_ptr_array_add(query->left_out, g_strdup("cannot read 'ts-20261119.db': it is made up"));
    for (int64_t end = (from / step + 1) * step; end <= query->until_ns; end += step) {
        struct vg_history_row *row = vg_history_add_row(rows);
        row->begin_ns = end - step;
        row->end_ns = end;
        row->windows = step / VG_NS_PER_S;
        row->guest_known = true;
        fill_figures(&row->cpu, step / 1000);
        GRefString *rest = g_ref_string_new("rest");
        vg_history_add_loss(row->lost_to, rest, 1000, 1);
        g_ref_string_release(rest);
        if (rows->len >= VG_HISTORY_ROWS_MAX)
            break;
    }
    return g_steal_pointer(&rows);
}

/* One that is gone, whose name was "departed". */
/* ---- moves: of alpha to anywhere but "full"; each look brings one a step further ---- */

static int
check_request(const struct vg_migration_request *request, GError **err)
{
    if (strcmp(request->vm, "alpha") != 0)
        return vg_error(err, VG_E_NOT_FOUND, "there is no VM '%s'", request->vm);
    if (strcmp(request->to, "full") == 0)
        return vg_error(err, VG_E_CONFLICT, "host 'full' has no GPU left");
    if (strcmp(request->to, "off") == 0)
        return vg_error(err, VG_E_REFUSED, "acting is off; [actions] enabled=yes allows it");
    return 0;
}

static struct vg_migration *
new_move(const struct vg_migration_request *request, unsigned n)
{
    struct vg_migration *move = vg_migration_new();
    struct vg_move_device *device = vg_record_new(&vg_move_device_record);

    move->id = g_strdup_printf("move-%016x", n);
    move->vm = g_strdup("alpha");
    move->uuid = g_strdup_printf(UUID_FMT, 0);
    move->from = g_strdup("test-host");
    move->to = g_strdup(request->to);
    move->peer = g_strdup(request->to);
    move->plan_id = g_strdup(request->plan_id);
    move->undo_of = g_strdup(request->undo_of);
    move->asked_by = g_strdup(request->asked_by);
    move->no_agent = request->no_agent;
    move->vm_on = VG_PLACE_SOURCE;
    move->gpu = VG_GPU_ATTACHED;
    move->made_ns = BEGIN_NS + n;
    device->type = g_strdup("standin");
    device->alias = g_strdup("ua-gpu0");
    device->source_xml = g_strdup("<shmem/>");
    g_ptr_array_add(move->devices, device);
    return move;
}

/* From state to state until the end; the same verbs as a real one, a second each. */
static void
step_move(struct vg_migration *move)
{
    static const char *const verbs[] = {
        [VG_MIGRATION_PRECHECKING] = "precheck", [VG_MIGRATION_RESERVING] = "reserve",
        [VG_MIGRATION_QUIESCING] = "quiesce",    [VG_MIGRATION_DETACHING] = "detach",
        [VG_MIGRATION_MIGRATING] = "migrate",    [VG_MIGRATION_ATTACHING] = "attach",
        [VG_MIGRATION_RESUMING] = "resume",      [VG_MIGRATION_VERIFYING] = "verify",
        [VG_MIGRATION_ROLLING_BACK] = "revive",
    };
    const int64_t now_ns = BEGIN_NS + (int64_t)(move->steps->len + 1) * VG_NS_PER_S;

    if (vg_migration_has_ended(move->state))
        return;
    if (move->steps->len > 0) {
        struct vg_migration_step *last = move->steps->pdata[move->steps->len - 1];
        last->ended_ns = now_ns;
        last->ok = true;
        last->answer = g_strdup("done");
    }
    if (move->state == VG_MIGRATION_ROLLING_BACK || move->state == VG_MIGRATION_VERIFYING) {
        move->state =
            move->state == VG_MIGRATION_VERIFYING ? VG_MIGRATION_DONE : VG_MIGRATION_ABORTED;
        move->ended_ns = now_ns;
        move->vm_on = move->abort_asked ? VG_PLACE_SOURCE : VG_PLACE_TARGET;
        g_clear_pointer(&move->step, g_free);
        return;
    }
    move->state = move->abort_asked ? VG_MIGRATION_ROLLING_BACK : move->state + 1;
    struct vg_migration_step *step = vg_record_new(&vg_migration_step_record);
    step->verb = g_strdup(verbs[move->state]);
    step->began_ns = now_ns;
    step->undoes = move->abort_asked;
    step->asked = g_strdup_printf("alpha: %s", step->verb);
    g_ptr_array_add(move->steps, step);
    g_free(move->step);
    move->step = g_strdup(step->verb);
    if (move->state == VG_MIGRATION_MIGRATING)
        move->progress = (struct vg_migration_progress){.total_bytes = 1 << 30,
                                                        .remaining_bytes = 1 << 28,
                                                        .processed_bytes = 3 << 28,
                                                        .dirty_bytes_per_s = 1 << 20,
                                                        .bytes_per_s = 1 << 27,
                                                        .iteration = 2,
                                                        .eta_ns = 2 * VG_NS_PER_S,
                                                        .downtime_ns = 80 * VG_NS_PER_MS,
                                                        .elapsed_ns = VG_NS_PER_S};
}

static struct vg_migration *
start_move(void *data, const struct vg_migration_request *request, bool *ret_known, char **ret_peer,
           GError **err)
{
    fake_backend *fake = data;

    (void)ret_known, (void)ret_peer;
    if (check_request(request, err) < 0)
        return NULL;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = new_move(request, fake->moves->len + 1);
    g_ptr_array_add(fake->moves, move);
    return vg_migration_copy(move);
}

static json_object *
check_move(void *data, const struct vg_migration_request *request, GError **err)
{
    static const char *const verbs[] = {"precheck", "reserve", "quiesce", "detach",
                                        "migrate",  "attach",  "resume",  "verify"};
    json_object *object, *problems, *steps, *devices;

    (void)data;
    if (strcmp(request->to, "full") != 0 && check_request(request, err) < 0)
        return NULL;
    object = json_object_new_object();
    problems = json_object_new_array();
    steps = json_object_new_array();
    devices = json_object_new_array();
    vg_json_add_bool(object, "dry_run", true);
    vg_json_add_string(object, "vm", "alpha");
    vg_json_add_string(object, "uuid", "5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000");
    vg_json_add_string(object, "from", "test-host");
    vg_json_add_string(object, "to", request->to);
    vg_json_add_string(object, "executor", "libvirt");
    if (strcmp(request->to, "full") == 0)
        vg_json_append(problems, vg_json_new_string("host 'full' has no GPU left"));
    vg_json_add(object, "problems", problems);
    vg_json_add(object, "devices", devices);
    g_autoptr(vg_migration) none = vg_migration_new();
    vg_json_add(object, "guest", vg_record_write(&vg_guest_programs_record, &none->guest));
    for (size_t i = 0; i < G_N_ELEMENTS(verbs); i++) {
        json_object *step = json_object_new_object();
        vg_json_add_string(step, "verb", verbs[i]);
        vg_json_add_double(step, "expected_s", 0.5);
        vg_json_add_double(step, "deadline_s", 30);
        vg_json_append(steps, step);
    }
    vg_json_add(object, "steps", steps);
    vg_json_add_double(object, "expected_s", 4);
    return object;
}

/* Locked. */
static struct vg_migration *
find_move(fake_backend *fake, const char *id, GError **err)
{
    for (guint i = 0; i < fake->moves->len; i++) {
        struct vg_migration *move = fake->moves->pdata[i];
        if (strcmp(move->id, id) == 0)
            return move;
    }
    vg_error(err, VG_E_NOT_FOUND, "there is no move '%s'", id);
    return NULL;
}

static struct vg_migration *
read_move(void *data, const char *id, const char *peer, GError **err)
{
    fake_backend *fake = data;

    (void)peer;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = find_move(fake, id, err);
    if (!move)
        return NULL;
    step_move(move);
    return vg_migration_copy(move);
}

static struct vg_migration *
abort_move(void *data, const char *id, const char *peer, GError **err)
{
    fake_backend *fake = data;

    (void)peer;
    VG_LOCK_SCOPE(&fake->lock);
    struct vg_migration *move = find_move(fake, id, err);
    if (!move)
        return NULL;
    if (move->state > VG_MIGRATION_MIGRATING) {
        vg_error(err, VG_E_CONFLICT, "it is too late: the VM is on its target");
        return NULL;
    }
    move->abort_asked = true;
    return vg_migration_copy(move);
}

static GPtrArray *
list_moves(void *data, bool active, int64_t before_ns, size_t limit, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_migration_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->moves->len; i > 0 && list->len < limit; i--) {
        const struct vg_migration *move = fake->moves->pdata[i - 1];
        if (move->made_ns < before_ns && !(active && vg_migration_has_ended(move->state)))
            g_ptr_array_add(list, vg_migration_copy(move));
    }
    return list;
}

/* alpha can be moved, beta uses what cannot be released; others are none of libvirt's. */
static struct vg_movable *
movable(void *data, const char *id, GError **err)
{
    fake_backend *fake = data;
    const struct vg_snap_vm *vm = vg_view_find_vm(fake->view, id);
    const bool yes = vm && strcmp(vm->name, "alpha") == 0;

    if (!vm || (!yes && strcmp(vm->name, "beta") != 0)) {
        vg_error(err, VG_E_NOT_FOUND, "libvirt of this host has no VM '%s'", id);
        return NULL;
    }
    struct vg_movable *answer = vg_record_new(&vg_movable_record);
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);
    answer->vm = g_strdup(vm->name);
    answer->uuid = g_strdup(vm->uuid ? vm->uuid : "?");
    answer->movable = yes ? VG_MOVABLE_YES : VG_MOVABLE_NO;
    program->pid = 153;
    program->comm = g_strdup("python3");
    program->state = g_strdup("running");
    program->gpu_bytes = INT64_C(1612) << 20;
    if (!yes) {
        program->why = g_strdup("it uses the GPU without CUDA");
        g_ptr_array_add(answer->reasons, g_strdup("the guest cannot release its GPUs now: 153 "
                                                  "(python3): it uses the GPU without CUDA"));
        g_ptr_array_add(answer->reasons, g_strdup("'beta' has 2 snapshots"));
    }
    g_ptr_array_add(answer->guest.programs, program);
    answer->guest.total = 1;
    answer->guest.gpu_bytes = program->gpu_bytes;
    return answer;
}

static int
reserve(void *data, struct vg_reservation *reservation, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (fake->kept->len >= 100)
        return vg_error(err, VG_E_CONFLICT, "no GPU is free");
    g_free(reservation->id);
    reservation->id = g_strdup_printf("res-%016x", fake->kept->len + 1);
    reservation->made_ns = BEGIN_NS;
    reservation->expires_ns = BEGIN_NS + reservation->lease_s * VG_NS_PER_S;
    g_ptr_array_add(fake->kept, vg_reservation_copy(reservation));
    return 0;
}

/* Locked. */
static struct vg_reservation *
find_kept(fake_backend *fake, const char *id, GError **err)
{
    for (guint i = 0; i < fake->kept->len; i++) {
        struct vg_reservation *one = fake->kept->pdata[i];
        if (strcmp(one->id, id) == 0)
            return one;
    }
    vg_error(err, VG_E_NOT_FOUND, "there is no reservation '%s'", id);
    return NULL;
}

static struct vg_reservation *
renew(void *data, const char *id, int64_t lease_s, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    struct vg_reservation *one = find_kept(fake, id, err);
    if (!one)
        return NULL;
    one->lease_s = lease_s;
    return vg_reservation_copy(one);
}

static int
release(void *data, const char *id, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    struct vg_reservation *one = find_kept(fake, id, err);
    return one && g_ptr_array_remove(fake->kept, one) ? 0 : -1;
}

static GPtrArray *
list_reservations(void *data, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_reservation_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = 0; i < fake->kept->len; i++)
        g_ptr_array_add(list, vg_reservation_copy(fake->kept->pdata[i]));
    return list;
}

/* One that answers and one that does not. */
static GPtrArray *
list_peers(void *data)
{
    GPtrArray *peers = g_ptr_array_new_with_free_func(vg_peer_info_free);

    (void)data;
    for (int i = 0; i < 2; i++) {
        struct vg_peer_info *info = vg_peer_info_new();
        info->name = g_strdup(i == 0 ? "near" : "far");
        info->url = g_strdup_printf("https://%s:8443", info->name);
        info->state = i == 0 ? VG_PEER_REACHABLE : VG_PEER_UNREACHABLE;
        info->reason = i == 0 ? NULL : g_strdup("nobody listens there");
        info->host = i == 0 ? g_strdup("near-host") : NULL;
        info->asked_ns = BEGIN_NS;
        g_ptr_array_add(peers, info);
    }
    return peers;
}

/* What a scheduler asks: "full" cannot, "good" is best, "nobody" is not known. */
static GPtrArray *
list_approvals(void *data)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_approval_free);

    (void)data;
    g_ptr_array_add(list, vg_approval_new("11111111-2222-4333-8444-555555555555", "good"));
    return list;
}

static void
rate_arrival(void *data, struct vg_arrival_query *query)
{
    (void)data;
    query->basis = VG_ARRIVAL_BY_SIZE;
    for (guint i = 0; i < query->hosts->len; i++) {
        struct vg_arrival_host *host = query->hosts->pdata[i];
        if (strcmp(host->name, "nobody") == 0)
            continue;
        host->verdict = strcmp(host->name, "full") == 0 ? VG_ARRIVAL_VETO : VG_ARRIVAL_PASS;
        host->score = strcmp(host->name, "full") == 0   ? 0
                      : strcmp(host->name, "good") == 0 ? 0.9
                                                        : 0.3;
        host->age_ms = 100;
        g_strlcpy(host->text, "made up", sizeof(host->text));
    }
}

static vg_snapshot *
gather(void *data, const vg_view *view, GPtrArray *ret_notes)
{
    const char *label = "this host";

    (void)data;
    g_ptr_array_add(ret_notes, g_strdup("peer 'far' is left out: nobody listens there"));
    return vg_snapshot_merge((const vg_snapshot *const *)&view->snapshot, &label, 1, NULL);
}

/* Two VMs that took from each other, in a quarter of an hour at most; nothing before BEGIN_NS. */
static vg_history_host *
get_past(void *data, const struct vg_history_query *query, GError **err)
{
    static const char *const names[] = {"alpha", "beta"};
    g_autoptr(vg_history_host) host = vg_history_host_new();
    int64_t seconds = (query->until_ns - MAX(query->since_ns, BEGIN_NS)) / VG_NS_PER_S;

    work(data);
    if (query->since_ns == 0) {
        vg_error(err, VG_E_TIMEOUT, "reading took too long");
        return NULL;
    }
    if (seconds <= 0)
        return g_steal_pointer(&host);
    host->source = g_strdup("live");
    host->windows = MIN(seconds, 900);
    host->end_ns = query->until_ns;
    host->length_ns = host->windows * VG_NS_PER_S;
    host->begin_ns = host->end_ns - host->length_ns;
    g_ptr_array_add(query->left_out, g_strdup("cannot read 'ts-20261119.db': it is made up"));
    for (int i = 0; i < 2; i++) {
        struct vg_history_vm *vm = g_new0(struct vg_history_vm, 1);
        vm->key = i == 0 ? g_strdup("5c9e2c3a-0d8f-4f0a-9d64-1f3c1c7c0000") : g_strdup(names[i]);
        vm->name = g_strdup(names[i]);
        vm->row.windows = host->windows / (i + 1);
        fill_figures(&vm->row.cpu, vm->row.windows * 1000000);
        vm->row.lost_to = vg_history_losses_new();
        GRefString *other = g_ref_string_new(names[1 - i]);
        vg_history_add_loss(vm->row.lost_to, other, 1000 * (i + 1), 1);
        g_ref_string_release(other);
        g_ptr_array_add(host->vms, vm);
    }
    return g_steal_pointer(&host);
}

static char *
find_vm(void *data, const char *name, GError **err)
{
    (void)data;
    if (strcmp(name, "departed") == 0)
        return g_strdup(DEPARTED);
    vg_error(err, VG_E_NOT_FOUND, "nothing is stored of a VM '%s'", name);
    return NULL;
}

static struct vg_saved_plan *
find_plan(fake_backend *fake, const char *id)
{
    for (guint i = 0; i < fake->plans->len; i++) {
        struct vg_saved_plan *plan = fake->plans->pdata[i];
        if (strcmp(plan->id, id) == 0)
            return plan;
    }
    return NULL;
}

static vg_plan *
make_plan(void *data, const vg_view *view, const char *rule, int64_t *ret_made_ns, GError **err)
{
    fake_backend *fake = data;
    g_autoptr(vg_plan) plan = vg_plan_new();

    work(fake);
    if (rule && strcmp(rule, "complement") != 0 && strcmp(rule, "paper-threshold") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "there is no rule '%s': complement, paper-threshold", rule);
        return NULL;
    }
    plan->input_hash = vg_snapshot_hash(view->snapshot);
    plan->config_hash = g_strdup("0000");
    plan->rule = g_strdup(rule ? rule : "complement");
    plan->verdict = VG_PLAN_NOTHING_TO_DO;
    vg_plan_add_why(plan, "this is a test");
    vg_plan_set_id(plan);
    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_saved_plan *known = find_plan(fake, plan->id);
    *ret_made_ns = known ? known->made_ns : vg_clock_realtime_ns();
    if (!known) {
        struct vg_saved_plan *saved = g_new0(struct vg_saved_plan, 1);
        g_autoptr(json_object) object = vg_plan_to_json(plan);
        saved->id = g_strdup(plan->id);
        saved->made_ns = *ret_made_ns;
        saved->verdict = g_strdup(vg_plan_verdict_names[plan->verdict]);
        saved->text = vg_json_to_text(object, false);
        g_ptr_array_add(fake->plans, saved);
    }
    return g_steal_pointer(&plan);
}

static struct vg_saved_plan *
read_plan(void *data, const char *id, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_saved_plan *plan = find_plan(fake, id);
    if (plan)
        return vg_saved_plan_copy(plan, true);
    vg_error(err, VG_E_NOT_FOUND, "there is no plan '%s'", id);
    return NULL;
}

static GPtrArray *
list_plans(void *data, int64_t before_ns, size_t limit, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *plans = g_ptr_array_new_with_free_func(vg_saved_plan_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->plans->len; i > 0 && plans->len < limit; i--) {
        const struct vg_saved_plan *plan = fake->plans->pdata[i - 1];
        if (plan->made_ns < before_ns)
            g_ptr_array_add(plans, vg_saved_plan_copy(plan, false));
    }
    return plans;
}

/* ---- who may come in ---- */

static struct vg_token *
new_token(const char *name, enum vg_role role, int64_t expires_ns)
{
    struct vg_token *token = g_new0(struct vg_token, 1);

    token->name = g_strdup(name);
    token->role = role;
    token->made_ns = BEGIN_NS;
    token->expires_ns = expires_ns;
    return token;
}

static void
add_known_tokens(fake_backend *fake)
{
    fake->tokens = g_ptr_array_new_with_free_func(vg_token_free);
    fake->moves = g_ptr_array_new_with_free_func(vg_migration_free);
    fake->kept = g_ptr_array_new_with_free_func(vg_reservation_free);
    for (size_t i = 0; i < G_N_ELEMENTS(known_tokens); i++)
        g_ptr_array_add(fake->tokens, new_token(known_tokens[i].name, known_tokens[i].role,
                                                known_tokens[i].expired ? BEGIN_NS : 0));
}

static struct vg_token *
find_token(const fake_backend *fake, const char *name)
{
    for (guint i = 0; i < fake->tokens->len; i++) {
        struct vg_token *token = fake->tokens->pdata[i];
        if (strcmp(token->name, name) == 0)
            return token;
    }
    return NULL;
}

static int
check_token(void *data, const char *text, struct vg_identity *ret, GError **err)
{
    fake_backend *fake = data;
    g_autofree char *name = g_strdup(text);
    char *end = g_strrstr(name, "-token");

    if (end)
        *end = '\0';
    VG_LOCK_SCOPE(&fake->lock);
    const struct vg_token *token = end ? find_token(fake, name) : NULL;
    if (!token || (token->expires_ns != 0 && !fake->options.expired_lets_in))
        return vg_error(err, VG_E_DENIED, "no");
    ret->role = token->role;
    g_snprintf(ret->name, sizeof(ret->name), "token:%s", token->name);
    return 0;
}

static enum vg_role
role_of_subject(void *data, const char *subject)
{
    const fake_backend *fake = data;

    return g_strcmp0(fake->options.operator_subject, subject) == 0 ? VG_ROLE_OPERATOR
                                                                   : VG_ROLE_NONE;
}

static void
note_refusal(void *data, const char *origin, unsigned status)
{
    fake_backend *fake = data;

    (void)origin, (void)status;
    VG_LOCK_SCOPE(&fake->lock);
    fake->refusals++;
}

static GPtrArray *
list_tokens(void *data)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_token_free);

    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = 0; i < fake->tokens->len; i++) {
        const struct vg_token *token = fake->tokens->pdata[i];
        g_ptr_array_add(list, new_token(token->name, token->role, token->expires_ns));
    }
    return list;
}

static char *
create_token(void *data, const char *name, enum vg_role role, int64_t expires_ns, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (find_token(fake, name)) {
        vg_error(err, VG_E_CONFLICT, "there is a token '%s' already", name);
        return NULL;
    }
    g_ptr_array_add(fake->tokens, new_token(name, role, expires_ns));
    return g_strconcat(name, "-token", NULL);
}

static int
revoke_token(void *data, const char *name, GError **err)
{
    fake_backend *fake = data;

    VG_LOCK_SCOPE(&fake->lock);
    if (fake->options.revoked_lets_in)
        return 0;
    return g_ptr_array_remove(fake->tokens, find_token(fake, name))
               ? 0
               : vg_error(err, VG_E_NOT_FOUND, "there is no token '%s'", name);
}

static int
audit(void *data, const struct vg_audit_entry *entry, GError **err)
{
    fake_backend *fake = data;
    struct vg_audit_entry *copy = vg_audit_entry_copy(entry);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    copy->seq = (int64_t)fake->audit->len + 1;
    copy->at_ns = BEGIN_NS + copy->seq;
    g_ptr_array_add(fake->audit, copy);
    return 0;
}

/* Three of a run before. */
static GPtrArray *
list_events(void *data, const struct vg_happening_query *query, GError **err)
{
    static const char boot[] = "5f6c0c1e-9a0b-4b57-8b0e-000000000000";
    GPtrArray *events = g_ptr_array_new_with_free_func(vg_happening_free);

    work(data);
    if (query->after_boot && strcmp(query->after_boot, boot) != 0) {
        g_ptr_array_unref(events);
        vg_error(err, VG_E_NOT_FOUND, "no event is kept of the run '%s'", query->after_boot);
        return NULL;
    }
    for (uint64_t i = 1; i <= 3 && events->len < query->limit; i++) {
        if (query->after_boot && i <= query->after_seq)
            continue;
        struct vg_happening *event = g_new0(struct vg_happening, 1);
        event->boot = g_strdup(boot);
        event->seq = i;
        event->type = vg_happening_type("vm");
        event->text = g_strdup_printf("{\"what\": \"seen\", \"seq\": %d, \"type\": \"vm\", "
                                      "\"time\": \"2026-11-20T18:40:00Z\"}",
                                      (int)i);
        g_ptr_array_add(events, event);
    }
    return events;
}

static GPtrArray *
list_audit(void *data, int64_t before, size_t limit, GError **err)
{
    fake_backend *fake = data;
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_audit_entry_free);

    (void)err;
    VG_LOCK_SCOPE(&fake->lock);
    for (guint i = fake->audit->len; i > 0 && list->len < limit; i--) {
        const struct vg_audit_entry *entry = fake->audit->pdata[i - 1];
        if (entry->seq < before)
            g_ptr_array_add(list, vg_audit_entry_copy(entry));
    }
    return list;
}

static const struct vg_backend_measurement fake_measurement = {
    .view = get_view,
    .status = get_status,
    .stats = get_stats,
    .samples = get_samples,
    .past = get_past,
    .find_vm = find_vm,
    .list_peers = list_peers,
    .gather = gather,
    .list_events = list_events,
};

static const struct vg_backend_access fake_access = {
    .check_token = check_token,
    .role_of_subject = role_of_subject,
    .note_refusal = note_refusal,
    .list_tokens = list_tokens,
    .create_token = create_token,
    .revoke_token = revoke_token,
    .audit = audit,
    .list_audit = list_audit,
};

static const struct vg_backend_plans fake_plans = {
    .make_plan = make_plan,
    .read_plan = read_plan,
    .list_plans = list_plans,
    .list_approvals = list_approvals,
    .rate_arrival = rate_arrival,
};

static const struct vg_backend_moves fake_moves = {
    .migrate = start_move,
    .check_migration = check_move,
    .movable = movable,
    .read_migration = read_move,
    .list_migrations = list_moves,
    .abort_migration = abort_move,
    .reserve = reserve,
    .renew = renew,
    .release = release,
    .list_reservations = list_reservations,
};

fake_backend *
fake_backend_new(const struct fake_options *options)
{
    fake_backend *fake = g_new0(fake_backend, 1);

    fake->options = *options;
    fake->table = (struct vg_backend){
        .data = fake,
        .measurement = &fake_measurement,
        .access = &fake_access,
        .plans = &fake_plans,
        .moves = &fake_moves,
    };
    if (g_strcmp0(options->without, "plans") == 0)
        fake->table.plans = NULL;
    if (g_strcmp0(options->without, "moves") == 0)
        fake->table.moves = NULL;
    pthread_mutex_init(&fake->lock, NULL);
    fake->plans = g_ptr_array_new_with_free_func(vg_saved_plan_free);
    fake->audit = g_ptr_array_new_with_free_func(vg_audit_entry_free);
    add_known_tokens(fake);
    fake->view = make_view(fake);
    return fake;
}

void
fake_backend_free(fake_backend *fake)
{
    vg_view_unref(fake->view);
    vg_gpu_log_unref(fake->gpu_log);
    g_ptr_array_unref(fake->plans);
    g_ptr_array_unref(fake->tokens);
    g_ptr_array_unref(fake->moves);
    g_ptr_array_unref(fake->kept);
    g_ptr_array_unref(fake->audit);
    pthread_mutex_destroy(&fake->lock);
    g_free(fake);
}

const struct vg_backend *
fake_backend_table(const fake_backend *fake)
{
    return &fake->table;
}

void
fake_backend_next_view(fake_backend *fake)
{
    vg_view *view = make_view(fake);

    pthread_mutex_lock(&fake->lock);
    vg_view *old = fake->view;
    fake->view = view;
    pthread_mutex_unlock(&fake->lock);
    vg_view_unref(old);
}
