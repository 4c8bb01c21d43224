/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is watched, as the BPF programs see it: they run here on the same memory.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/bpf-memory.h"

#define SLOTS (VG_BPF_SLOTS - 1) /* 0 is none */

/* A VM of the host that these tests have: its first vCPU is tid 101, another thread is 900. */
enum { VCPU = 101, OTHER = 900 };

static int
setup(void **state)
{
    bpf_memory_reset();
    bpf_set_thread(VCPU, 100, 1, false);
    bpf_set_thread(OTHER, OTHER, 1, false);
    bpf_set_current(0, OTHER);
    bpf_set_current(1, 0);
    *state = vg_bpf_slots_new(bpf_memory());
    return 0;
}

static int
teardown(void **state)
{
    vg_bpf_slots_free(*state);
    return 0;
}

static const struct vg_bpf_thread *
record(uint32_t slot)
{
    return &bpf_memory()->threads[slot];
}

static void
count(void *data, uint32_t slot)
{
    assert_in_range(slot, 1, SLOTS);
    ++*(unsigned *)data;
}

/* How many slots become free. */
static unsigned
settle(vg_bpf_slots *slots)
{
    unsigned told = 0;

    vg_bpf_slots_settle(slots, count, &told);
    return told;
}

static unsigned
pages_in_use(void)
{
    unsigned pages = 0;

    for (unsigned i = 0; i < VG_BPF_PAGE_INDEX; i++)
        pages += bpf_memory()->tid_pages[i] != 0;
    return pages;
}

static void
test_found_by_programs(void **state)
{
    uint32_t slot = vg_bpf_slots_publish(*state, VCPU, 7, true);

    assert_int_not_equal(slot, 0);
    assert_int_equal(vg_bpf_slots_used(*state), 1);
    assert_int_equal(record(slot)->vm, 7);
    bpf_set_now(1000);
    bpf_wakeup(1, VCPU, 0);
    assert_int_equal(record(slot)->wakeups, 1);
    vg_bpf_slots_withdraw(*state, slot);
    assert_int_equal(vg_bpf_slots_used(*state), 0);
    bpf_set_now(2000);
    bpf_switch(0, OTHER, BPF_LEAVES_RUNNABLE, VCPU);
    /* What was counted stays, and nothing is added. */
    assert_int_equal(record(slot)->wakeups, 1);
    assert_int_equal(record(slot)->wake_wait_ns, 0);
}

static void
test_tid_limits(void **state)
{
    assert_int_equal(vg_bpf_slots_publish(*state, 0, 1, true), 0);
    assert_int_equal(vg_bpf_slots_publish(*state, -1, 1, true), 0);
    assert_int_equal(vg_bpf_slots_publish(*state, VG_BPF_TID_LIMIT, 1, true), 0);
    assert_int_equal(vg_bpf_slots_used(*state), 0);
    assert_int_not_equal(vg_bpf_slots_publish(*state, VG_BPF_TID_LIMIT - 1, 1, true), 0);
    assert_int_not_equal(vg_bpf_slots_publish(*state, 1, 1, true), 0);
    assert_int_equal(vg_bpf_slots_used(*state), 2);
}

static void
test_quarantine(void **state)
{
    uint32_t first = vg_bpf_slots_publish(*state, VCPU, 1, true);

    vg_bpf_slots_withdraw(*state, first);
    /* The same thread again, at once: in another slot. */
    uint32_t second = vg_bpf_slots_publish(*state, VCPU, 1, true);
    assert_int_not_equal(second, first);
    assert_int_equal(settle(*state), 0);
    assert_int_equal(settle(*state), 1);
    assert_int_equal(settle(*state), 0);
    uint32_t third = vg_bpf_slots_publish(*state, OTHER, 1, true);
    assert_int_equal(third, first);
    assert_int_equal(vg_bpf_slots_used(*state), 2);
    /* The record is as new. */
    assert_int_equal(record(third)->tid, OTHER);
    assert_int_equal(record(third)->state, VG_BPF_UNSEEN);
}

/* In the worst case each of them needs a page of its own. */
static void
test_all_taken(void **state)
{
    for (unsigned round = 0; round < 3; round++) {
        /* Other pages each time. */
        for (int32_t i = 0; i < SLOTS; i++) {
            int32_t tid = 1 + ((int32_t)round * SLOTS + i) * VG_BPF_PAGE_TIDS;
            assert_int_not_equal(vg_bpf_slots_publish(*state, tid, 1, true), 0);
        }
        assert_int_equal(vg_bpf_slots_used(*state), SLOTS);
        assert_int_equal(pages_in_use(), SLOTS);
        assert_int_equal(vg_bpf_slots_publish(*state, 2, 1, true), 0);
        for (uint32_t slot = 1; slot <= SLOTS; slot++)
            vg_bpf_slots_withdraw(*state, slot);
        assert_int_equal(vg_bpf_slots_used(*state), 0);
        assert_int_equal(pages_in_use(), 0);
        /* None is free before they have settled. */
        assert_int_equal(vg_bpf_slots_publish(*state, 2, 1, true), 0);
        assert_int_equal(settle(*state), 0);
        assert_int_equal(vg_bpf_slots_publish(*state, 2, 1, true), 0);
        assert_int_equal(settle(*state), SLOTS);
    }
}

static void
test_pages_are_shared_and_reused(void **state)
{
    const struct vg_bpf_memory *m = bpf_memory();
    int32_t first_tid = 10 * VG_BPF_PAGE_TIDS;

    uint32_t a = vg_bpf_slots_publish(*state, first_tid, 1, true);
    uint32_t b = vg_bpf_slots_publish(*state, first_tid + VG_BPF_PAGE_TIDS - 1, 1, true);
    assert_int_equal(pages_in_use(), 1);
    uint16_t page = m->tid_pages[10];
    vg_bpf_slots_withdraw(*state, a);
    assert_int_equal(m->tid_pages[10], page);
    assert_int_equal(m->tid_slots[page][0], 0);
    assert_int_equal(m->tid_slots[page][VG_BPF_PAGE_TIDS - 1], b);
    vg_bpf_slots_withdraw(*state, b);
    assert_int_equal(m->tid_pages[10], 0);
    uint32_t c = vg_bpf_slots_publish(*state, 20 * VG_BPF_PAGE_TIDS + 5, 1, true);
    assert_int_equal(m->tid_pages[20], page);
    /* Nothing of those before is left in it. */
    for (unsigned i = 0; i < VG_BPF_PAGE_TIDS; i++)
        assert_int_equal(m->tid_slots[page][i], i == 5 ? c : 0);
}

/* Who waits when it is withdrawn would keep the CPU's lanes busy for ever. */
static void
test_waiters_are_given_back(void **state)
{
    const struct vg_bpf_cpu *cpu = &bpf_memory()->cpus[0];
    uint32_t waits = vg_bpf_slots_publish(*state, VCPU, 1, true);

    bpf_set_now(1000);
    bpf_wakeup(1, VCPU, 0);
    assert_int_equal(cpu->waiters, 1);
    vg_bpf_slots_withdraw(*state, waits);
    assert_int_equal(settle(*state), 0);
    assert_int_equal(cpu->waiters, 1);
    assert_int_equal(settle(*state), 1);
    assert_int_equal(cpu->waiters, 0);
    /* Of who does not wait there is nothing to give back. */
    uint32_t sleeps = vg_bpf_slots_publish(*state, VCPU, 1, true);
    bpf_set_now(2000);
    bpf_switch(0, OTHER, BPF_LEAVES_BLOCKED, VCPU);
    bpf_set_now(3000);
    bpf_switch(0, VCPU, BPF_LEAVES_BLOCKED, 0);
    assert_int_equal(record(sleeps)->state, VG_BPF_BLOCKED);
    vg_bpf_slots_withdraw(*state, sleeps);
    settle(*state);
    assert_int_equal(settle(*state), 1);
    assert_int_equal(cpu->waiters, 0);
}

/* The tid of a watched thread comes back as another thread's. */
static void
test_tid_comes_back(void **state)
{
    uint32_t slot = vg_bpf_slots_publish(*state, VCPU, 1, true);

    bpf_set_now(1000);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    bpf_set_now(1500);
    bpf_switch(1, VCPU, BPF_LEAVES_EXITED, 0);
    bpf_set_thread(VCPU, 100, 1600, false);
    bpf_set_now(2000);
    bpf_switch(1, 0, BPF_LEAVES_RUNNABLE, VCPU);
    bpf_set_now(9000);
    bpf_switch(1, VCPU, BPF_LEAVES_RUNNABLE, 0);
    assert_int_equal(record(slot)->state, VG_BPF_EXITED);
    assert_int_equal(record(slot)->run_ns, 500);
    assert_int_equal(record(slot)->preemptions, 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_found_by_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tid_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quarantine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages_are_shared_and_reused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waiters_are_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tid_comes_back, setup, teardown),
    };

    return cmocka_run_group_tests_name("bpf-slots", tests, NULL, NULL);
}
