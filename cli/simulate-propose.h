/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl simulate --propose: determines whether another mode of the GPU's scheduler would be
 * better.
 */
#ifndef VG_CLI_SIMULATE_PROPOSE_H
#define VG_CLI_SIMULATE_PROPOSE_H

#include "cli/output.h"
#include "cli/simulate-stream.h"

/* Makes a proposal for each GPU of a recording. */
int vg_propose_streams(const GPtrArray *streams, const struct vg_gpumode_config *config,
                       enum vg_output_format format, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Makes a proposal for a scenario, which is in the present mode. */
int vg_propose_scenario(const struct vg_gpusched_scenario *scenario,
                        enum vg_gpumode_platform platform, const struct vg_gpumode_config *config,
                        enum vg_output_format format, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
