/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds configured files with keys, tokens and passwords that every user on this machine can read.
 */
#ifndef VG_DAEMON_SECRETS_H
#define VG_DAEMON_SECRETS_H

#include "daemon/daemon-config.h"

/* Logs a warning for each file with a secret that all users can read. Returns all warnings in one
 * text, which the caller frees, or NULL. */
char *vg_secrets_check(const struct vg_daemon_config *config);

#endif
