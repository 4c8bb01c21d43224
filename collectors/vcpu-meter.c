/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/vcpu-meter.h"

#include <glib.h>

static uint64_t
vcpu_meter_moved(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

/* Adds the growth of a counter to the rest, and returns as much of it as fits into room_ns. */
static int64_t
give(int64_t *left_ns, uint64_t more_ns, int64_t room_ns)
{
    /* A counter that jumps by more than 292 years is broken. Limit it to prevent an overflow. */
    *left_ns += (int64_t)MIN(more_ns, (uint64_t)(INT64_MAX - *left_ns));
    int64_t given = MIN(*left_ns, room_ns);
    *left_ns -= given;
    return given;
}

bool
vg_vcpu_meter_read(struct vg_vcpu_meter *meter, const struct vg_vcpu_reading *reading,
                   struct vg_cpu_figures *ret)
{
    struct vg_vcpu_reading last = meter->last;

    meter->last = *reading;
    if (!meter->started) {
        meter->started = true;
        return false;
    }
    struct vg_cpu_figures f = {.observed_ns = MAX(reading->at_ns - last.at_ns, 0)};
    uint64_t guest_ns = vcpu_meter_moved(last.guest_ns, reading->guest_ns);

    f.run_ns =
        give(&meter->run_left_ns, vcpu_meter_moved(last.run_ns, reading->run_ns), f.observed_ns);
    f.wake_wait_ns = give(&meter->wait_left_ns, vcpu_meter_moved(last.wait_ns, reading->wait_ns),
                          f.observed_ns - f.run_ns);
    f.blocked_ns = f.observed_ns - f.run_ns - f.wake_wait_ns;
    f.guest_ns = give(&meter->guest_left_ns, guest_ns, f.run_ns);
    /* Sampled guest time may be too high indefinitely, so the rest must not accumulate. */
    meter->guest_left_ns = MIN(meter->guest_left_ns, f.observed_ns);
    meter->guest_moved |= guest_ns > 0;
    f.preemptions = vcpu_meter_moved(last.nonvoluntary, reading->nonvoluntary);
    f.blocks = vcpu_meter_moved(last.voluntary, reading->voluntary);
    f.switches_out = f.preemptions + f.blocks;
    *ret = f;
    return true;
}
