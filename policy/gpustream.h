/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes recorded requests a scenario that plays them again under any scheduler. Pure; one thread at
 * a time.
 *
 * A client waits for its requests before it goes on, so that under another scheduler they come at
 * other times. The requests of one VM to one engine (a lane) are taken to come from one thread that
 * makes requests in order: the next one comes when the one before has been made, as many of the
 * earlier ones have ended as had when it came, and then as much time has passed as had. If there
 * was never more than one, that is a think time after the end of the one before; a client with two
 * frames in flight keeps two, and one that waits for a batch waits for the batch. So in no replay
 * do more requests of a lane wait at a time than did.
 *
 * A lane is open instead, and its requests come when they came, if more than VG_GPUSTREAM_DEPTH_MAX
 * are there at a time (nobody waits for them), or if something other than their ends sets the pace,
 * as a display does: the times from one to the next are steadier by VG_GPUSTREAM_PACED than the
 * times from what it would wait for to its arrival, and these do vary. A lane that is through
 * begins anew, since VMs go on doing what they did.
 *
 * Dependencies on requests of other engines or VMs are not seen.
 */
#ifndef VG_POLICY_GPUSTREAM_H
#define VG_POLICY_GPUSTREAM_H

#include "policy/gpusched.h"

#define VG_GPUSTREAM_DEPTH_MAX 32
#define VG_GPUSTREAM_PACED     2    /* a multiple of the standard deviation */
#define VG_GPUSTREAM_VARIES    0.01 /* a part of the mean time from one to the next, at least */
#define VG_GPUSTREAM_PACED_MIN 20   /* the number of requests from which that is judged */

/* A request that was recorded from its arrival to its end; times from the beginning of the part. */
struct vg_gpustream_request {
    int64_t arrival_ns; /* 0 to the end of the part */
    int64_t done_ns;    /* not before */
    int64_t exec_ns;
    uint32_t vm;    /* index into the scenario */
    uint8_t engine; /* index into the engines of the scenario */
};

/* The figures of one VM, on all engines together. Latency is the time from arrival to end, of
 * requests that are done; percentiles are the value at ceil(p * n) of the sorted ones. 0 without
 * any. */
struct vg_gpustream_figures {
    uint64_t requests; /* those that are done */
    double requests_per_s;
    double share;          /* exec / duration, which may be above 1 on several engines */
    int64_t wait_ns_per_s; /* the time in which requests were there and did not run */
    int64_t latency_mean_ns;
    int64_t latency_p50_ns, latency_p95_ns, latency_p99_ns;
};

/* Returns the figures of times in any order, which it sorts. */
struct vg_gpustream_figures vg_gpustream_figures_of(GArray *latencies, int64_t exec_ns,
                                                    int64_t wait_ns, int64_t duration_ns);

/* Makes the streams of the scenario's VMs, which have none, and sorts the requests by arrival.
 * Duration, engines and VMs of the scenario are set already. Sizes are cut to the range from 1 to
 * VG_GPUSCHED_TIME_MAX, think times to the same maximum. Returns the recorded figures: for each VM
 * a struct vg_gpustream_figures. */
GArray *vg_gpustream_fill(struct vg_gpusched_scenario *scenario, GArray *requests);

#endif
