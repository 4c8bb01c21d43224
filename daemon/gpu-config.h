/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of group [gpu] of the configuration, and the collector that they ask for. Main thread.
 */
#ifndef VG_DAEMON_GPU_CONFIG_H
#define VG_DAEMON_GPU_CONFIG_H

#include "collectors/collector.h"
#include "daemon/daemon-config.h"

/* Makes the collector. Returns NULL if none is configured. */
vg_collector *vg_gpu_config_collector(const struct vg_daemon_config *config);

#endif
