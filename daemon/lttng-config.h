/* SPDX-License-Identifier: Apache-2.0
 *
 * Interprets the configuration's [lttng] group: whether to read a live session, and which host the
 * session traces. Main thread.
 */
#ifndef VG_DAEMON_LTTNG_CONFIG_H
#define VG_DAEMON_LTTNG_CONFIG_H

#include "collectors/collector.h"
#include "collectors/window-grid.h"
#include "daemon/daemon-config.h"

/* Checks that the keys are consistent. If not, returns -1 with VG_E_INVALID. */
int vg_lttng_config_check(const struct vg_daemon_config *config, GError **err);

/* Returns the name of the traced machine if it is another machine, which is then measured instead
 * of this one. Otherwise returns NULL. The caller frees it. */
char *vg_lttng_config_elsewhere(const struct vg_daemon_config *config);

/* Creates the collector. Returns NULL without setting *err if vgpud reads no session. */
vg_collector *vg_lttng_config_collector(const struct vg_daemon_config *config, vg_window_grid *grid,
                                        GError **err);

#endif
