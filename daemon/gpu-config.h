/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the collector that the group [gpu] of the configuration asks for. Main thread.
 */
#ifndef VG_DAEMON_GPU_CONFIG_H
#define VG_DAEMON_GPU_CONFIG_H

#include "collectors/collector.h"
#include "collectors/window-grid.h"
#include "daemon/daemon-config.h"

/* grid: when windows end. Returns NULL if no such collector is configured. */
vg_collector *vg_gpu_config_collector(const struct vg_daemon_config *config, vg_window_grid *grid);

#endif
