/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent: the port, the session, one process that works and one that looks, the time that they
 * have.
 */
#ifndef VG_GUEST_AGENT_H
#define VG_GUEST_AGENT_H

#include "guest/work.h"

/* How often the host hears of a request that is worked on, at least. */
#define VG_GUEST_BEAT_MS 5000
/* After deadline and undoing, for whoever ends what does not end. */
#define VG_GUEST_GRACE_MS 10000
#define VG_GUEST_LOOK_MS  30000

/* Runs until SIGTERM or SIGINT. Returns the exit status. */
int vg_guest_agent_run(const struct vg_guest_config *config);

#endif
