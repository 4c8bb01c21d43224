/* SPDX-License-Identifier: Apache-2.0
 *
 * The ledger of a living host: VMs are what it is told, threads are what was seen of them before
 * there was a record, and what has ended leaves nothing behind. Times are worked out by hand.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ledger/cpu-ledger.h"

static vg_topology *topology;
static vg_cpu_ledger *ledger;

static int
setup(void **state)
{
    (void)state;
    topology = vg_topology_new();
    vg_topology_only_declared(topology);
    ledger = vg_cpu_ledger_new(topology);
    vg_cpu_ledger_windows_only(ledger, true);
    vg_cpu_ledger_begin(ledger, 1000);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    vg_cpu_ledger_free(ledger);
    vg_topology_free(topology);
    return 0;
}

static const struct vg_process *
tell(int32_t pid, int32_t tid, bool is_vcpu)
{
    const struct vg_declared_thread told = {.tid = tid,
                                            .pid = pid,
                                            .name = "web",
                                            .uuid = "",
                                            .is_vcpu = is_vcpu,
                                            .vcpu_index = is_vcpu ? 0 : VG_NONE};

    return vg_topology_declare(topology, &told);
}

static void
feed_to(int64_t ts, int32_t cpu, int32_t prev, enum vg_prev_state state, int32_t next)
{
    struct vg_event e = {.ts_ns = ts,
                         .type = VG_EVENT_SCHED_SWITCH,
                         .cpu = (int16_t)cpu,
                         .tid = VG_NONE,
                         .pid = VG_NONE};

    e.sched_switch.prev_tid = prev;
    e.sched_switch.next_tid = next;
    e.sched_switch.prev_state = (uint8_t)state;
    vg_cpu_ledger_feed(ledger, &e);
}

static void
expect(const struct vg_window *w, int32_t pid, int64_t run, int64_t preempt, int64_t blocked)
{
    unsigned found = 0;

    for (unsigned i = 0; i < w->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(w->vms, struct vg_vm_sample, i);
        if (vm->pid != pid)
            continue;
        assert_int_equal(vm->cpu.run_ns, run);
        assert_int_equal(vm->cpu.preempt_ns, preempt);
        assert_int_equal(vm->cpu.wake_wait_ns, 0);
        assert_int_equal(vm->cpu.blocked_ns, blocked);
        assert_int_equal(vm->cpu.observed_ns, run + preempt + blocked);
        found++;
    }
    assert_int_equal(found, 1);
}

/* What a process does that works for a VM, the VM does, whatever of it is seen first. */
static void
test_adopted(void **state)
{
    (void)state;
    struct vg_thread *worker = vg_topology_thread(topology, 51);
    vg_topology_set_process(topology, worker, 50);
    vg_topology_adopt(topology, 50, 10); /* there is no VM of this pid yet */
    assert_int_equal(vg_thread_process(worker)->pid, 50);
    uint32_t id = tell(10, 11, true)->id;
    for (unsigned i = 0; i < 2; i++) {
        vg_topology_adopt(topology, 50, 10);
        assert_int_equal(vg_thread_process(worker)->id, id);
        struct vg_thread *later = vg_topology_thread(topology, 52);
        vg_topology_set_process(topology, later, 50);
        assert_int_equal(vg_thread_process(later)->id, id);
    }
    /* It ends, and its pid comes back as a stranger's. */
    for (int32_t tid = 50; tid <= 52; tid++)
        vg_topology_end(topology, vg_topology_thread(topology, tid));
    struct vg_thread *stranger = vg_topology_thread(topology, 50);
    vg_topology_set_process(topology, stranger, 50);
    assert_int_equal(vg_thread_process(stranger)->pid, 50);
    assert_false(vg_thread_process(stranger)->is_vm);
    assert_false(vg_thread_process(vg_topology_find(topology, 11))->ended);
}

/* A VM to which nothing happens is in the window from when it was seen. */
static void
test_assumed_states(void **state)
{
    struct vg_window w;

    (void)state;
    tell(10, 11, true);
    tell(20, 21, true);
    tell(30, 31, true);
    feed_to(1100, 3, 90, VG_PREV_BLOCKED, 91);
    assert_true(vg_cpu_ledger_assume(ledger, 11, VG_ASSUMED_BLOCKED, 0, 1050));
    assert_true(vg_cpu_ledger_assume(ledger, 21, VG_ASSUMED_RUNNING, 2, 500)); /* window: 1000 */
    assert_true(vg_cpu_ledger_assume(ledger, 31, VG_ASSUMED_WAITING, 2, 1040));
    vg_cpu_ledger_close_window(ledger, 2000, false, &w);
    expect(&w, 10, 0, 0, 950);
    expect(&w, 20, 1000, 0, 0);
    expect(&w, 30, 0, 960, 0);
    assert_int_equal(w.discontinuities, 0);
    const struct vg_vm_sample *waiter = &g_array_index(w.vms, struct vg_vm_sample, 2);
    assert_int_equal(waiter->pid, 30);
    int64_t by_vm = 0, by_nobody = 0;
    for (unsigned i = 0; i < waiter->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(waiter->lost_to, struct vg_lost_to, i);
        *(lost->kind == VG_AGGRESSOR_VM ? &by_vm : &by_nobody) += lost->ns;
    }
    /* Who held the CPU before it was looked at, at 1100, nobody knows. */
    assert_int_equal(by_vm, 900);
    assert_int_equal(by_nobody, 60);
    vg_window_clear(&w);
}

static void
test_records_are_believed_more(void **state)
{
    struct vg_window w;

    (void)state;
    tell(10, 11, true);
    feed_to(1100, 0, 0, VG_PREV_RUNNABLE, 11);
    assert_false(vg_cpu_ledger_assume(ledger, 11, VG_ASSUMED_BLOCKED, 0, 1000));
    /* Nor runs anybody where somebody else does. */
    tell(20, 21, true);
    assert_false(vg_cpu_ledger_assume(ledger, 21, VG_ASSUMED_RUNNING, 0, 1000));
    vg_cpu_ledger_close_window(ledger, 2000, false, &w);
    expect(&w, 10, 900, 0, 0);
    vg_window_clear(&w);
}

/* What was lost is not made up for. */
static void
test_assumed_after_a_loss(void **state)
{
    struct vg_window w;
    struct vg_event loss = {.ts_ns = 1200, .type = VG_EVENT_LOST, .tid = VG_NONE, .pid = VG_NONE};

    (void)state;
    loss.lost.end_ns = 1500;
    loss.lost.events = 3;
    tell(10, 11, true);
    feed_to(1100, 0, 0, VG_PREV_RUNNABLE, 11);
    vg_cpu_ledger_feed(ledger, &loss);
    assert_true(vg_cpu_ledger_assume(ledger, 11, VG_ASSUMED_RUNNING, 0, 1000));
    vg_cpu_ledger_close_window(ledger, 2000, false, &w);
    expect(&w, 10, 100 + 500, 0, 0);
    assert_int_equal(w.lost_events, 3);
    vg_window_clear(&w);
}

static void
test_only_what_was_told_is_a_vm(void **state)
{
    struct vg_window w;
    struct vg_event e = {.ts_ns = 1100,
                         .type = VG_EVENT_SCHED_SWITCH,
                         .tid = 41,
                         .pid = 40,
                         .sched_switch = {.prev_tid = 41, .next_tid = 0, .prev_comm = "CPU 0/KVM"}};

    (void)state;
    vg_cpu_ledger_feed(ledger, &e);
    e = (struct vg_event){.ts_ns = 1200, .type = VG_EVENT_KVM_ENTRY, .tid = 42, .pid = 40};
    vg_cpu_ledger_feed(ledger, &e);
    vg_cpu_ledger_close_window(ledger, 2000, false, &w);
    assert_int_equal(w.vms->len, 0);
    vg_window_clear(&w);
    /* Once it is told it has been one all the time: its thread has been followed. */
    tell(40, 41, true);
    vg_cpu_ledger_close_window(ledger, 3000, false, &w);
    assert_int_equal(w.vms->len, 1);
    assert_string_equal(g_array_index(w.vms, struct vg_vm_sample, 0).name, "web");
    vg_window_clear(&w);
}

/* VMs come and go for days: their last window is told, then nothing of them is left. */
static void
test_memory_is_flat(void **state)
{
    struct vg_window w;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        int64_t t_ns = 2000 + i * 1000;
        int32_t pid = 100 + 10 * i;
        tell(pid, pid, false);
        assert_int_equal(tell(pid, pid + 1, true)->id, i);
        feed_to(t_ns + 100, 0, 0, VG_PREV_RUNNABLE, pid + 1);
        feed_to(t_ns + 300, 0, pid + 1, VG_PREV_EXITED, 0);
        const struct vg_event end = {.ts_ns = t_ns + 300,
                                     .type = VG_EVENT_PROCESS_END,
                                     .cpu = VG_NONE,
                                     .tid = VG_NONE,
                                     .pid = VG_NONE,
                                     .process = {.tid = pid, .pid = VG_NONE}};
        vg_cpu_ledger_feed(ledger, &end);
        vg_cpu_ledger_close_window(ledger, t_ns + 1000, false, &w);
        assert_int_equal(w.vms->len, 1);
        expect(&w, pid, 200, 0, 0);
        vg_window_clear(&w);
    }
    for (uint32_t id = 0; id < vg_topology_process_count(topology); id++)
        assert_null(vg_topology_process_at(topology, id));
    assert_in_range(vg_topology_thread_count(topology), 1, 4);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_adopted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_assumed_states, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_are_believed_more, setup, teardown),
        cmocka_unit_test_setup_teardown(test_assumed_after_a_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_what_was_told_is_a_vm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_is_flat, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
