/* SPDX-License-Identifier: Apache-2.0
 *
 * Derives the options and limits of store, journal and API from the configuration. Strings are
 * borrowed from it.
 */
#ifndef VG_DAEMON_LIMITS_H
#define VG_DAEMON_LIMITS_H

#include "api/api.h"
#include "daemon/daemon-config.h"
#include "journal/journal.h"
#include "store/store.h"

/* Return the configured limits. replays: log the store's commits. */
struct vg_store_options vg_daemon_store_options(const struct vg_daemon_config *config,
                                                bool replays);
struct vg_journal_options vg_daemon_journal_options(const struct vg_daemon_config *config);
struct vg_api_limits vg_daemon_api_limits(const struct vg_daemon_config *config);

#endif
