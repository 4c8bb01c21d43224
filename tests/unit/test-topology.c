/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is who: statements about threads and processes in every order they can come in.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "model/topology.h"

static int
setup(void **state)
{
    *state = vg_topology_new();
    return 0;
}

static int
teardown(void **state)
{
    vg_topology_free(*state);
    return 0;
}

/* A comm as records carry it, padded with NUL. */
static void
set_comm(vg_topology *t, struct vg_thread *thread, const char *comm)
{
    char padded[VG_COMM_LEN] = "";
    g_strlcpy(padded, comm, sizeof(padded));
    vg_topology_set_comm(t, thread, padded);
}

static struct vg_thread *
new_thread(vg_topology *t, int32_t tid, int32_t pid, const char *comm)
{
    struct vg_thread *thread = vg_topology_thread(t, tid);
    if (comm)
        set_comm(t, thread, comm);
    if (pid > 0)
        vg_topology_set_process(t, thread, pid);
    return thread;
}

/* ---- names ---- */

static void
test_vcpu_names(void **state)
{
    (void)state;
    int32_t index = 77;
    assert_true(vg_comm_is_vcpu("CPU 0/KVM", &index));
    assert_int_equal(index, 0);
    assert_true(vg_comm_is_vcpu("CPU 3/TCG", &index));
    assert_int_equal(index, 3);
    assert_true(vg_comm_is_vcpu("CPU 12/KVM", &index));
    assert_int_equal(index, 12);
    assert_true(vg_comm_is_vcpu("CPU 1023/KVM", &index));
    assert_int_equal(index, 1023);
    assert_true(vg_comm_is_vcpu("ALL CPUs/TCG", &index));
    assert_int_equal(index, VG_NONE);
    static const char *const others[] = {
        "",
        "CPU",
        "CPU ",
        "CPU /KVM",
        "CPU x/KVM",
        "CPU 3",
        "CPU 3/",
        "CPU 3/KVMx",
        "CPU 3/kvm",
        "cpu 3/KVM",
        "CPU -1/KVM",
        "CPU  3/KVM",
        "xCPU 3/KVM",
        "CPU 3 /KVM",
        "vcpu 3",
        "qemu-system-x86",
        "CPU 3x/KVM",
        "CPU +3/KVM",
        "CPU 99999999999999999999/KVM",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (vg_comm_is_vcpu(others[i], &index))
            fail_msg("\"%s\" was taken for a vCPU", others[i]);
}

static void
test_qemu_names(void **state)
{
    (void)state;
    assert_true(vg_comm_is_qemu("qemu-system-x86")); /* what 15 bytes leave of -x86_64 */
    assert_true(vg_comm_is_qemu("qemu-system-aar"));
    assert_true(vg_comm_is_qemu("qemu-kvm"));
    assert_false(vg_comm_is_qemu(""));
    assert_false(vg_comm_is_qemu("make"));
    assert_false(vg_comm_is_qemu("kworker/0:1"));
    assert_false(vg_comm_is_qemu("qemu-img"));
}

static void
test_kernel_names(void **state)
{
    (void)state;
    static const char *const kernel[] = {
        "kworker/0:1", "kworker/u8:2-ev", "kworker/1:0H", "ksoftirqd/3", "migration/0", "rcu_sched",
        "rcu_preempt", "kthreadd",        "kswapd0",      "watchdog/1",  "khungtaskd",  "cpuhp/2",
        "jbd2/sda1-8", "z_wr_iss",        "nv_queue",     "gfx_0.0.0",   "vhost-17",
    };
    static const char *const others[] = {"bash", "qemu-system-x86", "CPU 0/KVM", "kwrite",
                                         "",     "migrate",         "make"};
    for (size_t i = 0; i < G_N_ELEMENTS(kernel); i++)
        if (vg_comm_kind(kernel[i]) != VG_THREAD_KERNEL)
            fail_msg("\"%s\" is the kernel's", kernel[i]);
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        if (vg_comm_kind(others[i]) == VG_THREAD_KERNEL)
            fail_msg("\"%s\" is not the kernel's", others[i]);
}

static void
test_comm_says_what_a_thread_is(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 2/KVM");
    assert_true(vcpu->is_vcpu);
    assert_int_equal(vcpu->vcpu_index, 2);
    assert_string_equal(vcpu->comm, "CPU 2/KVM");
    assert_true(vg_thread_process(vcpu)->is_vm);
    struct vg_thread *worker = new_thread(t, 5, VG_NONE, "kworker/0:1");
    assert_int_equal(worker->kind, VG_THREAD_KERNEL);
    assert_int_equal(worker->vcpu_index, VG_NONE);
    assert_false(vg_thread_process(worker)->is_vm);
    struct vg_thread *main_thread = new_thread(t, 200, 200, "qemu-system-x86");
    assert_false(main_thread->is_vcpu);
    assert_true(vg_thread_process(main_thread)->maybe_vm);
    assert_false(vg_thread_process(main_thread)->is_vm);
    struct vg_thread *shell = new_thread(t, 300, 300, "bash");
    assert_false(vg_thread_process(shell)->maybe_vm);
    set_comm(t, shell, "qemu-kvm"); /* it called exec */
    assert_true(vg_thread_process(shell)->maybe_vm);
}

static void
test_longest_comm(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *thread = new_thread(t, 1, VG_NONE, "123456789012345");
    assert_string_equal(thread->comm, "123456789012345");
    set_comm(t, thread, "short");
    assert_string_equal(thread->comm, "short");
}

/* ---- threads and processes ---- */

static void
test_find_and_make(void **state)
{
    vg_topology *t = *state;
    assert_null(vg_topology_find(t, 1));
    struct vg_thread *first = vg_topology_thread(t, 1);
    assert_non_null(first);
    assert_int_equal(first->tid, 1);
    assert_int_equal(first->vcpu_index, VG_NONE);
    assert_ptr_equal(vg_topology_thread(t, 1), first);
    assert_ptr_equal(vg_topology_find(t, 1), first);
    struct vg_thread *last = vg_topology_thread(t, VG_TID_LIMIT);
    assert_int_equal(last->tid, VG_TID_LIMIT);
    assert_int_not_equal(last->slot, first->slot);
    assert_null(vg_topology_find(t, VG_TID_LIMIT - 1));
}

static void
test_threads_never_move(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *first = vg_topology_thread(t, 1);
    struct vg_process *process = vg_thread_process(first);
    for (int32_t tid = 2; tid <= 20000; tid++)
        vg_topology_thread(t, tid);
    assert_ptr_equal(vg_topology_find(t, 1), first);
    assert_ptr_equal(vg_thread_process(first), process);
    assert_int_equal(vg_topology_thread_count(t), 20000);
    for (uint32_t slot = 0; slot < 20000; slot++)
        assert_int_equal(vg_topology_thread_at(t, slot)->slot, slot);
    assert_null(vg_topology_thread_at(t, 20000));
}

static void
test_guesses_become_one_process(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *a = new_thread(t, 101, VG_NONE, "CPU 0/KVM");
    struct vg_thread *b = new_thread(t, 102, VG_NONE, "CPU 1/KVM");
    assert_ptr_not_equal(vg_thread_process(a), vg_thread_process(b));
    assert_false(vg_thread_process(a)->pid_known);
    vg_topology_set_process(t, a, 100);
    vg_topology_set_process(t, b, 100);
    struct vg_thread *main_thread = new_thread(t, 100, 100, NULL);
    assert_ptr_equal(vg_thread_process(a), vg_thread_process(b));
    assert_ptr_equal(vg_thread_process(a), vg_thread_process(main_thread));
    struct vg_process *process = vg_thread_process(a);
    assert_true(process->pid_known);
    assert_int_equal(process->pid, 100);
    assert_true(process->is_vm);
    assert_int_equal(process->threads, 3);
    assert_null(process->merged_into);
}

/* The main thread was seen without its process id first: its guess has the right number. */
static void
test_guess_with_the_right_number(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *main_thread = new_thread(t, 100, VG_NONE, "qemu-system-x86");
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 0/KVM");
    vg_topology_set_process(t, main_thread, 100);
    assert_ptr_equal(vg_thread_process(main_thread), vg_thread_process(vcpu));
    assert_true(vg_thread_process(main_thread)->is_vm);
    assert_int_equal(vg_thread_process(vcpu)->threads, 2);
}

/* The first thread of a process has its number: seen before the process or after it, named by the
 * VM map or not, it never is a VM of its own. */
static void
test_first_thread_of_a_process(void **state)
{
    vg_topology *t = *state;
    assert_int_equal(vg_topology_name_vm(t, 100, "a", NULL, NULL), 0);
    assert_int_equal(vg_topology_name_vm(t, 200, "b", NULL, NULL), 0);
    struct vg_thread *first = new_thread(t, 100, 0, NULL);
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 0/KVM");
    assert_ptr_equal(vg_thread_process(first), vg_thread_process(vcpu));
    assert_string_equal(vg_thread_process(first)->name, "a");
    struct vg_thread *other_vcpu = new_thread(t, 201, 200, "CPU 0/KVM");
    struct vg_thread *other_first = new_thread(t, 200, 0, NULL);
    assert_ptr_equal(vg_thread_process(other_first), vg_thread_process(other_vcpu));
    assert_true(vg_thread_process(other_first)->pid_known);
    unsigned vms = 0;
    for (uint32_t i = 0; i < vg_topology_process_count(t); i++)
        vms += !vg_topology_process_at(t, i)->merged_into;
    assert_int_equal(vms, 2);
}

static void
test_set_vcpu_by_guest_entry(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *thread = new_thread(t, 101, 100, "qemu:worker");
    assert_false(thread->is_vcpu);
    vg_topology_set_vcpu(t, thread);
    vg_topology_set_vcpu(t, thread);
    assert_true(thread->is_vcpu);
    assert_int_equal(thread->vcpu_index, VG_NONE);
    assert_true(vg_thread_process(thread)->is_vm);
    set_comm(t, thread, "CPU 7/KVM"); /* its name comes late */
    assert_int_equal(thread->vcpu_index, 7);
    assert_true(thread->is_vcpu);
}

static void
test_kind_is_learnt(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *thread = vg_topology_thread(t, 9);
    assert_int_equal(thread->kind, VG_THREAD_UNKNOWN);
    vg_topology_set_kind(t, thread, VG_THREAD_KERNEL);
    assert_int_equal(thread->kind, VG_THREAD_KERNEL);
}

/* ---- ends ---- */

static void
count_drop(void *data, uint32_t slot)
{
    uint32_t *dropped = data;
    dropped[0]++;
    dropped[1] = slot;
}

static void
test_reuse_of_a_tid(void **state)
{
    vg_topology *t = *state;
    uint32_t dropped[2] = {0};
    struct vg_thread *old = new_thread(t, 200, 200, "make");
    uint32_t old_slot = old->slot;
    const struct vg_process *old_process = vg_thread_process(old);
    vg_topology_end(t, old);
    assert_true(old->ended);
    assert_null(vg_topology_find(t, 200));
    struct vg_thread *young = new_thread(t, 200, 200, "cc1");
    assert_ptr_not_equal(young, old);
    assert_int_not_equal(young->slot, old_slot);
    assert_ptr_not_equal(vg_thread_process(young), old_process);
    assert_string_equal(old->comm, "make"); /* until it is released */
    vg_topology_release_dead(t, count_drop, dropped);
    assert_int_equal(dropped[0], 1);
    assert_int_equal(dropped[1], old_slot);
    assert_null(vg_topology_thread_at(t, old_slot));
    assert_ptr_equal(vg_topology_find(t, 200), young);
    vg_topology_release_dead(t, count_drop, dropped);
    assert_int_equal(dropped[0], 1);
    vg_topology_thread(t, 201); /* takes the free slot */
    assert_int_equal(vg_topology_thread_count(t), 2);
}

static void
test_vcpu_threads_stay(void **state)
{
    vg_topology *t = *state;
    uint32_t dropped[2] = {0};
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 0/KVM");
    struct vg_thread *helper = new_thread(t, 102, 100, "worker");
    uint32_t helper_slot = helper->slot;
    vg_topology_end(t, vcpu);
    vg_topology_end(t, helper);
    vg_topology_release_dead(t, count_drop, dropped);
    assert_int_equal(dropped[0], 1); /* QEMU's workers come and go all day */
    assert_int_equal(dropped[1], helper_slot);
    assert_ptr_equal(vg_topology_thread_at(t, vcpu->slot), vcpu);
    assert_true(vg_thread_process(vcpu)->is_vm);
    assert_true(vg_thread_process(vcpu)->ended);
    assert_int_equal(vg_thread_process(vcpu)->threads, 1);
}

static void
test_reuse_of_a_vms_pid(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 0/KVM");
    struct vg_process *vm = vg_thread_process(vcpu);
    vg_topology_end(t, vcpu);
    struct vg_thread *other = new_thread(t, 100, 100, "make");
    assert_ptr_not_equal(vg_thread_process(other), vm);
    assert_false(vg_thread_process(other)->is_vm);
    assert_int_equal(vg_thread_process(other)->pid, 100);
    assert_true(vm->is_vm);
}

static void
test_a_host_that_forks_all_day(void **state)
{
    vg_topology *t = *state;
    uint32_t dropped[2] = {0};
    for (int i = 0; i < 10000; i++) {
        vg_topology_end(t, new_thread(t, 1000 + i % 7, 1000 + i % 7, "cc1"));
        if (i % 10 == 9)
            vg_topology_release_dead(t, count_drop, dropped);
    }
    assert_int_equal(dropped[0], 10000);
    assert_in_range(vg_topology_thread_count(t), 0, 10); /* slots are used again */
}

/* ---- VM names ---- */

static void
test_vm_names(void **state)
{
    vg_topology *t = *state;
    g_autoptr(GError) err = NULL;
    char name[VG_VM_NAME_MAX];
    assert_int_equal(
        vg_topology_name_vm(t, 100, "web", "6F1ED002-AB5C-4b29-9D3C-1234567890ab", &err), 0);
    assert_int_equal(vg_topology_name_vm(t, 300, "db", NULL, &err), 0);
    assert_null(err);
    struct vg_thread *vcpu = new_thread(t, 101, 100, "CPU 0/KVM");
    struct vg_process *vm = vg_thread_process(vcpu);
    assert_string_equal(vg_process_vm_name(vm, name), "web");
    assert_string_equal(vm->uuid, "6f1ed002-ab5c-4b29-9d3c-1234567890ab");
    struct vg_thread *named = new_thread(t, 300, 300, "some-vmm");
    assert_true(vg_thread_process(named)->is_vm); /* by the map alone */
    struct vg_thread *unnamed = new_thread(t, 401, 400, "CPU 0/KVM");
    assert_string_equal(vg_process_vm_name(vg_thread_process(unnamed), name), "qemu-400");
    assert_string_equal(vg_thread_process(unnamed)->uuid, "");
}

/* Without process ids in a trace the map names vCPU threads. */
static void
test_vm_named_by_its_thread(void **state)
{
    vg_topology *t = *state;
    char name[VG_VM_NAME_MAX];
    assert_int_equal(vg_topology_name_vm(t, 101, "web", NULL, NULL), 0);
    struct vg_thread *vcpu = new_thread(t, 101, VG_NONE, "CPU 0/KVM");
    assert_string_equal(vg_process_vm_name(vg_thread_process(vcpu), name), "web");
}

static void
test_vm_name_limits(void **state)
{
    vg_topology *t = *state;
    GError *err = NULL;
    char longest[VG_VM_NAME_MAX];
    memset(longest, 'x', sizeof(longest));
    longest[VG_VM_NAME_MAX - 1] = '\0';
    assert_int_equal(vg_topology_name_vm(t, 1, longest, NULL, &err), 0);
    assert_int_equal(vg_topology_name_vm(t, VG_TID_LIMIT, "b", NULL, &err), 0);
    assert_null(err);
    g_autofree char *too_long = g_strconcat(longest, "x", NULL);
    const struct {
        int32_t pid;
        const char *name;
        const char *uuid;
    } bad[] = {
        {2, too_long, NULL},
        {0, "a", NULL},
        {-1, "a", NULL},
        {VG_TID_LIMIT + 1, "a", NULL},
        {3, "", NULL},
        {4, "a", "6f1ed002-ab5c-4b29-9d3c-1234567890a"},
        {5, "a", "6f1ed002-ab5c-4b29-9d3c-1234567890abc"},
        {6, "a", "6f1ed002-ab5c-4b29-9d3c-1234567890ag"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        if (vg_topology_name_vm(t, bad[i].pid, bad[i].name, bad[i].uuid, &err) != -1)
            fail_msg("bad name %zu was taken", i);
        assert_non_null(err);
        assert_true(err->domain == VG_ERROR);
        g_clear_error(&err);
    }
}

static void
test_processes_in_order(void **state)
{
    vg_topology *t = *state;
    struct vg_thread *a = new_thread(t, 101, 100, "CPU 0/KVM");
    struct vg_thread *b = new_thread(t, 201, 200, "CPU 0/KVM");
    assert_true(vg_thread_process(a)->id < vg_thread_process(b)->id);
    for (uint32_t id = 0; id < vg_topology_process_count(t); id++) {
        assert_non_null(vg_topology_process_at(t, id));
        assert_int_equal(vg_topology_process_at(t, id)->id, id);
    }
    assert_ptr_equal(vg_topology_process_at(t, vg_thread_process(b)->id), vg_thread_process(b));
    vg_topology_free(NULL);
}

#define TOPOLOGY_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vcpu_names),
        cmocka_unit_test(test_qemu_names),
        cmocka_unit_test(test_kernel_names),
        TOPOLOGY_TEST(test_comm_says_what_a_thread_is),
        TOPOLOGY_TEST(test_longest_comm),
        TOPOLOGY_TEST(test_find_and_make),
        TOPOLOGY_TEST(test_threads_never_move),
        TOPOLOGY_TEST(test_guesses_become_one_process),
        TOPOLOGY_TEST(test_guess_with_the_right_number),
        TOPOLOGY_TEST(test_first_thread_of_a_process),
        TOPOLOGY_TEST(test_set_vcpu_by_guest_entry),
        TOPOLOGY_TEST(test_kind_is_learnt),
        TOPOLOGY_TEST(test_reuse_of_a_tid),
        TOPOLOGY_TEST(test_vcpu_threads_stay),
        TOPOLOGY_TEST(test_reuse_of_a_vms_pid),
        TOPOLOGY_TEST(test_a_host_that_forks_all_day),
        TOPOLOGY_TEST(test_vm_names),
        TOPOLOGY_TEST(test_vm_named_by_its_thread),
        TOPOLOGY_TEST(test_vm_name_limits),
        TOPOLOGY_TEST(test_processes_in_order),
    };
    return cmocka_run_group_tests_name("topology", tests, NULL, NULL);
}
