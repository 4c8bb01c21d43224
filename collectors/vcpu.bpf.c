/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
 *
 * Measures the watched threads when they are switched. A thread that is not watched costs two array
 * lookups and a comparison. The clock is only read if there is something to account.
 *
 * A thread's record changes only under the lock of its run queue, or on its own CPU with preemption
 * off. It thus has one writer at a time and needs no atomic operations. The same holds for a CPU's
 * lanes, except when a waiting thread migrates, which happens under the lock of the CPU that it
 * leaves. The two writers may then lose or count twice one slice of a holder, but never more than
 * the wait.
 */
/* Later headers need the types of earlier ones. */
/* clang-format off */
#include "collectors/bpf-kernel.h"

#include <stddef.h>

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "collectors/bpf-maps.h"
#include "collectors/bpf-shared.h"
/* clang-format on */

#define PF_KTHREAD 0x00200000
#define TASK_DEAD  0x80
#define EXIT_BITS  0x30

/* ARM_EXCEPTION_TRAP, and the bit in KVM's exit code for a pending SError. */
#define ARM_TRAP        2
#define ARM_WITH_SERROR (1u << 31)

/* Set before loading: */
const volatile bool has_prev_state; /* sched_switch reports it: 5.18 and newer */

/* The location of a vCPU's last exit reason, found in the BTF of the KVM module. */
const volatile __u32 exit_isa;            /* 1 VMX, 2 SVM, 3 arm64; 0: unknown */
const volatile __u32 exit_pointer_offset; /* SVM: offset of the pointer to the VMCB; VMX: 0 */
const volatile __u32 exit_offset;         /* offset of the reason in the VMCB or the vCPU */
const volatile bool exit_in_arguments;    /* the tracepoint reports the reason: before 5.17 */
/* The class of each reason; [1]: of the reasons from 0x400. */
const volatile __u8 exit_classes[2][256];

/* ---- who ---- */

static __always_inline __u32
slot_of(__s32 tid)
{
    __u32 t = (__u32)tid % VG_BPF_TID_LIMIT;
    __u32 page = tid_pages[t / VG_BPF_PAGE_TIDS];

    if (!page)
        return 0;
    return tid_slots[page % VG_BPF_PAGES][t % VG_BPF_PAGE_TIDS] % VG_BPF_SLOTS;
}

/* Returns a watched vCPU's record. Returns NULL if another thread has its tid by now, or it is not
 * a vCPU. */
static __always_inline struct vg_bpf_thread *
thread_of(__u32 slot, struct task_struct *task)
{
    struct vg_bpf_thread *t = thread_at(slot);
    __u64 start = task->start_boottime;

    if (!t || !t->is_vcpu || t->tid != task->pid)
        return NULL;
    if (!t->start_ns)
        t->start_ns = start;
    return t->start_ns == start ? t : NULL;
}

typedef __u64 __attribute__((may_alias)) name_word;

/* Saves the name of a task's process, which may have changed since an exec. For the main thread,
 * this is checked each time. For other threads, the name is in distant memory, so it is only read
 * once. Two processes may write here concurrently and mix their names until one of them runs
 * again. */
static __always_inline void
keep_name(struct task_struct *task)
{
    struct vg_bpf_name *name = &names[(__u32)task->tgid % VG_BPF_NAMES];
    bool known = name->pid == task->tgid;

    if (task->pid == task->tgid) {
        __u64 begin = *(const name_word *)(const void *)&task->comm[0],
              end = *(const name_word *)(const void *)&task->comm[8];
        if (known && name->comm[0] == begin && name->comm[1] == end)
            return;
        name->comm[0] = begin;
        name->comm[1] = end;
    } else {
        if (known)
            return;
        /* A plain load fails: the verifier trusts this task less than the event's task. */
        const struct task_struct *leader = task->group_leader;
        if (bpf_probe_read_kernel(name->comm, sizeof(name->comm), &leader->comm))
            return;
    }
    name->pid = task->tgid;
}

static __always_inline __u32
bpf_holder_of(struct task_struct *task)
{
    if (task->pid == 0)
        return VG_BPF_HOLDER_IDLE;
    __u32 slot = slot_of(task->pid);
    const struct vg_bpf_thread *t = slot ? thread_at(slot) : NULL;
    if (t && t->is_vcpu && t->tid == task->pid)
        return t->vm | VG_BPF_VCPU;
    slot = slot_of(task->tgid);
    t = slot ? thread_at(slot) : NULL;
    if (t && t->tid == task->tgid)
        return t->vm;
    if (task->flags & PF_KTHREAD)
        return VG_BPF_HOLDER_KERNEL;
    keep_name(task);
    return VG_BPF_PROCESS | ((__u32)task->tgid & VG_BPF_PID_MASK);
}

static __always_inline __u32
cpu_of(struct task_struct *task)
{
    if (bpf_core_field_exists(task->thread_info.cpu))
        return task->thread_info.cpu;
    struct task_struct___old *old = (void *)task;
    if (bpf_core_field_exists(old->cpu))
        return BPF_CORE_READ(old, cpu);
    return bpf_get_smp_processor_id();
}

/* Returns the task that runs on the CPU for which a task was queued, or NULL. */
static __always_inline struct task_struct *
running_beside(struct task_struct *task)
{
    if (!bpf_core_field_exists(task->se.cfs_rq) || !task->se.cfs_rq)
        return NULL;
    return task->se.cfs_rq->rq->curr;
}

/* ---- writing ---- */

#define BEGIN_WRITE(record)                                                                        \
 do {                                                                                              \
  (record)->seq++;                                                                                 \
  asm volatile("" ::: "memory");                                                                   \
 } while (0)
#define END_WRITE(record)                                                                          \
 do {                                                                                              \
  asm volatile("" ::: "memory");                                                                   \
  (record)->seq++;                                                                                 \
 } while (0)

/* Times one run in VG_BPF_COST_EVERY, excluding the cost of reading the clock. */
static __always_inline __u64
begin_run(struct vg_bpf_cpu *c)
{
    return ++c->events % VG_BPF_COST_EVERY ? 0 : bpf_ktime_get_ns();
}

static __always_inline void
end_run(struct vg_bpf_cpu *c, __u64 begin_ns)
{
    if (begin_ns) {
        __u64 end_ns = bpf_ktime_get_ns();
        __u64 reading_ns = bpf_ktime_get_ns() - end_ns;
        __u64 span_ns = end_ns - begin_ns;
        c->timed++;
        c->timed_ns += span_ns > reading_ns ? span_ns - reading_ns : 0;
    }
}

/* ---- waits ---- */

/* Adds to a cell, creating it if necessary. Returns false if there is no space. */
static __always_inline bool
add_to_cell(__u32 slot, __u32 holder, const struct vg_bpf_share *share)
{
    struct vg_bpf_cell_key key = {.slot = slot, .holder = holder};
    struct vg_bpf_cell *cell = bpf_map_lookup_elem(&cells, &key);

    if (cell) {
        cell->ns += share->ns;
        cell->count += share->count;
        return true;
    }
    struct vg_bpf_cell first = {.ns = share->ns, .count = share->count};
    return bpf_map_update_elem(&cells, &key, &first, BPF_NOEXIST) == 0;
}

/* Moves an evicted share into its cell. The collector takes the cells of processes away in each
 * window. If there is no space, processes share one cell. */
static __always_inline void
evict(__u32 slot, const struct vg_bpf_share *share)
{
    bool there = add_to_cell(slot, share->holder, share);

    if (!there && VG_BPF_IS_PROCESS(share->holder))
        there = add_to_cell(slot, VG_BPF_HOLDER_USER, share);
    if (!there)
        __sync_fetch_and_add(&totals.cells_full, 1);
    __sync_fetch_and_add(&totals.evictions, 1);
}

/* Returns how readily a share is evicted: processes before other holders, then the share that was
 * charged the longest ago. */
static __always_inline __u32
age_of(const struct vg_bpf_thread *t, __u32 at)
{
    const struct vg_bpf_share *share = &t->shares[at % VG_BPF_SHARES];
    __u32 age = (t->charges - share->charged) & 0x7fffffff;

    return VG_BPF_IS_PROCESS(share->holder) ? age | 0x80000000 : age;
}

/* Returns the oldest of three shares. This is nearly as good as the oldest of all, and much less
 * work for the verifier. */
static __always_inline __u32
old_share(struct vg_bpf_thread *t)
{
    __u32 at = t->hand++ % VG_BPF_SHARES;
    __u32 next = (at + VG_BPF_SHARES / 3) % VG_BPF_SHARES;
    __u32 last = (at + VG_BPF_SHARES * 2 / 3) % VG_BPF_SHARES;

    if (age_of(t, next) > age_of(t, at))
        at = next;
    if (age_of(t, last) > age_of(t, at))
        at = last;
    return at % VG_BPF_SHARES;
}

/* This function and the next three are not static. The verifier thus checks each of them once, for
 * all arguments, and not on every path that leads there. */
__noinline int
vg_charge(__u32 slot, __u32 holder, __u64 ns, __u64 count)
{
    struct vg_bpf_thread *t = thread_at(slot);
    __u32 at = VG_BPF_SHARES;

    if (!t)
        return 0;
    __u32 used = t->shares_used;
    for (__u32 i = 0; i < VG_BPF_SHARES; i++) {
        if (i >= used || t->shares[i].holder == holder) {
            at = i;
            break;
        }
    }
    if (at >= VG_BPF_SHARES) {
        at = old_share(t);
        asm volatile("" : "+r"(at));
        at %= VG_BPF_SHARES;
        evict(slot, &t->shares[at]);
        t->shares[at].ns = 0;
        t->shares[at].count = 0;
    } else if (at >= used) {
        t->shares_used = at + 1;
    }
    struct vg_bpf_share *share = &t->shares[at % VG_BPF_SHARES];
    share->holder = holder;
    share->charged = ++t->charges;
    share->ns += ns;
    share->count += count;
    return 0;
}

/* Finds or creates the lane of a holder. Processes lose their lanes before other holders do, and
 * take lanes only from processes. Returns NULL if there is no such lane. */
static __always_inline struct vg_bpf_lane *
lane_of(struct vg_bpf_cpu *c, __u32 holder)
{
    __u32 used = c->lanes_used;
    __u64 oldest_ns = ~0ull;
    __u32 at = VG_BPF_LANES;

    for (__u32 i = 0; i < VG_BPF_LANES; i++) {
        if (i >= used) {
            c->lanes_used = i + 1;
            at = i;
            break;
        }
        if (c->lanes[i].holder == holder)
            return &c->lanes[i];
        __u64 last_ns = c->lanes[i].last_ns;
        if (!VG_BPF_IS_PROCESS(c->lanes[i].holder))
            last_ns = VG_BPF_IS_PROCESS(holder) ? ~0ull : last_ns | 1ull << 63;
        if (last_ns < oldest_ns) {
            oldest_ns = last_ns;
            at = i;
        }
    }
    if (at >= VG_BPF_LANES)
        return NULL;
    /* Otherwise the compiler drops the bound that the kernel's verifier requires. */
    asm volatile("" : "+r"(at));
    struct vg_bpf_lane *lane = &c->lanes[at % VG_BPF_LANES];
    lane->holder = holder;
    lane->held_ns = 0;
    return lane;
}

/* Charges the CPU's time up to now to its previous holder. From now on, holder has the CPU. */
__noinline int
vg_advance(__u32 cpu, __u32 was, __u32 holder, __u64 now)
{
    struct vg_bpf_cpu *c = cpu_at(cpu);

    if (!c)
        return 0;
    BEGIN_WRITE(c);
    if (now > c->since_ns) {
        struct vg_bpf_lane *lane = lane_of(c, was);
        if (lane) {
            lane->held_ns += now - c->since_ns;
            lane->last_ns = now;
        }
        if (VG_BPF_IS_PROCESS(was))
            c->user_held_ns += now - c->since_ns;
        c->since_ns = now;
    }
    c->holder = holder;
    END_WRITE(c);
    return 0;
}

static __always_inline bool
bpf_is_waiting(const struct vg_bpf_thread *t)
{
    return t->state == VG_BPF_WAIT_PREEMPT || t->state == VG_BPF_WAIT_WAKE;
}

/* Sets the CPU on which t runs, or for which it waits, from now on. */
__noinline int
vg_settle(__u32 slot, __u32 cpu)
{
    struct vg_bpf_thread *t = thread_at(slot);
    __u32 at = VG_BPF_PLACES;

    if (!t)
        return 0;
    __u32 used = t->places_used;
    for (__u32 i = 0; i < VG_BPF_PLACES; i++) {
        if (i >= used || t->places[i].cpu == cpu) {
            at = i;
            break;
        }
    }
    if (at >= VG_BPF_PLACES) {
        at = t->places_lost++ % VG_BPF_PLACES;
        t->places[at].run_ns = 0;
        t->places[at].wait_ns = 0;
    } else if (at >= used) {
        t->places_used = at + 1;
    }
    t->places[at % VG_BPF_PLACES].cpu = cpu;
    t->place = at;
    return 0;
}

static __always_inline void
go_to(__u32 slot, struct vg_bpf_thread *t, __u32 cpu)
{
    if (t->cpu == (__s32)cpu && t->places_used)
        return;
    t->cpu = (__s32)cpu;
    vg_settle(slot, cpu);
}

/* Starts the wait of t for this CPU, which holder has. */
__noinline int
vg_enqueue(__u32 slot, __u32 cpu, __u32 holder, __u64 now)
{
    struct vg_bpf_thread *t = thread_at(slot);
    struct vg_bpf_cpu *c = cpu_at(cpu);
    __u32 used = 0;

    if (!t)
        return 0;
    go_to(slot, t, cpu);
    if (c) {
        if (c->waiters) {
            vg_advance(cpu, c->holder, c->holder, now);
        } else {
            BEGIN_WRITE(c);
            c->lanes_used = 0;
            c->holder = holder;
            c->since_ns = now;
            END_WRITE(c);
        }
        __sync_fetch_and_add(&c->waiters, 1);
        t->user_mark = c->user_held_ns;
        used = c->lanes_used;
        for (__u32 i = 0; i < VG_BPF_LANES && i < used; i++) {
            t->marks[i].holder = c->lanes[i].holder;
            t->marks[i].held_ns = c->lanes[i].held_ns;
        }
    }
    t->marks_used = used;
    return 0;
}

/* Ends the wait of t: charges each holder its part, and the rest to an unknown holder. */
__noinline int
vg_dequeue(__u32 slot, __u64 now)
{
    struct vg_bpf_thread *t = thread_at(slot);
    struct vg_bpf_cpu *c = t ? cpu_at((__u32)t->cpu) : NULL;

    if (!t || !c)
        return 0;
    __u64 left = now - t->since_ns;
    vg_advance((__u32)t->cpu, c->holder, c->holder, now);
    __u32 used = c->lanes_used, marks = t->marks_used;
    __u64 user = c->user_held_ns - t->user_mark;
    if (user > left)
        user = left;
    for (__u32 i = 0; i < VG_BPF_LANES && i < used; i++) {
        __u32 holder = c->lanes[i].holder;
        __u64 held = c->lanes[i].held_ns;
        if (i < marks && t->marks[i].holder == holder && t->marks[i].held_ns <= held)
            held -= t->marks[i].held_ns;
        if (held > left)
            held = left;
        if (VG_BPF_IS_PROCESS(holder)) {
            if (held > user)
                held = user;
            user -= held;
        }
        left -= held;
        if (held)
            vg_charge(slot, holder, held, 0);
    }
    /* The time of processes that found no lane, or lost it. */
    if (user > left)
        user = left;
    left -= user;
    if (user)
        vg_charge(slot, VG_BPF_HOLDER_USER, user, 0);
    if (left)
        vg_charge(slot, VG_BPF_HOLDER_UNKNOWN, left, 0);
    __sync_fetch_and_add(&c->waiters, -1);
    return 0;
}

/* ---- events ---- */

/* Accounts the time up to now in the present state. was is the state according to the event. */
static __always_inline void
account(struct vg_bpf_thread *t, enum vg_bpf_state was, __u64 now)
{
    struct vg_bpf_place *place = &t->places[t->place % VG_BPF_PLACES];
    __u64 span = now - t->since_ns;

    switch (t->state) {
    case VG_BPF_UNSEEN:
        t->first_ns = now;
        t->first_was = was;
        break;
    case VG_BPF_RUNNING:
        t->run_ns += span;
        place->run_ns += span;
        break;
    case VG_BPF_WAIT_PREEMPT:
        t->preempt_ns += span;
        place->wait_ns += span;
        break;
    case VG_BPF_WAIT_WAKE:
        t->wake_wait_ns += span;
        place->wait_ns += span;
        break;
    case VG_BPF_BLOCKED:
        t->blocked_ns += span;
        break;
    }
    t->since_ns = now;
}

static __always_inline void
leave_guest(struct vg_bpf_thread *t, __u64 now)
{
    if (t->in_guest)
        t->guest_ns += now - t->guest_since_ns;
    t->in_guest = 0;
}

static __always_inline void
contradict(void)
{
    __sync_fetch_and_add(&totals.discontinuities, 1);
}

/* Makes t run, although no event reported the switch: it has run for the last ran_ns. The CPU's
 * holder during its wait is unknown, because the last one left without an event. */
static __always_inline void
make_up(__u32 slot, struct vg_bpf_thread *t, __u64 ran_ns, __u64 now)
{
    __u64 span = now - t->since_ns;

    contradict();
    if (ran_ns > span)
        ran_ns = span;
    if (bpf_is_waiting(t)) {
        struct vg_bpf_cpu *c = cpu_at((__u32)t->cpu);
        if (c)
            __sync_fetch_and_add(&c->waiters, -1);
        if (span > ran_ns)
            vg_charge(slot, VG_BPF_HOLDER_UNKNOWN, span - ran_ns, 0);
    }
    account(t, t->state, now - ran_ns);
    t->state = VG_BPF_RUNNING;
}

static __always_inline bool
may_run(const struct vg_bpf_thread *t)
{
    return t->state == VG_BPF_RUNNING || t->state == VG_BPF_UNSEEN;
}

static __always_inline void
switch_out(__u32 slot, struct vg_bpf_thread *t, __u64 exec_ns, __u32 cpu, bool runnable,
           unsigned int state, __u32 next, __u64 now)
{
    BEGIN_WRITE(t);
    if (!may_run(t))
        make_up(slot, t, exec_ns - t->exec_ns, now);
    if (t->state == VG_BPF_UNSEEN)
        t->first_exec_ns = exec_ns;
    t->exec_ns = exec_ns;
    account(t, VG_BPF_RUNNING, now);
    leave_guest(t, now);
    go_to(slot, t, cpu);
    if (runnable) {
        t->preemptions++;
        t->state = VG_BPF_WAIT_PREEMPT;
        vg_enqueue(slot, cpu, next, now);
        vg_charge(slot, next, 0, 1);
    } else {
        t->blocks++;
        t->state = state & (TASK_DEAD | EXIT_BITS) ? VG_BPF_EXITED : VG_BPF_BLOCKED;
    }
    END_WRITE(t);
}

static __always_inline void
switch_in(__u32 slot, struct vg_bpf_thread *t, __u32 cpu, __u64 now)
{
    BEGIN_WRITE(t);
    if (bpf_is_waiting(t)) {
        t->unseen_migrations += t->cpu != (__s32)cpu;
        vg_dequeue(slot, now);
    } else if (t->state == VG_BPF_RUNNING) {
        contradict();
    }
    account(t, VG_BPF_WAIT_PREEMPT, now);
    t->state = VG_BPF_RUNNING;
    go_to(slot, t, cpu);
    END_WRITE(t);
}

static __always_inline void
on_switch(struct vg_bpf_cpu *c, __u32 cpu, bool preempt, struct task_struct *prev,
          struct task_struct *next, unsigned int state)
{
    __u32 out = slot_of(prev->pid), in = slot_of(next->pid);

    if (!out && !in && !c->waiters)
        return;
    __u64 now = bpf_ktime_get_ns();
    __u32 holder = bpf_holder_of(next);
    if (c->waiters)
        vg_advance(cpu, bpf_holder_of(prev), holder, now);
    struct vg_bpf_thread *t = out ? thread_of(out, prev) : NULL;
    if (t)
        switch_out(out, t, prev->se.sum_exec_runtime, cpu, preempt || !state, state, holder, now);
    t = in ? thread_of(in, next) : NULL;
    if (t)
        switch_in(in, t, cpu, now);
}

SEC("tp_btf/sched_switch")
int
vg_sched_switch(__u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
    __u32 cpu = bpf_get_smp_processor_id();
    struct vg_bpf_cpu *c = cpu_at(cpu);
    unsigned int state;

    if (!c)
        return 0;
    __u64 begin_ns = begin_run(c);
    if (has_prev_state) {
        state = (unsigned int)ctx[3];
    } else if (bpf_core_field_exists(prev->__state)) {
        state = prev->__state;
    } else {
        struct task_struct___old *old = (void *)prev;
        state = (unsigned int)BPF_CORE_READ(old, state);
    }
    on_switch(c, cpu, ctx[0] & 1, prev, next, state);
    end_run(c, begin_ns);
    return 0;
}

/* Makes t run. The caller has begun a write. */
static __always_inline void
runs(__u32 slot, struct vg_bpf_thread *t, __u32 cpu, __u64 now)
{
    if (t->state == VG_BPF_RUNNING)
        return;
    if (!may_run(t))
        make_up(slot, t, 0, now);
    account(t, VG_BPF_RUNNING, now);
    t->state = VG_BPF_RUNNING;
    go_to(slot, t, cpu);
}

static __always_inline void
on_wakeup(struct task_struct *task)
{
    __u32 slot = slot_of(task->pid);
    struct vg_bpf_thread *t = slot ? thread_of(slot, task) : NULL;

    if (!t || t->state == VG_BPF_RUNNING || bpf_is_waiting(t))
        return;
    __u64 now = bpf_ktime_get_ns();
    struct task_struct *curr = running_beside(task);
    BEGIN_WRITE(t);
    if (curr && curr->pid == task->pid) {
        /* The thread was about to sleep, and has been running since before its watch started. */
        runs(slot, t, cpu_of(task), now);
    } else {
        t->exec_ns = task->se.sum_exec_runtime;
        account(t, VG_BPF_BLOCKED, now);
        t->wakeups++;
        t->state = VG_BPF_WAIT_WAKE;
        vg_enqueue(slot, cpu_of(task), curr ? bpf_holder_of(curr) : VG_BPF_HOLDER_UNKNOWN, now);
    }
    END_WRITE(t);
}

static __always_inline int
run_wakeup(struct task_struct *task)
{
    struct vg_bpf_cpu *c = cpu_at(bpf_get_smp_processor_id());

    if (!c)
        return 0;
    __u64 begin_ns = begin_run(c);
    on_wakeup(task);
    end_run(c, begin_ns);
    return 0;
}

SEC("tp_btf/sched_wakeup")
int
vg_sched_wakeup(__u64 *ctx)
{
    return run_wakeup((void *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new")
int
vg_sched_wakeup_new(__u64 *ctx)
{
    return run_wakeup((void *)ctx[0]);
}

/* Only the CPU itself knows which thread runs there, unless some thread waits for it. */
SEC("tp_btf/sched_migrate_task")
int
vg_sched_migrate_task(__u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    __u32 slot = slot_of(task->pid);
    struct vg_bpf_thread *t = slot ? thread_of(slot, task) : NULL;

    if (!t || !bpf_is_waiting(t))
        return 0;
    __u64 now = bpf_ktime_get_ns();
    BEGIN_WRITE(t);
    vg_dequeue(slot, now);
    account(t, t->state, now);
    vg_enqueue(slot, (__u32)ctx[1], VG_BPF_HOLDER_UNKNOWN, now);
    END_WRITE(t);
    return 0;
}

/* ---- guests ---- */

/* Reports a thread that may have to be watched. comm has VG_BPF_COMM_LEN bytes. */
static __always_inline bool
note(__s32 tid, __s32 pid, const char *comm)
{
    struct vg_bpf_note *n = bpf_ringbuf_reserve(&notes, sizeof(*n), 0);

    if (!n) {
        __sync_fetch_and_add(&totals.notes_lost, 1);
        return false;
    }
    n->tid = tid;
    n->pid = pid;
    __builtin_memcpy(n->comm, comm, VG_BPF_COMM_LEN);
    bpf_ringbuf_submit(n, 0);
    return true;
}

/* Returns the slot of a thread that enters or leaves a guest and therefore runs. Returns 0 if it is
 * not watched. */
static __always_inline __u32
slot_of_vcpu(__u64 id)
{
    __u32 slot = slot_of((__s32)id);
    const struct vg_bpf_thread *t = thread_at(slot);

    /* After its exit, the tid belongs to another thread. */
    return t && t->is_vcpu && t->tid == (__s32)id && t->state != VG_BPF_EXITED ? slot : 0;
}

static __always_inline void
on_entry(struct vg_bpf_cpu *c, __u32 cpu)
{
    __u64 id = bpf_get_current_pid_tgid();
    __u32 slot = slot_of_vcpu(id);
    struct vg_bpf_thread *t = thread_at(slot);

    if (!slot || !t) {
        static const char unnamed[VG_BPF_COMM_LEN];
        /* Report a thread once in a row until it is watched. */
        if (c->noted != (__u32)id && note((__s32)id, (__s32)(id >> 32), unnamed))
            c->noted = (__u32)id;
        return;
    }
    if (c->noted == (__u32)id)
        c->noted = 0;
    __u64 now = bpf_ktime_get_ns();
    BEGIN_WRITE(t);
    runs(slot, t, cpu, now);
    t->entries++;
    if (t->in_guest)
        contradict();
    else
        t->guest_since_ns = now;
    t->in_guest = 1;
    END_WRITE(t);
}

SEC("raw_tp/kvm_entry")
int
vg_kvm_entry(__u64 *ctx)
{
    __u32 cpu = bpf_get_smp_processor_id();
    struct vg_bpf_cpu *c = cpu_at(cpu);

    (void)ctx;
    if (!c)
        return 0;
    __u64 begin_ns = begin_run(c);
    on_entry(c, cpu);
    end_run(c, begin_ns);
    return 0;
}

/* Returns the reason like vg_exit_reason_of_arm(). */
static __always_inline __u32
arm_reason(__u32 code, __u32 exception_class)
{
    code &= ~ARM_WITH_SERROR;
    return code == ARM_TRAP ? exception_class : VG_BPF_ARM_NO_TRAP + code;
}

/* Returns the class of an exit from the tracepoint's arguments. The first argument is the reason or
 * the vCPU. On arm64, it is KVM's code, and the second one is the class of a trap. */
static __always_inline __u32
exit_class(__u64 first, __u64 second)
{
    __u32 reason = (__u32)first;
    const char *from = (const char *)first;

    if (!exit_isa)
        return VG_BPF_EXIT_OTHER;
    if (exit_isa == VG_BPF_ISA_ARM) {
        reason = arm_reason((__u32)first, (__u32)second);
    } else if (!exit_in_arguments) {
        if (exit_pointer_offset &&
            bpf_probe_read_kernel(&from, sizeof(from), from + exit_pointer_offset))
            return VG_BPF_EXIT_OTHER;
        if (bpf_probe_read_kernel(&reason, sizeof(reason), from + exit_offset))
            return VG_BPF_EXIT_OTHER;
    }
    if (exit_isa == 1)
        reason &= 0xffff;
    __u32 high = reason >= 0x400;
    if (high)
        reason -= 0x400;
    if (reason >= 256)
        return VG_BPF_EXIT_OTHER;
    /* Otherwise the compiler removes the following bound as redundant, and compares one copy but
     * uses another. The kernel's verifier then knows no bound and rejects all programs. */
    asm volatile("" : "+r"(reason));
    return exit_classes[high][reason % 256];
}

static __always_inline void
on_exit(__u64 first, __u64 second, __u32 cpu)
{
    __u32 slot = slot_of_vcpu(bpf_get_current_pid_tgid());
    struct vg_bpf_thread *t = thread_at(slot);

    if (!slot || !t)
        return;
    __u32 class = exit_class(first, second);
    __u64 now = bpf_ktime_get_ns();
    BEGIN_WRITE(t);
    runs(slot, t, cpu, now);
    leave_guest(t, now);
    t->exits[class < VG_BPF_EXIT_CLASSES ? class : VG_BPF_EXIT_OTHER]++;
    END_WRITE(t);
}

SEC("raw_tp/kvm_exit")
int
vg_kvm_exit(__u64 *ctx)
{
    __u32 cpu = bpf_get_smp_processor_id();
    struct vg_bpf_cpu *c = cpu_at(cpu);

    if (!c)
        return 0;
    __u64 begin_ns = begin_run(c);
    on_exit(ctx[0], ctx[1], cpu);
    end_run(c, begin_ns);
    return 0;
}

/* A thread starts with the name of its creator and is renamed afterwards. When this is called, it
 * does not have the new name yet, and it may have to wait for its CPU first. */
SEC("tp_btf/task_rename")
int
vg_task_rename(__u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    char comm[VG_BPF_COMM_LEN] = "";

    bpf_probe_read_kernel_str(comm, sizeof(comm), (const void *)ctx[1]);
    if (comm[0] == 'C' && comm[1] == 'P' && comm[2] == 'U' && comm[3] == ' ')
        note(task->pid, task->tgid, comm);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
