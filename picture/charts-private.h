/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals that the charts' files share.
 */
#ifndef VG_PICTURE_CHARTS_PRIVATE_H
#define VG_PICTURE_CHARTS_PRIVATE_H

#include "picture/charts.h"
#include "picture/gpu-slices.h"
#include "picture/intervals.h"
#include "picture/step-sums.h"

/* The id of an unknown user of requests. */
#define CHARTS_NOBODY VG_PROCESS_NO_ID

/* A VM, or a process that uses a GPU. Its index identifies it in the charts. */
struct chart_user {
    uint32_t index;
    struct vg_process *process; /* NULL if the user is unknown */
    struct chart_user *same;    /* itself, or the user it was merged into */
    char *name;
    char comm[VG_COMM_LEN];
    bool has_cpu;
    unsigned int demand, observed; /* series of its vCPUs */
    int64_t told_demand_ns, told_observed_ns;
};

/* Periods with at least one running request, as the GPU ledger counts them. */
struct chart_busy {
    unsigned int series;
    uint32_t running;
    int64_t since_ns; /* valid while running > 0 */
    int64_t until_ns; /* valid while running == 0; INT64_MIN before the first */
};

struct chart_engine {
    uint16_t device;
    uint16_t name;
    uint32_t row; /* row in the chart of requests */
    struct chart_busy busy;
};

/* One user's use of an engine. */
struct chart_use {
    const struct chart_engine *engine;
    struct chart_user *user;
    struct chart_use *same; /* itself, or another entry with the same engine and user */
    bool seen;              /* the user has used the engine for some time */
    uint32_t row;
    struct chart_busy busy;
};

struct vg_charts {
    const vg_recording *recording;
    const vg_window_reader *reader; /* valid until the reader's end */
    const vg_topology *topology;
    int64_t begin_ns, end_ns;
    int64_t peeked_ns; /* vCPU activity is known up to here */
    vg_step_sums *sums;
    GPtrArray *users;       /* struct chart_user, owned */
    GPtrArray *engines;     /* struct chart_engine, owned */
    GPtrArray *uses;        /* struct chart_use, owned */
    GHashTable *by_process; /* its id -> struct chart_user */
    GHashTable *by_use;     /* process, device and engine -> struct chart_use */
    uint32_t rows;          /* rows in the chart of requests: engines and uses */
    vg_gpu_slices *slices;
    vg_intervals *intervals;
    uint64_t stages; /* number of slices of requests */
};

/* Returns the name of an engine, "card0 rcs0". The caller frees it. */
char *charts_engine_name(const struct vg_charts *charts, const struct chart_engine *engine);

#endif
