/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/wanted-events.h"

#include "base/error.h"

#define SPELLINGS_MAX 2

/* One of the spellings is enabled, the first that the tracer has. */
struct wanted {
    const char *spellings[VG_DIALECT_MAX][SPELLINGS_MAX];
    const char *without; /* what a recording without it lacks; NULL: nothing that is worth a word */
    bool essential;
};

/* sched_waking comes for each wakeup that sched_wakeup tells, too, so that only one of them is
 * recorded: the later one, which knows the CPU. The life of processes tells threads from others
 * that get their ids later; LTTng's state dump and task_rename give names and processes. */
static const struct wanted wanted[] = {
    {{{"sched:sched_switch"}, {"sched_switch"}}, "who runs", true},
    {{{"sched:sched_wakeup", "sched:sched_waking"}, {"sched_wakeup", "sched_waking"}},
     "how long a thread that was woken waits",
     false},
    {{{"sched:sched_wakeup_new"}, {"sched_wakeup_new"}}, NULL, false},
    {{{"sched:sched_migrate_task"}, {"sched_migrate_task"}},
     "which CPU a thread waits for after it was moved",
     false},
    {{{"sched:sched_process_fork"}, {"sched_process_fork"}}, NULL, false},
    {{{"sched:sched_process_exec"}, {"sched_process_exec"}}, NULL, false},
    {{{"sched:sched_process_exit"}, {"sched_process_exit"}}, NULL, false},
    {{{"sched:sched_process_free"}, {"sched_process_free"}}, NULL, false},
    {{{"task:task_rename"}, {NULL}}, NULL, false},
    {{{NULL}, {"lttng_statedump_process_state"}}, "the names of processes that sleep", false},
    {{{"kvm:kvm_entry"}, {"kvm_x86_entry", "kvm_entry"}}, "time in the guest", false},
    {{{"kvm:kvm_exit"}, {"kvm_x86_exit", "kvm_exit"}}, "exits of the guest", false},
};

int
vg_wanted_events_find(enum vg_event_dialect dialect, vg_has_event *has, const void *data,
                      struct vg_wanted_events *ret, GError **err)
{
    struct vg_wanted_events found = {
        .names = g_ptr_array_new(),
        .missing = g_ptr_array_new_with_free_func(g_free),
    };

    for (size_t i = 0; i < G_N_ELEMENTS(wanted); i++) {
        const char *const *spellings = wanted[i].spellings[dialect];
        const char *name = NULL;
        for (size_t j = 0; j < SPELLINGS_MAX && spellings[j] && !name; j++)
            name = has(data, spellings[j]) ? spellings[j] : NULL;
        if (name)
            g_ptr_array_add(found.names, (void *)name);
        if (name || !spellings[0] || !wanted[i].without)
            continue;
        if (wanted[i].essential) {
            vg_wanted_events_clear(&found);
            return vg_error(err, VG_E_NOT_FOUND, "there is no tracepoint %s, which tells %s",
                            spellings[0], wanted[i].without);
        }
        g_ptr_array_add(found.missing, g_strdup_printf("%s: there is no tracepoint %s",
                                                       wanted[i].without, spellings[0]));
    }
    *ret = found;
    return 0;
}

void
vg_wanted_events_clear(struct vg_wanted_events *events)
{
    g_clear_pointer(&events->names, g_ptr_array_unref);
    g_clear_pointer(&events->missing, g_ptr_array_unref);
}
