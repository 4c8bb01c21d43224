/* SPDX-License-Identifier: Apache-2.0
 *
 * What [lttng] of the configuration means: whether a live session is read, and whose host it is.
 * Main thread.
 */
#ifndef VG_DAEMON_LTTNG_CONFIG_H
#define VG_DAEMON_LTTNG_CONFIG_H

#include "collectors/collector.h"
#include "daemon/daemon-config.h"

/* Do the keys fit together? VG_E_INVALID: no. */
int vg_lttng_config_check(const struct vg_daemon_config *config, GError **err);

/* The name of another machine than this one that is traced, and measured instead of this one; NULL:
 * there is none. The caller frees it. */
char *vg_lttng_config_elsewhere(const struct vg_daemon_config *config);

/* NULL without *err: no session is to be read. */
vg_collector *vg_lttng_config_collector(const struct vg_daemon_config *config, GError **err);

#endif
