/* SPDX-License-Identifier: Apache-2.0
 *
 * Restores the alerts that the previous run of vgpud had raised, and the runs of the alert command
 * that it owed.
 */
#ifndef VG_DAEMON_ALERT_PAST_H
#define VG_DAEMON_ALERT_PAST_H

#include "actuators/alert-command.h"
#include "base/event-log.h"
#include "daemon/node.h"
#include "journal/journal.h"

/* Reads the raised alerts from the journal, and passes those whose rules still exist to the node.
 * The other alerts end. If the journal cannot be read, the node reports that alerts may be missing.
 * Called once, after the node has received its rules. Blocks. */
void vg_alert_past_restore(vg_journal *journal, vg_node *node, vg_event_log *events);

/* Passes the events that an earlier run of vgpud has not passed to the alert command, or not until
 * its end, to the command. Called once, before the command receives new events. Blocks. */
void vg_alert_past_run_owed(vg_journal *journal, vg_alert_command *command);

#endif
