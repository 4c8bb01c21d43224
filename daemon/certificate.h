/* SPDX-License-Identifier: Apache-2.0
 *
 * Warns about a certificate that has expired or will expire soon. Otherwise, only clients would
 * notice.
 */
#ifndef VG_DAEMON_CERTIFICATE_H
#define VG_DAEMON_CERTIFICATE_H

#include <stdint.h>

#include "api/api.h"

/* Logs a warning if the API's certificate expires within 30 days. path: its file. */
void vg_certificate_warn(const vg_api *api, const char *path);

/* Does the same once a day. *at_ns: CLOCK_MONOTONIC time of the last check; 0 at first. */
void vg_certificate_tick(const vg_api *api, const char *path, int64_t *at_ns);

#endif
