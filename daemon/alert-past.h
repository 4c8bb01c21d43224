/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes over the alerts that the run of vgpud before this one had raised.
 */
#ifndef VG_DAEMON_ALERT_PAST_H
#define VG_DAEMON_ALERT_PAST_H

#include "base/event-log.h"
#include "daemon/node.h"
#include "journal/journal.h"

/* Reads from the journal which alerts are raised, and has the node go on with those whose rules are
 * still there; the others end. Called once, when the node has its rules. Blocks. */
void vg_alert_past_restore(vg_journal *journal, vg_node *node, vg_event_log *events);

#endif
