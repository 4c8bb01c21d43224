/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU requests of a recording as scenarios of the simulator, one for each GPU.
 */
#ifndef VG_CLI_SIMULATE_STREAM_H
#define VG_CLI_SIMULATE_STREAM_H

#include "cli/simulate-options.h"
#include "cli/trace-args.h"

/* Of a recording, the first ones to end. */
#define VG_STREAM_REQUESTS_MAX 1000000

/* Who has requests that are no VM's: processes of the host, its kernel. */
#define VG_STREAM_HOST "(host)"

struct vg_stream {
    char *device;
    GPtrArray *engines; /* char *; engine i of the scenario */
    enum vg_gpumode_platform platform;
    struct vg_gpusched_scenario *scenario; /* in the present mode */
    GArray *measured;                      /* struct vg_gpustream_figures, for each VM */
    GPtrArray *notes;                      /* char *: what is not in it */
};

/* Whether this names a recording: a directory, or text that is no JSON object. What cannot be read
 * is none. */
bool vg_stream_is_trace(const char *path);

/* Struct vg_stream in the order of devices; the caller frees it. VG_E_NOT_FOUND if no VM has a
 * request on the device, or on any. */
GPtrArray *vg_stream_read(struct vg_trace_args *args, const struct vg_simulate_options *options,
                          GError **err);

/* Says on stderr what is not in it. */
void vg_stream_warn(const struct vg_stream *stream);

#endif
