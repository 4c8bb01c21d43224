/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the daemon's knowledge of its host: takes the collectors' reports, gathers windows, steps
 * the engine, hands windows to the store, and publishes views for the API. Belongs to the main
 * thread, but for vg_node_view().
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
    /* a recording is replayed: means replace EWMAs, and VMs are never forgotten */
    bool replay;
    bool libvirt_is_here; /* what libvirt tells is of this machine, and of no other one */
    bool elsewhere; /* another machine is measured, and the facts about this one do not apply */
    int64_t window_ns;
    guint
        aggressors; /* VMs of which each VM has a counter of what they took (model/lost-series.h) */
    const struct vg_policy_config *policy; /* copied */
    vg_store *store;                       /* borrowed */
    /* the number of windows that the store keeps while they wait for the disk */
    uint64_t memory_windows;
    vg_event_log *events;          /* borrowed */
    vg_reservations *reservations; /* borrowed until the last report or tick */
    vg_measuring *measuring;       /* borrowed, likewise */
};

typedef struct vg_node vg_node;

vg_node *vg_node_new(const struct vg_node_options *options);
void vg_node_free(vg_node *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_node, vg_node_free)

/* Registers a collector whose windows come lag_ns later than those of others; returns its number.
 * While it is alive, which it is at first, the node waits for its windows. */
unsigned int vg_node_add_source(vg_node *node, int64_t lag_ns);
void vg_node_set_alive(vg_node *node, unsigned int source, bool alive);

/* Takes a report of any kind but STATUS. source: for a WINDOW, the number that vg_node_add_source()
 * returned. */
void vg_node_take(vg_node *node, unsigned int source, struct vg_report *take_report);

/* Closes windows whose grace is over, and updates values that change with time. Called once a
 * second. */
void vg_node_tick(vg_node *node);

/* Closes the remaining windows and publishes, once nothing more will come. */
void vg_node_flush(vg_node *node);

void vg_node_set_policy(vg_node *node, const struct vg_policy_config *policy);

/* Sets the alert rules from the next window on; copied. Rules that differ from the old ones start
 * afresh. */
void vg_node_set_alerts(vg_node *node, const struct vg_alert_rule *rules, size_t n_rules);

/* Takes over an alert that an earlier run raised; false if there is no such rule now. */
bool vg_node_restore_alert(vg_node *node, const struct vg_active_alert *alert);

/* Sets whether the host is in maintenance, as views say within a second. Any thread. */
void vg_node_set_maintenance(vg_node *node, bool maintenance);

/* Returns how long ago, in real time, the last window was closed, or the node was made if there was
 * none. */
int64_t vg_node_age_ns(const vg_node *node);
bool vg_node_replay_ended(const vg_node *node);

/* Returns whether libvirt has reported anything yet. */
bool vg_node_has_inventory(const vg_node *node);

/* Returns the id of this run, which lives as long as the node. */
const char *vg_node_boot_id(const vg_node *node);

/* Returns the newest view, which is never NULL; the caller unrefs it. Any thread. */
vg_view *vg_node_view(vg_node *node);

/* Takes into account for how long programs stood still that went on at another proxy. Any thread.
 */
void vg_node_note_proxy_stop(vg_node *node, int64_t stop_ns);

#endif
