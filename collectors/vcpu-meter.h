/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes figures of a window from cumulative counters of a thread. The counters lag behind the
 * clock: the kernel adds to them when a thread leaves the CPU, or at a tick. Their growth is
 * therefore fitted into the time observed, and the rest waits for the next window, so that sums
 * over windows are right and run + wait + blocked is exactly the time observed. Pure.
 */
#ifndef VG_COLLECTORS_VCPU_METER_H
#define VG_COLLECTORS_VCPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/cpu-figures.h"

/* The counters of one thread at one moment. */
struct vg_vcpu_reading {
    int64_t at_ns; /* CLOCK_MONOTONIC */
    uint64_t run_ns;
    uint64_t wait_ns;
    uint64_t guest_ns;
    uint64_t voluntary;
    uint64_t nonvoluntary;
};

struct vg_vcpu_meter {
    struct vg_vcpu_reading last;
    bool started;
    int64_t run_left_ns; /* counted, and not yet given out */
    int64_t wait_left_ns;
    int64_t guest_left_ns;
    bool guest_moved; /* the guest counter has moved */
};

/* Returns the figures from the last reading to this one, whose time becomes the last one. false:
 * this is the first reading, and *ret is untouched. A counter that goes backwards counts
 * nothing. */
bool vg_vcpu_meter_read(struct vg_vcpu_meter *meter, const struct vg_vcpu_reading *reading,
                        struct vg_cpu_figures *ret);

#endif
