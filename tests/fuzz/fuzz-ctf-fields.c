/* SPDX-License-Identifier: Apache-2.0
 *
 * Any field values in any tracepoint: the adapters reject the record or make an event that keeps
 * its promises, and the ledger's identities hold whatever the events say.
 *
 * The input is a script: one byte picks the event, one which of its fields exist, one the CPU, then
 * for each existing field that is asked for, one byte picks a value from a table of nasty ones or
 * says how many bytes make it.
 */
#include "config.h"

#include <string.h>

#include "model/cpu-ledger.h"
#include "tests/fuzz/check-event.h"
#include "trace/adapter.h"

static const char *const event_names[] = {
    "sched_switch",       "sched:sched_switch", "sched_wakeup",  "sched_waking",
    "sched_wakeup_new",   "sched_migrate_task", "kvm_x86_entry", "kvm_exit",
    "sched_process_fork", "sched_process_free", "task_rename",   "perf_comm",
    "irq_handler_entry",  "kvm:kvm_entry",      "kvm_x86_exit",  "lttng_statedump_process_state",
};

static const int64_t nasty[] = {0,    1,    -1,    2,    4194304,    4194305, INT64_MAX, INT64_MIN,
                                8191, 8192, 0x100, 0x10, UINT32_MAX, 142,     140,       141};

struct input {
    const uint8_t *data;
    size_t left;
    uint8_t present; /* bits: which fields exist, by a hash of their names */
};

static uint8_t
next_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->data++;
}

static int
find(void *event_class, enum vg_field_scope scope, const char *name)
{
    const struct input *input = event_class;

    if (!(input->present >> (g_str_hash(name) % 8) & 1))
        return -1;
    return scope == VG_SCOPE_CONTEXT ? 1 : 2;
}

static bool
get_int(const void *record, int handle, int64_t *ret_value)
{
    struct input *input = *(struct input *const *)record;
    uint8_t byte = next_byte(input);

    (void)handle;
    if (byte >= 0xf0)
        return false;
    *ret_value = byte < G_N_ELEMENTS(nasty) ? nasty[byte] : byte;
    return true;
}

static bool
get_str(const void *record, int handle, char *buf, size_t size)
{
    struct input *input = *(struct input *const *)record;
    size_t length = next_byte(input) % 32;

    (void)handle;
    memset(buf, 0, size);
    for (size_t i = 0; i < length; i++) {
        uint8_t byte = next_byte(input);
        if (i < size - 1 && byte != 0)
            buf[i] = (char)byte;
        else if (byte == 0)
            break;
    }
    return true;
}

static const struct vg_field_reader reader = {find, get_int, get_str};

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
feed_one(struct input *input, vg_cpu_ledger *ledger, int64_t ts_ns)
{
    struct vg_adapt_env env;
    struct vg_binding binding;
    struct vg_event event = {.ts_ns = ts_ns};
    const char *name = event_names[next_byte(input) % G_N_ELEMENTS(event_names)];

    vg_adapt_env_init(&env, NULL);
    input->present = next_byte(input);
    event.cpu = (int16_t)(next_byte(input) % 4) - 1;
    vg_binding_init(&binding, name, &reader, input);
    if (vg_binding_read(&binding, &env, &input, &event))
        return;
    check_event(&event);
    vg_cpu_ledger_feed(ledger, &event);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {.data = data, .left = size};
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_cpu_ledger) ledger = vg_cpu_ledger_new(topology);
    struct vg_window window;
    int64_t now = 1000;

    vg_cpu_ledger_keep_tasks(ledger, true);
    while (input.left > 0) {
        now += next_byte(&input);
        feed_one(&input, ledger, now);
    }
    vg_cpu_ledger_read_period(ledger, now, true, &window);
    check_window(&window);
    vg_window_clear(&window);
    return 0;
}
