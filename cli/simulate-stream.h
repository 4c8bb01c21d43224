/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU requests of a recording as simulator scenarios, one per GPU.
 */
#ifndef VG_CLI_SIMULATE_STREAM_H
#define VG_CLI_SIMULATE_STREAM_H

#include "cli/simulate-options.h"
#include "cli/trace-args.h"

/* The maximum number of requests that are used: those that ended first. */
#define VG_STREAM_REQUESTS_MAX 1000000

/* Owner of requests that do not belong to a VM: host processes and the kernel. */
#define VG_STREAM_HOST "(host)"

struct vg_stream {
    char *device;
    GPtrArray *engines; /* char *; engine i of the scenario */
    enum vg_gpumode_platform platform;
    struct vg_gpusched_scenario *scenario; /* in the present mode */
    GArray *measured;                      /* struct vg_gpustream_figures, for each VM */
    GPtrArray *notes;                      /* char *: what was omitted */
};

/* Returns whether this is a recording: a directory, or text other than a JSON object. An
 * unreadable path is not. */
bool vg_stream_is_trace(const char *path);

/* Returns struct vg_stream in the order of devices; the caller frees it. Fails with VG_E_NOT_FOUND
 * if no VM has a request on the device, or on any. */
GPtrArray *vg_stream_read(struct vg_trace_args *args, const struct vg_simulate_options *options,
                          GError **err);

/* Reports on stderr what was omitted. */
void vg_stream_warn(const struct vg_stream *stream);

#endif
