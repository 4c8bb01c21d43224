/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's commands did at the device, counted in memory that the client's process has in
 * common with the proxy, which reads it. A command waits from when it came until all that was given
 * to the device before it is done, and it runs from then on until it is done itself: one client at
 * a time has the device, and what two queues do at once counts once. While nobody asks, nothing is
 * counted, and it costs nothing.
 */
#ifndef VG_OPENCL_WIRE_SERVE_METER_H
#define VG_OPENCL_WIRE_SERVE_METER_H

#include <stdatomic.h>

#include "opencl/wire/serve.h"

/* How long commands took is counted in buckets: 32 for each power of two of ns, from 2^10 (1 us) to
 * 2^42 (73 minutes); what is outside counts as what is next to it. */
#define VG_SERVE_TOOK_LOW  10
#define VG_SERVE_TOOK_SUBS 5
#define VG_SERVE_TOOK      (32 << VG_SERVE_TOOK_SUBS)

unsigned vg_serve_took_bucket(int64_t ns);

/* Returns the middle of a bucket in ns, which is within 1.6 % of all that is in it. */
int64_t vg_serve_took_middle(unsigned bucket);

struct vg_serve_counts {
    atomic_bool is_wanted;                /* by the proxy: somebody asks */
    _Atomic uint64_t came, done;          /* commands */
    _Atomic int64_t wait_ns, run_ns;      /* of those that are done */
    _Atomic uint64_t took[VG_SERVE_TOOK]; /* of them, by wait and run */
    _Atomic uint64_t memory;              /* bytes of memory objects */
    char device[64]; /* name of the device that was used first; empty: none yet */
};

/* Before CALL is done. */
void vg_serve_meter_came(struct vg_serve_call *call);

/* CALL has given a command to the device, whose end EVENT tells. */
void vg_serve_meter_given(struct vg_serve_call *call, cl_command_queue queue, cl_event event);

/* CALL has come back. What it gave to the device and no event tells of is done. */
void vg_serve_meter_back(struct vg_serve_call *call);

#endif
