/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what each CPU of the host did, with two reads of /proc a window: busy, idle, stolen, and
 * how long threads waited for it. One thread.
 */
#ifndef VG_COLLECTORS_HOST_CPUS_H
#define VG_COLLECTORS_HOST_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/window.h"

/* Zeroed at first; roots are borrowed. */
struct vg_host_cpus {
    const char *sys;   /* "/sys" but in tests */
    int64_t tick_ns;   /* unit of /proc/stat */
    GArray *last;      /* struct vg_host_cpu: counters at the last reading; NULL: there was none */
    GHashTable *nodes; /* CPU -> its NUMA node; NULL: not read yet */
};

void vg_host_cpus_clear(struct vg_host_cpus *state);

/* Fills ret (struct vg_host_cpu) with what happened since the last reading, of each CPU that the
 * text of /proc/stat has; after the first one it is empty. schedstat: the text of /proc/schedstat,
 * or NULL: how long threads waited is not known then. */
void vg_host_cpus_read(struct vg_host_cpus *state, const char *stat, const char *schedstat,
                       GArray *ret);

/* Parses the counters of the CPUs in the texts, in nanoseconds; odd lines are left out. */
void vg_host_cpus_parse(const char *stat, const char *schedstat, int64_t tick_ns, GArray *ret);

/* Adds the CPUs of a list like "0-3,8" to a table that leads from them to this node. */
void vg_host_cpus_parse_node(const char *list, int32_t node, GHashTable *nodes);

#endif
