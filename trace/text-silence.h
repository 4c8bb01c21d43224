/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where a text without header lines was joined from two recordings. An idle host is also
 * silent, but then the thread that ran on a CPU before the silence writes its first record after
 * it. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_SILENCE_H
#define VG_TRACE_TEXT_SILENCE_H

#include "model/event.h"

struct vg_text_silence {
    int32_t *running;   /* VG_CPU_LIMIT: the thread by the CPU's last sched_switch, or VG_NONE */
    int64_t longest_ns; /* of all silences except the gaps between recordings */
};

void vg_text_silence_init(struct vg_text_silence *silence);
void vg_text_silence_clear(struct vg_text_silence *silence);

/* Takes the next event in order of time. last_ns is the time of the previous one. Returns the
 * length of the silence in between if a new recording starts with this event, or 0. */
int64_t vg_text_silence_take(struct vg_text_silence *silence, const struct vg_event *event,
                             int64_t last_ns);

/* Forgets what ran on the CPUs: records are missing here, and that is known. */
void vg_text_silence_forget(struct vg_text_silence *silence);

#endif
