/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements the interface of api/backend.h for the API. The main thread creates and frees it; any
 * thread may call the functions of the vg_backend.
 */
#ifndef VG_DAEMON_BACKEND_H
#define VG_DAEMON_BACKEND_H

#include "actuators/alert-command.h"
#include "api/backend.h"
#include "base/event-log.h"
#include "cluster/peers.h"
#include "cluster/region.h"
#include "daemon/daemon-config.h"
#include "daemon/node.h"
#include "daemon/supervisor.h"
#include "journal/journal.h"
#include "mover/mover.h"
#include "policy/policy-conf.h"

struct vg_daemon_backend_parts {
    vg_node *node; /* borrowed, as are all others except the policy, which is copied */
    vg_supervisor *supervisor;
    vg_store *store;
    vg_journal *journal;
    vg_event_log *events;
    vg_peers *peers;
    vg_region *region; /* NULL if this host is not in a cluster */
    vg_mover *mover;
    vg_reservations *reservations;
    vg_alert_command *alert_command;
    const struct vg_policy_config *policy;
};

typedef struct vg_daemon_backend vg_daemon_backend;

vg_daemon_backend *vg_daemon_backend_new(const struct vg_daemon_backend_parts *parts);
void vg_daemon_backend_free(vg_daemon_backend *backend);

/* _start: starts the autonomous parts. _stop: ends them, while moves can still be started. */
int vg_daemon_backend_start(vg_daemon_backend *backend, GError **err);
void vg_daemon_backend_stop(vg_daemon_backend *backend); /* NULL is fine */

const struct vg_backend *vg_daemon_backend_ops(vg_daemon_backend *backend);

/* Update the backend, from the main thread. set_access: the roles of certificates; config is
 * borrowed until the next call. */
void vg_daemon_backend_set_access(vg_daemon_backend *backend,
                                  const struct vg_daemon_config *config);
void vg_daemon_backend_set_policy(vg_daemon_backend *backend,
                                  const struct vg_policy_config *policy);
void vg_daemon_backend_set_age(vg_daemon_backend *backend, int64_t age_ns, bool replay_ended);
void vg_daemon_backend_count_reload(vg_daemon_backend *backend, bool done);

#endif
