/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes a window's figures from a thread's cumulative counters. The counters lag behind the
 * clock, because the kernel updates them when a thread leaves the CPU, or at a tick. Their growth
 * is therefore limited to the time observed, and the rest carries over to the next window. Thus
 * sums over windows are correct, and run + wait + blocked is exactly the time observed. Pure.
 */
#ifndef VG_COLLECTORS_VCPU_METER_H
#define VG_COLLECTORS_VCPU_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "model/cpu-figures.h"

/* The counters of one thread at a point in time. */
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
    int64_t run_left_ns; /* counted but not reported yet */
    int64_t wait_left_ns;
    int64_t guest_left_ns;
    bool guest_moved; /* the guest counter has increased */
};

/* Returns the figures since the last reading, and stores this reading as the last. Returns false
 * and leaves *ret unchanged if this is the first reading. A counter that decreases counts as
 * unchanged. */
bool vg_vcpu_meter_read(struct vg_vcpu_meter *meter, const struct vg_vcpu_reading *reading,
                        struct vg_cpu_figures *ret);

#endif
