/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that were recorded, as a scenario that plays them again under any scheduler. Pure; one
 * thread at a time.
 *
 * A client waits for its requests before it goes on, so that under another scheduler they come at
 * other times. What one VM asks of one engine (a lane) is taken to come from one thread that makes
 * requests in order: the next one comes when the one before has been made, so many of the earlier
 * ones have ended as had when it came, and then some time has passed, as it had. Where never more
 * than one was there, that is a think time after the end of the one before; a client with two
 * frames in flight keeps two, and one that waits for a batch waits for the batch. So in no replay
 * more requests of a lane wait at a time than did.
 *
 * A lane is open instead, its requests coming when they came, if more than VG_GPUSTREAM_DEPTH_MAX
 * are there at a time (nobody waits for them), or if something else than their ends sets the pace,
 * as a display does: the times from one to the next are steadier by VG_GPUSTREAM_PACED than the
 * times from what it would wait for to its arrival, and these do vary. A lane that is through
 * begins anew: VMs go on doing what they did.
 *
 * What depends on requests of other engines or VMs is not seen.
 */
#ifndef VG_POLICY_GPUSTREAM_H
#define VG_POLICY_GPUSTREAM_H

#include "policy/gpusched.h"

#define VG_GPUSTREAM_DEPTH_MAX 32
#define VG_GPUSTREAM_PACED     2    /* times the standard deviation */
#define VG_GPUSTREAM_VARIES    0.01 /* of the mean time from one to the next, at least */
#define VG_GPUSTREAM_PACED_MIN 20   /* requests from which that is judged */

/* A request that was recorded from its arrival to its end; times from the beginning of the part. */
struct vg_gpustream_request {
    int64_t arrival_ns; /* 0 to the end of the part */
    int64_t done_ns;    /* not before */
    int64_t exec_ns;
    uint32_t vm;    /* index into the scenario */
    uint8_t engine; /* index into the engines of the scenario */
};

/* What one VM gets, on all engines together. Latency is from arrival to end, of requests that are
 * done; percentiles are the value at ceil(p * n) of the sorted ones. 0 without any. */
struct vg_gpustream_figures {
    uint64_t requests; /* done */
    double requests_per_s;
    double share;          /* exec / duration: may be above 1 on several engines */
    int64_t wait_ns_per_s; /* in which requests were there and did not run */
    int64_t latency_mean_ns;
    int64_t latency_p50_ns, latency_p95_ns, latency_p99_ns;
};

/* Of times in any order, which are sorted. */
struct vg_gpustream_figures vg_gpustream_figures_of(GArray *latencies, int64_t exec_ns,
                                                    int64_t wait_ns, int64_t duration_ns);

/* Makes the streams of the scenario's VMs, which have none, and sorts the requests by arrival.
 * Duration, engines and VMs of the scenario are set already. Sizes are cut to 1 to
 * VG_GPUSCHED_TIME_MAX, think times to the same maximum. Returns what was recorded: for each VM a
 * struct vg_gpustream_figures. */
GArray *vg_gpustream_fill(struct vg_gpusched_scenario *scenario, GArray *requests);

#endif
