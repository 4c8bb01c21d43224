/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tracepoints of vgpu-proxy-trace tell of.
 */
#ifndef VG_OPENCL_PROXY_TRACER_H
#define VG_OPENCL_PROXY_TRACER_H

#include "opencl/proxy/trace.h"
#include "opencl/serve/told.h"

struct vg_serve_counts;

struct tracer_client {
    struct proxy_traced told;
    struct vg_serve_counts *counts; /* in common with the client's process */
    uint64_t lost;                  /* that were told of */
    unsigned rounds;                /* since it was gone */
};

struct tracer_record {
    struct vg_serve_told_record told;
    const struct tracer_client *client;
    uint64_t number; /* in the order in which they were taken */
};

extern const char *const tracer_kinds[VG_SERVE_KINDS];

#endif
