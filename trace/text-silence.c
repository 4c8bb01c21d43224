/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-silence.h"

#include <glib.h>

/* A shorter silence, or one that is not longer than the others by this factor, proves nothing: perf
 * script omits records on KVM hosts. */
#define SILENCE_MIN_NS 100000000
#define SILENCE_FACTOR 10

void
vg_text_silence_init(struct vg_text_silence *silence)
{
    *silence = (struct vg_text_silence){.running = g_new(int32_t, VG_CPU_LIMIT)};
    vg_text_silence_forget(silence);
}

void
vg_text_silence_clear(struct vg_text_silence *silence)
{
    g_clear_pointer(&silence->running, g_free);
}

void
vg_text_silence_forget(struct vg_text_silence *silence)
{
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++)
        silence->running[i] = VG_NONE;
}

int64_t
vg_text_silence_take(struct vg_text_silence *silence, const struct vg_event *event, int64_t last_ns)
{
    if (event->cpu < 0)
        return 0;
    const bool is_switch = event->type == VG_EVENT_SCHED_SWITCH;
    const int32_t tid = is_switch ? event->sched_switch.prev_tid : event->tid;
    const int32_t ran = silence->running[event->cpu];
    const int64_t silent_ns = event->ts_ns - last_ns;
    const bool is_gap = silent_ns >= SILENCE_MIN_NS &&
                        silent_ns / SILENCE_FACTOR >= silence->longest_ns && ran != VG_NONE &&
                        tid != VG_NONE && ran != tid;

    if (is_gap)
        vg_text_silence_forget(silence);
    else
        silence->longest_ns = MAX(silence->longest_ns, silent_ns);
    if (is_switch)
        silence->running[event->cpu] = event->sched_switch.next_tid;
    return is_gap ? silent_ns : 0;
}
