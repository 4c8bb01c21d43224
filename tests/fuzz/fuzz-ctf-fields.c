/* SPDX-License-Identifier: Apache-2.0
 *
 * Any field values in any tracepoint: the adapters reject the record or make an event that keeps
 * its promises, and the ledger's identities hold whatever the events say.
 *
 * The input is a script: of each event one byte is the time since the one before, one picks the
 * event, one says which of its fields exist, one is the CPU; then come its fields.
 */
#include "config.h"

#include <string.h>

#include "ledger/cpu-ledger.h"
#include "tests/fuzz/check-event.h"
#include "tests/fuzz/field-script.h"
#include "trace/adapter.h"

static const char *const event_names[] = {
    "sched_switch",       "sched:sched_switch", "sched_wakeup",  "sched_waking",
    "sched_wakeup_new",   "sched_migrate_task", "kvm_x86_entry", "kvm_exit",
    "sched_process_fork", "sched_process_free", "task_rename",   "perf_comm",
    "irq_handler_entry",  "kvm:kvm_entry",      "kvm_x86_exit",  "lttng_statedump_process_state",
};

static const int64_t nasty[] = {0,    1,    -1,    2,    4194304,    4194305, INT64_MAX, INT64_MIN,
                                8191, 8192, 0x100, 0x10, UINT32_MAX, 142,     140,       141};

static void
check_figures(const struct vg_cpu_figures *f, int64_t duration_ns)
{
    require(f->run_ns + f->preempt_ns + f->wake_wait_ns + f->blocked_ns == f->observed_ns);
    require(f->run_ns >= 0 && f->preempt_ns >= 0 && f->wake_wait_ns >= 0 && f->blocked_ns >= 0);
    require(f->guest_ns >= 0 && f->guest_ns <= f->run_ns);
    require(f->observed_ns <= duration_ns);
    require(f->preemptions + f->blocks == f->switches_out);
}

static void
check_window(const struct vg_window *window)
{
    int64_t duration = window->end_ns - window->begin_ns;

    for (unsigned int i = 0; i < window->tasks->len; i++)
        check_figures(&g_array_index(window->tasks, struct vg_task_sample, i).cpu, duration);
    for (unsigned int i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        int64_t lost = 0;
        for (unsigned int j = 0; j < vm->lost_to->len; j++) {
            const struct vg_lost_to *row = &g_array_index(vm->lost_to, struct vg_lost_to, j);
            require(row->ns >= 0);
            require(row->kind != VG_AGGRESSOR_VM || vg_window_vm(window, row->vm_id));
            lost += row->ns;
        }
        require(lost == vm->cpu.preempt_ns + vm->cpu.wake_wait_ns);
    }
}

static void
feed_one(struct field_script *script, vg_names *names, vg_cpu_ledger *ledger, int64_t ts_ns)
{
    struct vg_adapt_env env;
    struct vg_binding binding;
    struct vg_event event = {.ts_ns = ts_ns};
    const char *name = event_names[field_script_byte(script) % G_N_ELEMENTS(event_names)];

    vg_adapt_env_init(&env, NULL, names);
    script->present = field_script_byte(script);
    event.cpu = (int16_t)(field_script_byte(script) % 4) - 1;
    vg_binding_init(&binding, name, NULL, &field_script_reader, script);
    if (vg_binding_read(&binding, &env, &script, &event))
        return;
    check_event(&event);
    vg_cpu_ledger_feed(ledger, &event);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autoptr(vg_names) names = vg_names_new();
    struct field_script script = {
        .data = data, .left = size, .numbers = nasty, .n_numbers = G_N_ELEMENTS(nasty)};
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_cpu_ledger) ledger = vg_cpu_ledger_new(topology);
    struct vg_window window;
    int64_t now = 1000;

    vg_cpu_ledger_keep_tasks(ledger, true);
    while (script.left > 0) {
        now += field_script_byte(&script);
        feed_one(&script, names, ledger, now);
    }
    vg_cpu_ledger_read_period(ledger, now, true, &window);
    check_window(&window);
    vg_window_clear(&window);
    return 0;
}
