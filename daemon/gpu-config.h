/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the collector that the configuration's [gpu] group describes. Main thread.
 */
#ifndef VG_DAEMON_GPU_CONFIG_H
#define VG_DAEMON_GPU_CONFIG_H

#include "collectors/collector.h"
#include "collectors/window-grid.h"
#include "daemon/daemon-config.h"

/* grid: the end times of windows. Returns NULL if no GPU source is configured. */
vg_collector *vg_gpu_config_collector(const struct vg_daemon_config *config, vg_window_grid *grid);

#endif
