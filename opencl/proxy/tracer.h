/* SPDX-License-Identifier: Apache-2.0
 *
 * Data for the tracepoints of vgpu-proxy-trace.
 */
#ifndef VG_OPENCL_PROXY_TRACER_H
#define VG_OPENCL_PROXY_TRACER_H

#include "opencl/proxy/trace.h"
#include "opencl/serve/progress.h"

struct vg_serve_counts;

struct tracer_client {
    struct proxy_traced told;
    struct vg_serve_counts *counts; /* shared with the client's process */
    uint64_t lost;                  /* lost records that were already reported */
    unsigned rounds;                /* since it ended */
};

struct tracer_record {
    struct vg_serve_progress_record told;
    const struct tracer_client *client;
    uint64_t number; /* position in the order of arrival */
};

extern const char *const tracer_kinds[VG_SERVE_KINDS];

#endif
