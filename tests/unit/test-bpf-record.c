/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of records that the BPF programs write, also while they do.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "collectors/bpf-record.h"
#include "tests/unit/bpf-memory.h"
#include "tests/unit/chance.h"
#include "tests/unit/ledger-host.h"

/* VM 1 is process 100 with vCPU 101, VM 2 is 200 with 201; 300 is a program, 400 the kernel's. */
enum { VICTIM = 101, RIVAL = 201, RIVALS_MAIN = 200, PROGRAM = 300, KERNEL = 400 };

static const struct vg_bpf_assumed nothing;

struct bpf_host {
    vg_bpf_slots *slots;
    uint32_t victim;
};

static int
setup(void **state)
{
    struct bpf_host *h = g_new0(struct bpf_host, 1);

    bpf_memory_reset();
    bpf_set_thread(VICTIM, 100, 1, false);
    bpf_set_thread(RIVAL, RIVALS_MAIN, 1, false);
    bpf_set_thread(RIVALS_MAIN, RIVALS_MAIN, 1, false);
    bpf_set_thread(PROGRAM, PROGRAM, 1, false);
    bpf_set_thread(KERNEL, KERNEL, 1, true);
    h->slots = vg_bpf_slots_new(bpf_memory());
    h->victim = vg_bpf_slots_publish(h->slots, VICTIM, 1, true);
    vg_bpf_slots_publish(h->slots, RIVAL, 2, true);
    vg_bpf_slots_publish(h->slots, RIVALS_MAIN, 2, false);
    *state = h;
    return 0;
}

static int
teardown(void **state)
{
    struct bpf_host *h = *state;

    vg_bpf_slots_free(h->slots);
    g_free(h);
    return 0;
}

static struct vg_bpf_reading
reading_at(const struct bpf_host *h, int64_t now_ns, const struct vg_bpf_assumed *assumed)
{
    struct vg_bpf_reading r;

    bpf_set_now(now_ns);
    assert_true(vg_bpf_record_read(&bpf_memory()->threads[h->victim], bpf_memory_cpu_of, NULL,
                                   assumed, bpf_memory_now, &r));
    assert_int_equal(r.at_ns, now_ns);
    assert_int_equal(r.cpu.observed_ns,
                     r.cpu.run_ns + r.cpu.preempt_ns + r.cpu.wake_wait_ns + r.cpu.blocked_ns);
    return r;
}

static int64_t
lost_to(const struct vg_bpf_reading *r, uint32_t holder)
{
    int64_t ns = 0;

    for (unsigned i = 0; i < r->n_losses; i++)
        ns += r->losses[i].holder == holder ? r->losses[i].ns : 0;
    return ns;
}

static int64_t
lost(const struct vg_bpf_reading *r)
{
    int64_t ns = 0;

    for (unsigned i = 0; i < r->n_losses; i++)
        ns += r->losses[i].ns;
    return ns;
}

static void
test_open_wait(void **state)
{
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(1000);
    bpf_switch(0, VICTIM, BPF_LEAVES_PREEMPTED, RIVAL);
    struct vg_bpf_reading r = reading_at(h, 1100, &nothing);
    assert_int_equal(r.state, VG_BPF_WAIT_PREEMPT);
    assert_int_equal(r.open, 1);
    assert_int_equal(r.cpu.preempt_ns, 100);
    assert_int_equal(lost_to(&r, 2 | VG_BPF_VCPU), 100);
    bpf_set_now(1200);
    bpf_switch(0, RIVAL, BPF_LEAVES_BLOCKED, RIVALS_MAIN);
    bpf_set_now(1230);
    bpf_switch(0, RIVALS_MAIN, BPF_LEAVES_BLOCKED, KERNEL);
    bpf_set_now(1234);
    bpf_switch(0, KERNEL, BPF_LEAVES_BLOCKED, 0);
    r = reading_at(h, 1300, &nothing);
    assert_int_equal(r.cpu.preempt_ns, 300);
    assert_int_equal(lost_to(&r, 2 | VG_BPF_VCPU), 200);
    assert_int_equal(lost_to(&r, 2), 30);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_KERNEL), 4);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_IDLE), 66);
    bpf_switch(0, 0, BPF_LEAVES_RUNNABLE, VICTIM);
    r = reading_at(h, 1400, &nothing);
    /* What was open is closed, and the same; nobody waits there any more. */
    assert_int_equal(bpf_memory()->cpus[0].waiters, 0);
    assert_int_equal(r.state, VG_BPF_RUNNING);
    expect_times(&r.cpu, 100, 300, 0, 0);
    assert_int_equal(lost(&r), 300);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_IDLE), 66);
}

/* Of a wait that began while others had waited for long only its own part counts. */
static void
test_open_wait_beside_another(void **state)
{
    const struct bpf_host *h = *state;

    bpf_set_current(0, RIVAL);
    bpf_set_current(1, 0);
    bpf_set_now(1000);
    bpf_switch(0, RIVAL, BPF_LEAVES_RUNNABLE, PROGRAM);
    bpf_set_now(1900);
    bpf_wakeup(1, VICTIM, 0);
    struct vg_bpf_reading r = reading_at(h, 2000, &nothing);
    assert_int_equal(r.cpu.wake_wait_ns, 100);
    assert_int_equal(lost_to(&r, VG_BPF_PROCESS | PROGRAM), 100);
    bpf_set_now(2100);
    bpf_switch(0, PROGRAM, BPF_LEAVES_RUNNABLE, RIVAL);
    bpf_set_now(2150);
    bpf_switch(0, RIVAL, BPF_LEAVES_RUNNABLE, PROGRAM);
    r = reading_at(h, 2151, &nothing);
    assert_int_equal(lost_to(&r, VG_BPF_PROCESS | PROGRAM), 201);
    assert_int_equal(lost_to(&r, 2 | VG_BPF_VCPU), 50);
    assert_int_equal(lost(&r), r.cpu.wake_wait_ns);
}

static void
test_assumed(void **state)
{
    static const enum vg_bpf_state states[] = {VG_BPF_RUNNING, VG_BPF_BLOCKED, VG_BPF_WAIT_PREEMPT};
    const struct bpf_host *h = *state;

    struct vg_bpf_reading r = reading_at(h, 5000, &nothing);
    assert_int_equal(r.state, VG_BPF_UNSEEN);
    assert_int_equal(r.cpu.observed_ns, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(states); i++) {
        const struct vg_bpf_assumed assumed = {.state = states[i], .since_ns = 4000};
        r = reading_at(h, 5000, &assumed);
        assert_int_equal(r.state, states[i]);
        assert_int_equal(r.cpu.observed_ns, 1000);
        assert_int_equal(r.cpu.run_ns, states[i] == VG_BPF_RUNNING ? 1000 : 0);
        assert_int_equal(r.cpu.blocked_ns, states[i] == VG_BPF_BLOCKED ? 1000 : 0);
        assert_int_equal(r.cpu.preempt_ns, states[i] == VG_BPF_WAIT_PREEMPT ? 1000 : 0);
        assert_int_equal(r.open, states[i] != VG_BPF_BLOCKED);
        assert_int_equal(lost_to(&r, VG_BPF_HOLDER_UNKNOWN), r.cpu.preempt_ns);
        assert_int_equal(lost(&r), r.cpu.preempt_ns);
    }
    /* It holds up to the first event and not beyond. */
    bpf_set_current(0, PROGRAM);
    bpf_set_now(6000);
    bpf_wakeup(0, VICTIM, 0);
    const struct vg_bpf_assumed slept = {.state = VG_BPF_BLOCKED, .since_ns = 4000};
    r = reading_at(h, 6500, &slept);
    expect_times(&r.cpu, 0, 0, 500, 2000);
    /* Or to an event from before it was assumed. */
    const struct vg_bpf_assumed late = {.state = VG_BPF_BLOCKED, .since_ns = 6200};
    r = reading_at(h, 6500, &late);
    assert_int_equal(r.cpu.blocked_ns, 0);
}

/* Of whom nothing was told, the first event says what it had been doing since it is watched. */
static void
test_first_event_tells(void **state)
{
    const struct vg_bpf_assumed watched = {.since_ns = 4000, .exec_ns = 3000};
    const struct vg_bpf_assumed asleep = {.state = VG_BPF_BLOCKED, .since_ns = 4000};
    const struct vg_bpf_assumed told = {
        .state = VG_BPF_WAIT_PREEMPT, .since_ns = 4000, .told_ns = 4700, .exec_ns = 3000};
    const struct bpf_host *h = *state;

    bpf_set_now(1000);
    bpf_set_current(0, VICTIM);
    assert_int_equal(reading_at(h, 5000, &watched).cpu.observed_ns, 0);
    bpf_set_now(6000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    struct vg_bpf_reading r = reading_at(h, 6100, &watched);
    expect_times(&r.cpu, 2000, 0, 0, 100);
    /* When its watch began is not known. */
    r = reading_at(h, 6100, &nothing);
    assert_int_equal(r.cpu.observed_ns, 100);
    /* What was assumed, but not told, does not count any more. */
    r = reading_at(h, 6100, &asleep);
    expect_times(&r.cpu, 2000, 0, 0, 100);
    /* What was told stays. */
    r = reading_at(h, 6100, &told);
    expect_times(&r.cpu, 1300, 700, 0, 100);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_UNKNOWN), 700);
}

/* It waited, and got its CPU without an event: the kernel says how much of the time was its own. */
static void
test_first_event_after_a_lost_switch_in(void **state)
{
    const struct vg_bpf_assumed watched = {.since_ns = 4000, .exec_ns = 250};
    const struct vg_bpf_assumed told = {
        .state = VG_BPF_RUNNING, .since_ns = 4000, .told_ns = 4300, .exec_ns = 250};
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(250);
    bpf_set_current(0, PROGRAM);
    bpf_set_now(5500);
    bpf_set_current(0, VICTIM);
    bpf_set_now(6000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    struct vg_bpf_reading r = reading_at(h, 6100, &watched);
    expect_times(&r.cpu, 500, 1500, 0, 100);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_UNKNOWN), 1500);
    /* Told to run, it did: much of its CPU may have been stolen. */
    r = reading_at(h, 6100, &told);
    expect_times(&r.cpu, 2000, 0, 0, 100);
}

/* The program has the CPU, the victim is watched from 4000 on, and something happens at 6000. */
static struct vg_bpf_reading
first_event(const struct bpf_host *h, bool is_wakeup)
{
    const struct vg_bpf_assumed watched = {.since_ns = 4000};

    bpf_set_current(0, PROGRAM);
    bpf_set_now(6000);
    if (is_wakeup)
        bpf_wakeup(0, VICTIM, 0);
    else
        bpf_switch(0, PROGRAM, BPF_LEAVES_RUNNABLE, VICTIM);
    return reading_at(h, 6100, &watched);
}

static void
test_first_event_is_a_wakeup(void **state)
{
    struct vg_bpf_reading r = first_event(*state, true);

    expect_times(&r.cpu, 0, 0, 100, 2000);
}

static void
test_first_event_is_a_switch_in(void **state)
{
    struct vg_bpf_reading r = first_event(*state, false);

    expect_times(&r.cpu, 100, 2000, 0, 0);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_UNKNOWN), 2000);
    assert_int_equal(lost(&r), 2000);
}

static void
test_first_event_is_an_entry(void **state)
{
    const struct vg_bpf_assumed watched = {.since_ns = 4000};
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(6000);
    bpf_entry(0);
    struct vg_bpf_reading r = reading_at(h, 6100, &watched);
    assert_int_equal(r.cpu.run_ns, 2100);
    assert_int_equal(r.cpu.guest_ns, 100);
}

static void
test_guest_and_end(void **state)
{
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(1000);
    bpf_entry(0);
    struct vg_bpf_reading r = reading_at(h, 1100, &nothing);
    assert_int_equal(r.open, 2);
    assert_int_equal(r.cpu.run_ns, 100);
    assert_int_equal(r.cpu.guest_ns, 100);
    bpf_set_now(1200);
    bpf_exit(0, VG_EXIT_HLT);
    bpf_set_now(1300);
    bpf_switch(0, VICTIM, BPF_LEAVES_EXITED, 0);
    r = reading_at(h, 9000, &nothing);
    assert_int_equal(r.cpu.entries, 1);
    assert_int_equal(r.cpu.exits[VG_EXIT_HLT], 1);
    assert_int_equal(r.cpu.guest_ns, 200);
    assert_int_equal(r.cpu.run_ns, 300);
    assert_int_equal(r.cpu.blocks, 1);
    /* Nothing is observed of it after its end. */
    assert_int_equal(r.cpu.observed_ns, 300);
    assert_int_equal(r.open, 0);
    /* Another thread has its tid, and is to be watched. */
    assert_int_equal(bpf_memory_notes()->len, 0);
    bpf_set_current(0, VICTIM);
    bpf_entry(0);
    assert_int_equal(reading_at(h, 9100, &nothing).cpu.entries, 1);
    assert_int_equal(bpf_memory_notes()->len, 1);
}

/* The codes are those of asm/kvm_asm.h, the classes those of asm/esr.h. */
static void
test_exits_of_arm(void **state)
{
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(1000);
    bpf_exit_arm(0, 0, 0);
    bpf_exit_arm(0, 2, 0x24);
    bpf_exit_arm(0, 1u << 31 | 2, 0x20);
    bpf_exit_arm(0, 2, 0x01);
    /* The class is what an earlier trap left. */
    bpf_exit_arm(0, 1, 0x01);
    bpf_exit_arm(0, 0xbadca11, 0x01);
    bpf_exit_arm(0, 2, 0xffffffff);
    struct vg_bpf_reading r = reading_at(h, 1100, &nothing);
    assert_int_equal(r.cpu.exits[VG_EXIT_INTERRUPT], 1);
    assert_int_equal(r.cpu.exits[VG_EXIT_PAGE_FAULT], 2);
    assert_int_equal(r.cpu.exits[VG_EXIT_HLT], 1);
    assert_int_equal(r.cpu.exits[VG_EXIT_OTHER], 3);
}

/* The victim was preempted at 1000 and got its CPU back at 1400, of which nothing was heard. */
static void
lose_switch_in(void)
{
    bpf_set_current(0, VICTIM);
    bpf_set_now(1000);
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, PROGRAM);
    bpf_set_now(1400);
    bpf_set_current(0, VICTIM);
}

static void
test_lost_switch_in(void **state)
{
    const struct bpf_host *h = *state;

    lose_switch_in();
    bpf_set_now(3000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    struct vg_bpf_reading r = reading_at(h, 3100, &nothing);
    expect_times(&r.cpu, 1600, 400, 0, 100);
    assert_int_equal(r.cpu.preemptions, 1);
    assert_int_equal(lost_to(&r, VG_BPF_HOLDER_UNKNOWN), 400);
    assert_int_equal(lost(&r), 400);
    assert_int_equal(bpf_memory_totals()->discontinuities, 1);
    /* Nobody waits for that CPU. */
    assert_int_equal(bpf_memory_cpu_of(NULL, 0)->waiters, 0);
}

/* It enters a guest: since when it has run is not known, that it does is. */
static void
test_lost_switch_in_and_entry(void **state)
{
    const struct bpf_host *h = *state;

    lose_switch_in();
    bpf_set_now(3000);
    bpf_entry(0);
    struct vg_bpf_reading r = reading_at(h, 3100, &nothing);
    assert_int_equal(r.state, VG_BPF_RUNNING);
    expect_times(&r.cpu, 100, 2000, 0, 0);
    assert_int_equal(lost(&r), 2000);
    assert_int_equal(bpf_memory_totals()->discontinuities, 1);
    assert_int_equal(bpf_memory_cpu_of(NULL, 0)->waiters, 0);
}

static void
test_lost_wakeup_and_switch_in(void **state)
{
    const struct bpf_host *h = *state;

    bpf_set_current(0, VICTIM);
    bpf_set_now(1000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    bpf_set_now(1400);
    bpf_set_current(0, VICTIM);
    bpf_set_now(3000);
    bpf_switch(0, VICTIM, BPF_LEAVES_RUNNABLE, PROGRAM);
    struct vg_bpf_reading r = reading_at(h, 3100, &nothing);
    expect_times(&r.cpu, 1600, 100, 0, 400);
    assert_int_equal(bpf_memory_totals()->discontinuities, 1);
    assert_int_equal(bpf_memory_cpu_of(NULL, 0)->waiters, 1);
}

/* A window ended between: what it told of a wait is not taken back. */
static void
test_lost_switch_in_was_told(void **state)
{
    const struct bpf_host *h = *state;
    const struct vg_cpu_figures none = {0};

    lose_switch_in();
    struct vg_bpf_reading before = reading_at(h, 2000, &nothing);
    struct vg_cpu_figures told = vg_bpf_reading_since(&before, &none);
    assert_int_equal(told.preempt_ns, 1000);
    bpf_set_now(3000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    struct vg_bpf_reading after = reading_at(h, 3100, &nothing);
    told = vg_bpf_reading_since(&after, &before.cpu);
    expect_times(&told, 1000, 0, 0, 100);
}

/* The kernel is asked before that: it has run since. */
static void
test_lost_switch_in_is_asked_for(void **state)
{
    const struct vg_bpf_assumed early = {.exec_now_ns = 1100}, later = {.exec_now_ns = 1600};
    const struct bpf_host *h = *state;

    lose_switch_in();
    struct vg_bpf_reading r = reading_at(h, 1500, &early);
    expect_times(&r.cpu, 100, 400, 0, 0);
    r = reading_at(h, 2000, &later);
    expect_times(&r.cpu, 600, 400, 0, 0);
    assert_int_equal(lost(&r), 400);
    bpf_set_now(3000);
    bpf_switch(0, VICTIM, BPF_LEAVES_BLOCKED, PROGRAM);
    r = reading_at(h, 3100, &later);
    /* Nothing is asked of who sleeps. */
    expect_times(&r.cpu, 1600, 400, 0, 100);
}

/* A reading that was a little ahead of an event, whichever state that ended. */
static void
test_nothing_is_below_zero(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        struct vg_bpf_reading r = {.cpu = {.observed_ns = 4150,
                                           .run_ns = 1050,
                                           .preempt_ns = 1050,
                                           .wake_wait_ns = 1000,
                                           .blocked_ns = 1050}};
        struct vg_cpu_figures last = {.observed_ns = 4030,
                                      .run_ns = 1000,
                                      .preempt_ns = 1000,
                                      .wake_wait_ns = 1000,
                                      .blocked_ns = 1000};
        int64_t *const of_last[] = {&last.run_ns, &last.preempt_ns, &last.wake_wait_ns,
                                    &last.blocked_ns};
        *of_last[i] += 80;
        last.observed_ns = last.run_ns + last.preempt_ns + last.wake_wait_ns + last.blocked_ns;
        struct vg_cpu_figures f = vg_bpf_reading_since(&r, &last);
        assert_true(f.run_ns >= 0 && f.preempt_ns >= 0 && f.wake_wait_ns >= 0 && f.blocked_ns >= 0);
        assert_int_equal(f.observed_ns, 70);
        assert_int_equal(f.run_ns + f.preempt_ns + f.wake_wait_ns + f.blocked_ns, f.observed_ns);
    }
}

/* Who is to be watched: named like a vCPU, or in a guest, that one once in a row. */
static void
test_notes(void **state)
{
    const struct vg_bpf_note wanted[] = {
        {.tid = PROGRAM, .pid = PROGRAM, .comm = "CPU 12/KVM"},
        {.tid = RIVAL, .pid = RIVALS_MAIN, .comm = "CPU 0/KVM and m"},
        {.tid = RIVALS_MAIN, .pid = RIVALS_MAIN},
        {.tid = PROGRAM, .pid = PROGRAM},
    };
    const GArray *notes = bpf_memory_notes();

    (void)state;
    bpf_rename(0, PROGRAM, "CPU 12/KVM");
    bpf_rename(0, PROGRAM, "CPU");
    bpf_rename(0, PROGRAM, "cpu 12/KVM");
    bpf_rename(0, RIVAL, "CPU 0/KVM and more than a name");
    bpf_set_current(0, RIVALS_MAIN);
    bpf_entry(0);
    bpf_entry(0);
    bpf_set_current(0, PROGRAM);
    bpf_entry(0);
    bpf_set_current(0, VICTIM); /* watched already */
    bpf_entry(0);
    assert_int_equal(notes->len, G_N_ELEMENTS(wanted));
    for (unsigned i = 0; i < notes->len; i++) {
        const struct vg_bpf_note *note = &g_array_index(notes, struct vg_bpf_note, i);
        assert_int_equal(note->tid, wanted[i].tid);
        assert_int_equal(note->pid, wanted[i].pid);
        assert_memory_equal(note->comm, wanted[i].comm, VG_BPF_COMM_LEN - 1);
        assert_int_equal(note->comm[VG_BPF_COMM_LEN - 1], '\0');
    }
}

static void
test_write_without_end(void **state)
{
    const struct bpf_host *h = *state;
    struct vg_bpf_thread *thread = &bpf_memory()->threads[h->victim];
    struct vg_bpf_reading r;

    thread->seq++;
    assert_false(vg_bpf_record_read(thread, bpf_memory_cpu_of, NULL, &nothing, bpf_memory_now, &r));
    thread->seq++;
    assert_true(vg_bpf_record_read(thread, bpf_memory_cpu_of, NULL, &nothing, bpf_memory_now, &r));
}

/* Everything that can have lost a part, at once: all shares, all lanes, who holds the CPU now, what
 * is nobody's of this wait, and what was assumed before the first event. */
static void
test_all_losses_find_room(void **state)
{
    const struct bpf_host *h = *state;
    const struct vg_bpf_assumed assumed = {
        .state = VG_BPF_WAIT_PREEMPT, .since_ns = 500, .told_ns = 700};
    struct vg_bpf_thread *thread = &bpf_memory()->threads[h->victim];
    struct vg_bpf_cpu *cpu = &bpf_memory()->cpus[0];
    struct {
        struct vg_bpf_reading reading;
        char canary[64];
    } *r = g_malloc(sizeof(*r));

    memset(r, 0x55, sizeof(*r));
    thread->state = VG_BPF_WAIT_WAKE;
    thread->first_ns = 1000;
    thread->first_was = VG_BPF_WAIT_PREEMPT;
    thread->since_ns = 10000;
    thread->wake_wait_ns = 9000;
    for (unsigned i = 0; i < VG_BPF_SHARES; i++)
        thread->shares[i] = (struct vg_bpf_share){.holder = i, .ns = i + 1};
    thread->shares_used = VG_BPF_SHARES;
    cpu->waiters = 1;
    cpu->since_ns = 11000;
    cpu->holder = 999;
    for (unsigned i = 0; i < VG_BPF_LANES; i++)
        cpu->lanes[i] = (struct vg_bpf_lane){.holder = 100 + i, .held_ns = i + 1};
    cpu->lanes_used = VG_BPF_LANES;
    bpf_set_now(11500);
    assert_true(
        vg_bpf_record_read(thread, bpf_memory_cpu_of, NULL, &assumed, bpf_memory_now, &r->reading));
    assert_int_equal(r->reading.n_losses, VG_BPF_SHARES + VG_BPF_LANES + 4);
    assert_true(r->reading.n_losses <= VG_BPF_LOSSES_MAX);
    for (unsigned i = 0; i < sizeof(r->canary); i++)
        assert_int_equal(r->canary[i], 0x55);
    g_free(r);
}

/* ---- while it is written ---- */

/* Who writes may not get a CPU for a while. */
#define LIMIT_NS (240 * VG_NS_PER_S)

/* Switches, wakeups and migrations of the victim among the others, without a pause. */
static void
write_events(vg_thread *self, void *arg)
{
    uint32_t dice = 1;

    (void)arg;
    while (!vg_thread_stopping(self)) {
        int cpu = (int)(dice >> 16) % 2;
        int32_t here = bpf_current(cpu);
        const int32_t others[] = {RIVAL, RIVALS_MAIN, PROGRAM, KERNEL, VICTIM, 0};
        int32_t next = others[(dice >> 20) % G_N_ELEMENTS(others)];
        dice = dice * 1103515245 + 12345;
        bpf_set_now(bpf_memory_now() + (dice >> 24) % 8);
        if ((dice >> 8) % 4 == 0 && bpf_current(!cpu) != VICTIM && here != VICTIM)
            bpf_wakeup(cpu, VICTIM, cpu);
        else if (next != bpf_current(!cpu) && next != here)
            bpf_switch(cpu, here, (dice >> 12) % 2 ? BPF_LEAVES_RUNNABLE : BPF_LEAVES_BLOCKED,
                       next);
        else if (here == VICTIM)
            (dice >> 12) % 2 ? bpf_entry(cpu) : bpf_exit(cpu, VG_EXIT_IO);
    }
}

static bool
met_all(const unsigned *seen)
{
    return seen[VG_BPF_RUNNING] > 0 && seen[VG_BPF_WAIT_PREEMPT] > 0 &&
           seen[VG_BPF_WAIT_WAKE] > 0 && seen[VG_BPF_BLOCKED] > 0;
}

/* So many readings at least, and until each state was met. */
static void
test_never_torn(void **state)
{
    const unsigned readings = chance_rounds(100000, 1000000);
    const struct bpf_host *h = *state;
    const struct vg_bpf_assumed assumed = {.state = VG_BPF_BLOCKED, .since_ns = 1};
    g_autoptr(GError) err = NULL;
    struct vg_bpf_reading last = {0};
    unsigned seen[VG_BPF_EXITED + 1] = {0};

    bpf_set_current(0, PROGRAM);
    bpf_set_current(1, KERNEL);
    bpf_set_now(1);
    vg_thread *writer = vg_thread_new("writer", write_events, NULL, NULL, &err);
    assert_non_null(writer);
    int64_t end_ns = vg_clock_monotonic_ns() + LIMIT_NS;
    for (unsigned i = 0; i < readings || !met_all(seen); i++) {
        struct vg_bpf_reading r;
        assert_true(i % 1000 > 0 || vg_clock_monotonic_ns() < end_ns);
        if (!vg_bpf_record_read(&bpf_memory()->threads[h->victim], bpf_memory_cpu_of, NULL,
                                &assumed, bpf_memory_now, &r))
            continue; /* written to all the while; nothing was made up of it */
        seen[r.state]++;
        /* All the time since the beginning is accounted, exactly once. */
        assert_int_equal(r.cpu.observed_ns, r.at_ns - 1);
        assert_int_equal(lost(&r), r.cpu.preempt_ns + r.cpu.wake_wait_ns);
        assert_true(r.cpu.run_ns >= last.cpu.run_ns);
        assert_true(r.cpu.preempt_ns >= last.cpu.preempt_ns);
        assert_true(r.cpu.wake_wait_ns >= last.cpu.wake_wait_ns);
        assert_true(r.cpu.blocked_ns >= last.cpu.blocked_ns);
        assert_true(r.cpu.guest_ns <= r.cpu.run_ns);
        last = r;
    }
    vg_thread_stop(writer);
    vg_thread_free(writer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_wait_beside_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_assumed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_event_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_event_after_a_lost_switch_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_event_is_a_wakeup, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_event_is_a_switch_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_event_is_an_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_guest_and_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exits_of_arm, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_switch_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_switch_in_and_entry, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_wakeup_and_switch_in, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_switch_in_was_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_switch_in_is_asked_for, setup, teardown),
        cmocka_unit_test(test_nothing_is_below_zero),
        cmocka_unit_test_setup_teardown(test_notes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write_without_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_losses_find_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_never_torn, setup, teardown),
    };

    return cmocka_run_group_tests_name("bpf-record", tests, NULL, NULL);
}
