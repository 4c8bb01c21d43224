/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent: its port, its session, a worker for orders, a worker for status requests, and their
 * time limits.
 */
#ifndef VG_GUEST_AGENT_H
#define VG_GUEST_AGENT_H

#include "guest/work.h"

/* The longest time between two messages about a request that is being worked on. */
#define VG_GUEST_BEAT_MS 5000
/* The time that a process may run beyond its deadline, including the time for undoing, before it
 * is abandoned. */
#define VG_GUEST_GRACE_MS 10000
#define VG_GUEST_LOOK_MS  30000

/* Runs until SIGTERM or SIGINT. Returns the exit status. */
int vg_guest_agent_run(const struct vg_guest_config *config);

#endif
