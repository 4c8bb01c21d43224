/* SPDX-License-Identifier: Apache-2.0
 *
 * What the daemon knows of its host: takes the collectors' reports, gathers windows, steps the
 * engine, hands windows to the store, and publishes views for the API. Belongs to the main thread,
 * but for vg_node_view().
 */
#ifndef VG_DAEMON_NODE_H
#define VG_DAEMON_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "api/backend.h"
#include "api/event-log.h"
#include "collectors/report.h"
#include "daemon/reservations.h"
#include "engine/alerts.h"
#include "policy/policy-conf.h"
#include "store/store.h"

struct vg_node_options {
    const char *host; /* name; copied */
    bool replay;      /* of a recording: means instead of EWMAs, VMs are never forgotten */
    bool elsewhere;   /* another machine is measured: what this one shows says nothing of it */
    int64_t window_ns;
    const struct vg_policy_config *policy; /* copied */
    vg_store *store;                       /* borrowed */
    uint64_t memory_windows;               /* that the store keeps, waiting for the disk */
    vg_event_log *events;                  /* borrowed */
    vg_reservations *reservations;         /* borrowed; until the last report or tick */
};

typedef struct vg_node vg_node;

vg_node *vg_node_new(const struct vg_node_options *options);
void vg_node_free(vg_node *node);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_node, vg_node_free)

/* A collector that reports windows, lag_ns later than others; returns its number. Windows are
 * waited for while it is alive, which it is at first. */
unsigned int vg_node_add_source(vg_node *node, int64_t lag_ns);
void vg_node_set_alive(vg_node *node, unsigned int source, bool alive);

/* Takes a report of any kind but STATUS; source: of WINDOW, what vg_node_add_source() returned. */
void vg_node_take(vg_node *node, unsigned int source, struct vg_report *take_report);

/* Once a second: windows whose grace is over, and what changes by itself. */
void vg_node_tick(vg_node *node);

/* Nothing more will come: closes what waits, and publishes. */
void vg_node_flush(vg_node *node);

void vg_node_set_policy(vg_node *node, const struct vg_policy_config *policy);

/* What is watched from the next window on; copied. Other rules than before begin anew. */
void vg_node_set_alerts(vg_node *node, const struct vg_alert_rule *rules, size_t n_rules);

/* How long ago, in real time, the last window was closed; since the start if there was none. */
int64_t vg_node_age_ns(const vg_node *node);
bool vg_node_replay_ended(const vg_node *node);

/* Has libvirt told anything yet? */
bool vg_node_has_inventory(const vg_node *node);

/* The newest view, never NULL; the caller unrefs it. Any thread. */
/* Of this run; lives as long as the node. */
const char *vg_node_boot_id(const vg_node *node);

vg_view *vg_node_view(vg_node *node);

#endif
