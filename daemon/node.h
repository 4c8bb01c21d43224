/* SPDX-License-Identifier: Apache-2.0
 *
 * Maintains the state of the host: receives the collectors' reports, gathers windows, runs the
 * engine, passes windows to the store, and publishes views for the API. Belongs to the main thread,
 * except vg_node_view().
 */
#ifndef VG_DAEMON_NODE_H
#define VG_DAEMON_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "api/backend.h"
#include "base/event-log.h"
#include "collectors/report.h"
#include "daemon/measuring.h"
#include "engine/alerts.h"
#include "mover/reservations.h"
#include "policy/policy-conf.h"
#include "store/store.h"

struct vg_node_options {
    const char *host; /* the host's name; copied */
    /* replay of a recording: means replace EWMAs, and VMs are never forgotten */
    bool replay;
    bool libvirt_is_here; /* libvirt's reports are about this machine only */
    bool elsewhere; /* another machine is measured, and facts about this machine do not apply */
    int64_t window_ns;
    guint aggressors; /* number of VMs for which each VM has a counter of lost time
                       * (model/lost-series.h) */
    const struct vg_policy_config *policy; /* copied */
    vg_store *store;                       /* borrowed */
    /* the number of windows that the store holds in memory until they are written */
    uint64_t memory_windows;
    vg_event_log *events; /* borrowed */
    vg_reservations
        *reservations;       /* borrowed until the node has processed its last report or tick */
    vg_measuring *measuring; /* borrowed in the same way */
};

typedef struct vg_node vg_node;

vg_node *vg_node_new(const struct vg_node_options *options);
void vg_node_free(vg_node *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_node, vg_node_free)

/* Registers a collector whose windows arrive lag_ns later than those of others. Returns its number.
 * A new collector is alive. The node waits for the windows of collectors that are alive. */
unsigned int vg_node_add_source(vg_node *node, int64_t lag_ns);
void vg_node_set_alive(vg_node *node, unsigned int source, bool alive);

/* Processes a report of any kind except STATUS. source: for a WINDOW, the number that
 * vg_node_add_source() returned. */
void vg_node_take(vg_node *node, unsigned int source, struct vg_report *take_report);

/* Closes windows whose grace period has ended, and updates values that depend on time. Called once
 * a second. */
void vg_node_tick(vg_node *node);

/* Closes the remaining windows and publishes a view when no more reports will arrive. From then on,
 * the node does not use the store. */
void vg_node_flush(vg_node *node);

void vg_node_set_policy(vg_node *node, const struct vg_policy_config *policy);

/* Sets the alert rules that apply from the next window on; copied. The alerts of changed rules
 * start from scratch. */
void vg_node_set_alerts(vg_node *node, const struct vg_alert_rule *rules, size_t n_rules);

/* Returns the alerts, so that earlier alerts can be restored. Borrowed until vg_node_set_alerts().
 */
vg_alerts *vg_node_alerts(vg_node *node);

/* Sets whether the host is in maintenance. Views show it within a second. Any thread. */
void vg_node_set_maintenance(vg_node *node, bool maintenance);

/* Returns the real time since the last window was closed, or since the node was created. */
int64_t vg_node_age_ns(const vg_node *node);
bool vg_node_replay_ended(const vg_node *node);

/* Returns whether libvirt has reported anything yet. */
bool vg_node_has_inventory(const vg_node *node);

/* Returns the id of this run, which is valid as long as the node. */
const char *vg_node_boot_id(const vg_node *node);

/* Returns the newest view, never NULL; the caller unrefs it. Any thread. */
vg_view *vg_node_view(vg_node *node);

/* Records how long programs were paused while they were moved to another proxy. Any thread. */
void vg_node_note_proxy_stop(vg_node *node, int64_t stop_ns);

#endif
