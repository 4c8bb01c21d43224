/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/bpf-record.h"

#include <string.h>

#include <glib.h>

#include "model/event.h"
#include "model/exit-class.h"

G_STATIC_ASSERT(VG_BPF_EXIT_CLASSES == VG_EXIT_CLASS_MAX);
G_STATIC_ASSERT(VG_BPF_ISA_ARM == VG_EXIT_ISA_ARM && VG_BPF_ARM_NO_TRAP == VG_EXIT_ARM_NO_TRAP);
G_STATIC_ASSERT(VG_BPF_EXIT_OTHER == VG_EXIT_OTHER);

/* A write takes less than a microsecond. */
#define TRIES_MAX 1000

static uint32_t
seq_begin(const uint32_t *seq)
{
    return __atomic_load_n(seq, __ATOMIC_ACQUIRE);
}

/* Returns whether the sequence number has not changed, and no write was in progress. */
static bool
seq_held(const uint32_t *seq, uint32_t begun)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return begun % 2 == 0 && __atomic_load_n(seq, __ATOMIC_RELAXED) == begun;
}

typedef uint64_t __attribute__((may_alias)) word;
G_STATIC_ASSERT(sizeof(struct vg_bpf_thread) % sizeof(word) == 0);
G_STATIC_ASSERT(sizeof(struct vg_bpf_cpu) % sizeof(word) == 0);

/* Copies word by word. seq_held() detects afterwards whether the kernel wrote in the meantime. */
static void
copy_shared(void *to, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(word); i++)
        ((word *)to)[i] = __atomic_load_n(&((const word *)from)[i], __ATOMIC_RELAXED);
}

static bool
copy_cpu(const struct vg_bpf_cpu *shared, struct vg_bpf_cpu *ret)
{
    for (unsigned i = 0; i < TRIES_MAX; i++) {
        uint32_t begun = seq_begin(&shared->seq);
        copy_shared(ret, shared, sizeof(*ret));
        if (seq_held(&shared->seq, begun))
            return true;
    }
    return false;
}

static void
add_loss(struct vg_bpf_reading *reading, uint32_t holder, int64_t ns, uint64_t count)
{
    if (ns == 0 && count == 0)
        return;
    reading->losses[reading->n_losses++] =
        (struct vg_bpf_loss){.holder = holder, .ns = ns, .count = count};
}

/* Reads each holder's part of the open wait up to now. wait_ns of this wait is left. The programs
 * do the same when the wait ends. */
static void
read_wait(const struct vg_bpf_thread *thread, const struct vg_bpf_cpu *cpu, uint64_t now_ns,
          uint64_t wait_ns, struct vg_bpf_reading *reading)
{
    uint64_t left = wait_ns;
    uint64_t open = cpu && now_ns > cpu->since_ns ? now_ns - cpu->since_ns : 0;
    uint32_t lanes = cpu ? MIN(cpu->lanes_used, VG_BPF_LANES) : 0;
    uint64_t user = cpu ? MIN(cpu->user_held_ns - thread->user_mark, wait_ns) : 0;

    for (uint32_t i = 0; i < lanes && left > 0; i++) {
        const struct vg_bpf_lane *lane = &cpu->lanes[i];
        const struct vg_bpf_mark *mark = &thread->marks[i];
        uint64_t held = lane->held_ns;
        if (i < thread->marks_used && mark->holder == lane->holder && mark->held_ns <= held)
            held -= mark->held_ns;
        held = MIN(held, left);
        if (VG_BPF_IS_PROCESS(lane->holder)) {
            held = MIN(held, user);
            user -= held;
        }
        left -= held;
        add_loss(reading, lane->holder, (int64_t)held, 0);
    }
    user = MIN(user, left);
    left -= user;
    add_loss(reading, VG_BPF_HOLDER_USER, (int64_t)user, 0);
    open = MIN(open, left);
    if (open > 0)
        add_loss(reading, cpu->holder, (int64_t)open, 0);
    add_loss(reading, VG_BPF_HOLDER_UNKNOWN, (int64_t)(left - open), 0);
}

/* Adds time in a state. */
static void
add_state(struct vg_cpu_figures *cpu, enum vg_bpf_state state, int64_t ns)
{
    switch (state) {
    case VG_BPF_RUNNING:
        cpu->run_ns += ns;
        break;
    case VG_BPF_WAIT_PREEMPT:
        cpu->preempt_ns += ns;
        break;
    case VG_BPF_WAIT_WAKE:
        cpu->wake_wait_ns += ns;
        break;
    case VG_BPF_BLOCKED:
        cpu->blocked_ns += ns;
        break;
    case VG_BPF_UNSEEN:
    case VG_BPF_EXITED:
        break;
    }
}

bool
vg_bpf_is_wait(enum vg_bpf_state state)
{
    return state == VG_BPF_WAIT_PREEMPT || state == VG_BPF_WAIT_WAKE;
}

/* Adds time in a state. Nothing is known to have held the CPU during a wait. */
static void
add_span(struct vg_bpf_reading *reading, enum vg_bpf_state state, int64_t ns)
{
    add_state(&reading->cpu, state, ns);
    if (vg_bpf_is_wait(state))
        add_loss(reading, VG_BPF_HOLDER_UNKNOWN, ns, 0);
}

/* Adds the time up to the first event, in the state that the event reports. For a thread that ran,
 * the kernel has counted the time, because the thread may have got its CPU without an event. */
static void
add_inferred(struct vg_bpf_reading *reading, enum vg_bpf_state was, int64_t ns, int64_t counted_ns)
{
    int64_t ran_ns = CLAMP(counted_ns, 0, ns);

    if (was != VG_BPF_RUNNING) {
        add_span(reading, was, ns);
        return;
    }
    add_span(reading, VG_BPF_RUNNING, ran_ns);
    add_span(reading, VG_BPF_WAIT_PREEMPT, ns - ran_ns);
}

/* Adds the time before the first event, or up to now if there was none. */
static void
add_before(struct vg_bpf_reading *reading, const struct vg_bpf_thread *thread,
           const struct vg_bpf_assumed *assumed)
{
    int64_t from_ns = assumed->since_ns;
    int64_t to_ns = MAX(reading->seen ? (int64_t)thread->first_ns : reading->at_ns, from_ns);

    if (from_ns == 0)
        return;
    int64_t told_ns = reading->seen ? CLAMP(assumed->told_ns, from_ns, to_ns) : to_ns;
    if (assumed->state == VG_BPF_UNSEEN)
        told_ns = from_ns;
    add_span(reading, assumed->state, told_ns - from_ns);
    if (!reading->seen || told_ns == to_ns)
        return;
    int64_t left_ns = to_ns - told_ns, counted_ns = left_ns;
    /* A thread that was assumed to run does so until its first event. The counter excludes stolen
     * time, interrupt time and waits. */
    bool ran = assumed->state == VG_BPF_RUNNING && told_ns > from_ns;
    if (!ran && thread->first_exec_ns != 0)
        counted_ns = (int64_t)(thread->first_exec_ns - assumed->exec_ns);
    add_inferred(reading, (enum vg_bpf_state)thread->first_was, left_ns, counted_ns);
}

/* Adds the present state, up to now. */
static void
add_open(struct vg_bpf_reading *reading, const struct vg_bpf_thread *thread,
         const struct vg_bpf_cpu *cpu, uint64_t exec_now_ns)
{
    int64_t open_ns = reading->at_ns - (int64_t)thread->since_ns;
    struct vg_bpf_place *place = &reading->places[thread->place % VG_BPF_PLACES];
    int64_t ran_ns = 0;

    if (open_ns <= 0)
        return;
    if (!vg_bpf_is_wait(reading->state)) {
        if (reading->state == VG_BPF_RUNNING)
            place->run_ns += (uint64_t)open_ns;
        add_state(&reading->cpu, reading->state, open_ns);
        return;
    }
    /* The thread got its CPU without an event. The programs detect this when it leaves the CPU. */
    if (exec_now_ns > thread->exec_ns)
        ran_ns = MIN((int64_t)(exec_now_ns - thread->exec_ns), open_ns);
    place->run_ns += (uint64_t)ran_ns;
    place->wait_ns += (uint64_t)(open_ns - ran_ns);
    add_state(&reading->cpu, VG_BPF_RUNNING, ran_ns);
    add_state(&reading->cpu, reading->state, open_ns - ran_ns);
    read_wait(thread, cpu, (uint64_t)reading->at_ns, (uint64_t)(open_ns - ran_ns), reading);
}

static void
sum_up(const struct vg_bpf_thread *thread, const struct vg_bpf_cpu *cpu,
       const struct vg_bpf_assumed *assumed, int64_t now_ns, struct vg_bpf_reading *ret)
{
    bool seen = thread->state != VG_BPF_UNSEEN;
    struct vg_cpu_figures *f = &ret->cpu;

    *ret = (struct vg_bpf_reading){
        .at_ns = now_ns,
        .state = seen ? (enum vg_bpf_state)thread->state : assumed->state,
        .seen = seen,
        .n_places = MIN(thread->places_used, VG_BPF_PLACES),
    };
    memcpy(ret->places, thread->places, sizeof(ret->places));
    *f = (struct vg_cpu_figures){
        .run_ns = (int64_t)thread->run_ns,
        .guest_ns = (int64_t)thread->guest_ns,
        .preempt_ns = (int64_t)thread->preempt_ns,
        .wake_wait_ns = (int64_t)thread->wake_wait_ns,
        .blocked_ns = (int64_t)thread->blocked_ns,
        .entries = thread->entries,
        .preemptions = thread->preemptions,
        .wakeups = thread->wakeups,
        .blocks = thread->blocks,
        .switches_out = thread->preemptions + thread->blocks,
        .unseen_migrations = thread->unseen_migrations,
    };
    for (unsigned i = 0; i < VG_EXIT_CLASS_MAX; i++)
        f->exits[i] = thread->exits[i];
    for (unsigned i = 0; i < MIN(thread->shares_used, VG_BPF_SHARES); i++)
        add_loss(ret, thread->shares[i].holder, (int64_t)thread->shares[i].ns,
                 thread->shares[i].count);
    add_before(ret, thread, assumed);
    if (seen)
        add_open(ret, thread, cpu, assumed->exec_now_ns);
    if (thread->in_guest && now_ns > (int64_t)thread->guest_since_ns)
        f->guest_ns += now_ns - (int64_t)thread->guest_since_ns;
    ret->open =
        (ret->state == VG_BPF_RUNNING || vg_bpf_is_wait(ret->state)) + (thread->in_guest != 0);
    f->observed_ns = f->run_ns + f->preempt_ns + f->wake_wait_ns + f->blocked_ns;
}

bool
vg_bpf_record_read(const struct vg_bpf_thread *shared,
                   const struct vg_bpf_cpu *(*cpu_of)(const void *data, int32_t cpu),
                   const void *data, const struct vg_bpf_assumed *assumed, int64_t (*now)(void),
                   struct vg_bpf_reading *ret)
{
    struct vg_bpf_thread thread;
    struct vg_bpf_cpu cpu;

    for (unsigned i = 0; i < TRIES_MAX; i++) {
        uint32_t begun = seq_begin(&shared->seq);
        copy_shared(&thread, shared, sizeof(thread));
        const struct vg_bpf_cpu *waited_for =
            vg_bpf_is_wait((enum vg_bpf_state)thread.state) ? cpu_of(data, thread.cpu) : NULL;
        bool whole = !waited_for || copy_cpu(waited_for, &cpu);
        /* Nothing happened to the thread up to now. */
        int64_t now_ns = now();
        if (whole && seq_held(&shared->seq, begun)) {
            sum_up(&thread, waited_for ? &cpu : NULL, assumed, now_ns, ret);
            return true;
        }
    }
    return false;
}

struct vg_cpu_figures
vg_bpf_reading_since(const struct vg_bpf_reading *reading, const struct vg_cpu_figures *last)
{
    struct vg_cpu_figures f = reading->cpu;
    int64_t *const parts[] = {&f.run_ns, &f.preempt_ns, &f.wake_wait_ns, &f.blocked_ns};
    int64_t missing_ns = 0;

    vg_cpu_figures_sub(&f, last);
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        missing_ns -= MIN(*parts[i], 0);
        *parts[i] = MAX(*parts[i], 0);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(parts); i++) {
        int64_t taken_ns = MIN(*parts[i], missing_ns);
        *parts[i] -= taken_ns;
        missing_ns -= taken_ns;
    }
    f.observed_ns = f.run_ns + f.preempt_ns + f.wake_wait_ns + f.blocked_ns;
    f.guest_ns = CLAMP(f.guest_ns, 0, f.run_ns);
    return f;
}
