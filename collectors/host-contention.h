/* SPDX-License-Identifier: Apache-2.0
 *
 * How scarce CPU time is on the whole host, in three figures that cost two reads of /proc and /sys.
 * One thread.
 */
#ifndef VG_COLLECTORS_HOST_CONTENTION_H
#define VG_COLLECTORS_HOST_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/window.h"

/* Zeroed at first; roots are borrowed. */
struct vg_host_contention {
    const char *proc;   /* "/proc" but in tests */
    const char *cgroup; /* "/sys/fs/cgroup" but in tests */
    int64_t tick_ns;    /* unit of /proc/stat */
    bool read;
    int64_t steal_ns; /* counters at the last reading, -1: not there */
    int64_t busy_ns;
    int64_t pressure_ns;
};

/* What happened since the last reading; after the first one, and where the host does not tell,
 * times are -1. own_ns is that of all threads, vCPUs included: the caller knows who these are. */
void vg_host_contention_read(struct vg_host_contention *state, struct vg_host_sample *ret);

/* The texts. -1: they do not say. of /proc/stat: ticks of all CPUs that another machine took, ticks
 * in which they were busy here, and threads that run or wait for a CPU; of cpu.pressure: us in
 * which somebody waited. */
int64_t vg_host_parse_steal(const char *stat);
int64_t vg_host_parse_busy(const char *stat);
int64_t vg_host_parse_runnable(const char *stat);
int64_t vg_host_parse_pressure(const char *pressure);

#endif
