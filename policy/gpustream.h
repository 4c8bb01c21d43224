/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts recorded requests to a scenario that replays them under any scheduler. Pure; one thread
 * at a time.
 *
 * A client waits for its requests before it continues, so under another scheduler they arrive at
 * other times. The requests of one VM to one engine (a lane) are assumed to come from one thread
 * that submits them in order. A request arrives when three conditions hold: the previous one was
 * submitted, as many earlier requests have ended as in the recording, and the same further time has
 * passed. If there was never more than one request, this is a think time after the end of the
 * previous one. A client with two frames in flight keeps two, and a client that waits for a batch
 * waits for the batch. So in no replay do more requests of a lane wait at a time than in the
 * recording.
 *
 * A lane is open in two cases; its requests then arrive at their recorded times. Either more than
 * VG_GPUSTREAM_DEPTH_MAX are present at a time, so that no thread waits for them. Or something
 * other than their ends sets the pace, such as a display: the times between arrivals are steadier
 * by VG_GPUSTREAM_PACED than the think times, and the latter vary. A finished lane starts again,
 * because VMs continue to do what they did.
 *
 * Dependencies on requests of other engines or VMs are not detected.
 */
#ifndef VG_POLICY_GPUSTREAM_H
#define VG_POLICY_GPUSTREAM_H

#include "policy/gpusched.h"

#define VG_GPUSTREAM_DEPTH_MAX 32
#define VG_GPUSTREAM_PACED     2    /* a multiple of the standard deviation */
#define VG_GPUSTREAM_VARIES    0.01 /* a part of the mean time from one to the next, at least */
#define VG_GPUSTREAM_PACED_MIN 20   /* the number of requests from which that is judged */

/* A request that was recorded from its arrival to its end; times count from the start of the
 * part. */
struct vg_gpustream_request {
    int64_t arrival_ns; /* 0 to the end of the part */
    int64_t done_ns;    /* not before */
    int64_t exec_ns;
    uint32_t vm;    /* index into the scenario */
    uint8_t engine; /* index into the engines of the scenario */
};

/* Figures of one VM, on all engines together. Latency is the time from arrival to end of finished
 * requests. Percentiles are the value at ceil(p * n) of the sorted ones, or 0 without any. */
struct vg_gpustream_figures {
    uint64_t requests; /* those that are done */
    double requests_per_s;
    double share;          /* exec / duration; may exceed 1 on several engines */
    int64_t wait_ns_per_s; /* time in which requests were present and did not run */
    int64_t latency_mean_ns;
    int64_t latency_p50_ns, latency_p95_ns, latency_p99_ns;
};

/* Returns the figures of latencies in any order, which it sorts. */
struct vg_gpustream_figures vg_gpustream_figures_of(GArray *latencies, int64_t exec_ns,
                                                    int64_t wait_ns, int64_t duration_ns);

/* Creates the streams of the scenario's VMs, which have none yet, and sorts the requests by
 * arrival. Duration, engines and VMs of the scenario must be set. Sizes are limited to the range
 * from 1 to VG_GPUSCHED_TIME_MAX, think times to the same maximum. Returns the recorded figures: a
 * struct vg_gpustream_figures for each VM. */
GArray *vg_gpustream_fill(struct vg_gpusched_scenario *scenario, GArray *requests);

#endif
