/* SPDX-License-Identifier: Apache-2.0
 *
 * What was measured.
 */
#include "config.h"

#include <string.h>

#include "tests/tools/fake-private.h"

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
    struct vg_part_status *live =
        vg_part_status_new("collector:live", "degraded", true,
                           g_strdup("by procfs; bpf is not used; perf is not used"));
    struct vg_part_status *gpu =
        vg_part_status_new("collector:gpu", "ok", true, g_strdup("fdinfo; not nvml"));

    live->since_ns = FAKE_BEGIN_NS;
    live->sources = vg_source_states_new();
    vg_source_states_add(live->sources, "bpf", VG_SOURCE_ABSENT, VG_TROUBLE_BPF_DENIED,
                         g_strdup("the kernel rejects the BPF programs (they need CAP_BPF and "
                                  "CAP_PERFMON): Operation not permitted"));
    vg_source_states_add(
        live->sources, "perf", VG_SOURCE_ABSENT, VG_TROUBLE_TRACEFS_ABSENT,
        g_strdup("there are no tracepoints; `mount -t tracefs none /sys/kernel/tracing` as root"));
    vg_source_states_add(live->sources, "procfs", VG_SOURCE_USED, VG_TROUBLE_NONE, NULL);
    gpu->since_ns = FAKE_BEGIN_NS;
    gpu->sources = vg_source_states_new();
    vg_source_states_add(gpu->sources, "fdinfo", VG_SOURCE_USED, VG_TROUBLE_NONE,
                         g_strdup("2 VMs with DRM clients"));
    vg_source_states_add(gpu->sources, "nvml", VG_SOURCE_ABSENT, VG_TROUBLE_NONE,
                         g_strdup("no NVIDIA GPU"));
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
    struct vg_part_status *store = vg_part_status_new("store", ready ? "ok" : "failed", ready,
                                                      ready ? NULL : g_strdup("the disk is full"));
    store->trouble = ready ? VG_TROUBLE_NONE : VG_TROUBLE_DISK_FULL;
    g_ptr_array_add(parts, store);
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

/* A window each second since FAKE_BEGIN_NS. */
static GArray *
get_samples(void *data, const struct vg_history_query *query, GError **err)
{
    g_autoptr(GArray) rows = vg_history_rows_new();
    int64_t step = query->step_ns ? query->step_ns : VG_NS_PER_S;

    fake_work(data);
    if (g_str_has_prefix(query->vm, "fail-")) {
        vg_error(err, VG_E_IO, "the disk is broken");
        return NULL;
    }
    if (strcmp(query->vm, "departed") == 0) {
        vg_error(err, VG_E_NOT_FOUND, "nothing is stored about VM '%s'", query->vm);
        return NULL;
    }
    if (strcmp(query->vm, "beta") != 0 && !g_str_has_prefix(query->vm, "5c9e2c3a-"))
        return g_steal_pointer(&rows);
    int64_t from = MAX(query->since_ns, FAKE_BEGIN_NS);
    if (query->left_out && strcmp(query->vm, "beta") == 0)
        g_ptr_array_add(query->left_out, g_strdup("cannot read 'ts-20261119.db': it is made up"));
    for (int64_t end = (from / step + 1) * step; end <= query->until_ns; end += step) {
        struct vg_history_row row = {.begin_ns = end - step,
                                     .end_ns = end,
                                     .windows = step / VG_NS_PER_S,
                                     .guest_known = true,
                                     .lost_to = vg_history_losses_new()};
        fake_fill_figures(&row.cpu, step / 1000);
        GRefString *rest = g_ref_string_new("rest");
        vg_history_add_loss(row.lost_to, rest, 1000, 1);
        g_ref_string_release(rest);
        g_array_append_val(rows, row);
        if (rows->len >= VG_HISTORY_ROWS_MAX)
            break;
    }
    return g_steal_pointer(&rows);
}

static GPtrArray *
fake_list_proxy_guests(void *data)
{
    GPtrArray *guests = g_ptr_array_new_with_free_func(vg_proxy_guest_free);

    (void)data;
    for (int i = 0; i < 2; i++) {
        struct vg_proxy_guest *guest = vg_record_new(&vg_proxy_guest_record);
        guest->vm = g_strdup(i == 0 ? "alpha" : "elsewhere");
        guest->uuid = g_strdup("");
        guest->address = g_strdup_printf("tcp:192.168.122.1:700%d", i);
        guest->told = i == 0;
        guest->told_ns = i == 0 ? 1700000000 * VG_NS_PER_S : 0;
        guest->reason = g_strdup(i == 0 ? "" : "it is not running here");
        g_ptr_array_add(guests, guest);
    }
    return guests;
}

GPtrArray *
fake_list_proxies(void *data, const char *host, GError **err)
{
    GPtrArray *sockets = g_ptr_array_new_with_free_func(vg_proxy_socket_free);

    (void)data;
    if (g_strcmp0(host, "nowhere") == 0) {
        g_ptr_array_unref(sockets);
        vg_error(err, VG_E_NOT_FOUND, "there is no host '%s'", host);
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        struct vg_proxy_socket *socket = vg_record_new(&vg_proxy_socket_record);
        socket->proxy = g_strdup("/run/vgpu-proxy/ask.sock");
        socket->pid = 4711;
        socket->socket = g_strdup_printf("/run/vgpu-proxy/%c.sock", 'a' + i);
        socket->vm = g_strdup(i == 0 ? "alpha" : "beta");
        socket->device = g_strdup("NVIDIA L40");
        socket->address = g_strdup(i == 0 ? "tcp:192.168.122.1:7001" : "");
        socket->gpu = g_strdup("0000:3b:00.0");
        socket->gpu_name = g_strdup("NVIDIA L40");
        socket->confinement = g_strdup("none");
        socket->gpus = 1;
        socket->gpu_memory_bytes = INT64_C(48) << 30;
        socket->lacked_ns = i * VG_NS_PER_S;
        socket->weight = socket->configured_weight = 1 + i;
        socket->clients = 1;
        socket->held_ns = (2 - i) * VG_NS_PER_S;
        socket->commands = socket->done = 100 * i;
        socket->wait_ns = 3 * VG_NS_PER_S;
        socket->run_ns = VG_NS_PER_S;
        socket->used_bytes = 64 << 20;
        struct vg_proxy_took *took = vg_record_new(&vg_proxy_took_record);
        took->ns = 40 * VG_NS_PER_MS;
        took->commands = socket->done;
        g_ptr_array_add(socket->took, took);
        g_ptr_array_add(sockets, socket);
    }
    return sockets;
}

static vg_proxy_show *
fake_show_proxy(void *data, const char *vm, GError **err)
{
    if (strcmp(vm, "alpha") != 0) {
        vg_error(err, VG_E_NOT_FOUND, "no vgpu-proxy on this host has a socket for '%s'", vm);
        return NULL;
    }
    g_autoptr(GPtrArray) sockets = fake_list_proxies(data, NULL, err);
    vg_proxy_show *show = vg_record_new(&vg_proxy_show_record);
    struct vg_proxy_shown *shown = vg_record_new(&vg_proxy_shown_record);
    struct vg_proxy_socket *first = vg_record_copy(&vg_proxy_socket_record, sockets->pdata[0]);
    struct vg_proxy_program *program = vg_record_new(&vg_proxy_program_record);
    struct vg_proxy_place *place = vg_record_new(&vg_proxy_place_record);

    show->vm = g_strdup(vm);
    show->uuid = g_strdup("");
    shown->socket = *first;
    g_free(first);
    shown->identity = g_strdup("a token");
    shown->listens = true;
    shown->limits = (struct vg_proxy_limits){.clients = 64,
                                             .vm_clients = 16,
                                             .objects = 65536,
                                             .pending_bytes = 4LL << 30,
                                             .depth = 65536,
                                             .staging_bytes = 64 << 20,
                                             .max_kernel_s = 30,
                                             .linger_s = 60};
    shown->window = (struct vg_proxy_window){.span_ns = VG_NS_PER_S,
                                             .held_ns = VG_NS_PER_S / 4,
                                             .all_held_ns = VG_NS_PER_S,
                                             .weights = 3,
                                             .done = 1000,
                                             .wait = {1000000, 2000000, 3000000},
                                             .run = {100000, 200000, 300000},
                                             .took = {1100000, 2200000, 3300000}};
    shown->refused = (struct vg_proxy_note){2, 5 * VG_NS_PER_S,
                                            g_strdup("clCreateBuffer: more memory than its limit")};
    program->pid = 4712;
    program->from = g_strdup("192.168.122.7:40312");
    program->transport = g_strdup("tcp");
    program->link = g_strdup("broken");
    program->since_ns = 60 * VG_NS_PER_S;
    program->broken_ns = 2 * VG_NS_PER_S;
    program->resumed = 1;
    program->device = g_strdup("idle");
    program->used_bytes = 64 << 20;
    g_ptr_array_add(shown->programs, program);
    g_ptr_array_add(show->items, shown);
    place->place = g_strdup("tcp:192.168.122.1:7000");
    place->why = g_strdup("[proxy alpha] in vgpud.conf names it");
    g_ptr_array_add(show->places, place);
    g_ptr_array_add(show->guests, g_ptr_array_steal_index(fake_list_proxy_guests(data), 0));
    return show;
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
        info->reason = i == 0 ? NULL : g_strdup("no process listens there");
        info->host = i == 0 ? g_strdup("near-host") : NULL;
        info->asked_ns = FAKE_BEGIN_NS;
        g_ptr_array_add(peers, info);
    }
    return peers;
}

static GPtrArray *
fake_list_group_doubts(void *data)
{
    GPtrArray *doubts = g_ptr_array_new_with_free_func(g_free);

    (void)data;
    g_ptr_array_add(doubts, g_strdup("host 'near-host' belongs to [hosts near], the first group "
                                     "that matches it; it also matches [hosts all]"));
    return doubts;
}

/* This one, and one that is silent. */
static GPtrArray *
fake_list_hosts(void *data)
{
    const struct fake_backend *fake = data;
    GPtrArray *hosts = g_ptr_array_new_with_free_func(vg_host_info_free);

    for (int i = 0; i < 2; i++) {
        struct vg_host_info *info = vg_host_info_new();
        info->card.name = g_strdup(i == 0 ? "here" : "there");
        info->card.url = i == 0 ? NULL : g_strdup("https://there:8443");
        info->self = i == 0;
        info->state = i == 0 ? VG_HOST_ALIVE : VG_HOST_SILENT;
        info->reason = i == 0 ? NULL : g_strdup("its lease in etcd has ended");
        info->seen_ns = i == 0 ? FAKE_BEGIN_NS : 0;
        info->maintenance = i != 0;
        if (i == 0) {
            struct vg_host_summary *summary =
                vg_host_summary_of(fake->view->snapshot->hosts->pdata[0], FAKE_BEGIN_NS);
            const struct vg_host_summary empty = info->summary;
            info->summary = *summary;
            *summary = empty;
            vg_host_summary_free(summary);
        }
        g_ptr_array_add(hosts, info);
    }
    return hosts;
}

static GPtrArray *
fake_list_cluster_vms(void *data, const char *host)
{
    const struct fake_backend *fake = data;
    const struct vg_snap_host *here = fake->view->snapshot->hosts->pdata[0];
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_cluster_vm_free);

    for (guint i = 0; i < here->vms->len && (!host || strcmp(host, here->name) == 0); i++)
        g_ptr_array_add(list, vg_cluster_vm_of(here, here->vms->pdata[i], FAKE_BEGIN_NS));
    return list;
}

static bool
fake_read_cluster(void *data, struct vg_cluster_status *ret)
{
    (void)data;
    *ret = (struct vg_cluster_status){
        .name = g_strdup("default"),
        .endpoint = g_strdup("https://etcd:2379"),
        .reason = g_strdup("etcd at https://etcd:2379: it did not answer within 2 s"),
        .answered_ns = FAKE_BEGIN_NS,
        .revision = 7,
    };
    g_autoptr(vg_plan) plan = vg_plan_new();
    plan->id = g_strdup("plan-0123456789abcdef");
    ret->proposal = vg_proposal_of(plan, "there", FAKE_BEGIN_NS);
    ret->leader = vg_record_new(&vg_cluster_leader_record);
    ret->leader->host = g_strdup("there");
    return true;
}

static vg_snapshot *
gather(void *data, const vg_view *view, GPtrArray *ret_notes)
{
    const char *label = "this host";

    (void)data;
    g_ptr_array_add(ret_notes, g_strdup("peer 'far' is left out: no process listens there"));
    return vg_snapshot_merge((const vg_snapshot *const *)&view->snapshot, &label, 1, NULL);
}

/* Of the first VM, beside what the other one took: the host's programs, and those without a name.
 */
static void
fake_add_past_losses(vg_history_host *host, struct vg_history_vm *vm)
{
    static const struct {
        const char *aggressor;
        int64_t ns;
    } losses[] = {{"host:user", 400}, {"rest", 500}};
    const struct vg_history_process process = {
        .comm = "back\033up", .cgroup = "/system.slice/backup.service", .ns = 300, .count = 2};
    const struct vg_history_process program = {
        .comm = "ma\033ke", .cgroup = "/user.slice", .ns = 900 * VG_NS_PER_MS};

    for (size_t i = 0; i < G_N_ELEMENTS(losses); i++) {
        GRefString *name = g_ref_string_new(losses[i].aggressor);
        vg_history_add_loss(vm->row.lost_to, name, losses[i].ns, 3);
        g_ref_string_release(name);
    }
    g_array_append_val(vm->processes, process);
    g_array_append_val(host->processes, process);
    g_array_append_val(host->programs, program);
}

/* Two VMs that took from each other, in a quarter of an hour at most; nothing before FAKE_BEGIN_NS.
 */
static vg_history_host *
get_past(void *data, const struct vg_history_query *query, GError **err)
{
    static const char *const names[] = {"alpha", "beta"};
    g_autoptr(vg_history_host) host = vg_history_host_new();
    int64_t seconds = (query->until_ns - MAX(query->since_ns, FAKE_BEGIN_NS)) / VG_NS_PER_S;

    fake_work(data);
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
        fake_fill_figures(&vm->row.cpu, vm->row.windows * 1000000);
        vm->row.lost_to = vg_history_losses_new();
        GRefString *other = g_ref_string_new(names[1 - i]);
        vg_history_add_loss(vm->row.lost_to, other, 1000 * (i + 1), 1);
        g_ref_string_release(other);
        vm->processes = g_array_new(FALSE, FALSE, sizeof(struct vg_history_process));
        if (i == 0)
            fake_add_past_losses(host, vm);
        g_ptr_array_add(host->vms, vm);
    }
    return g_steal_pointer(&host);
}

/* Steps of a window each, of which nobody told pressure; every third one is missing, and nothing is
 * there before FAKE_BEGIN_NS. */
static GArray *
fake_get_steps(void *data, const struct vg_history_query *query, GError **err)
{
    g_autoptr(GArray) steps = vg_history_steps_new();
    int64_t step_ns = query->step_ns;
    int64_t first = MAX(query->since_ns, FAKE_BEGIN_NS) / step_ns;
    const struct vg_history_process program = {
        .comm = "ma\033ke", .cgroup = "/user.slice", .ns = VG_NS_PER_S / 10};

    fake_work(data);
    if (query->since_ns == 0) {
        vg_error(err, VG_E_TIMEOUT, "reading took too long");
        return NULL;
    }
    for (int64_t i = first + 1; i * step_ns <= query->until_ns && steps->len < 1000; i++) {
        struct vg_history_step step = {
            .begin_ns = i * step_ns - VG_NS_PER_S,
            .end_ns = i * step_ns,
            .windows = 1,
            .length_ns = VG_NS_PER_S,
            .vm_windows = 2,
            .run_ns = VG_NS_PER_S / 2,
            .preempt_ns = VG_NS_PER_S / 4,
            .wake_wait_ns = VG_NS_PER_S / 8,
            .preemptions = 9,
            .host = {.own_of_ns = VG_NS_PER_S,
                     .own_ns = VG_NS_PER_S / 5,
                     .load_of_ns = VG_NS_PER_S,
                     .load_us = 2500000},
        };
        if (i % 3 == 0)
            continue;
        step.measured = vg_history_measured_new();
        step.programs = g_array_new(FALSE, TRUE, sizeof(struct vg_history_process));
        vg_history_add_measured(step.measured, "bpf", VG_NS_PER_S, VG_NS_PER_S);
        g_array_append_val(step.programs, program);
        g_array_append_val(steps, step);
    }
    g_ptr_array_add(query->left_out, g_strdup("cannot read 'ts-20261119.db': it is made up"));
    return g_steal_pointer(&steps);
}

static char *
find_vm(void *data, const char *name, GError **err)
{
    (void)data;
    if (strcmp(name, "departed") == 0)
        return g_strdup(FAKE_DEPARTED);
    vg_error(err, VG_E_NOT_FOUND, "nothing is stored about VM '%s'", name);
    return NULL;
}

/* An alert that is raised a minute after FAKE_BEGIN_NS and at once cleared, and one twenty minutes
 * after; the clock is set after half an hour, and vgpud was away for ten minutes until then. */
static GPtrArray *
fake_list_happened(const struct vg_happening_query *query)
{
    static const struct {
        const char *type, *what;
        int64_t after_s;
        const char *more;
    } all[] = {{"alert", "raised", 60, ""},
               {"alert", "cleared", 60, ""},
               {"alert", "raised", 1200, ""},
               {"measuring", "clock-set", 1800, ", \"by_s\": 3600.5"},
               {"measuring", "away", 1801,
                ", \"ended\": \"killed\", \"for_s\": 601, \"since_ns\": 1795201200000000000"}};
    GPtrArray *events = g_ptr_array_new_with_free_func(vg_happening_free);

    for (size_t i = 0; i < G_N_ELEMENTS(all) && events->len < query->limit; i++) {
        if (!strstr(query->types, all[i].type))
            continue;
        struct vg_happening *event = g_new0(struct vg_happening, 1);
        event->boot = g_strdup("5f6c0c1e-9a0b-4b57-8b0e-000000000000");
        event->seq = i + 4;
        event->type = vg_happening_type(all[i].type);
        event->at_ns = FAKE_BEGIN_NS + all[i].after_s * VG_NS_PER_S;
        event->text = g_strdup_printf("{\"what\": \"%s\", \"seq\": %d, \"type\": \"%s\", "
                                      "\"time\": \"2026-11-20T18:40:00Z\"%s}",
                                      all[i].what, (int)i + 4, all[i].type, all[i].more);
        g_ptr_array_add(events, event);
    }
    return events;
}

/* Three of a run before. */
static GPtrArray *
list_events(void *data, const struct vg_happening_query *query, GError **err)
{
    static const char boot[] = "5f6c0c1e-9a0b-4b57-8b0e-000000000000";
    GPtrArray *events = g_ptr_array_new_with_free_func(vg_happening_free);

    fake_work(data);
    if (query->types && g_str_has_prefix(query->types, "alert"))
        return fake_list_happened(query);
    if (query->after_boot && strcmp(query->after_boot, boot) != 0) {
        g_ptr_array_unref(events);
        vg_error(err, VG_E_NOT_FOUND, "no events of vgpud's run '%s' are stored",
                 query->after_boot);
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

const struct vg_backend_measurement fake_measurement = {
    .view = get_view,
    .status = get_status,
    .stats = get_stats,
    .samples = get_samples,
    .past = get_past,
    .steps = fake_get_steps,
    .find_vm = find_vm,
    .list_peers = list_peers,
    .list_group_doubts = fake_list_group_doubts,
    .list_hosts = fake_list_hosts,
    .list_cluster_vms = fake_list_cluster_vms,
    .read_cluster = fake_read_cluster,
    .gather = gather,
    .list_proxies = fake_list_proxies,
    .show_proxy = fake_show_proxy,
    .list_proxy_guests = fake_list_proxy_guests,
    .list_events = list_events,
};
