/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what the CPUs of the whole host did and how scarce CPU time, memory and disks were, with
 * some eight reads of /proc and /sys a window. One thread.
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
    const char *proc;   /* "/proc" but in tests */
    const char *cgroup; /* "/sys/fs/cgroup" but in tests */
    int64_t tick_ns;    /* unit of /proc/stat */
    bool read;
    int64_t steal_ns; /* counters at the last reading; -1: not there */
    int64_t busy_ns;
    int64_t pressure_ns;
    int64_t idle_ns;
    struct vg_pressure pressure[VG_RESOURCE_MAX];
    struct vg_host_cpus cpus;
};

/* Begins with the roots, which are "/proc", "/sys/fs/cgroup" and "/sys" except in tests. */
void vg_host_contention_init(struct vg_host_contention *state, const char *proc, const char *cgroup,
                             const char *sys);
void vg_host_contention_clear(struct vg_host_contention *state);

/* Reads what happened since the last reading; after the first one, and where the host does not
 * tell, times are -1. own_ns is that of all threads, vCPUs included, which the caller knows. cpus:
 * struct vg_host_cpu, filled. */
void vg_host_contention_read(struct vg_host_contention *state, struct vg_host_sample *ret,
                             GArray *cpus);

/* Reduces all times that were read of the host to a part of them (0 to 1). */
void vg_host_contention_cut(struct vg_window *window, double part);

/* Parse texts; -1: the text does not say. Of /proc/stat: ticks of all CPUs that another machine
 * took, ticks in which they were busy here or idle, and the number of threads that run or wait for
 * a CPU; of cpu.pressure: us in which somebody, or everybody, waited. Of /proc/loadavg: false
 * leaves *ret untouched. */
int64_t vg_host_parse_steal(const char *stat);
int64_t vg_host_parse_busy(const char *stat);
int64_t vg_host_parse_runnable(const char *stat);
int64_t vg_host_parse_idle(const char *stat);
int64_t vg_host_parse_pressure(const char *pressure);
int64_t vg_host_parse_full_pressure(const char *pressure);
bool vg_host_parse_load(const char *loadavg, double ret[3]);

#endif
