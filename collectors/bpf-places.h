/* SPDX-License-Identifier: Apache-2.0
 *
 * What a watched thread did on each CPU since the last reading of its record. One thread at a time.
 */
#ifndef VG_COLLECTORS_BPF_PLACES_H
#define VG_COLLECTORS_BPF_PLACES_H

#include <glib.h>

#include "collectors/bpf-record.h"

/* Of the last reading; zeroed at first. */
struct vg_bpf_places {
    unsigned n;
    struct vg_bpf_place last[VG_BPF_PLACES];
};

/* Adds what is new to places (struct vg_place), which together is no more than the thread ran and
 * waited since then. A CPU that others took the place of may be told too little of. */
void vg_bpf_places_take(struct vg_bpf_places *places, const struct vg_bpf_reading *reading,
                        int64_t run_ns, int64_t wait_ns, GArray *to);

#endif
