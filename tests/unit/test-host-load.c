/* SPDX-License-Identifier: Apache-2.0
 *
 * What is read of the whole host and of its processes, and the rows that vgpuctl shows of it.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/grid.h"
#include "cli/host-load.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "cli/top-draw.h"
#include "collectors/cpu-limit.h"
#include "collectors/host-contention.h"
#include "collectors/process-names.h"
#include "host/cpu-list.h"
#include "host/proc-text.h"
#include "model/event.h"
#include "model/window-sum.h"
#include "tests/unit/fake-proc.h"

static void
write_text(const char *dir, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);

    assert_int_equal(g_mkdir_with_parents(parent, 0700), 0);
    fake_proc_write(path, text, strlen(text));
}

/* Texts of a Linux 6.18 host and what they say, read off by eye. */
static void
test_host_contention(void **state)
{
    const char *proc = *state;
    static const char stat[] = "cpu  68 1 19 72 2 0 2 33 0 0\ncpu0 3 3 9 3 7 0 1 17 0 0\n"
                               "procs_running 3\nprocs_blocked 0\n";
    struct vg_host_contention contention = {
        .proc = proc, .cgroup = proc, .tick_ns = 10 * VG_NS_PER_MS};
    struct vg_host_sample host;
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));

    contention.cpus = (struct vg_host_cpus){.sys = proc, .tick_ns = contention.tick_ns};

    assert_int_equal(vg_host_parse_steal(stat), 33);
    assert_int_equal(vg_host_parse_runnable(stat), 3);
    assert_int_equal(vg_host_parse_busy(stat), 68 + 1 + 19 + 0 + 2);
    assert_int_equal(vg_host_parse_busy("cpu 1 2 3\n"), -1);
    assert_int_equal(vg_host_parse_steal("cpu 1 2 3\n"), -1);
    assert_int_equal(vg_host_parse_steal(""), -1);
    assert_int_equal(vg_host_parse_runnable("procs_running x"), -1);
    assert_int_equal(vg_host_parse_pressure("some avg10=2.06 avg60=11.02 avg300=21.88 total=174\n"
                                            "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
                     174);
    assert_int_equal(vg_host_parse_pressure("full avg10=0.00 total=5\n"), -1);
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.steal_ns == -1 && host.pressure_ns == -1 && host.runnable == -1);
    assert_true(host.idle_ns == -1 && host.load[0] < 0 && cpus->len == 0);
    assert_non_null(strstr(host.no_pressure, "CONFIG_PSI"));
    assert_non_null(strstr(host.no_cpu_waits, "CONFIG_SCHEDSTATS"));
    write_text(proc, "stat", stat);
    write_text(proc, "machine.slice/cpu.pressure", "some avg10=0.00 total=1000\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.steal_ns == -1 && host.pressure_ns == -1 && host.runnable == 2 &&
                host.own_ns == -1);
    write_text(proc, "stat", "cpu 69 1 19 72 2 0 2 35 0 0\nprocs_running 1\n");
    write_text(proc, "machine.slice/cpu.pressure", "some avg10=0.00 total=1500\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(host.steal_ns, 20 * VG_NS_PER_MS);
    assert_int_equal(host.pressure_ns, 500 * 1000);
    assert_int_equal(host.runnable, 0);
    assert_int_equal(host.own_ns, 10 * VG_NS_PER_MS);
    vg_host_contention_clear(&contention);
}

/* The whole host: idle, load, pressure of three resources. What is missing is told as missing. */
static void
test_host_pressure(void **state)
{
    const char *proc = *state;
    struct vg_host_contention contention = {
        .proc = proc, .cgroup = proc, .tick_ns = 10 * VG_NS_PER_MS};
    struct vg_host_sample host;
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));
    double load[3] = {0};

    contention.cpus = (struct vg_host_cpus){.sys = proc, .tick_ns = contention.tick_ns};
    assert_int_equal(vg_host_parse_idle("cpu  68 1 19 72 2 0 2 33 0 0\n"), 74);
    assert_int_equal(vg_host_parse_idle("cpu 68 1 19\n"), -1);
    assert_int_equal(vg_host_parse_full_pressure("some avg10=2.06 total=174\n"
                                                 "full avg10=0.00 total=5\n"),
                     5);
    assert_int_equal(vg_host_parse_full_pressure("some avg10=2.06 total=174\n"), -1);
    assert_true(vg_host_parse_load("8.07 3.98 1.81 11/212 1283\n", load));
    assert_true(load[0] == 8.07 && load[1] == 3.98 && load[2] == 1.81);
    assert_false(vg_host_parse_load("8.07 -1 1.81", load));
    assert_false(vg_host_parse_load("8.07 3.98", load));
    assert_false(vg_host_parse_load("nan 1 1", load));
    assert_true(load[0] == 8.07);
    write_text(proc, "stat", "cpu  68 1 19 72 2 0 2 33 0 0\nprocs_running 3\n");
    write_text(proc, "loadavg", "0.50 1.50 2.50 1/100 7\n");
    write_text(proc, "pressure/cpu", "some avg10=0.00 total=1000\nfull avg10=0.00 total=0\n");
    write_text(proc, "pressure/io", "some avg10=0.00 total=7\nfull avg10=0.00 total=7\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.load[0] == 0.5 && host.load[2] == 2.5);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].some_ns, -1);
    write_text(proc, "stat", "cpu  68 1 19 80 4 0 2 33 0 0\nprocs_running 3\n");
    write_text(proc, "pressure/cpu", "some avg10=0.00 total=1500\nfull avg10=0.00 total=20\n");
    write_text(proc, "pressure/io", "some avg10=0.00 total=7\nfull avg10=0.00 total=7\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(host.idle_ns, 100 * VG_NS_PER_MS);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].some_ns, 500 * 1000);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].full_ns, 20 * 1000);
    assert_int_equal(host.pressure[VG_RESOURCE_IO].some_ns, 0);
    assert_int_equal(host.pressure[VG_RESOURCE_MEMORY].some_ns, -1);
    assert_non_null(host.no_pressure);
    vg_host_contention_clear(&contention);
}

static const struct vg_host_cpu *
cpu_at(const GArray *cpus, guint i)
{
    assert_true(i < cpus->len);
    return &g_array_index(cpus, struct vg_host_cpu, i);
}

/* CPUs one by one: two nodes, one CPU that comes later, waits where the kernel tells them. */
static void
test_host_cpus(void **state)
{
    const char *sys = *state;
    struct vg_host_cpus state_of = {.sys = sys, .tick_ns = 10 * VG_NS_PER_MS};
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));
    g_autoptr(GHashTable) nodes = g_hash_table_new(NULL, NULL);

    write_text(sys, "devices/system/node/node0/cpulist", "0\n");
    write_text(sys, "devices/system/node/node1/cpulist", "1-2\n");
    write_text(sys, "devices/system/node/online", "0-1\n");
    vg_host_cpus_read(&state_of,
                      "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 10 5 0 4 7 0 0\n"
                      "cpu2 1 1 1 1 1 1 1 1 0 0\nintr 5 1\n",
                      "version 15\ncpu0 0 0 0 0 0 0 100 2000 9\n"
                      "domain0 3 0 0 0\ncpu2 0 0 0 0 0 0 100 50 9\n",
                      cpus);
    assert_int_equal(cpus->len, 0);
    vg_host_cpus_read(&state_of,
                      "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 2 2 5 11 6 1 5 9 0 0\n"
                      "cpu1 1 1 1 1 1 1 1 1 0 0\ncpu2 1 1 1 0 1 1 1 1 0 0\nintr 5 1\n",
                      "version 15\ncpu0 0 0 0 0 0 0 100 2700 9\ncpu1 0 0 0 0 0 0 1 1 1\n", cpus);
    assert_int_equal(cpus->len, 2);
    assert_int_equal(cpu_at(cpus, 0)->cpu, 0);
    assert_int_equal(cpu_at(cpus, 0)->node, 0);
    assert_int_equal(cpu_at(cpus, 0)->busy_ns, (1 + 2 + 1 + 1) * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->idle_ns, 2 * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->steal_ns, 2 * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->wait_ns, 700);
    assert_int_equal(cpu_at(cpus, 1)->cpu, 2);
    assert_int_equal(cpu_at(cpus, 1)->node, 1);
    assert_int_equal(cpu_at(cpus, 1)->idle_ns, 0);
    assert_int_equal(cpu_at(cpus, 1)->wait_ns, -1);
    vg_host_cpus_parse_node("0-1,4,x", 3, nodes);
    assert_int_equal(g_hash_table_size(nodes), 3);
    vg_host_cpus_parse_node("0-99999999", 3, nodes);
    assert_int_equal(g_hash_table_size(nodes), VG_CPU_LIMIT);
    vg_host_cpus_parse("cpu0 1 2 3\ncpu-1 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 -1\n"
                       "cpu3 1 1 1 1 1 1 1 9223372036854775807\n",
                       NULL, VG_NS_PER_MS, cpus);
    assert_int_equal(cpus->len, 0);
    vg_host_cpus_clear(&state_of);
}

/* ---- the host's CPUs ---- */

static void
test_cpu_lists(void **state)
{
    static const char *const bad[] = {"",   ",",   "-1",  "1-",   "3-0",  "a",
                                      "0,", "0 1", "0,,", "0-1x", "8192", "0-99999999999999999999"};
    struct vg_cpu_list list, other;

    (void)state;
    assert_int_equal(vg_cpu_list_parse("0-2,5,8191\n", &list, NULL), 0);
    assert_true(vg_cpu_list_has(&list, 0) && vg_cpu_list_has(&list, 2) &&
                vg_cpu_list_has(&list, 5) && vg_cpu_list_has(&list, 8191));
    assert_false(vg_cpu_list_has(&list, 3) || vg_cpu_list_has(&list, -1) ||
                 vg_cpu_list_has(&list, 8192));
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) error = NULL;
        assert_int_equal(vg_cpu_list_parse(bad[i], &list, &error), -1);
        assert_non_null(strstr(error->message, "0-3,8"));
    }
    assert_int_equal(vg_cpu_list_count_both(&list, &list), 5);
    assert_int_equal(vg_cpu_list_parse("2-5", &other, NULL), 0);
    assert_int_equal(vg_cpu_list_count_both(&list, &other), 2);
}

/* Only one of three CPUs belongs to the host: the sums are of it alone. */
static void
test_listed_cpus(void **state)
{
    const char *proc = *state;
    struct vg_host_contention contention;
    struct vg_host_sample host;
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));

    vg_cpu_list_set_host("1");
    vg_host_contention_init(&contention, proc, proc, proc);
    vg_cpu_list_set_host("");
    contention.tick_ns = contention.cpus.tick_ns = 10 * VG_NS_PER_MS;
    write_text(proc, "stat",
               "cpu  30 0 0 30 0 0 0 30 0 0\ncpu0 20 0 0 20 0 0 0 20 0 0\n"
               "cpu1 5 0 0 5 0 0 0 5 0 0\ncpu2 5 0 0 5 0 0 0 5 0 0\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(host.own_ns, -1);
    write_text(proc, "stat",
               "cpu  90 0 0 90 0 0 0 90 0 0\ncpu0 60 0 0 60 0 0 0 60 0 0\n"
               "cpu1 8 0 1 7 0 0 0 6 0 0\ncpu2 22 0 0 23 0 0 0 24 0 0\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(cpus->len, 1);
    assert_int_equal(cpu_at(cpus, 0)->cpu, 1);
    assert_int_equal(host.own_ns, 40 * VG_NS_PER_MS);
    assert_int_equal(host.idle_ns, 20 * VG_NS_PER_MS);
    assert_int_equal(host.steal_ns, 10 * VG_NS_PER_MS);
    vg_host_contention_clear(&contention);
}

/* ---- processes ---- */

static const char *
cgroup_of(const char *text, size_t size, char *ret)
{
    return vg_proc_parse_cgroup(text, ret, size) ? ret : NULL;
}

static void
test_cgroups(void **state)
{
    char cgroup[VG_CGROUP_LEN];

    (void)state;
    assert_string_equal(cgroup_of("0::/system.slice/cron.service\n", sizeof(cgroup), cgroup),
                        "/system.slice/cron.service");
    assert_string_equal(
        cgroup_of("9:name=systemd:/user.slice\n8:pids:/x\n0::/\n", sizeof(cgroup), cgroup),
        "/user.slice");
    assert_string_equal(cgroup_of("8:pids:/x\n0::/\n", sizeof(cgroup), cgroup), "/");
    assert_null(cgroup_of("8:pids:/x\n", sizeof(cgroup), cgroup));
    assert_null(cgroup_of("", sizeof(cgroup), cgroup));
    /* Of a long one the end is what tells. */
    assert_string_equal(cgroup_of("0::/kube/pods/abcdef\n", 12, cgroup), "...s/abcdef");
    assert_string_equal(cgroup_of("0::/1234567890\n", 12, cgroup), "/1234567890");
}

static void
write_throttled(const char *proc, const char *group, int64_t us)
{
    g_autofree char *name = g_build_filename(group, "cpu.stat", NULL);
    g_autofree char *text = g_strdup_printf(
        "usage_usec 9\nnr_periods 3\nnr_throttled 2\nthrottled_usec %" PRId64 "\n", us);

    write_text(proc, name, text);
}

/* Settles a window in which the VM lost so much to an idle CPU, to a program of the host and to
 * another VM, and was preempted for all of it; *ret_limit_ns: what is left of each, and "limit". */
static void
settle_limits(vg_cpu_limits *limits, const int64_t lost_ms[3], const int64_t expected_ms[4])
{
    static const enum vg_aggressor_kind kinds[] = {VG_AGGRESSOR_HOST_IDLE, VG_AGGRESSOR_HOST_USER,
                                                   VG_AGGRESSOR_VM, VG_AGGRESSOR_LIMIT};
    struct vg_window window;
    struct vg_vm_sample vm;
    int64_t got_ms[4] = {0}, process_ns = 0;
    uint64_t count = 0;

    vg_window_init(&window, false);
    vg_vm_sample_init(&vm);
    vm.pid = 50;
    vm.cpu.observed_ns = 2 * VG_NS_PER_S;
    for (int32_t tid = 51; tid <= 52; tid++) {
        struct vg_vcpu_sample vcpu = {.tid = tid};
        g_array_append_val(vm.vcpus, vcpu);
    }
    for (size_t i = 0; i < 3; i++) {
        struct vg_lost_to lost = {
            .kind = kinds[i], .ns = lost_ms[i] * VG_NS_PER_MS, .count = 10, .vm_id = 7};
        lost.vcpu_ns = kinds[i] == VG_AGGRESSOR_VM ? lost.ns : 0;
        vm.cpu.preempt_ns += lost.ns;
        g_array_append_val(vm.lost_to, lost);
    }
    struct vg_lost_process process = {.pid = 9, .ns = lost_ms[1] * VG_NS_PER_MS, .count = 10};
    g_array_append_val(vm.lost_processes, process);
    g_array_append_val(window.vms, vm);
    vg_cpu_limits_settle(limits, &window);
    for (guint i = 0; i < vm.lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(vm.lost_to, struct vg_lost_to, i);
        for (size_t k = 0; k < G_N_ELEMENTS(kinds); k++)
            got_ms[k] += lost->kind == kinds[k] ? lost->ns / VG_NS_PER_MS : 0;
        count += lost->count;
        if (lost->kind == VG_AGGRESSOR_HOST_USER)
            process_ns = lost->ns;
        assert_int_equal(lost->vcpu_ns + lost->emulator_ns,
                         lost->kind == VG_AGGRESSOR_VM ? lost->ns : 0);
    }
    assert_memory_equal(got_ms, expected_ms, sizeof(got_ms));
    assert_int_equal(count, 30);
    assert_true(g_array_index(vm.lost_processes, struct vg_lost_process, 0).ns <= process_ns);
    vg_window_clear(&window);
}

/* Two vCPUs in groups of their own, which tell more than that of the VM; the two are not added. */
static void
test_limits(void **state)
{
    const char *proc = *state;
    vg_cpu_limits *limits = vg_cpu_limits_new(proc, proc);

    write_text(proc, "50/task/51/cgroup", "0::/vm/vcpu0\n");
    write_text(proc, "50/task/52/cgroup", "0::/vm/vcpu1\n");
    write_throttled(proc, "vm", 1000);
    write_throttled(proc, "vm/vcpu0", 5000000);
    write_throttled(proc, "vm/vcpu1", 0);
    settle_limits(limits, (int64_t[]){500, 0, 0}, (int64_t[]){500, 0, 0, 0});
    write_throttled(proc, "vm", 101000);
    write_throttled(proc, "vm/vcpu0", 5200000);
    write_throttled(proc, "vm/vcpu1", 50000);
    settle_limits(limits, (int64_t[]){500, 40, 0}, (int64_t[]){250, 40, 0, 250});
    /* What idle CPUs do not explain, others would not have taken from it without the quota. */
    write_throttled(proc, "vm/vcpu0", 5500000);
    settle_limits(limits, (int64_t[]){200, 300, 100}, (int64_t[]){0, 225, 75, 300});
    /* A stop is told when it is over, which may be in the next window. */
    write_throttled(proc, "vm/vcpu0", 5800000);
    settle_limits(limits, (int64_t[]){100, 100, 0}, (int64_t[]){0, 0, 0, 200});
    settle_limits(limits, (int64_t[]){300, 100, 0}, (int64_t[]){200, 100, 0, 100});
    /* After windows without a wait worth a look the count begins anew. */
    settle_limits(limits, (int64_t[]){1, 0, 0}, (int64_t[]){1, 0, 0, 0});
    write_throttled(proc, "vm/vcpu0", 9000000);
    settle_limits(limits, (int64_t[]){200, 0, 0}, (int64_t[]){200, 0, 0, 0});
    vg_cpu_limits_free(limits);
}

/* Names: what the kernel's programs saw, also of one that has gone; else what /proc says. */
static void
test_process_names(void **state)
{
    const char *proc = *state;
    g_autofree struct vg_bpf_name *seen = g_new0(struct vg_bpf_name, VG_BPF_NAMES);
    vg_process_names *names = vg_process_names_new(proc);
    struct vg_lost_process process = {.pid = 7};

    vg_process_names_fill(names, seen, &process);
    assert_true(process.comm[0] == '\0' && process.cgroup[0] == '\0');
    seen[7].pid = 7;
    memcpy(seen[7].comm, "backup", sizeof("backup"));
    write_text(proc, "7/cgroup", "0::/system.slice/backup.service\n");
    vg_process_names_fill(names, seen, &process);
    assert_string_equal(process.comm, "backup");
    assert_string_equal(process.cgroup, "/system.slice/backup.service");
    /* It is gone, and goes on being told of. */
    write_text(proc, "7/cgroup", "");
    for (unsigned i = 0; i < 100; i++) {
        process = (struct vg_lost_process){.pid = 7};
        vg_process_names_fill(names, seen, &process);
        vg_process_names_settle(names);
        assert_string_equal(process.cgroup, "/system.slice/backup.service");
    }
    /* Another process has its place among the names by now, and later its pid. */
    seen[7].pid = 7 + VG_BPF_NAMES;
    process = (struct vg_lost_process){.pid = 7};
    vg_process_names_fill(names, seen, &process);
    assert_string_equal(process.comm, "backup");
    seen[7].pid = 7;
    memcpy(seen[7].comm, "sixteen-letters!", 16);
    process = (struct vg_lost_process){.pid = 7};
    vg_process_names_fill(names, seen, &process);
    assert_string_equal(process.comm, "sixteen-letters");
    assert_string_equal(process.cgroup, "");
    vg_process_names_free(names);
}

static void
add_window(struct vg_window *sum, int32_t pid, const char *comm, const char *cgroup, int64_t ns)
{
    struct vg_window window;
    struct vg_vm_sample vm;
    struct vg_lost_process process = {.pid = pid, .pids = 1, .ns = ns, .count = 1};

    vg_window_init(&window, false);
    vg_vm_sample_init(&vm);
    g_strlcpy(process.comm, comm, sizeof(process.comm));
    g_strlcpy(process.cgroup, cgroup, sizeof(process.cgroup));
    g_array_append_val(vm.lost_processes, process);
    g_array_append_val(window.vms, vm);
    window.end_ns = sum->end_ns + 1;
    vg_window_add(sum, &window);
    vg_window_clear(&window);
}

/* Processes of one name and group are one; the smallest makes room. */
static void
test_sums_of_processes(void **state)
{
    struct vg_window sum;
    char comm[VG_COMM_LEN];

    (void)state;
    vg_window_init(&sum, false);
    add_window(&sum, 1, "cc1", "/a", 10);
    add_window(&sum, 2, "cc1", "/a", 20);
    add_window(&sum, 2, "cc1", "/a", 5);
    add_window(&sum, 3, "cc1", "/b", 50);
    const GArray *rows = g_array_index(sum.vms, struct vg_vm_sample, 0).lost_processes;
    const struct vg_lost_process *first = &g_array_index(rows, struct vg_lost_process, 0);
    assert_int_equal(rows->len, 2);
    assert_string_equal(first[0].cgroup, "/b");
    assert_int_equal(first[1].ns, 35);
    assert_int_equal(first[1].count, 3);
    assert_int_equal(first[1].pid, 2);
    assert_int_equal(first[1].pids, 2);
    for (int32_t i = 0; i < 100; i++) {
        g_snprintf(comm, sizeof(comm), "p%d", i);
        add_window(&sum, 100 + i, comm, "", 1);
    }
    rows = g_array_index(sum.vms, struct vg_vm_sample, 0).lost_processes;
    first = &g_array_index(rows, struct vg_lost_process, 0);
    assert_int_equal(rows->len, VG_SUM_LOST_PROCESSES_MAX);
    assert_int_equal(first[0].ns, 50);
    assert_int_equal(first[1].ns, 35);
    assert_int_equal(first[0].error_ns, 0);
    assert_int_equal(first[2].ns, 1);
    vg_window_clear(&sum);
}

/* ---- rows of vgpuctl ---- */

static const char *
text_of(json_object *rows, size_t i, const char *member)
{
    return json_object_get_string(vg_output_member(json_object_array_get_idx(rows, i), member));
}

static void
test_cpu_rows(void **state)
{
    g_autoptr(json_object) cpus = json_tokener_parse(
        "{\"begin_ns\":0,\"end_ns\":1000,\"places\":\"counted\",\"items\":["
        "{\"cpu\":0,\"node\":1,\"busy_ns\":900,\"idle_ns\":100,\"steal_ns\":0,\"wait_ns\":null,"
        "\"vms_ns\":600,\"vms_wait_ns\":1500,\"vms\":["
        "{\"name\":\"a-vm\",\"run_ns\":100},{\"name\":\"another-vm-with-a-long-name\","
        "\"run_ns\":500}],\"pinned\":[{\"name\":\"a-vm\"}]}]}");
    g_autoptr(json_object) wide = vg_host_cpu_rows(cpus, 0, true);
    g_autoptr(json_object) narrow = vg_host_cpu_rows(cpus, 80, true);

    (void)state;
    assert_string_equal(text_of(wide, 0, "ran"), "another-vm-with-a-long-name 50, a-vm 10");
    assert_string_equal(text_of(wide, 0, "pinned"), "a-vm");
    assert_string_equal(text_of(wide, 0, "vms"), "0.6");
    assert_string_equal(text_of(wide, 0, "host"), "0.3");
    assert_string_equal(text_of(wide, 0, "vm_waits"), "1.5");
    assert_null(text_of(wide, 0, "waits"));
    assert_true(vg_grid_text_columns(text_of(narrow, 0, "ran"), true) <= 16);
    assert_int_equal(strncmp(text_of(narrow, 0, "ran"), "another-vm", 10), 0);
}

static void
test_process_rows(void **state)
{
    g_autoptr(json_object) lost_to = json_tokener_parse(
        "[{\"aggressor\":\"b\",\"ns\":5},{\"aggressor\":\"host:user\",\"ns\":100,\"processes\":["
        "{\"comm\":\"cc1\",\"pid\":70,\"pids\":3,\"cgroup\":"
        "\"/system.slice/a-very-long-name-of-a-unit/build.service\",\"ns\":60,\"count\":2},"
        "{\"comm\":null,\"pid\":71,\"pids\":1,\"cgroup\":null,\"ns\":10,\"count\":1}],"
        "\"others\":{\"ns\":30,\"count\":0}}]");
    g_autoptr(json_object) rows = vg_host_process_rows(lost_to, 80, true);

    (void)state;
    assert_int_equal(vg_output_length(rows), 3);
    assert_string_equal(text_of(rows, 0, "pid"), "70 +2");
    assert_string_equal(text_of(rows, 0, "cgroup"), "...nit/build.service");
    assert_string_equal(text_of(rows, 1, "pid"), "71");
    assert_null(text_of(rows, 1, "cgroup"));
    assert_string_equal(text_of(rows, 2, "comm"), "others");
    assert_string_equal(text_of(rows, 2, "ns"), "30");
    assert_null(text_of(rows, 0, "at_most"));
    /* One that joins another makes it the first, and adds its error. */
    g_autoptr(json_object) joined =
        json_tokener_parse("[{\"aggressor\":\"host:user\",\"ns\":100,\"processes\":["
                           "{\"comm\":\"a\",\"pid\":1,\"pids\":1,\"cgroup\":\"/"
                           "a\",\"ns\":40,\"error_ns\":0,\"count\":1},"
                           "{\"comm\":\"b\",\"pid\":2,\"pids\":1,\"cgroup\":\"/"
                           "b\",\"ns\":30,\"error_ns\":5,\"count\":1},"
                           "{\"comm\":\"b\",\"pid\":3,\"pids\":1,\"cgroup\":null,\"ns\":30,\"error_"
                           "ns\":1,\"count\":1}],"
                           "\"others\":{\"ns\":0,\"count\":0}}]");
    g_autoptr(json_object) merged = vg_host_process_rows(joined, 80, true);
    assert_int_equal(vg_output_length(merged), 2);
    assert_string_equal(text_of(merged, 0, "comm"), "b");
    assert_string_equal(text_of(merged, 0, "ns"), "60");
    assert_string_equal(text_of(merged, 0, "at_most"), "66");
    assert_string_equal(text_of(merged, 1, "comm"), "a");
    assert_null(text_of(merged, 1, "at_most"));
}

/* ---- top ---- */

#define LOST_TO                                                                                    \
 "\"lost_to\":[{\"aggressor\":\"host:user\",\"ns\":500000000,\"count\":20,\"processes\":["         \
 "{\"comm\":\"back\\u001bup\",\"pid\":70,\"ns\":400000000,\"count\":15}],"                         \
 "\"others\":{\"ns\":100000000,\"count\":5}}]"
#define TOP_VM                                                                                     \
 "\"id\":\"id-a\",\"name\":\"a\",\"state\":\"running\",\"class\":\"cpu\",\"observed_ns\":1,"       \
 "\"run_ns\":100,\"wake_wait_ns\":500000000," LOST_TO

static vg_top_look *
look_of(const char *pressure)
{
    g_autofree char *text = g_strdup_printf(
        "{\"name\":\"h\",\"measurement\":{\"source\":\"bpf\",\"confidence\":1,\"begin_ns\":"
        "1000000000,"
        "\"newest_begin_ns\":1000000000,\"end_ns\":2000000000,\"waits_split\":true,"
        "\"aggressors_known\":true,\"host\":{\"vms_ns\":500000000,\"own_ns\":1250000000,"
        "\"idle_ns\":240000000,\"steal_ns\":10000000,\"load\":{\"1min\":3.25},\"pressure\":%s}}}",
        pressure);
    g_autoptr(json_object) host = json_tokener_parse(text);
    g_autoptr(json_object) vms = json_tokener_parse("[{" TOP_VM "}]");

    return vg_top_look_new(host, vms);
}

static void
assert_line(const vg_grid *grid, int row, const char *want)
{
    g_autofree char *text = vg_grid_text(grid, row);

    assert_string_equal(text, want);
}

static void
test_top(void **state)
{
    static const struct vg_top_now now = {.epoch_ns = 2000000000};
    g_autoptr(vg_grid) grid = vg_grid_new(24, 80, false);
    g_autoptr(vg_grid) untold = vg_grid_new(24, 80, false);
    g_autoptr(vg_grid) detailed = vg_grid_new(24, 80, false);
    g_autoptr(json_object) vm = json_tokener_parse("{" TOP_VM "}");
    struct vg_top_model model;

    (void)state;
    vg_top_model_init(&model);
    vg_top_model_take(&model, look_of("{\"cpu\":{\"some_ns\":970000000},\"memory\":{\"some_ns\":0},"
                                      "\"io\":{\"some_ns\":30000000}}"));
    vg_top_draw(&model, grid, &now);
    assert_line(grid, 3,
                "VMs 0.50, host 1.25, idle 0.24, stolen 0.01; load 3.2; PSI cpu 97% mem 0% io 3%");
    /* What the kernel does not tell is not there, rather than 0. */
    vg_top_look *look = look_of("{\"reason\":\"no PSI\"}");
    look->detail = vg_top_detail_new(look, "id-a", vm);
    vg_top_model_take(&model, look);
    vg_top_draw(&model, untold, &now);
    assert_line(untold, 3, "VMs 0.50, host 1.25, idle 0.24, stolen 0.01; load 3.2");
    vg_top_model_key(&model, VG_KEY_ENTER);
    vg_top_draw(&model, detailed, &now);
    g_autoptr(GString) all = g_string_new(NULL);
    for (int row = 0; row < 24; row++) {
        g_autofree char *text = vg_grid_text(detailed, row);
        g_string_append_printf(all, "%s\n", text);
    }
    assert_non_null(strstr(all->str,
                           "host:user                           0.500      100     20.0\n"
                           "  back?up (70)                      0.400     80.0     15.0\n"
                           "  others                            0.100     20.0      5.0\n"));
    vg_top_model_clear(&model);
}

static double
node_share(json_object *rows, size_t at, const char *name)
{
    json_object *share = vg_output_member(json_object_array_get_idx(rows, at), name);

    return share ? json_object_get_double(share) : -1;
}

/* Sums over the CPUs of a node; one that is not known makes none. */
static void
test_nodes(void **state)
{
    (void)state;
    g_autoptr(json_object) cpus = json_tokener_parse(
        "{\"begin_ns\":0,\"end_ns\":1000,\"places\":\"counted\",\"items\":["
        "{\"cpu\":0,\"node\":1,\"busy_ns\":500,\"idle_ns\":1,\"vms_ns\":3,\"vms_wait_ns\":250},"
        "{\"cpu\":1,\"node\":0,\"busy_ns\":100,\"idle_ns\":900,\"vms_ns\":0,\"vms_wait_ns\":0},"
        "{\"cpu\":2,\"node\":1,\"busy_ns\":750,\"idle_ns\":null,\"vms_ns\":7,\"vms_wait_ns\":500},"
        "{\"cpu\":3,\"node\":null,\"busy_ns\":1000}]}");
    assert_non_null(cpus);
    g_autoptr(json_object) rows = vg_host_node_rows(cpus);
    assert_int_equal(json_object_array_length(rows), 2);
    assert_true(node_share(rows, 0, "node") == 0 && node_share(rows, 1, "node") == 1);
    assert_true(node_share(rows, 0, "cpus") == 1 && node_share(rows, 1, "cpus") == 2);
    assert_true(node_share(rows, 0, "busy") == 0.1 && node_share(rows, 1, "busy") == 1.25);
    assert_true(node_share(rows, 0, "idle") == 0.9 && node_share(rows, 1, "idle") < 0);
    assert_true(node_share(rows, 1, "vms") == 0.01);
    assert_true(node_share(rows, 0, "vm_waits") == 0 && node_share(rows, 1, "vm_waits") == 0.75);
    assert_true(node_share(rows, 1, "waits") < 0);
    g_autoptr(json_object) one = json_tokener_parse(
        "{\"begin_ns\":0,\"end_ns\":1000,\"items\":[{\"cpu\":0,\"node\":0,\"busy_ns\":5}]}");
    g_autoptr(json_object) none = vg_host_node_rows(one);
    assert_int_equal(json_object_array_length(none), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes),       FAKE_PROC_TEST(test_host_contention),
        FAKE_PROC_TEST(test_host_pressure), FAKE_PROC_TEST(test_host_cpus),
        cmocka_unit_test(test_cpu_lists),   FAKE_PROC_TEST(test_listed_cpus),
        cmocka_unit_test(test_cgroups),     FAKE_PROC_TEST(test_limits),
        FAKE_PROC_TEST(test_process_names), cmocka_unit_test(test_sums_of_processes),
        cmocka_unit_test(test_cpu_rows),    cmocka_unit_test(test_process_rows),
        cmocka_unit_test(test_top),
    };

    return cmocka_run_group_tests_name("host-load", tests, NULL, NULL);
}
