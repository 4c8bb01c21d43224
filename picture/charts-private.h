/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the charts share.
 */
#ifndef VG_PICTURE_CHARTS_PRIVATE_H
#define VG_PICTURE_CHARTS_PRIVATE_H

#include "picture/charts.h"
#include "picture/gpu-slices.h"
#include "picture/intervals.h"
#include "picture/step-sums.h"

/* Of requests that are of nobody who is known. */
#define CHARTS_NOBODY VG_PROCESS_NO_ID

/* A VM, or a process that uses a GPU. Its identity in the pictures is its index. */
struct chart_user {
    uint32_t index;
    struct vg_process *process; /* NULL: nobody who is known */
    struct chart_user *same;    /* itself, or who it turned out to be */
    char *name;
    char comm[VG_COMM_LEN];
    bool has_cpu;
    unsigned int demand, observed; /* series: of its vCPUs */
    int64_t told_demand_ns, told_observed_ns;
};

/* At least one request runs: as the GPU ledger counts it. */
struct chart_busy {
    unsigned int series;
    uint32_t running;
    int64_t since_ns; /* while running > 0 */
    int64_t until_ns; /* else; INT64_MIN: never */
};

struct chart_engine {
    uint16_t device;
    uint16_t name;
    uint32_t row; /* of requests */
    struct chart_busy busy;
};

/* A user of an engine. */
struct chart_use {
    const struct chart_engine *engine;
    struct chart_user *user;
    struct chart_use *same; /* itself, or the same of the same user */
    bool seen;              /* it took time */
    uint32_t row;
    struct chart_busy busy;
};

struct vg_charts {
    const vg_recording *recording;
    const vg_window_reader *reader; /* until the end of it */
    const vg_topology *topology;
    int64_t begin_ns, end_ns;
    int64_t peeked_ns; /* what vCPUs did is known up to here */
    vg_step_sums *sums;
    GPtrArray *users;       /* struct chart_user, owned */
    GPtrArray *engines;     /* struct chart_engine, owned */
    GPtrArray *uses;        /* struct chart_use, owned */
    GHashTable *by_process; /* its id -> struct chart_user */
    GHashTable *by_use;     /* process, device and engine -> struct chart_use */
    uint32_t rows;          /* of requests: of engines and uses */
    vg_gpu_slices *slices;
    vg_intervals *intervals;
    uint64_t stages; /* of requests: slices */
};

/* "card0 rcs0". The caller frees it. */
char *charts_engine_name(const struct vg_charts *charts, const struct chart_engine *engine);

#endif
