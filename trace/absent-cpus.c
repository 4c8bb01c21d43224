/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/absent-cpus.h"

#define WORDS (VG_CPU_LIMIT / 64)

/* The maximum number of CPU names in a message. */
#define NAMED_MAX 16

struct vg_absent_cpus {
    uint64_t recorded[WORDS]; /* CPUs with events */
    uint64_t named[WORDS];    /* CPUs that events name */
    bool has_switch;
    bool is_vague; /* the CPU of a sched_switch was unknown */
};

vg_absent_cpus *
vg_absent_cpus_new(void)
{
    return g_new0(vg_absent_cpus, 1);
}

void
vg_absent_cpus_free(vg_absent_cpus *cpus)
{
    g_free(cpus);
}

static void
absent_cpus_set(uint64_t *set, int32_t cpu)
{
    if (cpu >= 0)
        set[cpu / 64] |= UINT64_C(1) << (cpu % 64);
}

static bool
absent_cpus_has(const uint64_t *set, int32_t cpu)
{
    return set[cpu / 64] >> (cpu % 64) & 1;
}

int32_t
vg_absent_cpus_target(const struct vg_event *event)
{
    switch (event->type) {
    case VG_EVENT_SCHED_WAKEUP:
    case VG_EVENT_SCHED_WAKING:
        return event->wakeup.target_cpu;
    case VG_EVENT_SCHED_MIGRATE:
        return event->migrate.dest_cpu;
    default:
        return VG_NONE;
    }
}

void
vg_absent_cpus_note(vg_absent_cpus *cpus, const struct vg_event *event)
{
    if (event->type == VG_EVENT_LOST)
        return;
    absent_cpus_set(cpus->recorded, event->cpu);
    absent_cpus_set(cpus->named, vg_absent_cpus_target(event));
    if (event->type == VG_EVENT_SCHED_MIGRATE)
        absent_cpus_set(cpus->named, event->migrate.orig_cpu);
    if (event->type == VG_EVENT_SCHED_SWITCH) {
        cpus->has_switch = true;
        cpus->is_vague |= event->cpu == VG_NONE;
    }
}

/* Returns whether a CPU was recorded. One with its own stream was, even if nothing happened on
 * it. */
static bool
absent_cpus_is_recorded(const vg_absent_cpus *cpus, const vg_recording *recording, int32_t cpu)
{
    return absent_cpus_has(cpus->recorded, cpu) || absent_cpus_has(recording->stream_cpus, cpu);
}

bool
vg_absent_cpus_any(const vg_absent_cpus *cpus, const vg_recording *recording, bool at_end)
{
    if (!cpus->has_switch || cpus->is_vague)
        return false;
    for (size_t i = 0; i < WORDS; i++) {
        if (cpus->named[i] & ~cpus->recorded[i] & ~recording->stream_cpus[i])
            return true;
    }
    if (!at_end)
        return false;
    g_autoptr(GArray) list = vg_absent_cpus_list(cpus, recording);
    return list->len > 0;
}

/* Finds the range of CPU numbers (begin <= n < end) that are absent and named by no record. If a
 * head states the number of CPUs that are online, there are others only if fewer than that have
 * records. */
static void
absent_cpus_range(const vg_absent_cpus *cpus, const vg_recording *recording, int32_t *ret_begin,
                  int32_t *ret_end)
{
    int32_t n = 0, begin = VG_CPU_LIMIT, end = 0;

    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        if (!absent_cpus_is_recorded(cpus, recording, i))
            continue;
        n++;
        begin = MIN(begin, i);
        end = i + 1;
    }
    if (recording->host_cpus > 0) {
        begin = 0;
        end = n < recording->host_cpus ? MAX(end, recording->host_cpus) : 0;
    }
    *ret_begin = begin;
    *ret_end = end;
}

GArray *
vg_absent_cpus_list(const vg_absent_cpus *cpus, const vg_recording *recording)
{
    GArray *list = g_array_new(FALSE, FALSE, sizeof(int32_t));
    int32_t begin, end;

    if (!cpus->has_switch || cpus->is_vague)
        return list;
    absent_cpus_range(cpus, recording, &begin, &end);
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        if (((i >= begin && i < end) || absent_cpus_has(cpus->named, i)) &&
            !absent_cpus_is_recorded(cpus, recording, i))
            g_array_append_val(list, i);
    }
    return list;
}

struct vg_event
vg_absent_cpu_loss(int32_t cpu, int64_t ts_ns)
{
    return (struct vg_event){
        .ts_ns = ts_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .lost = {.end_ns = INT64_MAX, .no_gpu = true},
    };
}

char *
vg_absent_cpus_text(const GArray *list)
{
    GString *names = g_string_new(NULL);

    for (guint i = 0; i < list->len && i < NAMED_MAX; i++)
        g_string_append_printf(names, "%s%d", i > 0 ? ", " : "", g_array_index(list, int32_t, i));
    if (list->len > NAMED_MAX)
        g_string_append_printf(names, " and %u more", list->len - NAMED_MAX);
    return g_string_free(names, FALSE);
}

void
vg_absent_cpus_report(const vg_absent_cpus *cpus, vg_recording *recording)
{
    g_autoptr(GArray) list = vg_absent_cpus_list(cpus, recording);

    for (guint i = list->len; i > 0; i--) {
        if (!absent_cpus_has(cpus->named, g_array_index(list, int32_t, i - 1)))
            g_array_remove_index(list, i - 1);
    }
    if (list->len == 0)
        return;
    g_autofree char *names = vg_absent_cpus_text(list);
    vg_recording_problem(recording, recording->name, 0,
                         "CPU %s has no records, but threads are woken there, so their wait and "
                         "run times there are unknown",
                         names);
}
