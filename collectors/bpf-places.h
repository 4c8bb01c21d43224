/* SPDX-License-Identifier: Apache-2.0
 *
 * The time of a watched thread on each CPU since the last reading of its record. One thread at a
 * time.
 */
#ifndef VG_COLLECTORS_BPF_PLACES_H
#define VG_COLLECTORS_BPF_PLACES_H

#include <glib.h>

#include "collectors/bpf-record.h"

/* The state of the last reading; zeroed at first. */
struct vg_bpf_places {
    unsigned n;
    struct vg_bpf_place last[VG_BPF_PLACES];
};

/* Adds new time to places (struct vg_place). The total is at most the time that the thread ran and
 * waited since the last reading. A CPU whose place was reused for other CPUs may get too little. */
void vg_bpf_places_take(struct vg_bpf_places *places, const struct vg_bpf_reading *reading,
                        int64_t run_ns, int64_t wait_ns, GArray *to);

#endif
