/* SPDX-License-Identifier: Apache-2.0
 *
 * VMs found below a fake /proc, and the texts of /proc.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"
#include "tests/unit/fake-proc.h"

#define UUID "c2177883-f1bb-47f0-914d-32a22e3a8804"

/* A command line of words in one literal, NULs between them. */
#define QEMU(words) "qemu-system-x86_64\0" words, sizeof("qemu-system-x86_64\0" words)

static void
add_vcpu(const char *proc, int pid, int tid, const char *comm)
{
    fake_proc_task(proc, &(struct fake_task){.pid = pid, .tid = tid, .comm = comm, .start = 5});
}

static void
update(vg_proc_scan *scan, int64_t seconds)
{
    assert_int_equal(vg_proc_scan_update(scan, seconds * VG_NS_PER_S, NULL), 0);
}

static const struct vg_proc_vm *
vm_at(const vg_proc_scan *scan, unsigned at)
{
    assert_true(at < vg_proc_scan_vms(scan)->len);
    return vg_proc_scan_vms(scan)->pdata[at];
}

static int32_t
tid_at(const struct vg_proc_vm *vm, unsigned at)
{
    assert_true(at < vm->vcpus->len);
    return g_array_index(vm->vcpus, struct vg_proc_vcpu, at).tid;
}

/* ---- texts ---- */

static void
test_command_lines(void **state)
{
    static const struct {
        const char *cmdline;
        size_t size;
        const char *name;
        const char *uuid;
    } cases[] = {
        {QEMU("-name\0guest=vm1,debug-threads=on\0-S\0-uuid\0" UUID), "vm1", UUID},
        {QEMU("-name\0vm1"), "vm1", ""},
        {QEMU("--name\0vm1,process=x\0--uuid\0" UUID), "vm1", UUID},
        {QEMU("-name\0debug-threads=on,guest=b"), "b", ""},
        {QEMU("-name\0guest=a,,b,debug-threads=on"), "a,b", ""},
        {QEMU("-name\0a,,b,,,debug-threads=on"), "a,b,", ""},
        {QEMU("-name\0process=x,,guest=no,debug-threads=on"), "", ""},
        {QEMU("-name\0guest="), "", ""},
        {QEMU("-name\0guest=with space=and equals"), "with space=and equals", ""},
        {QEMU("-uuid\0C2177883-F1BB-47F0-914D-32A22E3A8804"), "", UUID},
        {QEMU("-uuid\0not-one"), "", ""},
        {QEMU("-name"), "", ""},
        {"", 0, "", ""},
        {"-name\0vm", 7, "v", ""}, /* cut, without a NUL */
        {QEMU("-name\0guest=\377x"), "\357\277\275x", ""},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        char name[VG_VM_NAME_MAX], uuid[VG_UUID_LEN];
        vg_proc_parse_qemu(cases[i].cmdline, cases[i].size, name, uuid);
        assert_string_equal(name, cases[i].name);
        assert_string_equal(uuid, cases[i].uuid);
    }
}

static void
test_long_names(void **state)
{
    char cmdline[2048] = "-name";
    char name[VG_VM_NAME_MAX], uuid[VG_UUID_LEN];

    (void)state;
    memset(cmdline + 6, 'n', 1000);
    vg_proc_parse_qemu(cmdline, 1007, name, uuid);
    assert_int_equal(strlen(name), VG_VM_NAME_MAX - 1);
    /* Each bad byte becomes three: 85 of them fill the 255 bytes. */
    memset(cmdline + 6, '\377', 1000);
    vg_proc_parse_qemu(cmdline, 1007, name, uuid);
    assert_int_equal(strlen(name), 255);
    assert_true(g_utf8_validate(name, -1, NULL));
    cmdline[6] = 'n';
    vg_proc_parse_qemu(cmdline, 1007, name, uuid);
    assert_int_equal(strlen(name), 253);
    assert_true(g_utf8_validate(name, -1, NULL));
}

static void
test_stat(void **state)
{
    static const char *const bad[] = {
        "",
        "1",
        "1 (x",
        "1 (x)",
        "1 (x) ",
        "1 (x) S",
        "1 (x) S 1 2 3",
        "1 (x) S a b c",
        "1 )x( S 1 1 1 0 -1 4194304 10 0 0 0 7 8 0 0 20 0 3 0 99",
        "1 (x) S 1 1 1 0 -1 99999999999999999999999 10 0 0 0 7 8 0 0 20 0 3 0 99",
    };
    struct vg_proc_stat stat;

    (void)state;
    /* Up to field 22 only, as of an old kernel. */
    assert_true(
        vg_proc_parse_stat("1 (a) (b) S 1 1 1 0 -1 4194304 10 0 0 0 7 8 0 0 20 -5 3 0 99", &stat));
    assert_string_equal(stat.comm, "a) (b");
    assert_int_equal(stat.state, 'S');
    assert_int_equal(stat.cpu_ticks, 15);
    assert_int_equal(stat.threads, 3);
    assert_int_equal(stat.start_ticks, 99);
    assert_int_equal(stat.cpu, VG_NONE);
    assert_false(stat.is_kernel);
    assert_true(vg_proc_parse_stat(
        "9 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 20 0 1 0 7", &stat));
    assert_true(stat.is_kernel);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
        assert_false(vg_proc_parse_stat(bad[i], &stat));
}

static void
test_counters(void **state)
{
    struct vg_proc_schedstat sched;
    struct vg_proc_switches switches;

    (void)state;
    assert_true(vg_proc_parse_schedstat("12 34 56\n", &sched));
    assert_int_equal(sched.run_ns, 12);
    assert_int_equal(sched.wait_ns, 34);
    assert_int_equal(sched.timeslices, 56);
    assert_false(vg_proc_parse_schedstat("", &sched));
    assert_false(vg_proc_parse_schedstat("1 2", &sched));
    assert_false(vg_proc_parse_schedstat("1 -2 3", &sched));
    assert_false(vg_proc_parse_schedstat("18446744073709551615 0 1", &sched));
    assert_true(vg_proc_parse_switches(
        "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n", &switches));
    assert_int_equal(switches.voluntary, 7);
    assert_int_equal(switches.nonvoluntary, 9);
    assert_false(vg_proc_parse_switches("Name:\tx\nnonvoluntary_ctxt_switches:\t9\n", &switches));
}

/* ---- processes ---- */

static const struct vg_proc_vm *
scan_named(const vg_proc_scan *scan, const char *name)
{
    const GPtrArray *vms = vg_proc_scan_vms(scan);

    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        if (strcmp(vm->name, name) == 0)
            return vm;
    }
    fail_msg("there is no VM %s", name);
    return NULL;
}

/* Of two processes that say they are one VM, libvirt's own is chosen, whichever comes first. */
static void
test_libvirts_own(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    static const char group[] = "0::/machine.slice/machine-qemu\\x2d3\\x2done.scope\n";
    g_autofree char *path = g_strdup_printf("%s/20/cgroup", proc);

    fake_proc_process(proc, 10, "qemu", 1, 2, QEMU("-name\0guest=a\0-uuid\0" UUID));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    fake_proc_process(proc, 20, "qemu", 2, 2, QEMU("-name\0guest=b\0-uuid\0" UUID));
    fake_proc_write(path, group, strlen(group));
    add_vcpu(proc, 20, 21, "CPU 0/KVM");
    update(scan, 100);
    const struct vg_proc_vm *a = scan_named(scan, "a"), *b = scan_named(scan, "b");
    assert_ptr_equal(vg_proc_vm_choose(NULL, a), a);
    assert_ptr_equal(vg_proc_vm_choose(a, b), b);
    assert_ptr_equal(vg_proc_vm_choose(b, a), b);
    assert_ptr_equal(vg_proc_vm_choose(a, a), a);
}

static void
test_finds_vms(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 1, "init", 1, 1, "init", 4);
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 4,
                      QEMU("-name\0guest=one,debug-threads=on\0-uuid\0" UUID));
    add_vcpu(proc, 10, 13, "CPU 1/KVM");
    add_vcpu(proc, 10, 12, "CPU 0/KVM");
    add_vcpu(proc, 10, 11, "IO mon_iothread");
    fake_proc_process(proc, 20, "anything", 3, 2, "", 0);
    add_vcpu(proc, 20, 21, "ALL CPUs/TCG");
    fake_proc_process(proc, 30, "CPU 0/KVM", 3, 1, "sleep\0005", 8);
    fake_proc_process(proc, 40, "many", 3, 2, "many", 4);
    add_vcpu(proc, 40, 41, "worker");
    update(scan, 100);

    assert_int_equal(vg_proc_scan_vms(scan)->len, 3);
    const struct vg_proc_vm *one = scan_named(scan, "one");
    assert_string_equal(one->uuid, UUID);
    assert_int_equal(one->pid, 10);
    assert_int_equal(one->vcpus->len, 2);
    assert_int_equal(tid_at(one, 0), 12);
    assert_int_equal(tid_at(one, 1), 13);
    const struct vg_proc_vm *two = scan_named(scan, "qemu-20");
    assert_int_equal(g_array_index(two->vcpus, struct vg_proc_vcpu, 0).index, VG_NONE);
    scan_named(scan, "qemu-30");
}

static void
test_vcpus_named_late(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 10, "qemu-system-x86", 2, 1, QEMU("-name\0late"));
    fake_proc_process(proc, 20, "other", 2, 2, "other", 5);
    add_vcpu(proc, 20, 21, "other");
    update(scan, 0);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);

    /* What has QEMU's name is looked at each time. */
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0late"));
    add_vcpu(proc, 10, 11, "CPU 0/TCG");
    update(scan, 0);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "late");

    /* Others in a while. */
    add_vcpu(proc, 20, 21, "CPU 0/TCG");
    update(scan, 0);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    update(scan, 2);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 2);
}

static void
test_old_processes_are_left_alone(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 20, "other", 2, 2, "other", 5);
    add_vcpu(proc, 20, 21, "other");
    for (int i = 0; i < 200; i++)
        update(scan, i);
    add_vcpu(proc, 20, 21, "CPU 0/TCG");
    for (int i = 200; i < 400; i++)
        update(scan, i);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    /* The same pid, another process: seen by its start, though the directory is the same. */
    fake_proc_process(proc, 20, "other", 777, 2, "other", 5);
    for (int i = 400; i < 462; i++)
        update(scan, i);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
}

static void
test_hot_plug(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    g_autofree char *gone = g_strdup_printf("%s/10/task/11", proc);

    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0plug"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    update(scan, 1);
    /* A thread is born with another name. */
    add_vcpu(proc, 10, 12, "qemu-system-x86");
    update(scan, 20);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1);
    add_vcpu(proc, 10, 12, "CPU 1/KVM");
    update(scan, 30);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 2);
    fake_proc_remove(gone);
    update(scan, 40);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1);
    assert_int_equal(tid_at(vm_at(scan, 0), 0), 12);
    assert_int_equal(vm_at(scan, 0)->id, 0);
}

static void
test_pid_reuse(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    g_autofree char *dir = g_strdup_printf("%s/10", proc);

    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0first"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    update(scan, 1);
    assert_string_equal(vm_at(scan, 0)->name, "first");
    assert_int_equal(vm_at(scan, 0)->id, 0);

    fake_proc_remove(dir);
    fake_proc_process(proc, 10, "qemu-system-x86", 50, 2, QEMU("-name\0second"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    update(scan, 20);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "second");
    assert_int_equal(vm_at(scan, 0)->id, 1);

    fake_proc_remove(dir);
    update(scan, 30);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    fake_proc_process(proc, 10, "make", 60, 1, "make", 4);
    update(scan, 40);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
}

/* ---- hints ---- */

static void
test_hint_of_a_new_vm(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    update(scan, 1);
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0hinted"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    vg_proc_scan_look(scan, 10, 11, "CPU 0/KVM", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "hinted");
    assert_int_equal(tid_at(vm_at(scan, 0), 0), 11);
    /* A second one, a moment later, of another thread. */
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 3, QEMU("-name\0hinted"));
    add_vcpu(proc, 10, 12, "CPU 1/KVM");
    vg_proc_scan_look(scan, 10, 12, "CPU 1/KVM", VG_NS_PER_S);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1); /* listed already in this moment */
    vg_proc_scan_look(scan, 10, 12, "CPU 1/KVM", VG_NS_PER_S + 1);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 2);
    /* The next update sees the same VM. */
    update(scan, 1);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_int_equal(vm_at(scan, 0)->id, 0);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 2);
}

/* It was named, but not like a vCPU. */
static void
test_hint_without_a_reason(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 20, "other", 2, 2, "other", 5);
    add_vcpu(proc, 20, 21, "CPU bound");
    vg_proc_scan_look(scan, 20, 21, "CPU bound", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
}

/* A thread without such a name that entered a guest: a VMM that is not QEMU. */
static void
test_hint_of_one_that_entered(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 20, "vmm", 2, 3, "vmm", 3);
    add_vcpu(proc, 20, 21, "worker");
    add_vcpu(proc, 20, 22, "worker");
    update(scan, 1);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    vg_proc_scan_look(scan, 20, 22, "", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "qemu-20");
    const struct vg_proc_vcpu *vcpu = &g_array_index(vm_at(scan, 0)->vcpus, struct vg_proc_vcpu, 0);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1);
    assert_int_equal(vcpu->tid, 22);
    assert_int_equal(vcpu->index, VG_NONE);
    assert_true(vcpu->is_kvm);
    /* Listing its threads again does not forget that. */
    for (int i = 2; i < 30; i++)
        update(scan, i);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1);
    vg_proc_scan_look(scan, 20, 21, "", 30 * VG_NS_PER_S);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 2);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    /* One whose only thread enters. */
    fake_proc_process(proc, 30, "tiny", 2, 1, "tiny", 4);
    vg_proc_scan_look(scan, 30, 30, "", 30 * VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 2);
    assert_int_equal(tid_at(vm_at(scan, 1), 0), 30);
}

static void
test_hint_of_one_that_is_gone(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    g_autofree char *thread = g_strdup_printf("%s/10/task/11", proc);
    g_autofree char *process = g_strdup_printf("%s/10", proc);

    vg_proc_scan_look(scan, 10, 11, "CPU 0/KVM", VG_NS_PER_S);
    vg_proc_scan_look(scan, 10, 11, "", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0a"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    add_vcpu(proc, 10, 12, "CPU 1/KVM");
    update(scan, 1);
    fake_proc_remove(thread);
    vg_proc_scan_look(scan, 10, 11, "", 2 * VG_NS_PER_S);
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 1);
    fake_proc_remove(process);
    /* What is gone is forgotten by the update, not by the hint. */
    vg_proc_scan_look(scan, 10, 12, "", 3 * VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    update(scan, 4);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
}

/* A thread that is not of that process, or none at all: nothing comes of it. */
static void
test_hint_of_another_process(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 20, "other", 2, 2, "other", 5);
    add_vcpu(proc, 20, 21, "other");
    fake_proc_process(proc, 40, "another", 2, 1, "another", 7);
    vg_proc_scan_look(scan, 20, 40, "", VG_NS_PER_S);
    vg_proc_scan_look(scan, 20, 0, "", VG_NS_PER_S);
    vg_proc_scan_look(scan, 40, 21, "", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    update(scan, 2);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
}

/* The thread was seen, and is gone when its hint is followed: it makes nobody a VM. */
static void
test_hint_of_a_thread_that_has_ended(void **state)
{
    static const char *const heard[] = {"", "CPU 0/KVM"};
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    for (int32_t i = 0; i < 2; i++) {
        int32_t pid = 20 + 10 * i;
        g_autofree char *thread = g_strdup_printf("%s/%d/task/%d", proc, pid, pid + 1);
        fake_proc_process(proc, pid, "vmm", 2, 2, "vmm", 3);
        add_vcpu(proc, pid, pid + 1, "worker");
        update(scan, 1 + 2 * i);
        fake_proc_remove(thread);
        fake_proc_process(proc, pid, "vmm", 2, 1, "vmm", 3);
        vg_proc_scan_look(scan, pid, pid + 1, heard[i], (2 + 2 * i) * VG_NS_PER_S);
        assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    }
}

/* The hint knows the name before /proc does. */
static void
test_hint_of_a_name_to_come(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);

    fake_proc_process(proc, 10, "other", 2, 3, QEMU("-name\0named"));
    add_vcpu(proc, 10, 11, "other");
    add_vcpu(proc, 10, 12, "other");
    update(scan, 1);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 0);
    vg_proc_scan_look(scan, 10, 11, "CPU 0/KVM", VG_NS_PER_S);
    vg_proc_scan_look(scan, 10, 12, "CPU 7/TCG", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "named");
    assert_int_equal(vm_at(scan, 0)->vcpus->len, 2);
    const struct vg_proc_vcpu *vcpus = (const void *)vm_at(scan, 0)->vcpus->data;
    assert_int_equal(vcpus[0].tid, 11);
    assert_true(vcpus[0].index == 0 && vcpus[0].is_kvm);
    assert_int_equal(vcpus[1].tid, 12);
    assert_true(vcpus[1].index == 7 && !vcpus[1].is_kvm);
    /* Named again: another vCPU has the thread's number. */
    vg_proc_scan_look(scan, 10, 11, "CPU 9/KVM", VG_NS_PER_S);
    vcpus = (const void *)vm_at(scan, 0)->vcpus->data;
    assert_true(vcpus[0].tid == 12 && vcpus[1].tid == 11 && vcpus[1].index == 9);
    /* Entering a guest, it keeps its number. */
    vg_proc_scan_look(scan, 10, 12, "", VG_NS_PER_S);
    vcpus = (const void *)vm_at(scan, 0)->vcpus->data;
    assert_true(vcpus[0].tid == 12 && vcpus[0].index == 7 && vcpus[0].is_kvm);
    assert_int_equal(vm_at(scan, 0)->id, 0);
}

/* Another VM has the pid by now; the hint is the first to tell of it. */
static void
test_hint_of_a_pid_that_came_back(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    g_autofree char *dir = g_strdup_printf("%s/10", proc);

    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0first"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    update(scan, 1);
    fake_proc_remove(dir);
    fake_proc_process(proc, 10, "qemu-system-x86", 50, 2, QEMU("-name\0second"));
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    vg_proc_scan_look(scan, 10, 11, "CPU 0/KVM", VG_NS_PER_S);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    assert_string_equal(vm_at(scan, 0)->name, "second");
    assert_int_equal(vm_at(scan, 0)->id, 1);
}

static void
expect_helpers(const vg_proc_scan *scan, unsigned at, const char *expected)
{
    g_autoptr(GString) pids = g_string_new(NULL);
    int32_t pid;

    for (unsigned i = 1; (pid = vg_proc_vm_pid_at(vm_at(scan, at), i)) > 0; i++)
        g_string_append_printf(pids, "%d ", pid);
    assert_string_equal(pids->str, expected);
}

static void
test_helpers(void **state)
{
    const char *proc = *state;
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(proc);
    g_autofree char *server = g_strdup_printf("%s/15", proc);
    g_autofree char *one = g_strdup_printf("%s/10", proc);

    /* Started before it is known that their parent is a VM. */
    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, QEMU("-name\0one"));
    fake_proc_child(proc, 15, 10, "virgl_render_se", 4);
    fake_proc_child(proc, 14, 15, "virgl_render_se", 5);
    fake_proc_child(proc, 16, 1, "other", 5);
    /* Of the kernel; and programs that have chosen such a name. */
    fake_proc_child(proc, 18, 2, "vhost-10", 5);
    fake_proc_child(proc, 19, 1, "vhost-10", 5);
    fake_proc_child(proc, 22, 2, "vhost-99", 5);
    update(scan, 0);
    add_vcpu(proc, 10, 11, "CPU 0/KVM");
    fake_proc_process(proc, 20, "qemu-system-x86", 3, 2, QEMU("-name\0two"));
    add_vcpu(proc, 20, 21, "CPU 0/KVM");
    update(scan, 1);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 2);
    unsigned first = strcmp(vm_at(scan, 0)->name, "one") == 0 ? 0 : 1;
    expect_helpers(scan, first, "14 15 18 ");
    expect_helpers(scan, !first, "");

    /* Its parent ends, and its pid comes back as another's. */
    fake_proc_remove(server);
    update(scan, 2);
    expect_helpers(scan, first, "14 18 ");
    fake_proc_child(proc, 15, 20, "virgl_render_se", 9);
    update(scan, 3);
    expect_helpers(scan, first, "14 18 ");
    expect_helpers(scan, !first, "15 ");

    /* The pid of a VM comes back as no VM: who was its helper is nobody's, who starts now likewise.
     */
    fake_proc_remove(one);
    update(scan, 4);
    fake_proc_process(proc, 10, "other", 20, 1, "other", 5);
    fake_proc_child(proc, 17, 10, "other", 21);
    update(scan, 5);
    assert_int_equal(vg_proc_scan_vms(scan)->len, 1);
    expect_helpers(scan, 0, "15 ");
}

static void
test_no_directory(void **state)
{
    g_autoptr(GError) err = NULL;
    g_autofree char *none = g_strdup_printf("%s/none", (char *)*state);
    g_autoptr(vg_proc_scan) scan = vg_proc_scan_new(none);

    assert_int_equal(vg_proc_scan_update(scan, 0, &err), -1);
    assert_int_equal(err->code, VG_E_NOT_FOUND);
    assert_non_null(strstr(err->message, none));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command_lines),
        cmocka_unit_test(test_long_names),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_counters),
        FAKE_PROC_TEST(test_finds_vms),
        FAKE_PROC_TEST(test_libvirts_own),
        FAKE_PROC_TEST(test_vcpus_named_late),
        FAKE_PROC_TEST(test_old_processes_are_left_alone),
        FAKE_PROC_TEST(test_hot_plug),
        FAKE_PROC_TEST(test_pid_reuse),
        FAKE_PROC_TEST(test_hint_of_a_new_vm),
        FAKE_PROC_TEST(test_hint_without_a_reason),
        FAKE_PROC_TEST(test_hint_of_one_that_entered),
        FAKE_PROC_TEST(test_hint_of_one_that_is_gone),
        FAKE_PROC_TEST(test_hint_of_another_process),
        FAKE_PROC_TEST(test_hint_of_a_thread_that_has_ended),
        FAKE_PROC_TEST(test_hint_of_a_name_to_come),
        FAKE_PROC_TEST(test_hint_of_a_pid_that_came_back),
        FAKE_PROC_TEST(test_helpers),
        FAKE_PROC_TEST(test_no_directory),
    };
    return cmocka_run_group_tests_name("proc-scan", tests, NULL, NULL);
}
