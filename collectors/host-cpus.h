/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads each host CPU's busy, idle and stolen time and how long threads waited for it, with two
 * reads of /proc per window. One thread.
 */
#ifndef VG_COLLECTORS_HOST_CPUS_H
#define VG_COLLECTORS_HOST_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "host/cpu-list.h"
#include "model/window.h"

/* Initially zeroed; roots are borrowed. */
struct vg_host_cpus {
    const char *sys; /* "/sys" except in tests */
    int64_t tick_ns; /* unit of /proc/stat */
    const struct vg_cpu_list
        *only;         /* borrowed: other CPUs are left out; NULL to include all CPUs */
    GArray *last;      /* struct vg_host_cpu: counters at the last reading; NULL before the first */
    GHashTable *nodes; /* CPU -> its NUMA node; NULL if not read yet */
};

void vg_host_cpus_clear(struct vg_host_cpus *state);

/* Fills ret (struct vg_host_cpu) with the changes since the last reading for each CPU in the text
 * of /proc/stat that counts; empty in the first reading. schedstat is the text of /proc/schedstat.
 * If it is NULL, wait times are unknown. */
void vg_host_cpus_read(struct vg_host_cpus *state, const char *stat, const char *schedstat,
                       GArray *ret);

/* Parses the counters of the CPUs in the texts, in nanoseconds. Malformed lines are ignored. */
void vg_host_cpus_parse(const char *stat, const char *schedstat, int64_t tick_ns, GArray *ret);

/* Adds the CPUs of a list such as "0-3,8" with this node to a table from CPUs to nodes. */
void vg_host_cpus_parse_node(const char *list, int32_t node, GHashTable *nodes);

#endif
