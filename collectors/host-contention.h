/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the CPU use of the whole host and the pressure on CPU time, memory and disks, with about
 * eight reads of /proc and /sys per window. One thread.
 */
#ifndef VG_COLLECTORS_HOST_CONTENTION_H
#define VG_COLLECTORS_HOST_CONTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectors/host-cpus.h"
#include "model/window.h"

/* Roots are borrowed. */
struct vg_host_contention {
    const char *proc;   /* "/proc" except in tests */
    const char *cgroup; /* "/sys/fs/cgroup" except in tests */
    int64_t tick_ns;    /* unit of /proc/stat */
    bool read;
    int64_t steal_ns; /* counters at the last reading; -1 if not available */
    int64_t busy_ns;
    int64_t pressure_ns;
    int64_t idle_ns;
    struct vg_pressure pressure[VG_RESOURCE_MAX];
    struct vg_host_cpus cpus;
};

/* Initialises the state. The roots are "/proc", "/sys/fs/cgroup" and "/sys" except in tests. */
void vg_host_contention_init(struct vg_host_contention *state, const char *proc, const char *cgroup,
                             const char *sys);
void vg_host_contention_clear(struct vg_host_contention *state);

/* Reads the changes since the last reading. Times are -1 in the first reading and if the host does
 * not report them. own_ns is the time of all threads including vCPUs, which the caller knows.
 * cpus: struct vg_host_cpu, filled. */
void vg_host_contention_read(struct vg_host_contention *state, struct vg_host_sample *ret,
                             GArray *cpus);

/* Reduces all times read from the host to a fraction (0 to 1). */
void vg_host_contention_cut(struct vg_window *window, double part);

/* Parse texts. They return -1 if the value is missing. /proc/stat: ticks of all CPUs that were
 * stolen, busy or idle, and the number of threads that are running or waiting for a CPU.
 * cpu.pressure: us during which some or all tasks waited. /proc/loadavg: returns false and leaves
 * *ret unchanged. */
int64_t vg_host_parse_steal(const char *stat);
int64_t vg_host_parse_busy(const char *stat);
int64_t vg_host_parse_runnable(const char *stat);
int64_t vg_host_parse_idle(const char *stat);
int64_t vg_host_parse_pressure(const char *pressure);
int64_t vg_host_parse_full_pressure(const char *pressure);
bool vg_host_parse_load(const char *loadavg, double ret[3]);

#endif
