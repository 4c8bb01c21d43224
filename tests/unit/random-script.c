/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated host has up to four CPUs, a few VMs of several threads, kernel and user threads.
 * Each step picks a CPU and does one thing there that its current thread could do.
 */
#include "config.h"

#include "tests/unit/random-script.h"

#include <string.h>

#define MAX_THREADS      48
#define FIRST_FORKED_TID 900

enum sim_state { SIM_NONE, SIM_RUNNING, SIM_READY, SIM_ASLEEP, SIM_DEAD };

struct sim_thread {
    int32_t tid;
    enum slow_role role;
    enum sim_state state;
    int cpu;
    bool in_guest;
};

struct sim {
    struct slow_script *script;
    enum random_kind kind;
    uint64_t seed;
    int64_t now;
    int cpus;
    int current[SLOW_CPUS]; /* index of a thread, or -1: idle */
    struct sim_thread threads[MAX_THREADS];
    int count;
};

static uint32_t
pick(struct sim *sim, uint32_t below)
{
    /* splitmix64: any seed will do, 0 included */
    uint64_t z = (sim->seed += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

static bool
chance(struct sim *sim, uint32_t percent)
{
    return pick(sim, 100) < percent;
}

/* ---- records ---- */

static void
copy_comm(char *to, const struct slow_script *script, int32_t tid, uint32_t serial)
{
    const struct slow_identity *id = slow_identity_of(script, tid, serial);
    memset(to, 0, VG_COMM_LEN);
    if (id)
        g_strlcpy(to, id->comm, VG_COMM_LEN);
    else if (tid == 0)
        g_strlcpy(to, "swapper/0", VG_COMM_LEN);
}

static int32_t
pid_of(const struct slow_script *script, int32_t tid, uint32_t serial)
{
    const struct slow_identity *id = slow_identity_of(script, tid, serial);
    return id ? id->pid : VG_NONE;
}

/* Names and process ids follow from the tids, whatever was done to those. */
static void
complete_record(const struct slow_script *script, struct slow_item *item)
{
    struct vg_event *e = &item->event;
    uint32_t serial = item->serial;
    e->pid = e->tid > 0 ? pid_of(script, e->tid, serial) : VG_NONE;
    if (e->type == VG_EVENT_SCHED_SWITCH) {
        copy_comm(e->sched_switch.prev_comm, script, e->sched_switch.prev_tid, serial);
        copy_comm(e->sched_switch.next_comm, script, e->sched_switch.next_tid, serial);
    } else if (e->type == VG_EVENT_SCHED_WAKEUP || e->type == VG_EVENT_SCHED_WAKING) {
        copy_comm(e->wakeup.comm, script, e->wakeup.tid, serial);
    } else if (e->type == VG_EVENT_SCHED_MIGRATE) {
        copy_comm(e->migrate.comm, script, e->migrate.tid, serial);
    } else if (e->type == VG_EVENT_KVM_ENTRY || e->type == VG_EVENT_KVM_EXIT) {
        if (e->tid > 0)
            copy_comm(e->kvm.comm, script, e->tid, serial);
    } else if (e->type == VG_EVENT_PROCESS || e->type == VG_EVENT_PROCESS_FORK) {
        const struct slow_identity *id = slow_identity_of(script, e->process.tid, serial);
        e->process.pid = id ? id->pid : VG_NONE;
        e->process.kind = id && id->role == SLOW_KERNEL ? VG_THREAD_KERNEL : VG_THREAD_USER;
        copy_comm(e->process.comm, script, e->process.tid, serial);
    }
}

static struct vg_event
new_event(struct sim *sim, enum vg_event_type type, int cpu)
{
    struct vg_event e;
    memset(&e, 0, sizeof(e));
    e.ts_ns = sim->now;
    e.type = (uint16_t)type;
    e.cpu = (int16_t)cpu;
    e.tid = cpu < 0 ? VG_NONE : sim->current[cpu] < 0 ? 0 : sim->threads[sim->current[cpu]].tid;
    e.pid = VG_NONE;
    /* Recorders that note no contexts exist, but not for some records only: a complete script
     * always has them. A kvm event that must be guessed from the occupant may become somebody
     * else's in a damaged one. */
    bool is_kvm = type == VG_EVENT_KVM_ENTRY || type == VG_EVENT_KVM_EXIT;
    if (sim->kind != RANDOM_COMPLETE && chance(sim, 30) && !(is_kvm && sim->kind == RANDOM_DAMAGED))
        e.tid = VG_NONE;
    return e;
}

static void
emit(struct sim *sim, struct vg_event e)
{
    struct slow_item item = {SLOW_EVENT, sim->script->items->len, 0, e};
    complete_record(sim->script, &item);
    g_array_append_val(sim->script->items, item);
}

static void
emit_process(struct sim *sim, enum vg_event_type type, int cpu, int32_t tid)
{
    struct vg_event e = new_event(sim, type, cpu);
    e.process.tid = tid;
    e.process.pid = VG_NONE;
    emit(sim, e);
}

/* ---- the host ---- */

static int
add_thread(struct sim *sim, int32_t tid, enum slow_role role, int32_t pid, const char *comm)
{
    struct slow_identity id = {tid, sim->script->items->len, role, pid, ""};
    g_strlcpy(id.comm, comm, sizeof(id.comm));
    g_array_append_val(sim->script->identities, id);
    struct sim_thread thread = {.tid = tid, .role = role, .state = SIM_ASLEEP};
    thread.cpu = (int)pick(sim, (uint32_t)sim->cpus);
    sim->threads[sim->count] = thread;
    return sim->count++;
}

static void
add_vm(struct sim *sim, int32_t pid)
{
    add_thread(sim, pid, SLOW_EMULATOR, pid, "qemu-system-x86");
    int vcpus = 1 + (int)pick(sim, 3);
    for (int n = 0; n < vcpus; n++) {
        char comm[32];
        g_snprintf(comm, sizeof(comm), "CPU %d/KVM", n);
        add_thread(sim, pid + 10 + n, SLOW_VCPU, pid, comm);
    }
    if (chance(sim, 50))
        add_thread(sim, pid + 1, SLOW_EMULATOR, pid, "IO iothread1");
}

static void
build_host(struct sim *sim)
{
    static const char *const workers[] = {"kworker/0:1", "ksoftirqd/1", "jbd2/sda1-8"};
    sim->cpus = 1 + (int)pick(sim, 4);
    for (int32_t i = 0, n = 1 + (int32_t)pick(sim, 3); i < n; i++)
        add_vm(sim, 1000 * (i + 1));
    for (int32_t i = 0, n = (int32_t)pick(sim, 4); i < n; i++)
        add_thread(sim, 10 + i, SLOW_KERNEL, 10 + i, workers[i]);
    for (int32_t i = 0, n = 1 + (int32_t)pick(sim, 3); i < n; i++)
        add_thread(sim, 500 + i, SLOW_USER, 500 + i, "make");
    for (int i = 0; i < sim->count; i++)
        emit_process(sim, VG_EVENT_PROCESS, VG_NONE, sim->threads[i].tid);
    for (int cpu = 0; cpu < sim->cpus; cpu++)
        sim->current[cpu] = -1;
    for (int i = 0; i < sim->count; i++) {
        struct sim_thread *t = &sim->threads[i];
        uint32_t how = pick(sim, 3);
        if (how == 0 && sim->current[t->cpu] < 0) {
            t->state = SIM_RUNNING;
            sim->current[t->cpu] = i;
        } else if (how == 1) {
            t->state = SIM_READY;
        }
    }
    for (int cpu = 0; sim->kind == RANDOM_COMPLETE && cpu < sim->cpus; cpu++)
        emit(sim, new_event(sim, VG_EVENT_OTHER, cpu));
}

/* A thread in this state from a random place on, or -1. cpu: only there, unless -1. */
static int
pick_thread(struct sim *sim, enum sim_state state, int cpu)
{
    int from = (int)pick(sim, (uint32_t)sim->count);
    for (int i = 0; i < sim->count; i++) {
        int at = (from + i) % sim->count;
        if (sim->threads[at].state == state && (cpu < 0 || sim->threads[at].cpu == cpu))
            return at;
    }
    return -1;
}

static void
emit_kvm(struct sim *sim, int cpu, bool enter)
{
    struct sim_thread *t = &sim->threads[sim->current[cpu]];
    struct vg_event e = new_event(sim, enter ? VG_EVENT_KVM_ENTRY : VG_EVENT_KVM_EXIT, cpu);
    if (!enter)
        e.kvm.exit_class = (uint8_t)pick(sim, VG_EXIT_CLASS_MAX);
    t->in_guest = enter;
    emit(sim, e);
}

static enum vg_prev_state
pick_prev_state(struct sim *sim, const struct sim_thread *t)
{
    uint32_t dice = pick(sim, 100);
    bool may_exit = t->role == SLOW_USER || sim->kind == RANDOM_LEGAL;
    if (dice < 8 && may_exit)
        return VG_PREV_EXITED;
    return dice < 50 ? VG_PREV_BLOCKED : VG_PREV_RUNNABLE;
}

static void
do_switch(struct sim *sim, int cpu)
{
    static const enum sim_state after[] = {SIM_READY, SIM_ASLEEP, SIM_DEAD};
    int cur = sim->current[cpu];
    int next = chance(sim, 75) ? pick_thread(sim, SIM_READY, cpu) : -1;
    if (sim->kind == RANDOM_LEGAL && chance(sim, 10))
        next = pick_thread(sim, SIM_READY, -1); /* its migration is not on record */
    if (cur < 0 && next < 0)
        return;
    struct vg_event e = new_event(sim, VG_EVENT_SCHED_SWITCH, cpu);
    if (cur >= 0) {
        struct sim_thread *t = &sim->threads[cur];
        if (t->in_guest && chance(sim, 70))
            emit_kvm(sim, cpu, false);
        t->in_guest = false;
        e.sched_switch.prev_tid = t->tid;
        e.sched_switch.prev_state = (uint8_t)pick_prev_state(sim, t);
        t->state = after[e.sched_switch.prev_state];
        if (e.sched_switch.prev_state == VG_PREV_RUNNABLE && chance(sim, 5))
            next = cur;
    }
    if (next >= 0) {
        e.sched_switch.next_tid = sim->threads[next].tid;
        sim->threads[next].state = SIM_RUNNING;
        sim->threads[next].cpu = cpu;
    }
    sim->current[cpu] = next;
    emit(sim, e);
}

static void
do_wakeup(struct sim *sim, int cpu)
{
    int who = pick_thread(sim, SIM_ASLEEP, -1);
    if (sim->kind != RANDOM_COMPLETE && chance(sim, 10))
        who = pick_thread(sim, chance(sim, 50) ? SIM_READY : SIM_RUNNING, -1); /* for nothing */
    if (who < 0)
        return;
    struct sim_thread *t = &sim->threads[who];
    struct vg_event e = new_event(sim, VG_EVENT_SCHED_WAKEUP, cpu);
    e.wakeup.tid = t->tid;
    e.wakeup.target_cpu = t->cpu;
    if (t->state == SIM_ASLEEP) {
        t->state = SIM_READY;
        t->cpu = (int)pick(sim, (uint32_t)sim->cpus);
        e.wakeup.target_cpu = chance(sim, 5) && sim->kind == RANDOM_LEGAL ? VG_NONE : t->cpu;
    }
    if (chance(sim, 30)) {
        struct vg_event waking = e;
        waking.type = VG_EVENT_SCHED_WAKING;
        emit(sim, waking);
        if (sim->script->use_waking && chance(sim, 70))
            return;
    }
    emit(sim, e);
}

static void
do_migrate(struct sim *sim, int cpu)
{
    int who = pick_thread(sim, chance(sim, 70) ? SIM_READY : SIM_ASLEEP, -1);
    if (who < 0)
        return;
    struct sim_thread *t = &sim->threads[who];
    struct vg_event e = new_event(sim, VG_EVENT_SCHED_MIGRATE, cpu);
    e.migrate.tid = t->tid;
    e.migrate.orig_cpu = t->cpu;
    t->cpu = (int)pick(sim, (uint32_t)sim->cpus);
    e.migrate.dest_cpu = t->cpu;
    emit(sim, e);
}

/* A new thread, sometimes with the tid of one that has gone, and then perhaps of another kind. */
static void
do_fork(struct sim *sim, int cpu)
{
    if (sim->count == MAX_THREADS)
        return;
    int32_t tid = FIRST_FORKED_TID + sim->count;
    enum slow_role role = SLOW_USER;
    int dead = pick_thread(sim, SIM_DEAD, -1);
    struct sim_thread *gone = dead >= 0 ? &sim->threads[dead] : NULL;
    if (gone && (gone->role == SLOW_USER || gone->role == SLOW_KERNEL) && chance(sim, 60)) {
        tid = gone->tid;
        role = sim->kind == RANDOM_LEGAL && chance(sim, 30) ? SLOW_KERNEL : SLOW_USER;
        gone->state = SIM_NONE;
        gone->tid = -1;
        if (chance(sim, 60))
            emit_process(sim, VG_EVENT_PROCESS_END, cpu, tid);
    }
    int who = add_thread(sim, tid, role, tid, role == SLOW_KERNEL ? "kworker/u8:2" : "cc1");
    emit_process(sim, VG_EVENT_PROCESS_FORK, cpu, tid);
    struct sim_thread *t = &sim->threads[who];
    t->state = SIM_READY;
    struct vg_event e = new_event(sim, VG_EVENT_SCHED_WAKEUP, cpu);
    e.wakeup.tid = tid;
    e.wakeup.target_cpu = t->cpu;
    emit(sim, e);
}

static void
do_step(struct sim *sim)
{
    int cpu = (int)pick(sim, (uint32_t)sim->cpus);
    int cur = sim->current[cpu];
    uint32_t dice = pick(sim, 100);
    sim->now += pick(sim, 4) ? pick(sim, 60) : 0;
    if (cur >= 0 && sim->threads[cur].role == SLOW_VCPU && dice < 45)
        emit_kvm(sim, cpu, !sim->threads[cur].in_guest);
    else if (dice < 60)
        do_switch(sim, cpu);
    else if (dice < 80)
        do_wakeup(sim, cpu);
    else if (dice < 88)
        do_migrate(sim, cpu);
    else if (dice < 93)
        do_fork(sim, cpu);
    else
        emit(sim, new_event(sim, VG_EVENT_OTHER, cpu));
}

/* ---- damage ---- */

static int32_t
pick_tid(struct sim *sim, bool users_only)
{
    for (;;) {
        const GArray *ids = sim->script->identities;
        const struct slow_identity *id =
            &g_array_index(ids, struct slow_identity, pick(sim, ids->len));
        if (!users_only || id->role == SLOW_USER)
            return id->tid;
    }
}

/* In a damaged script who is who stays true: only user threads end and begin, only vCPUs enter
 * guests. In chaos nothing is sacred. */
static void
change_tid(struct sim *sim, struct vg_event *e)
{
    bool careful = sim->kind == RANDOM_DAMAGED;
    int32_t tid = pick_tid(sim, false);
    if (e->type == VG_EVENT_SCHED_SWITCH) {
        if (chance(sim, 50))
            e->sched_switch.prev_tid = chance(sim, 20) ? 0 : tid;
        else
            e->sched_switch.next_tid = chance(sim, 20) ? 0 : tid;
    } else if (e->type == VG_EVENT_SCHED_WAKEUP || e->type == VG_EVENT_SCHED_WAKING) {
        e->wakeup.tid = tid;
    } else if (e->type == VG_EVENT_SCHED_MIGRATE) {
        e->migrate.tid = tid;
    } else if (e->type == VG_EVENT_KVM_ENTRY || e->type == VG_EVENT_KVM_EXIT) {
        const struct slow_identity *id = slow_identity_of(sim->script, tid, UINT32_MAX);
        if (!careful || id->role == SLOW_VCPU)
            e->tid = tid;
    } else if (e->type == VG_EVENT_PROCESS_END || e->type == VG_EVENT_PROCESS_FORK) {
        e->process.tid = pick_tid(sim, careful);
    } else {
        e->tid = tid;
    }
}

static void
change_type(struct sim *sim, struct vg_event *e)
{
    static const enum vg_event_type types[] = {VG_EVENT_OTHER, VG_EVENT_SCHED_WAKEUP,
                                               VG_EVENT_SCHED_MIGRATE, VG_EVENT_PROCESS_END};
    bool is_kvm = e->type == VG_EVENT_KVM_ENTRY || e->type == VG_EVENT_KVM_EXIT;
    if (is_kvm) {
        e->type = e->type == VG_EVENT_KVM_ENTRY ? VG_EVENT_KVM_EXIT : VG_EVENT_KVM_ENTRY;
        return;
    }
    struct vg_event was = *e;
    memset(e, 0, sizeof(*e));
    e->ts_ns = was.ts_ns;
    e->cpu = was.cpu;
    e->tid = was.tid;
    e->type = (uint16_t)types[pick(sim, G_N_ELEMENTS(types))];
    if (e->type == VG_EVENT_SCHED_WAKEUP) {
        e->wakeup.tid = pick_tid(sim, false);
        e->wakeup.target_cpu = (int32_t)pick(sim, (uint32_t)sim->cpus + 1) - 1;
    } else if (e->type == VG_EVENT_SCHED_MIGRATE) {
        e->migrate.tid = pick_tid(sim, false);
        e->migrate.dest_cpu = (int32_t)pick(sim, (uint32_t)sim->cpus + 1);
    } else if (e->type == VG_EVENT_PROCESS_END) {
        e->process.tid = pick_tid(sim, sim->kind == RANDOM_DAMAGED);
    }
}

static struct vg_event
new_loss(struct sim *sim, const struct vg_event *at)
{
    struct vg_event e;
    memset(&e, 0, sizeof(e));
    e.ts_ns = at->ts_ns;
    e.type = VG_EVENT_LOST;
    e.cpu = (int16_t)pick(sim, (uint32_t)sim->cpus);
    e.tid = VG_NONE;
    e.pid = VG_NONE;
    e.lost.end_ns = e.ts_ns + pick(sim, 300) - (chance(sim, 5) ? 100 : 0);
    e.lost.events = pick(sim, 20);
    e.lost.packets = pick(sim, 3);
    if (chance(sim, 15)) {
        e.lost.any_cpu = chance(sim, 80);
        e.cpu = VG_NONE;
    }
    return e;
}

static void
hurt(struct sim *sim, struct vg_event *e)
{
    uint32_t dice = pick(sim, 100);
    if (dice < 30)
        change_tid(sim, e);
    else if (dice < 50 && e->cpu >= 0)
        e->cpu = (int16_t)pick(sim, (uint32_t)sim->cpus + 1);
    else if (dice < 70)
        e->ts_ns -= pick(sim, 200);
    else if (dice < 80 && e->type == VG_EVENT_SCHED_SWITCH)
        e->sched_switch.prev_state = (uint8_t)pick(sim, 3);
    else
        change_type(sim, e);
}

/* The statedump at the start stays whole. */
static void
damage(struct sim *sim)
{
    GArray *old = sim->script->items;
    GArray *items = g_array_new(FALSE, TRUE, sizeof(struct slow_item));
    uint32_t percent = 1 + pick(sim, 20);
    for (unsigned i = 0; i < old->len; i++) {
        struct slow_item item = g_array_index(old, struct slow_item, i);
        struct vg_event *e = &item.event;
        uint32_t copies = 1;
        if (e->type != VG_EVENT_PROCESS && chance(sim, percent)) {
            copies = pick(sim, 4);
            if (copies == 3)
                copies = 1;
            if (chance(sim, 70))
                hurt(sim, e);
        }
        if (sim->kind == RANDOM_DAMAGED && e->type == VG_EVENT_SCHED_SWITCH &&
            e->sched_switch.prev_state == VG_PREV_EXITED) {
            const struct slow_identity *id =
                slow_identity_of(sim->script, e->sched_switch.prev_tid, UINT32_MAX);
            if (id && id->role != SLOW_USER)
                e->sched_switch.prev_state = VG_PREV_BLOCKED;
        }
        for (uint32_t n = 0; n < copies; n++)
            g_array_append_val(items, item);
        if (chance(sim, 2)) {
            struct slow_item loss = {SLOW_EVENT, item.serial, 0, new_loss(sim, e)};
            g_array_append_val(items, loss);
        }
    }
    sim->script->items = items;
    g_array_unref(old);
    for (unsigned i = 0; i < items->len; i++)
        complete_record(sim->script, &g_array_index(items, struct slow_item, i));
}

/* ---- periods and windows ---- */

static void
append_cut(GArray *items, enum slow_op op, uint32_t serial, int64_t t_ns)
{
    struct slow_item item;
    memset(&item, 0, sizeof(item));
    item.op = op;
    item.serial = serial;
    item.t_ns = t_ns;
    g_array_append_val(items, item);
}

/* Cuts lie where time goes on: not before the last event and before the next. */
static void
add_cuts(struct sim *sim)
{
    GArray *old = sim->script->items;
    GArray *items = g_array_new(FALSE, TRUE, sizeof(struct slow_item));
    uint32_t percent = pick(sim, 8);
    int begins = (int)pick(sim, 3);
    int64_t now = INT64_MIN;
    for (unsigned i = 0; i < old->len; i++) {
        struct slow_item item = g_array_index(old, struct slow_item, i);
        if (i > 0 && item.event.ts_ns > now && chance(sim, percent)) {
            int64_t t_ns = now + pick(sim, (uint32_t)(item.event.ts_ns - now));
            if (begins > 0 && chance(sim, 40)) {
                append_cut(items, SLOW_BEGIN, item.serial, t_ns);
                begins--;
            } else {
                append_cut(items, SLOW_CLOSE, item.serial, t_ns);
                if (chance(sim, 20))
                    append_cut(items, SLOW_READ, item.serial, t_ns);
            }
        }
        g_array_append_val(items, item);
        now = MAX(now, item.event.ts_ns);
    }
    now += pick(sim, 100);
    append_cut(items, SLOW_CLOSE, UINT32_MAX, now);
    append_cut(items, SLOW_READ, UINT32_MAX, now);
    sim->script->items = items;
    g_array_unref(old);
}

void
random_script_init(struct slow_script *script, enum random_kind kind, uint64_t seed)
{
    struct sim sim = {.script = script, .kind = kind, .seed = seed};
    script->items = g_array_new(FALSE, TRUE, sizeof(struct slow_item));
    script->identities = g_array_new(FALSE, TRUE, sizeof(struct slow_identity));
    script->use_waking = chance(&sim, 30);
    sim.now = 1000 + pick(&sim, 1000);
    build_host(&sim);
    for (uint32_t i = 0, n = 5 + pick(&sim, chance(&sim, 20) ? 400 : 80); i < n; i++)
        do_step(&sim);
    if (kind == RANDOM_DAMAGED || kind == RANDOM_CHAOS)
        damage(&sim);
    add_cuts(&sim);
}

void
random_script_clear(struct slow_script *script)
{
    g_array_unref(script->items);
    g_array_unref(script->identities);
    memset(script, 0, sizeof(*script));
}
