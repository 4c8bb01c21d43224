/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a collector and prints each report as one line of JSON:
 *
 *     collector-dump [-f FAULTS] [-i SECONDS] [-t SECONDS] procfs [PROC]
 *     collector-dump [-f FAULTS] [-i SECONDS] [-t SECONDS] bpf | perf
 *     collector-dump [-f FAULTS] [-i SECONDS] [-t SECONDS] libvirt URI [PROC]
 *
 * -i: window of the first three, poll of libvirt (1); -t: how long it runs (until its input ends).
 */
#include "config.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/queue.h"
#include "collectors/collector.h"
#include "collectors/fault.h"
#include "collectors/live.h"
#include "host/virt-event.h"

#define REPORTS_MAX 4096

static void
add_figures(json_object *object, const struct vg_cpu_figures *f)
{
    vg_json_add_int64(object, "observed_ns", f->observed_ns);
    vg_json_add_int64(object, "run_ns", f->run_ns);
    vg_json_add_int64(object, "guest_ns", f->guest_ns);
    vg_json_add_int64(object, "wake_wait_ns", f->wake_wait_ns);
    vg_json_add_int64(object, "preempt_ns", f->preempt_ns);
    vg_json_add_int64(object, "blocked_ns", f->blocked_ns);
    vg_json_add_int64(object, "preemptions", (int64_t)f->preemptions);
    vg_json_add_int64(object, "blocks", (int64_t)f->blocks);
}

static json_object *
vm_to_json(const struct vg_vm_sample *vm)
{
    json_object *object = json_object_new_object();
    json_object *vcpus = json_object_new_array();

    vg_json_add_int64(object, "id", vm->id);
    vg_json_add_int64(object, "pid", vm->pid);
    vg_json_add_string(object, "name", vm->name);
    vg_json_add_string(object, "uuid", vm->uuid);
    add_figures(object, &vm->cpu);
    for (unsigned i = 0; i < vm->vcpus->len; i++) {
        const struct vg_vcpu_sample *vcpu = &g_array_index(vm->vcpus, struct vg_vcpu_sample, i);
        json_object *of_vcpu = json_object_new_object();
        vg_json_add_int64(of_vcpu, "tid", vcpu->tid);
        vg_json_add_int64(of_vcpu, "index", vcpu->index);
        add_figures(of_vcpu, &vcpu->cpu);
        json_object_array_add(vcpus, of_vcpu);
    }
    json_object_object_add(object, "vcpus", vcpus);
    json_object *losses = json_object_new_array();
    for (unsigned i = 0; i < vm->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, i);
        json_object *loss = json_object_new_object();
        vg_json_add_string(loss, "kind",
                           lost->kind == VG_AGGRESSOR_VM ? "vm" : vg_aggressor_name(lost->kind));
        vg_json_add_int64(loss, "vm", lost->vm_id);
        vg_json_add_int64(loss, "ns", lost->ns);
        json_object_array_add(losses, loss);
    }
    json_object_object_add(object, "lost_to", losses);
    return object;
}

static void
add_window(json_object *object, const vg_report *report)
{
    json_object *vms = json_object_new_array();

    vg_json_add_int64(object, "begin_ns", report->window.begin_ns);
    vg_json_add_int64(object, "end_ns", report->window.end_ns);
    vg_json_add_int64(object, "clock_offset_ns", report->clock_offset_ns);
    vg_json_add_int64(object, "cost_ns", report->provenance.cost_ns);
    vg_json_add_int64(object, "lost_events", (int64_t)report->window.lost_events);
    vg_json_add_int64(object, "discontinuities", (int64_t)report->window.discontinuities);
    for (unsigned i = 0; i < report->window.vms->len; i++)
        json_object_array_add(
            vms, vm_to_json(&g_array_index(report->window.vms, struct vg_vm_sample, i)));
    json_object_object_add(object, "vms", vms);
}

static void
print(const vg_report *report)
{
    static const char *const kinds[VG_REPORT_KIND_MAX] = {
        [VG_REPORT_WINDOW] = "window", [VG_REPORT_INVENTORY] = "inventory",
        [VG_REPORT_STATUS] = "status", [VG_REPORT_LIFECYCLE] = "lifecycle",
        [VG_REPORT_END] = "end",
    };
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "kind", kinds[report->kind]);
    vg_json_add_string(object, "collector", report->collector);
    if (report->kind == VG_REPORT_STATUS)
        vg_json_add_string(object, "state", vg_collector_state_names[report->state]);
    if (report->text)
        vg_json_add_string(object, "text", report->text);
    if (report->vm)
        vg_json_add_string(object, "vm", report->vm);
    if (report->uuid)
        vg_json_add_string(object, "uuid", report->uuid);
    if (report->kind == VG_REPORT_WINDOW)
        add_window(object, report);
    if (report->inventory)
        json_object_object_add(object, "inventory",
                               vg_record_write(&vg_inventory_record, report->inventory));
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN));
    fflush(stdout);
    json_object_put(object);
}

struct dump {
    vg_collector *collector;
    vg_queue *reports;
    struct vg_report_sink sink;
};

static void
put(void *data, struct vg_report *take_report)
{
    struct dump *dump = data;

    vg_queue_put(dump->reports, take_report);
}

static void
free_report(void *report)
{
    vg_report_free(report);
}

static void
work(vg_thread *self, void *arg)
{
    struct dump *dump = arg;

    dump->collector->ops->run(dump->collector, self, &dump->sink);
}

static void
wake(void *arg)
{
    struct dump *dump = arg;

    if (dump->collector->ops->wake)
        dump->collector->ops->wake(dump->collector);
}

/* Runs for so long, or until standard input ends. */
static int
run(vg_collector *take_collector, double seconds)
{
    struct dump dump = {.collector = take_collector};
    int64_t until_ns = vg_clock_monotonic_ns() + (int64_t)(seconds * (double)VG_NS_PER_S);
    g_autoptr(GError) err = NULL;

    dump.reports = vg_queue_new(REPORTS_MAX, VG_QUEUE_BLOCK, free_report);
    dump.sink = (struct vg_report_sink){.put = put, .data = &dump};
    vg_thread *thread = vg_thread_new("col-dump", work, wake, &dump, &err);
    if (!thread) {
        fprintf(stderr, "collector-dump: %s\n", err->message);
        return 1;
    }
    for (;;) {
        struct pollfd fds[2] = {{.fd = vg_queue_fd(dump.reports), .events = POLLIN},
                                {.fd = seconds > 0 ? -1 : STDIN_FILENO, .events = POLLIN}};
        int64_t left_ms = (until_ns - vg_clock_monotonic_ns()) / VG_NS_PER_MS;
        if (seconds > 0 && left_ms <= 0)
            break;
        if (poll(fds, 2, seconds > 0 ? (int)left_ms : -1) < 0)
            break;
        for (vg_report *r = vg_queue_get(dump.reports, 0); r; r = vg_queue_get(dump.reports, 0)) {
            print(r);
            vg_report_free(r);
        }
        char byte;
        if (fds[1].revents && read(STDIN_FILENO, &byte, 1) <= 0)
            break;
    }
    vg_queue_close(dump.reports);
    vg_thread_free(thread);
    vg_collector_free(dump.collector);
    vg_virt_event_stop();
    vg_queue_free(dump.reports);
    return 0;
}

/* One source, without others to fall back on. */
static vg_collector *
live(vg_cpu_source *(*make)(const char *proc), const char *proc, int64_t window_ns)
{
    const struct vg_live_options options = {.proc = proc, .window_ns = window_ns};
    vg_cpu_source *source = make(proc);

    return vg_live_new(&options, &source, 1);
}

int
main(int argc, char **argv)
{
    double interval = 1, seconds = 0;
    const char *faults = NULL;
    vg_collector *collector = NULL;
    char host[256] = "localhost";

    for (int option = getopt(argc, argv, "f:i:t:"); option != -1;
         option = getopt(argc, argv, "f:i:t:")) {
        if (option == 'f')
            faults = optarg;
        else if (option == 'i')
            interval = atof(optarg);
        else if (option == 't')
            seconds = atof(optarg);
        else
            return 2;
    }
    int64_t interval_ns = MAX((int64_t)(interval * (double)VG_NS_PER_S), VG_NS_PER_MS);
    int left = argc - optind;
    gethostname(host, sizeof(host) - 1);
    if (left >= 1 && strcmp(argv[optind], "procfs") == 0)
        collector = live(vg_source_proc_new, left > 1 ? argv[optind + 1] : "/proc", interval_ns);
    else if (left >= 1 && strcmp(argv[optind], "bpf") == 0)
        collector = live(vg_source_bpf_new, "/proc", interval_ns);
    else if (left >= 1 && strcmp(argv[optind], "perf") == 0)
        collector = live(vg_source_perf_new, "/proc", interval_ns);
    else if (left >= 2 && strcmp(argv[optind], "libvirt") == 0)
        collector = vg_libvirt_new(argv[optind + 1], host, "/sys",
                                   left > 2 ? argv[optind + 2] : "/proc", interval_ns);
    if (collector && faults) {
        g_autoptr(GError) err = NULL;
        collector = vg_fault_new(collector, faults, &err);
        if (!collector) {
            fprintf(stderr, "collector-dump: %s\n", err->message);
            return 2;
        }
    }
    if (!collector) {
        fprintf(stderr, "usage: collector-dump [-f FAULTS] [-i SECONDS] [-t SECONDS] procfs [PROC]"
                        " | bpf | perf | libvirt URI [PROC]\n");
        return 2;
    }
    return run(collector, seconds);
}
