/* SPDX-License-Identifier: Apache-2.0
 *
 * First the script is played and every interval is written down; then figures are overlaps of
 * those intervals with the time asked for. Nothing is summed up on the way.
 */
#include "config.h"

#include "tests/unit/slow-ledger.h"

#include <string.h>

#define OPEN   INT64_MAX
#define NOBODY (-1) /* occupant of a CPU: not known */
#define IDLE   (-2) /* occupant of a CPU: its idle thread */

enum state { UNSEEN, RUNNING, PREEMPTED, WOKEN, BLOCKED, LOST_TRACK, EXITED };

enum what { ENTRY, EXIT, PREEMPTION, WAKEUP, BLOCK, SWITCH_OUT, UNSEEN_MIGRATION, DISCONTINUITY };

struct thread {
    int32_t tid;
    enum slow_role role;
    int32_t pid;
    bool living; /* its tid still means this thread */
    enum state state;
    int cpu;     /* that it runs on, waits for or was last seen at; -1 if unknown */
    int segment; /* index of the open one, or -1 */
    int guest;
};

/* `to` may be before `from`: an interval that never came to be, empty. */
struct interval {
    int owner; /* thread; in occupancy: the CPU */
    int64_t from;
    int64_t to;
    size_t from_item; /* the items that opened and closed it */
    size_t to_item;
    enum state state; /* segments */
    int cpu;          /* segments: of the thread; occupancy: thread or IDLE */
};

struct tally {
    size_t item;
    int thread;
    enum what what;
    int detail; /* EXIT: class; PREEMPTION: next thread or IDLE */
};

struct slow_history {
    const struct slow_script *script;
    GArray *threads;
    GArray *segments;
    GArray *guests;
    GArray *occupancy;
    GArray *tallies;
    int occupant[SLOW_CPUS];   /* index of the open interval in occupancy, or -1 */
    int64_t dark[SLOW_CPUS];   /* what happens there before this time is not recorded */
    int32_t leaver[SLOW_CPUS]; /* tid of the last switch-out, or -1 */
    size_t item;
    int64_t now;
};

static struct thread *
thread_at(const slow_history *h, int index)
{
    return &g_array_index(h->threads, struct thread, index);
}

static struct interval *
interval_at(GArray *list, int index)
{
    return &g_array_index(list, struct interval, index);
}

const struct slow_identity *
slow_identity_of(const struct slow_script *script, int32_t tid, uint32_t serial)
{
    const struct slow_identity *found = NULL;
    for (unsigned i = 0; i < script->identities->len; i++) {
        const struct slow_identity *id =
            &g_array_index(script->identities, struct slow_identity, i);
        if (id->tid == tid && (!found || id->serial <= serial))
            found = id;
    }
    return found;
}

/* ---- writing down ---- */

static void
note(slow_history *h, int thread, enum what what, int detail)
{
    struct tally tally = {h->item, thread, what, detail};
    g_array_append_val(h->tallies, tally);
}

static int
open_interval(slow_history *h, GArray *list, int owner, enum state state, int cpu)
{
    struct interval interval = {owner, h->now, OPEN, h->item, SIZE_MAX, state, cpu};
    g_array_append_val(list, interval);
    return (int)list->len - 1;
}

static void
close_interval(slow_history *h, GArray *list, int *index)
{
    if (*index < 0)
        return;
    interval_at(list, *index)->to = h->now;
    interval_at(list, *index)->to_item = h->item;
    *index = -1;
}

static void
set_state(slow_history *h, int thread, enum state state, int cpu)
{
    struct thread *t = thread_at(h, thread);
    close_interval(h, h->segments, &t->segment);
    if (state != RUNNING)
        close_interval(h, h->guests, &t->guest);
    t->state = state;
    t->cpu = cpu;
    if (state != EXITED && state != UNSEEN)
        t->segment = open_interval(h, h->segments, thread, state, cpu);
}

static int
occupant_of(const slow_history *h, int cpu)
{
    int index = h->occupant[cpu];
    return index < 0 ? NOBODY : interval_at(h->occupancy, index)->cpu;
}

static void
occupy(slow_history *h, int cpu, int who)
{
    close_interval(h, h->occupancy, &h->occupant[cpu]);
    if (who != NOBODY)
        h->occupant[cpu] = open_interval(h, h->occupancy, cpu, RUNNING, who);
}

/* ---- threads ---- */

static int
find_thread(const slow_history *h, int32_t tid)
{
    for (int i = (int)h->threads->len - 1; i >= 0; i--)
        if (thread_at(h, i)->tid == tid && thread_at(h, i)->living)
            return i;
    return -1;
}

static int
get_thread(slow_history *h, int32_t tid)
{
    int found = find_thread(h, tid);
    if (found >= 0)
        return found;
    uint32_t serial = g_array_index(h->script->items, struct slow_item, h->item).serial;
    const struct slow_identity *id = slow_identity_of(h->script, tid, serial);
    struct thread thread = {
        .tid = tid,
        .role = id ? id->role : SLOW_USER,
        .pid = id ? id->pid : VG_NONE,
        .living = true,
        .cpu = -1,
        .segment = -1,
        .guest = -1,
    };
    g_array_append_val(h->threads, thread);
    return (int)h->threads->len - 1;
}

/* The thread of this tid that can run: an exited one has made place for the next. */
static int
get_runnable(slow_history *h, int32_t tid)
{
    int found = find_thread(h, tid);
    if (found >= 0 && thread_at(h, found)->state == EXITED)
        thread_at(h, found)->living = false;
    return get_thread(h, tid);
}

static void
end_thread(slow_history *h, int32_t tid)
{
    int thread = find_thread(h, tid);
    if (thread < 0)
        return;
    struct thread *t = thread_at(h, thread);
    if (t->state == RUNNING)
        occupy(h, t->cpu, NOBODY);
    if (t->state != EXITED)
        set_state(h, thread, EXITED, t->cpu);
    t->living = false;
}

static bool
is_waiting(const struct thread *t)
{
    return t->state == PREEMPTED || t->state == WOKEN;
}

/* ---- what the records say ---- */

static void
run_on(slow_history *h, int thread, int cpu)
{
    struct thread *t = thread_at(h, thread);
    if (t->state == RUNNING && t->cpu != cpu) {
        occupy(h, t->cpu, NOBODY);
        close_interval(h, h->guests, &t->guest);
    }
    occupy(h, cpu, thread);
    set_state(h, thread, RUNNING, cpu);
}

static void
play_evidence(slow_history *h, int cpu, int32_t tid)
{
    if (cpu < 0 || tid < 0)
        return;
    int who = tid > 0 ? get_runnable(h, tid) : IDLE;
    int before = occupant_of(h, cpu);
    if (before == who)
        return;
    if (before != NOBODY) {
        note(h, -1, DISCONTINUITY, 0);
        if (before != IDLE)
            set_state(h, before, LOST_TRACK, cpu);
    } else if (who != IDLE) {
        const struct thread *t = thread_at(h, who);
        if (t->state == RUNNING || t->state == BLOCKED || is_waiting(t))
            note(h, -1, DISCONTINUITY, 0);
    }
    if (who == IDLE)
        occupy(h, cpu, IDLE);
    else
        run_on(h, who, cpu);
}

static void
play_switch_out(slow_history *h, int cpu, int32_t tid, enum vg_prev_state prev_state, int next)
{
    int thread = get_thread(h, tid);
    note(h, thread, SWITCH_OUT, 0);
    if (prev_state == VG_PREV_RUNNABLE) {
        note(h, thread, PREEMPTION, next);
        set_state(h, thread, PREEMPTED, cpu);
        return;
    }
    note(h, thread, BLOCK, 0);
    set_state(h, thread, prev_state == VG_PREV_EXITED ? EXITED : BLOCKED, cpu);
}

static void
play_switch(slow_history *h, const struct vg_event *e)
{
    int cpu = e->cpu;
    if (cpu < 0)
        return;
    h->dark[cpu] = 0;
    h->leaver[cpu] = e->sched_switch.prev_tid;
    int32_t prev = e->sched_switch.prev_tid;
    int32_t next = e->sched_switch.next_tid;
    play_evidence(h, cpu, prev);
    if (prev > 0) {
        /* A thread that exits and comes back in one record is another thread. */
        int inheritor = next > 0 ? get_runnable(h, next) : IDLE;
        play_switch_out(h, cpu, prev, e->sched_switch.prev_state, inheritor);
    }
    if (next == 0) {
        occupy(h, cpu, IDLE);
        return;
    }
    int thread = get_runnable(h, next);
    const struct thread *t = thread_at(h, thread);
    if (t->state == RUNNING && t->cpu != cpu)
        note(h, -1, DISCONTINUITY, 0);
    if (is_waiting(t) && t->cpu >= 0 && t->cpu != cpu)
        note(h, thread, UNSEEN_MIGRATION, 0);
    run_on(h, thread, cpu);
}

/* A thread that waits for a CPU of which nothing is recorded just now cannot be followed. */
static void
wait_for(slow_history *h, int thread, enum state kind, int cpu)
{
    int64_t light = cpu >= 0 ? h->dark[cpu] : INT64_MIN;
    if (h->now >= light) {
        set_state(h, thread, kind, cpu);
        return;
    }
    set_state(h, thread, LOST_TRACK, cpu);
    interval_at(h->segments, thread_at(h, thread)->segment)->from = light;
}

static void
play_wakeup(slow_history *h, int32_t tid, int target_cpu)
{
    if (tid <= 0)
        return;
    int thread = get_runnable(h, tid);
    const struct thread *t = thread_at(h, thread);
    if (t->state == RUNNING || is_waiting(t))
        return;
    note(h, thread, WAKEUP, 0);
    wait_for(h, thread, WOKEN, target_cpu >= 0 ? target_cpu : t->cpu);
}

static void
play_migrate(slow_history *h, int32_t tid, int dest_cpu)
{
    if (tid <= 0)
        return;
    int thread = get_runnable(h, tid);
    struct thread *t = thread_at(h, thread);
    if (t->state == RUNNING)
        note(h, -1, DISCONTINUITY, 0);
    else if (is_waiting(t))
        wait_for(h, thread, t->state, dest_cpu);
    else
        t->cpu = dest_cpu;
}

static void
play_kvm(slow_history *h, const struct vg_event *e)
{
    int thread = -1;
    if (e->tid > 0)
        thread = get_thread(h, e->tid);
    else if (e->tid < 0 && e->cpu >= 0 && occupant_of(h, e->cpu) >= 0)
        thread = occupant_of(h, e->cpu);
    if (thread < 0)
        return;
    struct thread *t = thread_at(h, thread);
    if (e->type == VG_EVENT_KVM_EXIT) {
        note(h, thread, EXIT, e->kvm.exit_class);
        close_interval(h, h->guests, &t->guest);
        return;
    }
    note(h, thread, ENTRY, 0);
    if (t->guest >= 0)
        note(h, -1, DISCONTINUITY, 0);
    else if (t->state == RUNNING)
        t->guest = open_interval(h, h->guests, thread, RUNNING, t->cpu);
}

/* Nobody knows of it until then, or until when nobody knew before; whoever sleeps sleeps on. */
static void
lose_track(slow_history *h, int thread, int64_t end_ns)
{
    struct thread *t = thread_at(h, thread);
    int64_t resume = MAX(end_ns, h->now);
    resume = MAX(resume, interval_at(h->segments, t->segment)->from);
    set_state(h, thread, t->state == BLOCKED ? BLOCKED : LOST_TRACK, t->cpu);
    interval_at(h->segments, t->segment)->from = resume;
}

static void
play_lost(slow_history *h, int cpu, int64_t end_ns)
{
    for (int i = 0; i < (int)h->threads->len; i++) {
        const struct thread *t = thread_at(h, i);
        if (t->segment >= 0 && t->cpu == cpu)
            lose_track(h, i, end_ns);
    }
    occupy(h, cpu, NOBODY);
    h->dark[cpu] = MAX(h->dark[cpu], end_ns);
}

/* All CPUs one after the other, and who was on none. */
static void
play_loss(slow_history *h, const struct vg_event *e)
{
    if (e->cpu >= 0)
        play_lost(h, e->cpu, e->lost.end_ns);
    for (int cpu = 0; e->cpu < 0 && e->lost.any_cpu && cpu < SLOW_CPUS; cpu++)
        play_lost(h, cpu, e->lost.end_ns);
    for (int i = 0; e->cpu < 0 && e->lost.any_cpu && i < (int)h->threads->len; i++) {
        const struct thread *t = thread_at(h, i);
        if (t->segment >= 0 && (t->cpu < 0 || t->cpu >= SLOW_CPUS))
            lose_track(h, i, e->lost.end_ns);
    }
}

/* Of records that mean nothing themselves some are late: the old thread wrote them, although the
 * CPU is the next one's. */
static bool
is_late(const slow_history *h, const struct vg_event *e)
{
    if ((e->type != VG_EVENT_OTHER && e->type != VG_EVENT_GPU) || e->cpu < 0 ||
        occupant_of(h, e->cpu) == NOBODY)
        return false;
    int who = occupant_of(h, e->cpu);
    return e->tid == h->leaver[e->cpu] && e->tid != (who == IDLE ? 0 : thread_at(h, who)->tid);
}

static void
play_event(slow_history *h, const struct vg_event *e)
{
    if (e->ts_ns < h->now)
        note(h, -1, DISCONTINUITY, 0);
    h->now = MAX(h->now, e->ts_ns);
    if (e->type == VG_EVENT_SCHED_SWITCH) {
        play_switch(h, e);
        return;
    }
    if (!is_late(h, e))
        play_evidence(h, e->cpu, e->tid);
    if (e->type == VG_EVENT_SCHED_WAKEUP ||
        (e->type == VG_EVENT_SCHED_WAKING && h->script->use_waking))
        play_wakeup(h, e->wakeup.tid, e->wakeup.target_cpu);
    else if (e->type == VG_EVENT_SCHED_MIGRATE)
        play_migrate(h, e->migrate.tid, e->migrate.dest_cpu);
    else if (e->type == VG_EVENT_KVM_ENTRY || e->type == VG_EVENT_KVM_EXIT)
        play_kvm(h, e);
    else if (e->type == VG_EVENT_PROCESS_END || e->type == VG_EVENT_PROCESS_FORK)
        end_thread(h, e->process.tid);
    else if (e->type == VG_EVENT_LOST)
        play_loss(h, e);
}

slow_history *
slow_history_new(const struct slow_script *script)
{
    slow_history *h = g_new0(slow_history, 1);
    h->script = script;
    h->now = INT64_MIN;
    h->threads = g_array_new(FALSE, TRUE, sizeof(struct thread));
    h->segments = g_array_new(FALSE, TRUE, sizeof(struct interval));
    h->guests = g_array_new(FALSE, TRUE, sizeof(struct interval));
    h->occupancy = g_array_new(FALSE, TRUE, sizeof(struct interval));
    h->tallies = g_array_new(FALSE, TRUE, sizeof(struct tally));
    for (int cpu = 0; cpu < SLOW_CPUS; cpu++)
        h->occupant[cpu] = h->leaver[cpu] = -1;
    for (h->item = 0; h->item < script->items->len; h->item++) {
        const struct slow_item *item = &g_array_index(script->items, struct slow_item, h->item);
        if (item->op == SLOW_EVENT)
            play_event(h, &item->event);
    }
    return h;
}

void
slow_history_free(slow_history *history)
{
    if (!history)
        return;
    g_array_unref(history->threads);
    g_array_unref(history->segments);
    g_array_unref(history->guests);
    g_array_unref(history->occupancy);
    g_array_unref(history->tallies);
    g_free(history);
}

/* ---- figures ---- */

static int64_t
overlap(const struct interval *a, int64_t from, int64_t to)
{
    return MAX(0, MIN(a->to, to) - MAX(a->from, from));
}

static bool
is_open_at(const struct interval *a, struct slow_cut cut)
{
    return a->from_item < cut.item && a->to_item >= cut.item;
}

static uint64_t
clipped(const struct interval *a, struct slow_cut from, struct slow_cut to)
{
    return (uint64_t)is_open_at(a, from) + (uint64_t)is_open_at(a, to);
}

static void
add_segment(struct vg_cpu_figures *f, const struct interval *a, struct slow_cut from,
            struct slow_cut to)
{
    int64_t ns = overlap(a, from.t_ns, to.t_ns);
    f->observed_ns += ns;
    if (a->state == RUNNING)
        f->run_ns += ns;
    else if (a->state == PREEMPTED)
        f->preempt_ns += ns;
    else if (a->state == WOKEN)
        f->wake_wait_ns += ns;
    else
        f->blocked_ns += ns;
    if (a->state == RUNNING || a->state == PREEMPTED || a->state == WOKEN)
        f->clipped += clipped(a, from, to);
}

static void
add_tally(struct vg_cpu_figures *f, const struct tally *tally)
{
    f->entries += tally->what == ENTRY;
    f->preemptions += tally->what == PREEMPTION;
    f->wakeups += tally->what == WAKEUP;
    f->blocks += tally->what == BLOCK;
    f->switches_out += tally->what == SWITCH_OUT;
    f->unseen_migrations += tally->what == UNSEEN_MIGRATION;
    if (tally->what == EXIT)
        f->exits[tally->detail]++;
}

static bool
is_inside(const struct tally *tally, struct slow_cut from, struct slow_cut to)
{
    return tally->item >= from.item && tally->item < to.item;
}

void
slow_history_figures(const slow_history *history, int32_t tid, struct slow_cut from,
                     struct slow_cut to, struct vg_cpu_figures *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < history->segments->len; i++) {
        const struct interval *a = interval_at(history->segments, (int)i);
        if (thread_at(history, a->owner)->tid == tid)
            add_segment(ret, a, from, to);
    }
    for (unsigned i = 0; i < history->guests->len; i++) {
        const struct interval *a = interval_at(history->guests, (int)i);
        if (thread_at(history, a->owner)->tid != tid)
            continue;
        ret->guest_ns += overlap(a, from.t_ns, to.t_ns);
        ret->clipped += clipped(a, from, to);
    }
    for (unsigned i = 0; i < history->tallies->len; i++) {
        const struct tally *tally = &g_array_index(history->tallies, struct tally, i);
        if (tally->thread >= 0 && thread_at(history, tally->thread)->tid == tid &&
            is_inside(tally, from, to))
            add_tally(ret, tally);
    }
}

uint64_t
slow_history_discontinuities(const slow_history *history, struct slow_cut from, struct slow_cut to)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < history->tallies->len; i++) {
        const struct tally *tally = &g_array_index(history->tallies, struct tally, i);
        count += tally->what == DISCONTINUITY && is_inside(tally, from, to);
    }
    return count;
}

static struct slow_lost *
lost_entry(const slow_history *h, GArray *list, int32_t pid, int who)
{
    struct slow_lost wanted = {.kind = VG_AGGRESSOR_HOST_UNKNOWN};
    const struct thread *t = who >= 0 ? thread_at(h, who) : NULL;
    if (who == IDLE)
        wanted.kind = VG_AGGRESSOR_HOST_IDLE;
    else if (t && (t->role == SLOW_VCPU || t->role == SLOW_EMULATOR))
        wanted.kind = t->pid == pid ? VG_AGGRESSOR_SELF : VG_AGGRESSOR_VM;
    else if (t)
        wanted.kind = t->role == SLOW_KERNEL ? VG_AGGRESSOR_HOST_KERNEL : VG_AGGRESSOR_HOST_USER;
    if (wanted.kind == VG_AGGRESSOR_VM)
        wanted.vm_pid = t->pid;
    for (unsigned i = 0; i < list->len; i++) {
        struct slow_lost *lost = &g_array_index(list, struct slow_lost, i);
        if (lost->kind == wanted.kind && lost->vm_pid == wanted.vm_pid)
            return lost;
    }
    g_array_append_val(list, wanted);
    return &g_array_index(list, struct slow_lost, list->len - 1);
}

/* Who held the CPU during one wait; what nobody is known to have held is left over. */
static void
charge_wait(const slow_history *h, const struct interval *wait, struct slow_cut from,
            struct slow_cut to, GArray *list)
{
    int32_t pid = thread_at(h, wait->owner)->pid;
    int64_t begin = MAX(wait->from, from.t_ns);
    int64_t end = MIN(wait->to, to.t_ns);
    int64_t rest = end - begin;
    if (rest <= 0)
        return;
    for (unsigned i = 0; i < h->occupancy->len; i++) {
        const struct interval *held = interval_at(h->occupancy, (int)i);
        int64_t ns = held->owner == wait->cpu ? overlap(held, begin, end) : 0;
        if (ns == 0)
            continue;
        struct slow_lost *lost = lost_entry(h, list, pid, held->cpu);
        lost->ns += ns;
        if (lost->kind == VG_AGGRESSOR_VM || lost->kind == VG_AGGRESSOR_SELF) {
            if (thread_at(h, held->cpu)->role == SLOW_VCPU)
                lost->vcpu_ns += ns;
            else
                lost->emulator_ns += ns;
        }
        rest -= ns;
    }
    if (rest > 0)
        lost_entry(h, list, pid, NOBODY)->ns += rest;
}

GArray *
slow_history_lost_to(const slow_history *history, int32_t pid, struct slow_cut from,
                     struct slow_cut to)
{
    GArray *list = g_array_new(FALSE, TRUE, sizeof(struct slow_lost));
    for (unsigned i = 0; i < history->segments->len; i++) {
        const struct interval *a = interval_at(history->segments, (int)i);
        const struct thread *t = thread_at(history, a->owner);
        if (t->role == SLOW_VCPU && t->pid == pid && (a->state == PREEMPTED || a->state == WOKEN))
            charge_wait(history, a, from, to, list);
    }
    for (unsigned i = 0; i < history->tallies->len; i++) {
        const struct tally *tally = &g_array_index(history->tallies, struct tally, i);
        if (tally->what != PREEMPTION || !is_inside(tally, from, to))
            continue;
        const struct thread *t = thread_at(history, tally->thread);
        if (t->role == SLOW_VCPU && t->pid == pid)
            lost_entry(history, list, pid, tally->detail)->count++;
    }
    return list;
}

void
slow_ledger_figures(const struct vg_cpu_figures *f, struct slow_figure ret[SLOW_FIGURES])
{
    const struct slow_figure figures[] = {
        {"observed_ns", f->observed_ns},
        {"run_ns", f->run_ns},
        {"guest_ns", f->guest_ns},
        {"preempt_ns", f->preempt_ns},
        {"wake_wait_ns", f->wake_wait_ns},
        {"blocked_ns", f->blocked_ns},
        {"entries", (int64_t)f->entries},
        {"preemptions", (int64_t)f->preemptions},
        {"wakeups", (int64_t)f->wakeups},
        {"blocks", (int64_t)f->blocks},
        {"switches_out", (int64_t)f->switches_out},
        {"unseen_migrations", (int64_t)f->unseen_migrations},
        {"clipped", (int64_t)f->clipped},
    };

    memcpy(ret, figures, sizeof(figures));
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++)
        ret[G_N_ELEMENTS(figures) + (size_t)i] =
            (struct slow_figure){vg_exit_class_name((enum vg_exit_class)i), (int64_t)f->exits[i]};
}
