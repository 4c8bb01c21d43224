/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts, from the log of NVIDIA's vGPU scheduler, how often and for how long the scheduler
 * assigned an engine. The library returns the newest entries repeatedly. Pure; one thread.
 */
#ifndef VG_COLLECTORS_NVML_LOG_H
#define VG_COLLECTORS_NVML_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/nvml.h"

/* Run lists of one device: each vGPU has one per engine, and a device has up to 32 vGPUs. */
#define VG_NVML_RUNLISTS_MAX 256

struct vg_nvml_runlist {
    unsigned id;
    unsigned long long time; /* time of its newest entry */
    unsigned long long run_total;
};

/* The counter's state; initially zeroed. */
struct vg_nvml_log_meter {
    bool started;
    unsigned long long time; /* time of the newest entry of all */
    unsigned n_runlists;
    struct vg_nvml_runlist runlists[VG_NVML_RUNLISTS_MAX];
    /* Counts since they were last set to 0. */
    uint64_t slices; /* a lower bound: more than VG_NVML_LOG_MAX between two readings are lost */
    int64_t run_ns;
};

/* Counts new entries. The first call only sets the starting point. */
void vg_nvml_log_meter_feed(struct vg_nvml_log_meter *meter,
                            const struct vg_nvml_log_entry *entries, unsigned n_entries);

#endif
