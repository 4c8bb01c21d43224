/* SPDX-License-Identifier: Apache-2.0
 *
 * Warns of a certificate that has ended or will soon, which nobody but clients would notice.
 */
#ifndef VG_DAEMON_CERTIFICATE_H
#define VG_DAEMON_CERTIFICATE_H

#include <stdint.h>

#include "api/api.h"

/* Logs a warning if the certificate that the API uses ends within 30 days. path: its file. */
void vg_certificate_warn(const vg_api *api, const char *path);

/* Does so once a day. *at_ns: CLOCK_MONOTONIC of the last time; 0 at first. */
void vg_certificate_tick(const vg_api *api, const char *path, int64_t *at_ns);

#endif
