/* SPDX-License-Identifier: Apache-2.0
 *
 * Scheduler and process tracepoints: LTTng (`tid`, prio - 100), perf and ftrace (`pid`, which is
 * also a thread id there), LTTng's state dump and perf's own comm records.
 */
#include "config.h"

#include <string.h>

#include "model/figures.h"
#include "trace/adapter.h"

/* No kernel records more state bits than these (TASK_STATE_MAX never passed 0x2000). */
#define PREV_STATE_LIMIT 0xffff

/* Detects states that are one bit too high. The idle task never sleeps, so a record that says it
 * does proves this, unless a record shows the running state, which such a kernel never does. */
static void
learn_state_shift(struct vg_adapt_env *env, int32_t prev_tid, bool is_running, bool is_sleeping)
{
    if (is_running)
        env->state_shift = VG_SHIFT_NONE;
    else if (is_sleeping && prev_tid == 0 && env->state_shift == VG_SHIFT_UNKNOWN)
        env->state_shift = VG_SHIFT_ONE_BIT;
}

/* State letters, as spelled by TASK_STATE_TO_CHAR_STR and the sched_switch print format. A '+'
 * marks a thread that was preempted, and '|' joins several states. trace-cmd writes x for 0x40,
 * which means an exit before kernel 4.14, where X and Z do not occur, and parked since then. */
static bool
parse_prev_state(struct vg_adapt_env *env, const char *text, uint8_t *ret)
{
    bool is_shifted = env->state_shift == VG_SHIFT_ONE_BIT;

    env->shows_exits |= strpbrk(text, "XZ") != NULL;
    if (strchr(text, '+') || strcmp(text, is_shifted ? "S" : "R") == 0)
        *ret = VG_PREV_RUNNABLE;
    else if (strpbrk(text, is_shifted ? "ZP" : "XZ") || (text[0] == 'x' && !env->shows_exits))
        *ret = VG_PREV_EXITED;
    else if (text[0] && strspn(text, "RSDTtKWPNIx|") == strlen(text))
        *ret = VG_PREV_BLOCKED;
    else
        return false;
    return true;
}

static bool
read_prev_state(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
                struct vg_event *event)
{
    uint8_t *ret = &event->sched_switch.prev_state;
    int64_t state;
    char text[32];

    if (vg_binding_int(binding, VG_SLOT_PREV_STATE, record, &state)) {
        if (state < 0 || state > PREV_STATE_LIMIT)
            return false;
        learn_state_shift(env, event->sched_switch.prev_tid, state == 0, state == 1);
        if (env->state_shift == VG_SHIFT_ONE_BIT && !(state & env->state_max_bit))
            state >>= 1;
        *ret = (uint8_t)vg_prev_state_of(state, env->state_max_bit);
        return true;
    }
    if (!vg_binding_str(binding, VG_SLOT_PREV_STATE, record, text, sizeof(text)))
        return false;
    learn_state_shift(env, event->sched_switch.prev_tid, strcmp(text, "R") == 0,
                      strcmp(text, "S") == 0);
    return parse_prev_state(env, text, ret);
}

static const char *
read_switch(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    if (!vg_binding_tid(binding, VG_SLOT_PREV_TID, record, &event->sched_switch.prev_tid) ||
        !vg_binding_tid(binding, VG_SLOT_NEXT_TID, record, &event->sched_switch.next_tid))
        return "sched_switch with an invalid thread ID";
    if (!read_prev_state(binding, env, record, event))
        return "sched_switch with an invalid prev_state";
    vg_binding_str(binding, VG_SLOT_PREV_COMM, record, event->sched_switch.prev_comm, VG_COMM_LEN);
    vg_binding_str(binding, VG_SLOT_NEXT_COMM, record, event->sched_switch.next_comm, VG_COMM_LEN);
    return NULL;
}

/* Reads a CPU number, or VG_NONE if the record has none. Returns false if it is invalid. */
static bool
read_cpu(const struct vg_binding *binding, enum vg_slot slot, const void *record, int32_t *ret)
{
    int64_t cpu;

    *ret = VG_NONE;
    if (!vg_binding_int(binding, slot, record, &cpu))
        return true;
    if (cpu < 0 || cpu >= VG_CPU_LIMIT)
        return false;
    *ret = (int32_t)cpu;
    return true;
}

static const char *
read_wakeup(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
            struct vg_event *event)
{
    int64_t success;

    (void)env;
    /* Kernels before 4.3 also record attempts. */
    if (vg_binding_int(binding, VG_SLOT_SUCCESS, record, &success) && success == 0) {
        event->type = VG_EVENT_OTHER;
        return NULL;
    }
    if (!vg_binding_tid(binding, VG_SLOT_TID, record, &event->wakeup.tid))
        return "wakeup of an invalid thread ID";
    if (!read_cpu(binding, VG_SLOT_CPU, record, &event->wakeup.target_cpu))
        return "wakeup on an invalid CPU";
    vg_binding_str(binding, VG_SLOT_COMM, record, event->wakeup.comm, VG_COMM_LEN);
    return NULL;
}

static const char *
read_migrate(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
             struct vg_event *event)
{
    (void)env;
    if (!vg_binding_tid(binding, VG_SLOT_TID, record, &event->migrate.tid))
        return "sched_migrate_task of an invalid thread ID";
    if (!read_cpu(binding, VG_SLOT_CPU, record, &event->migrate.dest_cpu) ||
        !read_cpu(binding, VG_SLOT_ORIG_CPU, record, &event->migrate.orig_cpu) ||
        event->migrate.dest_cpu == VG_NONE)
        return "sched_migrate_task with an invalid CPU";
    vg_binding_str(binding, VG_SLOT_COMM, record, event->migrate.comm, VG_COMM_LEN);
    return NULL;
}

static const char *
read_process(const struct vg_binding *binding, struct vg_adapt_env *env, const void *record,
             struct vg_event *event)
{
    int64_t kind;

    (void)env;
    if (!vg_binding_tid(binding, VG_SLOT_TID, record, &event->process.tid))
        return "process event of an invalid thread ID";
    event->process.pid = VG_NONE;
    /* perf and ftrace name a fork's thread id `child_pid`. LTTng has both ids. */
    if (binding->handle[VG_SLOT_PID] != binding->handle[VG_SLOT_TID])
        vg_binding_tid(binding, VG_SLOT_PID, record, &event->process.pid);
    event->process.kind = VG_THREAD_UNKNOWN;
    if (vg_binding_int(binding, VG_SLOT_KIND, record, &kind))
        event->process.kind = kind == 1 ? VG_THREAD_KERNEL : VG_THREAD_USER;
    vg_binding_str(binding, VG_SLOT_COMM, record, event->process.comm, VG_COMM_LEN);
    return NULL;
}

static const struct vg_adapter_field adapt_sched_switch_fields[] = {
    {VG_SLOT_PREV_TID, true, {"prev_tid", "prev_pid"}},
    {VG_SLOT_PREV_STATE, true, {"prev_state"}},
    {VG_SLOT_PREV_COMM, false, {"prev_comm"}},
    {VG_SLOT_NEXT_TID, true, {"next_tid", "next_pid"}},
    {VG_SLOT_NEXT_COMM, false, {"next_comm"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field wakeup_fields[] = {
    {VG_SLOT_TID, true, {"tid", "pid"}},
    {VG_SLOT_COMM, false, {"comm"}},
    {VG_SLOT_CPU, false, {"target_cpu"}},
    {VG_SLOT_SUCCESS, false, {"success"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field migrate_fields[] = {
    {VG_SLOT_TID, true, {"tid", "pid"}},
    {VG_SLOT_COMM, false, {"comm"}},
    {VG_SLOT_CPU, true, {"dest_cpu"}},
    {VG_SLOT_ORIG_CPU, false, {"orig_cpu"}},
    {.names = {NULL}},
};

/* lttng_statedump_process_state{tid,vtid,pid,...,name,type,...}; type 1 is a kernel thread. */
static const struct vg_adapter_field statedump_fields[] = {
    {VG_SLOT_TID, true, {"tid"}},
    {VG_SLOT_PID, false, {"pid"}},
    {VG_SLOT_COMM, false, {"name"}},
    {VG_SLOT_KIND, false, {"type"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field fork_fields[] = {
    {VG_SLOT_TID, true, {"child_tid", "child_pid"}},
    {VG_SLOT_PID, false, {"child_pid"}},
    {VG_SLOT_COMM, false, {"child_comm"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field free_fields[] = {
    {VG_SLOT_TID, true, {"tid", "pid"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field rename_fields[] = {
    {VG_SLOT_TID, true, {"tid", "pid"}},
    {VG_SLOT_COMM, false, {"newcomm"}},
    {.names = {NULL}},
};

static const struct vg_adapter_field perf_comm_fields[] = {
    {VG_SLOT_TID, true, {"tid"}},
    {VG_SLOT_PID, false, {"pid"}},
    {VG_SLOT_COMM, false, {"comm"}},
    {.names = {NULL}},
};

const struct vg_adapter vg_adapt_sched[] = {
    {{"sched_switch"}, VG_EVENT_SCHED_SWITCH, adapt_sched_switch_fields, read_switch, 0, 0},
    {{"sched_wakeup", "sched_wakeup_new"}, VG_EVENT_SCHED_WAKEUP, wakeup_fields, read_wakeup, 0, 0},
    {{"sched_waking"}, VG_EVENT_SCHED_WAKING, wakeup_fields, read_wakeup, 0, 0},
    {{"sched_migrate_task"}, VG_EVENT_SCHED_MIGRATE, migrate_fields, read_migrate, 0, 0},
    {{"lttng_statedump_process_state"}, VG_EVENT_PROCESS, statedump_fields, read_process, 0, 0},
    {{"sched_process_fork"}, VG_EVENT_PROCESS_FORK, fork_fields, read_process, 0, 0},
    {{"sched_process_free"}, VG_EVENT_PROCESS_END, free_fields, read_process, 0, 0},
    {{"task_rename"}, VG_EVENT_PROCESS, rename_fields, read_process, 0, 0},
    {{"perf_comm", "perf_fork"}, VG_EVENT_PROCESS, perf_comm_fields, read_process, 0, 0},
    {.names = {NULL}},
};

const struct vg_adapter_need vg_adapt_sched_needs[] = {
    {.event = "sched_switch",
     .types = VG_SEEN_TYPE(VG_EVENT_SCHED_SWITCH),
     .lack = VG_CPU_NO_SWITCHES,
     .with = VG_SEEN_TYPE(VG_EVENT_SCHED_WAKEUP) | VG_SEEN_TYPE(VG_EVENT_SCHED_WAKING) |
             VG_SEEN_TYPE(VG_EVENT_KVM_ENTRY) | VG_SEEN_TYPE(VG_EVENT_KVM_EXIT),
     .beside = "other events of the CPUs"},
    {.event = "sched_wakeup",
     .types = VG_SEEN_TYPE(VG_EVENT_SCHED_WAKEUP) | VG_SEEN_TYPE(VG_EVENT_SCHED_WAKING),
     .lack = VG_CPU_NO_WAKEUPS,
     .with = VG_SEEN_TYPE(VG_EVENT_SCHED_SWITCH),
     .beside = "sched_switch"},
    {0},
};
