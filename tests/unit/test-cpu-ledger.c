/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU ledger on recordings short enough to work out by hand. Times are nanoseconds from 0 on;
 * the cast is in tests/unit/ledger-host.h.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/ledger-host.h"

/* ---- a vCPU's life ---- */

static void
play_life(struct host *h)
{
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11); /* vCPU 11 on CPU 0 */
    feed(h, 110, VG_EVENT_KVM_ENTRY, 0, 11);
    feed(h, 150, VG_EVENT_KVM_EXIT, 0, 11);
    feed(h, 160, VG_EVENT_KVM_ENTRY, 0, 11);
    feed_switch(h, 200, 0, 11, VG_PREV_RUNNABLE, 40); /* preempted in the guest by make */
    feed_switch(h, 230, 0, 40, VG_PREV_BLOCKED, 30);  /* then kworker runs */
    feed_switch(h, 260, 0, 30, VG_PREV_BLOCKED, 11);
    feed_switch(h, 300, 0, 11, VG_PREV_BLOCKED, 0);
    feed_wakeup(h, 400, VG_EVENT_SCHED_WAKEUP, 11, 0); /* waits for an idle CPU */
    feed_switch(h, 430, 0, 0, VG_PREV_RUNNABLE, 11);
}

static void
test_life_of_a_vcpu(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    play_life(h);
    vg_cpu_ledger_read_period(h->ledger, 500, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 100 + 40 + 70, 60, 30, 100);
    assert_int_equal(f.guest_ns, 40 + 40);
    assert_int_equal(vg_cpu_figures_hyp_ns(&f), 210 - 80);
    assert_int_equal(f.entries, 2);
    assert_int_equal(f.exits[VG_EXIT_HLT], 1);
    assert_int_equal(f.preemptions, 1);
    assert_int_equal(f.wakeups, 1);
    assert_int_equal(f.blocks, 1);
    assert_int_equal(f.switches_out, 2);
    assert_int_equal(f.unseen_migrations, 0);
    assert_int_equal(f.clipped, 1); /* still running at 500 */
    const struct vg_vm_sample *vm = vm_in(&w, 10);
    assert_memory_equal(&vm->cpu, &f, sizeof(f));
    assert_true(vm->guest_known);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).ns, 30);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).count, 1);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_KERNEL, 0).ns, 30);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_KERNEL, 0).count, 0);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_IDLE, 0).ns, 30);
    assert_int_equal(lost_sum(&w, 10), 60 + 30);
    assert_int_equal(w.discontinuities, 0);
    f = task_in(&w, 40);
    expect_times(&f, 30, 0, 0, 270);
    f = task_in(&w, 30);
    expect_times(&f, 30, 0, 0, 240);
    assert_false(vm_in(&w, 20)->guest_known);
    vg_window_clear(&w);
}

/* 41 shows what it is by entering a guest, after it has got the CPU of vCPU 11 for 50 ns; 40 is no
 * VM, and gets it for 20. */
static void
test_vm_that_is_known_late(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};

    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_switch(h, 200, 0, 11, VG_PREV_RUNNABLE, 40);
    feed_switch(h, 220, 0, 40, VG_PREV_BLOCKED, 11);
    feed_switch(h, 300, 0, 11, VG_PREV_RUNNABLE, 41);
    feed(h, 310, VG_EVENT_KVM_ENTRY, 0, 41);
    feed(h, 320, VG_EVENT_KVM_EXIT, 0, 41);
    feed_switch(h, 350, 0, 41, VG_PREV_BLOCKED, 11);
    vg_cpu_ledger_read_period(h->ledger, 400, false, &w);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_VM, 41).ns, 50);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_VM, 41).count, 1);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).ns, 20);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).count, 1);
    vg_window_clear(&w);
}

static void
test_windows_of_a_period(void **state)
{
    static const int64_t ends[] = {300, 410, 500};
    struct host *h = *state;
    struct vg_window w = {0};
    struct vg_cpu_figures sum = {0};
    int64_t lost = 0;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_switch(h, 200, 0, 11, VG_PREV_RUNNABLE, 40);
    vg_cpu_ledger_begin(h->ledger, 250); /* in the middle of a wait */
    feed_switch(h, 260, 0, 40, VG_PREV_BLOCKED, 11);
    feed_switch(h, 300, 0, 11, VG_PREV_BLOCKED, 0); /* on the edge: belongs to the first window */
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        vg_cpu_ledger_close_window(h->ledger, ends[i], true, &w);
        assert_int_equal(w.begin_ns, i ? ends[i - 1] : 250);
        assert_int_equal(w.end_ns, ends[i]);
        assert_int_equal(w.host.own_ns, i == 0 ? 10 : 0); /* 40 ran from 250 to 260 */
        struct vg_cpu_figures f = task_in(&w, 11);
        if (i == 0)
            expect_times(&f, 40, 10, 0, 0);
        else if (i == 1)
            expect_times(&f, 0, 0, 10, 100);
        else
            expect_times(&f, 70, 0, 20, 0);
        assert_int_equal(f.blocks, i == 0);
        assert_int_equal(f.wakeups, i == 1);
        assert_int_equal(f.clipped, i == 0 ? 1 : i == 1 ? 1 : 2);
        vg_cpu_figures_add(&sum, &f);
        lost += lost_sum(&w, 10);
        vg_window_clear(&w);
        if (i == 0)
            feed_wakeup(h, 400, VG_EVENT_SCHED_WAKEUP, 11, 0);
        if (i == 1)
            feed_switch(h, 430, 0, 0, VG_PREV_RUNNABLE, 11);
    }
    vg_cpu_ledger_read_period(h->ledger, 500, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    assert_int_equal(w.begin_ns, 250);
    expect_times(&f, 110, 10, 30, 100);
    assert_int_equal(f.preemptions, 0); /* it was before the period */
    assert_int_equal(lost_sum(&w, 10), 40);
    assert_int_equal(f.clipped, 2);
    sum.clipped = f.clipped;
    assert_memory_equal(&sum, &f, sizeof(f));
    assert_int_equal(lost, 40);
    vg_window_clear(&w);
}

/* ---- who is waited for ---- */

static void
test_vms_disturb_each_other(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 11, VG_PREV_RUNNABLE, 21); /* 11 waits: for VM 20's vCPU until 150 */
    feed_switch(h, 150, 0, 21, VG_PREV_RUNNABLE, 20); /* VM 20's main thread until 170 */
    feed_switch(h, 170, 0, 20, VG_PREV_BLOCKED, 12);  /* its own sister until 200 */
    feed_switch(h, 200, 0, 12, VG_PREV_RUNNABLE, 13); /* its own I/O thread until 210 */
    feed_switch(h, 210, 0, 13, VG_PREV_BLOCKED, 11);
    vg_cpu_ledger_read_period(h->ledger, 300, false, &w);
    struct vg_lost_to lost = lost_in(&w, 10, VG_AGGRESSOR_VM, 20);
    assert_int_equal(lost.ns, 70);
    assert_int_equal(lost.vcpu_ns, 50);
    assert_int_equal(lost.emulator_ns, 20);
    assert_int_equal(lost.count, 1);
    /* Self: 11 loses 30 to 12 and 10 to 13; 12 loses 10 to 13 and 90 to 11. */
    lost = lost_in(&w, 10, VG_AGGRESSOR_SELF, 0);
    assert_int_equal(lost.ns, 30 + 10 + 10 + 90);
    assert_int_equal(lost.vcpu_ns, 30 + 90);
    assert_int_equal(lost.emulator_ns, 10 + 10);
    assert_int_equal(lost.count, 1); /* 12 gave way to 13 */
    /* 21 waits from 150 on: 20 to its own main thread, the rest to VM 10. */
    assert_int_equal(lost_in(&w, 20, VG_AGGRESSOR_SELF, 0).emulator_ns, 20);
    assert_int_equal(lost_in(&w, 20, VG_AGGRESSOR_SELF, 0).count, 1);
    lost = lost_in(&w, 20, VG_AGGRESSOR_VM, 10);
    assert_int_equal(lost.vcpu_ns, 30 + 90);
    assert_int_equal(lost.emulator_ns, 10);
    const struct vg_lost_to *first = &g_array_index(vm_in(&w, 20)->lost_to, struct vg_lost_to, 0);
    assert_int_equal(first->kind, VG_AGGRESSOR_VM); /* most ns first */
    vg_window_clear(&w);
}

static void
test_wait_moves_with_a_migration(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed(h, 50, VG_EVENT_OTHER, 1, 30);
    feed_switch(h, 100, 0, 11, VG_PREV_RUNNABLE, 40);
    feed_migrate(h, 130, 11, 1); /* waits for kworker on CPU 1 from here on */
    feed_switch(h, 150, 1, 30, VG_PREV_BLOCKED, 11);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 50, 50, 0, 0);
    assert_int_equal(f.unseen_migrations, 0);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).ns, 30);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_KERNEL, 0).ns, 20);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_unseen_migration(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed(h, 50, VG_EVENT_OTHER, 1, 30);
    feed_switch(h, 100, 0, 11, VG_PREV_RUNNABLE, 40);
    feed_switch(h, 150, 1, 30, VG_PREV_BLOCKED, 11); /* nobody said that it moved */
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 11).unseen_migrations, 1);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).ns, 50);
    assert_int_equal(lost_sum(&w, 10), 50);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_unknown_occupant(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_wakeup(h, 100, VG_EVENT_SCHED_WAKEUP, 11, 3); /* nobody saw CPU 3 yet */
    feed(h, 140, VG_EVENT_OTHER, 3, 40);               /* make runs there: since 140, not before */
    feed_wakeup(h, 150, VG_EVENT_SCHED_WAKEUP, 12, VG_NONE);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_UNKNOWN, 0).ns, 40 + 50);
    assert_int_equal(lost_in(&w, 10, VG_AGGRESSOR_HOST_USER, 0).ns, 60);
    assert_int_equal(vm_in(&w, 10)->cpu.wake_wait_ns, 150);
    assert_int_equal(w.discontinuities, 0);
    struct vg_cpu_figures f = task_in(&w, 40);
    expect_times(&f, 60, 0, 0, 0);
    vg_window_clear(&w);
}

/* ---- wakeups ---- */

static void
test_wakeups(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 11, VG_PREV_BLOCKED, 0);
    feed_wakeup(h, 110, VG_EVENT_SCHED_WAKING, 11, 0); /* not used: sched_wakeup is on record */
    feed_wakeup(h, 120, VG_EVENT_SCHED_WAKEUP, 11, 0);
    feed_wakeup(h, 130, VG_EVENT_SCHED_WAKEUP, 11, 1); /* waits already: changes nothing */
    feed_switch(h, 150, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_wakeup(h, 160, VG_EVENT_SCHED_WAKEUP, 11, 1); /* runs: changes nothing */
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 50, 0, 30, 20);
    assert_int_equal(f.wakeups, 1);
    assert_int_equal(f.unseen_migrations, 0);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_waking_in_place_of_wakeup(void **state)
{
    struct host *h = *state;
    vg_cpu_ledger_use_waking(h->ledger, true);
    feed_switch(h, 100, 0, 11, VG_PREV_BLOCKED, 0);
    feed_wakeup(h, 110, VG_EVENT_SCHED_WAKING, 11, 0);
    feed_switch(h, 150, 0, 0, VG_PREV_RUNNABLE, 11);
    expect_task(h, 200, 11, 50, 0, 40, 10);
}

static void
test_missed_wakeup_is_no_discontinuity(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 11, VG_PREV_BLOCKED, 0);
    feed_switch(h, 150, 0, 0, VG_PREV_RUNNABLE, 11);
    expect_task(h, 200, 11, 50, 0, 0, 50);
    assert_int_equal(discontinuities_at(h, 200), 0);
}

static void
test_wait_keeps_its_kind(void **state)
{
    struct host *h = *state;
    feed_wakeup(h, 100, VG_EVENT_SCHED_WAKEUP, 11, 0);
    feed_migrate(h, 120, 11, 1);
    feed_wakeup(h, 130, VG_EVENT_SCHED_WAKEUP, 11, 2);
    feed_switch(h, 150, 1, 40, VG_PREV_RUNNABLE, 11);
    expect_task(h, 200, 11, 50, 0, 50, 0);
    assert_int_equal(discontinuities_at(h, 200), 0);
}

/* ---- contradictions ---- */

static void
test_other_occupant_than_known(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed(h, 110, VG_EVENT_KVM_ENTRY, 0, 11);
    feed(h, 150, VG_EVENT_OTHER, 0, 40); /* 11 must have left somehow: the rest of its time */
    feed_switch(h, 180, 0, 40, VG_PREV_BLOCKED, 11);
    expect_task(h, 200, 11, 50 + 20, 0, 0, 30);
    expect_task(h, 200, 40, 30, 0, 0, 20);
    assert_int_equal(discontinuities_at(h, 200), 1);
    struct vg_window w = {0};
    vg_cpu_ledger_read_period(h->ledger, 200, false, &w);
    assert_int_equal(vm_in(&w, 10)->cpu.guest_ns, 40); /* cut where it lost the CPU */
    vg_window_clear(&w);
}

/* The old thread writes a record after its switch-out: of its call stack, or its address space. */
static void
test_late_record_of_the_old_thread(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed(h, 100, VG_EVENT_OTHER, 0, 0);
    feed_switch(h, 140, 0, 11, VG_PREV_RUNNABLE, 21);
    feed(h, 141, VG_EVENT_OTHER, 0, 11);
    feed_switch(h, 170, 0, 21, VG_PREV_EXITED, 40);
    feed(h, 171, VG_EVENT_OTHER, 0, 21);
    feed(h, 180, VG_EVENT_OTHER, 1, 41); /* nothing is known of CPU 1: this tells */
    expect_task(h, 200, 11, 40, 60, 0, 0);
    expect_task(h, 200, 21, 30, 0, 0, 0);
    expect_task(h, 200, 40, 30, 0, 0, 0);
    expect_task(h, 200, 41, 20, 0, 0, 0);
    assert_int_equal(discontinuities_at(h, 200), 0);
}

static void
test_runs_on_two_cpus(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_switch(h, 130, 1, 40, VG_PREV_BLOCKED, 11);
    feed_switch(h, 150, 0, 41, VG_PREV_BLOCKED, 0); /* CPU 0's occupant is not known any more */
    expect_task(h, 200, 11, 100, 0, 0, 0);
    assert_int_equal(discontinuities_at(h, 200), 1);
}

static void
test_found_running_without_switch_in(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 11, VG_PREV_RUNNABLE, 40); /* 11 was unseen: no discontinuity */
    assert_int_equal(discontinuities_at(h, 100), 0);
    feed(h, 150, VG_EVENT_KVM_ENTRY, 1, 11); /* a waiting thread runs */
    assert_int_equal(discontinuities_at(h, 150), 1);
    feed_migrate(h, 160, 11, 0); /* a running thread is migrated */
    assert_int_equal(discontinuities_at(h, 160), 2);
    expect_task(h, 200, 11, 50, 50, 0, 0);
}

static void
test_time_runs_backwards(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_switch(h, 40, 0, 11, VG_PREV_BLOCKED, 0); /* taken at 100 */
    expect_task(h, 200, 11, 0, 0, 0, 100);
    assert_int_equal(discontinuities_at(h, 200), 1);
}

static void
test_idle_never_is_a_thread(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 0);
    feed(h, 120, VG_EVENT_KVM_ENTRY, 0, 0);
    feed_wakeup(h, 130, VG_EVENT_SCHED_WAKEUP, 0, 0);
    feed_migrate(h, 140, 0, 0);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    for (unsigned i = 0; i < w.tasks->len; i++)
        assert_true(g_array_index(w.tasks, struct vg_task_sample, i).tid > 0);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_thread_follows_itself(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_switch(h, 150, 0, 11, VG_PREV_RUNNABLE, 11);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 100, 0, 0, 0);
    assert_int_equal(f.preemptions, 1);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

/* ---- guests ---- */

static void
test_entry_without_exit(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed(h, 100, VG_EVENT_KVM_ENTRY, 0, 11);
    feed(h, 140, VG_EVENT_KVM_ENTRY, 0, 11);     /* the exit between them is missing */
    feed(h, 150, VG_EVENT_KVM_EXIT, 0, VG_NONE); /* of whoever runs on CPU 0 */
    feed(h, 160, VG_EVENT_KVM_EXIT, 0, 11);      /* without an entry: only counted */
    feed(h, 170, VG_EVENT_KVM_EXIT, VG_NONE, VG_NONE);
    feed(h, 180, VG_EVENT_KVM_EXIT, 5, VG_NONE); /* nobody is known to run there */
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 100, 0, 0, 0);
    assert_int_equal(f.guest_ns, 50);
    assert_int_equal(f.entries, 2);
    assert_int_equal(f.exits[VG_EXIT_HLT], 2);
    assert_int_equal(w.discontinuities, 1);
    vg_window_clear(&w);
}

static void
test_guest_over_window_edges(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed(h, 100, VG_EVENT_KVM_ENTRY, 0, 11);
    vg_cpu_ledger_close_window(h->ledger, 150, true, &w);
    assert_int_equal(task_in(&w, 11).guest_ns, 50);
    assert_int_equal(task_in(&w, 11).clipped, 2); /* running, and in the guest */
    vg_window_clear(&w);
    feed(h, 170, VG_EVENT_KVM_EXIT, 0, 11);
    vg_cpu_ledger_close_window(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 11).guest_ns, 20);
    assert_int_equal(task_in(&w, 11).run_ns, 50);
    vg_window_clear(&w);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 11).guest_ns, 70);
    vg_window_clear(&w);
}

/* ---- loss ---- */

static void
test_loss_of_records(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);  /* runs on CPU 0 */
    feed(h, 100, VG_EVENT_KVM_ENTRY, 0, 11);          /* in the guest */
    feed_switch(h, 100, 1, 12, VG_PREV_RUNNABLE, 40); /* waits for CPU 1 */
    feed_loss(h, 150, 250, 0);
    feed_switch(h, 300, 0, 41, VG_PREV_RUNNABLE, 11); /* CPU 0's occupant was not known */
    vg_cpu_ledger_read_period(h->ledger, 400, true, &w);
    struct vg_cpu_figures f = task_in(&w, 11);
    expect_times(&f, 50 + 100, 0, 0, 50); /* 150..250 is not observed at all */
    assert_int_equal(f.guest_ns, 50);
    f = task_in(&w, 12);
    expect_times(&f, 0, 300, 0, 0); /* not on the CPU that lost records */
    assert_int_equal(w.lost_events, 7);
    assert_int_equal(w.lost_packets, 1);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_loss_ends_at_the_next_record(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 11);
    feed_loss(h, 150, 250, 0);
    feed_switch(h, 200, 0, 11, VG_PREV_BLOCKED, 0);
    expect_task(h, 300, 11, 50, 0, 0, 100);
    assert_int_equal(discontinuities_at(h, 300), 0);
}

/* Who is woken on a CPU whose records are lost cannot be followed: its wait is not made up. */
static void
test_wakeup_into_a_loss(void **state)
{
    struct host *h = *state;
    feed_switch(h, 50, 0, 11, VG_PREV_BLOCKED, 12);
    feed_switch(h, 60, 0, 12, VG_PREV_RUNNABLE, 40);
    feed_loss(h, 100, 300, 1);
    feed_wakeup(h, 150, VG_EVENT_SCHED_WAKEUP, 11, 1);
    feed_migrate(h, 160, 12, 1); /* waits, and is pulled over there */
    feed_switch(h, 400, 1, 30, VG_PREV_BLOCKED, 11);
    expect_task(h, 450, 11, 50, 0, 0, 100 + 100);
    expect_task(h, 450, 12, 10, 100, 0, 150);
    assert_int_equal(discontinuities_at(h, 450), 0);
}

static void
test_loss_without_an_end(void **state)
{
    struct host *h = *state;
    feed_switch(h, 50, 0, 11, VG_PREV_BLOCKED, 12);
    feed_loss(h, 100, INT64_MAX, 1);
    feed_wakeup(h, 150, VG_EVENT_SCHED_WAKEUP, 11, 1);
    feed_wakeup(h, 170, VG_EVENT_SCHED_WAKEUP, 21, 1);
    feed_switch(h, 300, 1, 40, VG_PREV_BLOCKED, 0); /* CPU 1 is seen again */
    feed_wakeup(h, 310, VG_EVENT_SCHED_WAKEUP, 11, 1);
    feed_switch(h, 330, 1, 0, VG_PREV_RUNNABLE, 11);
    expect_task(h, 400, 11, 70, 0, 20, 100);
    expect_task(h, 400, 21, 0, 0, 0, 0); /* not a word of it since */
}

static void
test_loss_over_a_window_edge(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 11, VG_PREV_BLOCKED, 0); /* sleeps, last seen on CPU 0 */
    feed_loss(h, 150, 250, 0);
    vg_cpu_ledger_close_window(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 11).observed_ns, 50);
    assert_int_equal(w.lost_events, 7);
    vg_window_clear(&w);
    vg_cpu_ledger_close_window(h->ledger, 300, true, &w);
    assert_int_equal(task_in(&w, 11).observed_ns, 50);
    assert_int_equal(w.lost_events, 0);
    vg_window_clear(&w);
}

/* ---- threads that end ---- */

static void
test_exit_and_reuse_of_a_tid(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    vg_cpu_ledger_keep_tasks(h->ledger, true);
    feed_switch(h, 100, 0, 0, VG_PREV_RUNNABLE, 40);
    feed_switch(h, 150, 0, 40, VG_PREV_EXITED, 0); /* its observation ends */
    vg_cpu_ledger_close_window(h->ledger, 200, true, &w);
    struct vg_cpu_figures f = task_in(&w, 40);
    expect_times(&f, 50, 0, 0, 0);
    assert_int_equal(f.blocks, 1);
    assert_int_equal(f.switches_out, 1);
    vg_window_clear(&w);
    feed_switch(h, 300, 0, 0, VG_PREV_RUNNABLE, 40); /* another thread of this tid */
    vg_cpu_ledger_read_period(h->ledger, 400, true, &w);
    int64_t observed = 0;
    unsigned found = 0;
    for (unsigned i = 0; i < w.tasks->len; i++) {
        const struct vg_task_sample *task = &g_array_index(w.tasks, struct vg_task_sample, i);
        observed += task->tid == 40 ? task->cpu.observed_ns : 0;
        found += task->tid == 40;
    }
    assert_int_equal(observed, 50 + 100);
    assert_int_equal(found, 2);
    assert_int_equal(w.discontinuities, 0);
    vg_window_clear(&w);
}

static void
test_ended_tasks_are_forgotten(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed_switch(h, 100, 0, 40, VG_PREV_EXITED, 11);
    feed_switch(h, 120, 0, 11, VG_PREV_EXITED, 0);
    vg_cpu_ledger_close_window(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 40).blocks, 1); /* its last window still has it */
    vg_window_clear(&w);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    assert_int_equal(task_in(&w, 40).blocks, 0);
    assert_int_equal(vm_in(&w, 10)->cpu.blocks, 1); /* VMs keep theirs */
    assert_int_equal(vm_in(&w, 10)->cpu.run_ns, 20);
    vg_window_clear(&w);
}

/* ---- the rest ---- */

static void
test_order_of_samples(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    feed(h, 100, VG_EVENT_KVM_ENTRY, 0, 12);
    feed(h, 100, VG_EVENT_KVM_ENTRY, 1, 21);
    feed(h, 100, VG_EVENT_KVM_ENTRY, 2, 11);
    vg_cpu_ledger_read_period(h->ledger, 200, true, &w);
    assert_int_equal(w.vms->len, 2);
    assert_int_equal(g_array_index(w.vms, struct vg_vm_sample, 0).pid, 10);
    const struct vg_vm_sample *vm = vm_in(&w, 10);
    assert_int_equal(vm->vcpus->len, 2);
    assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 0).tid, 11);
    assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 0).index, 0);
    assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 1).index, 1);
    for (unsigned i = 1; i < w.tasks->len; i++)
        assert_true(g_array_index(w.tasks, struct vg_task_sample, i - 1).tid <
                    g_array_index(w.tasks, struct vg_task_sample, i).tid);
    vg_window_clear(&w);
    vg_cpu_ledger_read_period(h->ledger, 200, false, &w);
    assert_null(w.tasks);
    vg_window_clear(&w);
}

static void
test_largest_ids(void **state)
{
    struct host *h = *state;
    feed_switch(h, 100, VG_CPU_LIMIT - 1, VG_TID_LIMIT, VG_PREV_RUNNABLE, 40);
    feed_switch(h, 150, VG_CPU_LIMIT - 1, 40, VG_PREV_BLOCKED, VG_TID_LIMIT);
    expect_task(h, 200, VG_TID_LIMIT, 50, 50, 0, 0);
}

static void
test_empty_ledger(void **state)
{
    (void)state;
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_cpu_ledger) ledger = vg_cpu_ledger_new(topology);
    struct vg_window w = {0};
    vg_cpu_ledger_begin(ledger, 100);
    vg_cpu_ledger_close_window(ledger, 200, true, &w);
    assert_int_equal(w.begin_ns, 100);
    assert_int_equal(w.end_ns, 200);
    assert_int_equal(w.vms->len, 0);
    assert_int_equal(w.tasks->len, 0);
    vg_window_clear(&w);
    vg_cpu_ledger_free(NULL);
}

static void
test_vm_known_by_comm_then_by_pid(void **state)
{
    struct host *h = *state;
    struct vg_window w = {0};
    struct vg_event e = {.ts_ns = 100, .type = VG_EVENT_SCHED_SWITCH, .tid = 51, .pid = 50};
    e.sched_switch.prev_tid = 51;
    e.sched_switch.next_tid = 52;
    g_strlcpy(e.sched_switch.prev_comm, "CPU 0/KVM", VG_COMM_LEN);
    g_strlcpy(e.sched_switch.next_comm, "CPU 1/KVM", VG_COMM_LEN);
    vg_cpu_ledger_feed(h->ledger, &e); /* 51 waits; 52 is a vCPU of a process not known yet */
    struct vg_event entry = {.ts_ns = 150, .type = VG_EVENT_KVM_ENTRY, .tid = 52, .pid = 50};
    vg_cpu_ledger_feed(h->ledger, &entry); /* now it is: the same VM */
    vg_cpu_ledger_read_period(h->ledger, 200, false, &w);
    assert_int_equal(vm_in(&w, 50)->vcpus->len, 2);
    assert_int_equal(lost_in(&w, 50, VG_AGGRESSOR_SELF, 0).ns, 100);
    assert_int_equal(lost_sum(&w, 50), 100);
    vg_window_clear(&w);
}

#define LEDGER_TEST(test) cmocka_unit_test_setup_teardown(test, host_setup, host_teardown)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(test_life_of_a_vcpu),
        LEDGER_TEST(test_vm_that_is_known_late),
        LEDGER_TEST(test_windows_of_a_period),
        LEDGER_TEST(test_vms_disturb_each_other),
        LEDGER_TEST(test_wait_moves_with_a_migration),
        LEDGER_TEST(test_unseen_migration),
        LEDGER_TEST(test_unknown_occupant),
        LEDGER_TEST(test_wakeups),
        LEDGER_TEST(test_waking_in_place_of_wakeup),
        LEDGER_TEST(test_missed_wakeup_is_no_discontinuity),
        LEDGER_TEST(test_wait_keeps_its_kind),
        LEDGER_TEST(test_other_occupant_than_known),
        LEDGER_TEST(test_late_record_of_the_old_thread),
        LEDGER_TEST(test_runs_on_two_cpus),
        LEDGER_TEST(test_found_running_without_switch_in),
        LEDGER_TEST(test_time_runs_backwards),
        LEDGER_TEST(test_idle_never_is_a_thread),
        LEDGER_TEST(test_thread_follows_itself),
        LEDGER_TEST(test_entry_without_exit),
        LEDGER_TEST(test_guest_over_window_edges),
        LEDGER_TEST(test_loss_of_records),
        LEDGER_TEST(test_loss_ends_at_the_next_record),
        LEDGER_TEST(test_wakeup_into_a_loss),
        LEDGER_TEST(test_loss_without_an_end),
        LEDGER_TEST(test_loss_over_a_window_edge),
        LEDGER_TEST(test_exit_and_reuse_of_a_tid),
        LEDGER_TEST(test_ended_tasks_are_forgotten),
        LEDGER_TEST(test_order_of_samples),
        LEDGER_TEST(test_largest_ids),
        LEDGER_TEST(test_vm_known_by_comm_then_by_pid),
        cmocka_unit_test(test_empty_ledger),
    };
    return cmocka_run_group_tests_name("cpu-ledger", tests, NULL, NULL);
}
