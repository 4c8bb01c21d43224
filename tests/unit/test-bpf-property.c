/* SPDX-License-Identifier: Apache-2.0
 *
 * The BPF programs and what is read of them against the CPU ledger: the same random scripts are
 * played to both, and every figure of every window must be the same, with those whom the time was
 * lost to.
 *
 * One thing the programs do not know: who has the CPU that a waiting thread is moved to, if nobody
 * else waits there; that is told as host:unknown until the next switch there. In scripts in which
 * that happens nobody gets more than from the ledger. Every other script is without migrations on
 * record, so that threads just turn up somewhere else.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "collectors/bpf-losses.h"
#include "collectors/bpf-record.h"
#include "ledger/cpu-ledger.h"
#include "tests/unit/bpf-memory.h"
#include "tests/unit/chance.h"
#include "tests/unit/fake-map.h"
#include "tests/unit/random-script.h"
#include "tests/unit/slow-ledger.h"

struct vcpu {
    int32_t tid;
    int32_t pid;
    uint32_t slot;
    struct vg_bpf_assumed assumed;
    struct vg_cpu_figures last;
    unsigned open;
    vg_bpf_given *given;
};

/* Of a VM, by aggressor. */
struct loss {
    int32_t victim_pid;
    enum vg_aggressor_kind kind;
    int32_t pid; /* kind VM, else 0 */
    int64_t ns;
    int64_t vcpu_ns;
    uint64_t count;
};

struct duel {
    const struct slow_script *script;
    bool complete;
    bool told[BPF_MEMORY_CPUS]; /* the ledger knows who runs there */
    bool vague;                 /* somebody who waited was moved to where nobody did */
    vg_topology *topology;
    vg_cpu_ledger *ledger;
    vg_bpf_slots *slots;
    vg_bpf_cells *cells;
    GArray *vcpus;  /* struct vcpu */
    GArray *vms;    /* int32_t pid, by the id that the programs know */
    GArray *lost;   /* struct loss of the window, from the programs */
    GArray *sums;   /* the same, since the beginning or the last BEGIN */
    GArray *wanted; /* the same, from the ledger */
    int64_t begun_ns;
    int32_t victim_pid;
    int64_t user_ns; /* of one thread in one window: of all processes, and of those that are told */
    int64_t processes_ns;
    GString *failure;
};

/* ---- losses ---- */

static struct loss *
loss_of(GArray *losses, int32_t victim_pid, enum vg_aggressor_kind kind, int32_t pid)
{
    struct loss fresh = {.victim_pid = victim_pid, .kind = kind, .pid = pid};

    for (unsigned i = 0; i < losses->len; i++) {
        struct loss *loss = &g_array_index(losses, struct loss, i);
        if (loss->victim_pid == victim_pid && loss->kind == kind && loss->pid == pid)
            return loss;
    }
    g_array_append_val(losses, fresh);
    return &g_array_index(losses, struct loss, losses->len - 1);
}

static void
add_loss(GArray *losses, const struct loss *more)
{
    struct loss *loss = loss_of(losses, more->victim_pid, more->kind, more->pid);

    loss->ns += more->ns;
    loss->vcpu_ns += more->vcpu_ns;
    loss->count += more->count;
}

static void
tell_loss(void *data, uint32_t holder, int64_t ns, uint64_t count)
{
    static const enum vg_aggressor_kind special[] = {VG_AGGRESSOR_HOST_KERNEL,
                                                     VG_AGGRESSOR_HOST_USER, VG_AGGRESSOR_HOST_IDLE,
                                                     VG_AGGRESSOR_HOST_UNKNOWN};
    struct duel *d = data;
    struct loss loss = {.victim_pid = d->victim_pid, .ns = ns, .count = count};

    if (holder & VG_BPF_HOLDER_SPECIAL) {
        loss.kind = special[holder - VG_BPF_HOLDER_KERNEL];
        d->user_ns += loss.kind == VG_AGGRESSOR_HOST_USER ? ns : 0;
    } else {
        loss.pid = g_array_index(d->vms, int32_t, holder & VG_BPF_VM_MASK);
        loss.kind = loss.pid == d->victim_pid ? VG_AGGRESSOR_SELF : VG_AGGRESSOR_VM;
        loss.vcpu_ns = holder & VG_BPF_VCPU ? ns : 0;
        if (loss.kind == VG_AGGRESSOR_SELF)
            loss.pid = 0;
    }
    add_loss(d->lost, &loss);
    add_loss(d->sums, &loss);
}

static void
tell_process(void *data, int32_t pid, int64_t ns, uint64_t count)
{
    struct duel *d = data;

    (void)pid, (void)count;
    d->processes_ns += ns;
}

/* ---- expectations ---- */

static void
expect(struct duel *d, int64_t end_ns, int32_t whose, const char *what, int64_t ledger, int64_t bpf)
{
    if (ledger == bpf || d->failure->len > 1000)
        return;
    g_string_append_printf(d->failure,
                           "window (%" PRId64 ", %" PRId64 "]: %d: %s: ledger %" PRId64
                           ", BPF %" PRId64 "\n",
                           d->begun_ns, end_ns, whose, what, ledger, bpf);
}

static void
expect_figures(struct duel *d, int64_t end_ns, int32_t tid, const struct vg_cpu_figures *ledger,
               const struct vg_cpu_figures *bpf)
{
    struct slow_figure a[SLOW_FIGURES], b[SLOW_FIGURES];

    slow_ledger_figures(ledger, a);
    slow_ledger_figures(bpf, b);
    for (size_t i = 0; i < SLOW_FIGURES; i++)
        expect(d, end_ns, tid, a[i].name, a[i].value, b[i].value);
}

static int32_t
pid_of_vm(const struct vg_window *window, uint32_t id)
{
    const struct vg_vm_sample *vm = vg_window_vm(window, id);

    return vm ? vm->pid : VG_NONE;
}

/* What the ledger says that VMs lost in this window. */
static GArray *
ledger_losses(struct duel *d, const struct vg_window *window)
{
    GArray *losses = g_array_new(FALSE, FALSE, sizeof(struct loss));

    for (unsigned i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (unsigned k = 0; k < vm->lost_to->len; k++) {
            const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, k);
            bool is_vm = lost->kind == VG_AGGRESSOR_VM;
            struct loss loss = {.victim_pid = vm->pid,
                                .kind = lost->kind,
                                .pid = is_vm ? pid_of_vm(window, lost->vm_id) : 0,
                                .ns = lost->ns,
                                .vcpu_ns = lost->vcpu_ns,
                                .count = lost->count};
            add_loss(losses, &loss);
            add_loss(d->wanted, &loss);
        }
    }
    return losses;
}

/* exact: times, too, and not only counts. */
static void
expect_losses(struct duel *d, int64_t end_ns, GArray *ledger, bool exact)
{
    for (unsigned i = 0; i < d->lost->len; i++) {
        const struct loss *b = &g_array_index(d->lost, struct loss, i);
        (void)loss_of(ledger, b->victim_pid, b->kind, b->pid);
    }
    for (unsigned i = 0; i < ledger->len; i++) {
        const struct loss a = g_array_index(ledger, struct loss, i);
        const struct loss *b = loss_of(d->lost, a.victim_pid, a.kind, a.pid);
        g_autofree char *who = g_strdup_printf("lost to %d of kind %d", a.pid, a.kind);
        g_autofree char *by_vcpus = g_strconcat(who, ", by vCPUs", NULL);
        g_autofree char *count = g_strconcat(who, ", count", NULL);
        expect(d, end_ns, a.victim_pid, count, (int64_t)a.count, (int64_t)b->count);
        if (!exact)
            continue;
        expect(d, end_ns, a.victim_pid, who, a.ns, b->ns);
        expect(d, end_ns, a.victim_pid, by_vcpus, a.vcpu_ns, b->vcpu_ns);
    }
}

/* Nobody but those who are not known has more than from the ledger, of all windows together. */
static void
expect_no_more(struct duel *d, int64_t end_ns)
{
    for (unsigned i = 0; i < d->sums->len; i++) {
        const struct loss b = g_array_index(d->sums, struct loss, i);
        const struct loss *a = loss_of(d->wanted, b.victim_pid, b.kind, b.pid);
        if (b.kind != VG_AGGRESSOR_HOST_UNKNOWN && b.ns > a->ns)
            expect(d, end_ns, b.victim_pid, "not more lost than", a->ns, b.ns);
    }
}

/* ---- windows ---- */

static struct vg_cpu_figures
ledger_figures(const struct vg_window *window, const struct vcpu *vcpu)
{
    for (unsigned i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (unsigned k = 0; k < vm->vcpus->len; k++) {
            const struct vg_vcpu_sample *sample =
                &g_array_index(vm->vcpus, struct vg_vcpu_sample, k);
            if (sample->tid == vcpu->tid)
                return sample->cpu;
        }
    }
    return (struct vg_cpu_figures){0};
}

static struct vg_cpu_figures
read_vcpu(struct duel *d, struct vcpu *vcpu)
{
    struct vg_bpf_reading reading;

    assert_true(vg_bpf_record_read(&bpf_memory()->threads[vcpu->slot], bpf_memory_cpu_of, NULL,
                                   &vcpu->assumed, bpf_memory_now, &reading));
    struct vg_cpu_figures figures = vg_bpf_reading_since(&reading, &vcpu->last);
    figures.clipped = vcpu->open + reading.open;
    vcpu->last = reading.cpu;
    vcpu->open = reading.open;
    d->victim_pid = vcpu->pid;
    d->user_ns = d->processes_ns = 0;
    vg_bpf_given_take(vcpu->given, &reading, vcpu->slot, d->cells,
                      figures.preempt_ns + figures.wake_wait_ns,
                      &(struct vg_bpf_losses_sink){d, tell_loss, tell_process});
    if (d->processes_ns > d->user_ns)
        expect(d, bpf_memory_now(), vcpu->tid, "lost to processes", d->user_ns, d->processes_ns);
    return figures;
}

/* ledger: NULL where what happened is not of interest. */
static void
read_window(struct duel *d, int64_t end_ns, const struct vg_window *ledger)
{
    bpf_set_now(end_ns);
    g_array_set_size(d->lost, 0);
    vg_bpf_cells_update(d->cells, bpf_memory_totals()->evictions);
    for (unsigned i = 0; i < d->vcpus->len; i++) {
        struct vcpu *vcpu = &g_array_index(d->vcpus, struct vcpu, i);
        struct vg_cpu_figures got = read_vcpu(d, vcpu);
        if (!ledger)
            continue;
        struct vg_cpu_figures want = ledger_figures(ledger, vcpu);
        expect_figures(d, end_ns, vcpu->tid, &want, &got);
    }
    if (ledger) {
        g_autoptr(GArray) losses = ledger_losses(d, ledger);
        expect_losses(d, end_ns, losses, d->complete && !d->vague);
        if (d->complete)
            expect_no_more(d, end_ns);
    }
    d->begun_ns = end_ns;
}

static void
close_window(struct duel *d, int64_t end_ns)
{
    struct vg_window window = {0};

    vg_cpu_ledger_close_window(d->ledger, end_ns, false, &window);
    read_window(d, end_ns, &window);
    vg_window_clear(&window);
}

/* ---- events ---- */

static void
set_thread(const struct slow_script *script, int32_t tid, uint32_t serial)
{
    const struct slow_identity *id = slow_identity_of(script, tid, serial);

    bpf_set_thread(tid, id->pid, serial + 1, id->role == SLOW_KERNEL);
}

static struct vcpu *
find_vcpu(const struct duel *d, int32_t tid)
{
    for (unsigned i = 0; i < d->vcpus->len; i++) {
        struct vcpu *vcpu = &g_array_index(d->vcpus, struct vcpu, i);
        if (vcpu->tid == tid)
            return vcpu;
    }
    return NULL;
}

/* The context of an event says who runs there. */
static void
believe_context(struct duel *d, const struct vg_event *e)
{
    struct vcpu *vcpu = e->tid > 0 ? find_vcpu(d, e->tid) : NULL;

    if (e->cpu < 0 || e->tid < 0)
        return;
    d->told[e->cpu] = true;
    if (vcpu && vcpu->assumed.state == VG_BPF_UNSEEN &&
        bpf_memory()->threads[vcpu->slot].state == VG_BPF_UNSEEN)
        vcpu->assumed = (struct vg_bpf_assumed){
            .state = VG_BPF_RUNNING, .since_ns = e->ts_ns, .told_ns = INT64_MAX};
}

static void
play_switch(struct duel *d, const struct vg_event *e, size_t item)
{
    static const enum bpf_leaves ways[][2] = {
        [VG_PREV_RUNNABLE] = {BPF_LEAVES_RUNNABLE, BPF_LEAVES_PREEMPTED},
        [VG_PREV_BLOCKED] = {BPF_LEAVES_BLOCKED, BPF_LEAVES_BLOCKED},
        [VG_PREV_EXITED] = {BPF_LEAVES_EXITED, BPF_LEAVES_EXITED},
    };

    d->told[e->cpu] = true;
    bpf_switch(e->cpu, e->sched_switch.prev_tid, ways[e->sched_switch.prev_state][item % 2],
               e->sched_switch.next_tid);
}

static void
play_migrate(struct duel *d, const struct vg_event *e)
{
    const struct vcpu *vcpu = find_vcpu(d, e->migrate.tid);
    const struct vg_bpf_thread *t = vcpu ? &bpf_memory()->threads[vcpu->slot] : NULL;

    if (t && (t->state == VG_BPF_WAIT_PREEMPT || t->state == VG_BPF_WAIT_WAKE)) {
        unsigned others = bpf_memory()->cpus[e->migrate.dest_cpu].waiters;
        others -= t->cpu == e->migrate.dest_cpu;
        d->vague |= others == 0;
    }
    bpf_migrate(MAX(e->cpu, 0), e->migrate.tid, e->migrate.dest_cpu);
}

static void
play_event(struct duel *d, const struct slow_item *item, size_t i)
{
    const struct vg_event *e = &item->event;

    bpf_set_now(e->ts_ns);
    believe_context(d, e);
    switch ((enum vg_event_type)e->type) {
    case VG_EVENT_SCHED_SWITCH:
        play_switch(d, e, i);
        break;
    case VG_EVENT_SCHED_WAKING:
    case VG_EVENT_SCHED_WAKEUP:
        if (e->type == VG_EVENT_SCHED_WAKING && !d->script->use_waking)
            break;
        (i % 2 ? bpf_wakeup : bpf_wakeup_new)(MAX(e->cpu, 0), e->wakeup.tid, e->wakeup.target_cpu);
        break;
    case VG_EVENT_SCHED_MIGRATE:
        play_migrate(d, e);
        break;
    case VG_EVENT_KVM_ENTRY:
        if (d->told[e->cpu])
            bpf_entry(e->cpu);
        break;
    case VG_EVENT_KVM_EXIT:
        if (d->told[e->cpu])
            bpf_exit(e->cpu, e->kvm.exit_class);
        break;
    case VG_EVENT_PROCESS_FORK:
        set_thread(d->script, e->process.tid, item->serial);
        break;
    case VG_EVENT_GPU:
    case VG_EVENT_OTHER:
    case VG_EVENT_PROCESS:
    case VG_EVENT_PROCESS_END:
    case VG_EVENT_LOST:
    case VG_EVENT_TYPE_MAX:
        break;
    }
}

/* ---- one script ---- */

/* Watches the VMs before anything happens. */
static void
watch_all(struct duel *d)
{
    const GArray *ids = d->script->identities;

    for (unsigned i = 0; i < ids->len; i++) {
        const struct slow_identity *id = &g_array_index(ids, struct slow_identity, i);
        bool is_vcpu = id->role == SLOW_VCPU;
        if (id->role == SLOW_EMULATOR && id->tid == id->pid)
            g_array_append_val(d->vms, id->pid);
        if (!is_vcpu && (id->role != SLOW_EMULATOR || id->tid != id->pid))
            continue;
        struct vcpu vcpu = {.tid = id->tid, .pid = id->pid};
        vcpu.slot = vg_bpf_slots_publish(d->slots, id->tid, d->vms->len - 1, is_vcpu);
        assert_int_not_equal(vcpu.slot, 0);
        if (!is_vcpu)
            continue;
        vcpu.given = vg_bpf_given_new();
        g_array_append_val(d->vcpus, vcpu);
    }
}

/* Who ran there when it all began, which a kernel knows without being told. */
static void
find_first_occupants(const struct slow_script *script)
{
    bool found[BPF_MEMORY_CPUS] = {false};

    for (unsigned i = 0; i < script->items->len; i++) {
        const struct slow_item *item = &g_array_index(script->items, struct slow_item, i);
        const struct vg_event *e = &item->event;
        if (item->op != SLOW_EVENT || e->cpu < 0 || found[e->cpu])
            continue;
        int32_t tid = e->type == VG_EVENT_SCHED_SWITCH ? e->sched_switch.prev_tid : e->tid;
        found[e->cpu] = tid >= 0;
        if (tid >= 0)
            bpf_set_current(e->cpu, tid);
    }
}

static void
duel_init(struct duel *d, const struct slow_script *script, enum random_kind kind)
{
    *d = (struct duel){.script = script, .complete = kind == RANDOM_COMPLETE};
    d->topology = vg_topology_new();
    d->ledger = vg_cpu_ledger_new(d->topology);
    vg_cpu_ledger_use_waking(d->ledger, script->use_waking);
    bpf_memory_reset();
    d->slots = vg_bpf_slots_new(bpf_memory());
    d->cells = vg_bpf_cells_new(FAKE_MAP_FD);
    d->vcpus = g_array_new(FALSE, FALSE, sizeof(struct vcpu));
    d->vms = g_array_new(FALSE, FALSE, sizeof(int32_t));
    d->lost = g_array_new(FALSE, FALSE, sizeof(struct loss));
    d->sums = g_array_new(FALSE, FALSE, sizeof(struct loss));
    d->wanted = g_array_new(FALSE, FALSE, sizeof(struct loss));
    d->failure = g_string_new(NULL);
    watch_all(d);
    for (unsigned i = 0; i < script->identities->len; i++)
        set_thread(script, g_array_index(script->identities, struct slow_identity, i).tid, 0);
    find_first_occupants(script);
}

static void
duel_clear(struct duel *d)
{
    for (unsigned i = 0; i < d->vcpus->len; i++)
        vg_bpf_given_free(g_array_index(d->vcpus, struct vcpu, i).given);
    g_array_unref(d->vcpus);
    g_array_unref(d->vms);
    g_array_unref(d->lost);
    g_array_unref(d->sums);
    g_array_unref(d->wanted);
    g_string_free(d->failure, TRUE);
    vg_bpf_cells_free(d->cells);
    vg_bpf_slots_free(d->slots);
    vg_cpu_ledger_free(d->ledger);
    vg_topology_free(d->topology);
}

static void
begin_period(struct duel *d, int64_t t_ns)
{
    vg_cpu_ledger_begin(d->ledger, t_ns);
    read_window(d, t_ns, NULL);
    /* A holder whose time was told as nobody's before gets it afterwards. */
    d->complete &= !d->vague;
    g_array_set_size(d->sums, 0);
    g_array_set_size(d->wanted, 0);
}

/* What a ledger with less knowledge than the kernel must take for something else: a wakeup of a
 * thread of which nobody said that it runs. */
static bool
is_misleading(const struct duel *d, const struct vg_event *e)
{
    if (e->type != VG_EVENT_SCHED_WAKEUP && e->type != VG_EVENT_SCHED_WAKING)
        return false;
    for (int cpu = 0; cpu < BPF_MEMORY_CPUS; cpu++) {
        bool tells = e->cpu == cpu && e->tid >= 0;
        if (!d->told[cpu] && !tells && bpf_current(cpu) == e->wakeup.tid)
            return true;
    }
    return false;
}

static void
play(struct duel *d)
{
    for (size_t i = 0; i < d->script->items->len && d->failure->len == 0; i++) {
        struct slow_item item = g_array_index(d->script->items, struct slow_item, i);
        /* A kernel always knows. */
        bool wakes =
            item.event.type == VG_EVENT_SCHED_WAKEUP || item.event.type == VG_EVENT_SCHED_WAKING;
        if (wakes && item.event.wakeup.target_cpu == VG_NONE)
            item.event.wakeup.target_cpu = 0;
        if (item.op == SLOW_EVENT && is_misleading(d, &item.event))
            continue;
        if (item.op == SLOW_EVENT) {
            vg_cpu_ledger_feed(d->ledger, &item.event);
            play_event(d, &item, i);
        } else if (item.op == SLOW_BEGIN) {
            begin_period(d, item.t_ns);
        } else if (item.op == SLOW_CLOSE) {
            close_window(d, item.t_ns);
        }
    }
    if (d->complete && bpf_memory_totals()->discontinuities > 0)
        g_string_append(d->failure, "the programs complain of a script without contradictions");
    if (bpf_memory_totals()->cells_full > 0)
        g_string_append(d->failure, "there was no room for who held the CPU");
}

static void
leave_out_migrations(struct slow_script *script)
{
    for (unsigned i = script->items->len; i > 0; i--) {
        const struct slow_item *item = &g_array_index(script->items, struct slow_item, i - 1);
        if (item->op == SLOW_EVENT && item->event.type == VG_EVENT_SCHED_MIGRATE)
            g_array_remove_index(script->items, i - 1);
    }
}

/* Returns whether losses were exact to the nanosecond. */
static bool
play_round(enum random_kind kind, uint64_t seed)
{
    struct slow_script script;
    struct duel d;

    random_script_init(&script, kind, seed);
    if (seed % 2)
        leave_out_migrations(&script);
    duel_init(&d, &script, kind);
    play(&d);
    if (d.failure->len > 0) {
        chance_print(seed);
        fail_msg("%s", d.failure->str);
    }
    bool exact = d.complete && !d.vague;
    duel_clear(&d);
    random_script_clear(&script);
    return exact;
}

static void
play_rounds(enum random_kind kind, bool expect_exact)
{
    uint64_t seed = chance_seed();
    unsigned rounds = chance_rounds(160, 6000);
    unsigned exact = 0;

    for (unsigned i = 0; i < rounds; i++)
        exact += play_round(kind, seed + i);
    print_message("# %u of %u rounds exact\n", exact, rounds);
    if (expect_exact)
        assert_true(exact >= rounds / 2);
}

static void
test_complete(void **state)
{
    (void)state;
    play_rounds(RANDOM_COMPLETE, true);
}

static void
test_legal(void **state)
{
    (void)state;
    play_rounds(RANDOM_LEGAL, false);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_legal),
    };

    return cmocka_run_group_tests_name("bpf-property", tests, NULL, NULL);
}
