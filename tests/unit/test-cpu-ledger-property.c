/* SPDX-License-Identifier: Apache-2.0
 *
 * Random scripts, legal and damaged, played to the CPU ledger and to the slow model of
 * tests/unit/slow-ledger.h: every figure of every window must be the same. A script that shows a
 * difference is made as short as it gets before it is printed.
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "ledger/cpu-ledger.h"
#include "tests/unit/chance.h"
#include "tests/unit/random-script.h"
#include "tests/unit/slow-ledger.h"

/* Shortening stops here: each try plays a whole script. */
#define MAX_SHRINK_RUNS 20000

struct check {
    const struct slow_script *script;
    const slow_history *history;
    enum random_kind kind;
    bool keep_tasks;
    struct slow_cut from;
    struct slow_cut to;
    bool is_period;
    GHashTable
        *told; /* tid -> struct told, owned: what the observer heard since the period began */
    GString *failure; /* empty: all is well */
};

struct told {
    const struct vg_thread *thread;
    enum vg_cpu_doing doing;
    int64_t since_ns;
    struct vg_cpu_figures sum;
};

static struct slow_item *
item_at(const struct slow_script *script, size_t i)
{
    return &g_array_index(script->items, struct slow_item, i);
}

static void
expect(struct check *c, const char *whose, int32_t id, const char *what, int64_t expected,
       int64_t got)
{
    if (expected == got || c->failure->len > 2000)
        return;
    g_string_append_printf(c->failure,
                           "%s (%" PRId64 ", %" PRId64 "]: %s %d: %s: expected %" PRId64
                           ", got %" PRId64 "\n",
                           c->is_period ? "period" : "window", c->from.t_ns, c->to.t_ns, whose, id,
                           what, expected, got);
}

static void
expect_figures(struct check *c, const char *whose, int32_t id, const struct vg_cpu_figures *want,
               const struct vg_cpu_figures *got)
{
    struct slow_figure a[SLOW_FIGURES], b[SLOW_FIGURES];

    slow_ledger_figures(want, a);
    slow_ledger_figures(got, b);
    for (size_t i = 0; i < SLOW_FIGURES; i++)
        expect(c, whose, id, a[i].name, a[i].value, b[i].value);
}

static void
expect_identity(struct check *c, const char *whose, int32_t id, const struct vg_cpu_figures *f)
{
    expect(c, whose, id, "sum of states", f->observed_ns,
           f->run_ns + f->preempt_ns + f->wake_wait_ns + f->blocked_ns);
    expect(c, whose, id, "no negative time", 1,
           f->run_ns >= 0 && f->preempt_ns >= 0 && f->wake_wait_ns >= 0 && f->blocked_ns >= 0 &&
               f->guest_ns >= 0);
    expect(c, whose, id, "guest within run", 1, f->guest_ns <= f->run_ns);
    expect(c, whose, id, "switches out", (int64_t)f->switches_out,
           (int64_t)(f->preemptions + f->blocks));
}

/* ---- what is told as it happens ---- */

static void
sum_tasks(const struct vg_window *got, int32_t tid, struct vg_cpu_figures *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < got->tasks->len; i++) {
        const struct vg_task_sample *task = &g_array_index(got->tasks, struct vg_task_sample, i);
        if (task->tid == tid)
            vg_cpu_figures_add(ret, &task->cpu);
    }
}

static void
add_told(struct told *told, int64_t t_ns)
{
    int64_t span_ns = t_ns - told->since_ns;

    told->since_ns = t_ns;
    if (told->doing == VG_CPU_RUNS || told->doing == VG_CPU_RUNS_GUEST)
        told->sum.run_ns += span_ns;
    if (told->doing == VG_CPU_RUNS_GUEST)
        told->sum.guest_ns += span_ns;
    if (told->doing == VG_CPU_WAITS_PREEMPTED)
        told->sum.preempt_ns += span_ns;
    if (told->doing == VG_CPU_WAITS_WOKEN)
        told->sum.wake_wait_ns += span_ns;
}

static void
hear(void *data, const struct vg_cpu_change *change)
{
    struct check *c = data;
    int32_t tid = change->thread->tid;
    struct told *told = g_hash_table_lookup(c->told, GINT_TO_POINTER(tid));

    if (!told) {
        told = g_new0(struct told, 1);
        told->since_ns = change->t_ns;
        g_hash_table_insert(c->told, GINT_TO_POINTER(tid), told);
    }
    expect(c, "told task", tid, "order", 1, change->t_ns >= told->since_ns);
    expect(c, "told task", tid, "gone before another has its tid", 1,
           !told->thread || told->thread == change->thread);
    expect(c, "told task", tid, "a taker is known", 1, change->taken || !change->taker);
    add_told(told, change->t_ns);
    told->doing = change->doing;
    told->thread = change->doing == VG_CPU_GONE ? NULL : change->thread;
}

/* What was told is what was measured, if the ledger still has it. */
static void
check_told(struct check *c, const struct vg_window *got)
{
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, c->told);
    while (c->is_period && c->keep_tasks && g_hash_table_iter_next(&iter, &key, &value)) {
        struct told *told = value;
        struct vg_cpu_figures have;
        sum_tasks(got, GPOINTER_TO_INT(key), &have);
        add_told(told, got->end_ns);
        expect(c, "told task", GPOINTER_TO_INT(key), "run_ns", have.run_ns, told->sum.run_ns);
        expect(c, "told task", GPOINTER_TO_INT(key), "guest_ns", have.guest_ns, told->sum.guest_ns);
        expect(c, "told task", GPOINTER_TO_INT(key), "preempt_ns", have.preempt_ns,
               told->sum.preempt_ns);
        expect(c, "told task", GPOINTER_TO_INT(key), "wake_wait_ns", have.wake_wait_ns,
               told->sum.wake_wait_ns);
    }
}

/* Looking in between gives the same figures, and changes none. */
static void
check_peek(struct check *c, const struct vg_cpu_ledger *ledger, const struct vg_window *got)
{
    struct vg_window peek;

    if (!c->is_period)
        return;
    vg_cpu_ledger_peek(ledger, c->to.t_ns, &peek);
    for (unsigned i = 0; i < peek.vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(peek.vms, struct vg_vm_sample, i);
        const struct vg_vm_sample *same = vg_window_vm(got, vm->id);
        expect(c, "peeked VM", vm->pid, "is there", 1, same != NULL || vm->cpu.observed_ns == 0);
        if (!same)
            continue;
        expect(c, "peeked VM", vm->pid, "observed_ns", same->cpu.observed_ns, vm->cpu.observed_ns);
        expect(c, "peeked VM", vm->pid, "run_ns", same->cpu.run_ns, vm->cpu.run_ns);
        expect(c, "peeked VM", vm->pid, "preempt_ns", same->cpu.preempt_ns, vm->cpu.preempt_ns);
        expect(c, "peeked VM", vm->pid, "wake_wait_ns", same->cpu.wake_wait_ns,
               vm->cpu.wake_wait_ns);
        expect(c, "peeked VM", vm->pid, "guest_ns", same->cpu.guest_ns, vm->cpu.guest_ns);
    }
    vg_window_clear(&peek);
}

/* ---- tasks ---- */

static void
check_tasks(struct check *c, const struct vg_window *got)
{
    for (unsigned i = 0; i < got->tasks->len; i++) {
        const struct vg_task_sample *task = &g_array_index(got->tasks, struct vg_task_sample, i);
        expect_identity(c, "task", task->tid, &task->cpu);
        expect(c, "task", task->tid, "is in the script", 1,
               slow_identity_of(c->script, task->tid, UINT32_MAX) != NULL);
        if (i > 0)
            expect(c, "task", task->tid, "order", 1, task[-1].tid <= task->tid);
    }
    for (unsigned i = 0; i < c->script->identities->len; i++) {
        const struct slow_identity *id =
            &g_array_index(c->script->identities, struct slow_identity, i);
        struct vg_cpu_figures want, have;
        if (c->is_period && !c->keep_tasks && id->role != SLOW_VCPU)
            continue;
        slow_history_figures(c->history, id->tid, c->from, c->to, &want);
        sum_tasks(got, id->tid, &have);
        expect_figures(c, "task", id->tid, &want, &have);
    }
}

/* ---- VMs ---- */

static const struct vg_vm_sample *
find_vm(const struct vg_window *got, int32_t pid)
{
    for (unsigned i = 0; i < got->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(got->vms, struct vg_vm_sample, i);
        if (vm->pid == pid)
            return vm;
    }
    return NULL;
}

static int32_t
pid_of_vm_id(const struct vg_window *got, uint32_t id)
{
    for (unsigned i = 0; i < got->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(got->vms, struct vg_vm_sample, i);
        if (vm->id == id)
            return vm->pid;
    }
    return VG_NONE;
}

/* One entry of a lost_to list, zero if there is none. */
static struct slow_lost
got_lost(const struct vg_window *got, const struct vg_vm_sample *vm, enum vg_aggressor_kind kind,
         int32_t pid)
{
    struct slow_lost sum = {.kind = kind, .vm_pid = pid};
    for (unsigned i = 0; i < vm->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, i);
        if (lost->kind != kind ||
            (kind == VG_AGGRESSOR_VM && pid_of_vm_id(got, lost->vm_id) != pid))
            continue;
        sum.ns += lost->ns;
        sum.vcpu_ns += lost->vcpu_ns;
        sum.emulator_ns += lost->emulator_ns;
        sum.count += lost->count;
    }
    return sum;
}

static void
check_lost_to(struct check *c, const struct vg_window *got, const struct vg_vm_sample *vm)
{
    g_autoptr(GArray) want = slow_history_lost_to(c->history, vm->pid, c->from, c->to);
    int64_t total_ns = 0;
    int64_t want_count = 0;
    int64_t got_count = 0;
    for (unsigned i = 0; i < want->len; i++) {
        const struct slow_lost *a = &g_array_index(want, struct slow_lost, i);
        struct slow_lost b = got_lost(got, vm, a->kind, a->vm_pid);
        g_autofree char *name = a->kind == VG_AGGRESSOR_VM
                                    ? g_strdup_printf("lost to VM %d", a->vm_pid)
                                    : g_strdup_printf("lost to %s", vg_aggressor_name(a->kind));
        g_autofree char *count = g_strconcat(name, ", count", NULL);
        g_autofree char *vcpu = g_strconcat(name, ", vcpu_ns", NULL);
        g_autofree char *emulator = g_strconcat(name, ", emulator_ns", NULL);
        expect(c, "VM", vm->pid, name, a->ns, b.ns);
        expect(c, "VM", vm->pid, count, (int64_t)a->count, (int64_t)b.count);
        expect(c, "VM", vm->pid, vcpu, a->vcpu_ns, b.vcpu_ns);
        expect(c, "VM", vm->pid, emulator, a->emulator_ns, b.emulator_ns);
        want_count += (int64_t)a->count;
    }
    for (unsigned i = 0; i < vm->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, i);
        total_ns += lost->ns;
        got_count += (int64_t)lost->count;
        if (i > 0)
            expect(c, "VM", vm->pid, "lost_to order", 1, lost[-1].ns >= lost->ns);
    }
    expect(c, "VM", vm->pid, "lost_to sum", vm->cpu.preempt_ns + vm->cpu.wake_wait_ns, total_ns);
    expect(c, "VM", vm->pid, "lost_to counts", want_count, got_count);
}

static const struct vg_vcpu_sample *
find_vcpu(const struct vg_vm_sample *vm, int32_t tid)
{
    for (unsigned i = 0; vm && i < vm->vcpus->len; i++) {
        const struct vg_vcpu_sample *vcpu = &g_array_index(vm->vcpus, struct vg_vcpu_sample, i);
        if (vcpu->tid == tid)
            return vcpu;
    }
    return NULL;
}

static uint64_t
kvm_events(const struct vg_cpu_figures *f)
{
    uint64_t sum = f->entries;
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++)
        sum += f->exits[i];
    return sum;
}

static void
check_vms(struct check *c, const struct vg_window *got)
{
    static const struct vg_cpu_figures nothing;
    const GArray *ids = c->script->identities;
    unsigned vcpus = 0;
    unsigned got_vcpus = 0;
    for (unsigned i = 0; i < ids->len; i++) {
        const struct slow_identity *id = &g_array_index(ids, struct slow_identity, i);
        struct vg_cpu_figures want;
        if (id->role != SLOW_VCPU)
            continue;
        slow_history_figures(c->history, id->tid, c->from, c->to, &want);
        const struct vg_vcpu_sample *have = find_vcpu(find_vm(got, id->pid), id->tid);
        expect_figures(c, "vCPU", id->tid, &want, have ? &have->cpu : &nothing);
        vcpus++;
    }
    for (unsigned i = 0; i < got->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(got->vms, struct vg_vm_sample, i);
        check_lost_to(c, got, vm);
        got_vcpus += vm->vcpus->len;
    }
    expect(c, "all VMs", 0, "no invented vCPU", 1, got_vcpus <= vcpus);
}

/* Both were recorded, of whichever VM. */
static bool
has_entries_and_exits(const struct vg_window *got)
{
    uint64_t entries = 0, events = 0;

    for (unsigned i = 0; i < got->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(got->vms, struct vg_vm_sample, i);
        entries += vm->cpu.entries;
        events += kvm_events(&vm->cpu);
    }
    return entries > 0 && events > entries;
}

/* What must hold whoever is a VM. */
static void
check_sums(struct check *c, const struct vg_window *got)
{
    for (unsigned i = 0; i < got->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(got->vms, struct vg_vm_sample, i);
        struct vg_cpu_figures sum = {0};
        int64_t lost_ns = 0;
        for (unsigned n = 0; n < vm->vcpus->len; n++)
            vg_cpu_figures_add(&sum, &g_array_index(vm->vcpus, struct vg_vcpu_sample, n).cpu);
        for (unsigned n = 0; n < vm->lost_to->len; n++)
            lost_ns += g_array_index(vm->lost_to, struct vg_lost_to, n).ns;
        expect_figures(c, "VM", vm->pid, &sum, &vm->cpu);
        expect_identity(c, "VM", vm->pid, &vm->cpu);
        expect(c, "VM", vm->pid, "lost_to within waits", 1,
               lost_ns <= vm->cpu.preempt_ns + vm->cpu.wake_wait_ns);
        if (c->is_period)
            expect(c, "VM", vm->pid, "guest_known",
                   has_entries_and_exits(got) && (kvm_events(&sum) > 0 || sum.guest_ns > 0),
                   vm->guest_known);
    }
}

/* ---- one script ---- */

static void
check_window(struct check *c, const struct vg_window *got)
{
    uint64_t lost_events = 0;
    uint64_t lost_packets = 0;
    for (size_t i = c->from.item; i < c->to.item; i++) {
        const struct slow_item *item = item_at(c->script, i);
        if (item->op != SLOW_EVENT || item->event.type != VG_EVENT_LOST)
            continue;
        lost_events += item->event.lost.events;
        lost_packets += item->event.lost.packets;
    }
    expect(c, "all", 0, "begin_ns", c->from.t_ns, got->begin_ns);
    expect(c, "all", 0, "end_ns", c->to.t_ns, got->end_ns);
    expect(c, "all", 0, "lost_events", (int64_t)lost_events, (int64_t)got->lost_events);
    expect(c, "all", 0, "lost_packets", (int64_t)lost_packets, (int64_t)got->lost_packets);
    int64_t discontinuities = (int64_t)slow_history_discontinuities(c->history, c->from, c->to);
    expect(c, "all", 0, "discontinuities", discontinuities, (int64_t)got->discontinuities);
    if (c->kind == RANDOM_COMPLETE)
        expect(c, "all", 0, "discontinuities of a complete recording", 0, discontinuities);
    check_tasks(c, got);
    check_sums(c, got);
    if (c->kind != RANDOM_CHAOS)
        check_vms(c, got);
}

/* Plays a script to a new ledger; empty if it agrees with the model. Free with g_free(). */
static char *
play(const struct slow_script *script, enum random_kind kind, bool keep_tasks)
{
    g_autoptr(slow_history) history = slow_history_new(script);
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_cpu_ledger) ledger = vg_cpu_ledger_new(topology);
    struct slow_cut window = {0, item_at(script, 0)->event.ts_ns};
    struct slow_cut period = window;
    struct check c = {.script = script, .history = history, .kind = kind, .keep_tasks = keep_tasks};
    c.failure = g_string_new(NULL);
    c.told = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    vg_cpu_ledger_watch(ledger, hear, &c);
    vg_cpu_ledger_use_waking(ledger, script->use_waking);
    vg_cpu_ledger_keep_tasks(ledger, keep_tasks);
    for (size_t i = 0; i < script->items->len && c.failure->len == 0; i++) {
        const struct slow_item *item = item_at(script, i);
        struct slow_cut cut = {i, item->t_ns};
        struct vg_window got = {0};
        if (item->op == SLOW_EVENT) {
            vg_cpu_ledger_feed(ledger, &item->event);
            continue;
        }
        if (item->op == SLOW_BEGIN) {
            vg_cpu_ledger_begin(ledger, item->t_ns);
            g_hash_table_remove_all(c.told);
            vg_cpu_ledger_watch(ledger, hear, &c);
            window = period = cut;
            continue;
        }
        c.is_period = item->op == SLOW_READ;
        c.from = c.is_period ? period : window;
        c.to = cut;
        if (c.is_period)
            vg_cpu_ledger_read_period(ledger, item->t_ns, true, &got);
        else
            vg_cpu_ledger_close_window(ledger, item->t_ns, true, &got);
        check_window(&c, &got);
        check_told(&c, &got);
        check_peek(&c, ledger, &got);
        vg_window_clear(&got);
        if (!c.is_period)
            window = cut;
    }
    g_hash_table_unref(c.told);
    return g_string_free(c.failure, FALSE);
}

/* ---- failures, for people ---- */

static void
print_item(const struct slow_item *item)
{
    static const char *const ops[] = {"event", "BEGIN", "CLOSE", "READ"};
    static const char *const types[] = {"other",   "switch",    "wakeup",   "waking",
                                        "migrate", "kvm_entry", "kvm_exit", "process",
                                        "fork",    "end",       "lost"};
    static const char *const states[] = {"runnable", "blocked", "exited"};
    const struct vg_event *e = &item->event;
    if (item->op != SLOW_EVENT) {
        print_message("#   %s %" PRId64 "\n", ops[item->op], item->t_ns);
        return;
    }
    g_autoptr(GString) text = g_string_new(NULL);
    if (e->type == VG_EVENT_SCHED_SWITCH)
        g_string_printf(text, "%d (%s) -> %d", e->sched_switch.prev_tid,
                        states[e->sched_switch.prev_state], e->sched_switch.next_tid);
    else if (e->type == VG_EVENT_SCHED_WAKEUP || e->type == VG_EVENT_SCHED_WAKING)
        g_string_printf(text, "%d on cpu %d", e->wakeup.tid, e->wakeup.target_cpu);
    else if (e->type == VG_EVENT_SCHED_MIGRATE)
        g_string_printf(text, "%d to cpu %d", e->migrate.tid, e->migrate.dest_cpu);
    else if (e->type >= VG_EVENT_PROCESS && e->type <= VG_EVENT_PROCESS_END)
        g_string_printf(text, "tid %d pid %d \"%s\"", e->process.tid, e->process.pid,
                        e->process.comm);
    else if (e->type == VG_EVENT_LOST)
        g_string_printf(text, "until %" PRId64, e->lost.end_ns);
    print_message("#   %" PRId64 " cpu %d tid %d %s %s\n", e->ts_ns, e->cpu, e->tid, types[e->type],
                  text->str);
}

/* Takes out whatever can go while the script still shows a difference. */
static char *
shrink(struct slow_script *script, enum random_kind kind, bool keep_tasks, char *failure)
{
    int runs = 0;
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = script->items->len; i-- > 0 && runs < MAX_SHRINK_RUNS;) {
            struct slow_item item = *item_at(script, i);
            if (script->items->len < 3 || i == 0 ||
                (item.op == SLOW_EVENT && item.event.type == VG_EVENT_PROCESS))
                continue;
            g_array_remove_index(script->items, (unsigned)i);
            char *still = play(script, kind, keep_tasks);
            runs++;
            if (*still) {
                g_free(failure);
                failure = still;
                again = true;
            } else {
                g_free(still);
                g_array_insert_val(script->items, (unsigned)i, item);
            }
        }
    }
    return failure;
}

static void
play_round(enum random_kind kind, uint64_t seed)
{
    struct slow_script script;
    bool is_legal = kind == RANDOM_COMPLETE || kind == RANDOM_LEGAL;
    bool keep_tasks = !is_legal || seed % 2 == 0;
    random_script_init(&script, kind, seed);
    char *failure = play(&script, kind, keep_tasks);
    if (*failure) {
        failure = shrink(&script, kind, keep_tasks, failure);
        chance_print(seed);
        print_message("# keep tasks %d, waking %d\n", keep_tasks, script.use_waking);
        for (size_t i = 0; i < script.items->len; i++)
            print_item(item_at(&script, i));
        fail_msg("%s", failure);
    }
    g_free(failure);
    random_script_clear(&script);
}

static void
play_rounds(enum random_kind kind)
{
    uint64_t seed = chance_seed();
    unsigned rounds = chance_rounds(120, 6000);
    for (unsigned i = 0; i < rounds; i++)
        play_round(kind, seed + i);
}

static void
test_complete_recordings(void **state)
{
    (void)state;
    play_rounds(RANDOM_COMPLETE);
}

static void
test_legal_recordings(void **state)
{
    (void)state;
    play_rounds(RANDOM_LEGAL);
}

static void
test_damaged_recordings(void **state)
{
    (void)state;
    play_rounds(RANDOM_DAMAGED);
}

static void
test_chaos(void **state)
{
    (void)state;
    play_rounds(RANDOM_CHAOS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_recordings),
        cmocka_unit_test(test_legal_recordings),
        cmocka_unit_test(test_damaged_recordings),
        cmocka_unit_test(test_chaos),
    };
    return cmocka_run_group_tests_name("cpu-ledger-property", tests, NULL, NULL);
}
