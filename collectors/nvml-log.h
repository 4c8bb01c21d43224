/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts, from the log of NVIDIA's vGPU scheduler, how often an engine was given to somebody, and
 * for how long. The library hands out the newest entries again and again. Pure; one thread.
 */
#ifndef VG_COLLECTORS_NVML_LOG_H
#define VG_COLLECTORS_NVML_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/nvml.h"

/* Run lists of one device: a vGPU has one for each engine, and a device up to 32 vGPUs. */
#define VG_NVML_RUNLISTS_MAX 256

struct vg_nvml_runlist {
    unsigned id;
    unsigned long long time; /* time of its newest entry */
    unsigned long long run_total;
};

/* The state of the count; zeroed at first. */
struct vg_nvml_log_meter {
    bool started;
    unsigned long long time; /* time of the newest entry of all */
    unsigned n_runlists;
    struct vg_nvml_runlist runlists[VG_NVML_RUNLISTS_MAX];
    /* Counts since they were last set to 0. */
    uint64_t slices; /* at least: more than VG_NVML_LOG_MAX between two readings are lost */
    int64_t run_ns;
};

/* Counts new entries. The first call only sets where counting begins. */
void vg_nvml_log_meter_feed(struct vg_nvml_log_meter *meter,
                            const struct vg_nvml_log_entry *entries, unsigned n_entries);

#endif
