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

/* Creates the runner of the alert command. It settles each event in the journal, which must outlive
 * the runner. host: the value of VGPUD_ALERT_HOST. */
vg_alert_command *vg_alert_past_new_command(vg_journal *journal, const char *host);

/* Writes an event to the journal, and schedules the alert command if it is an alert. The runs for
 * alerts from a replay do not survive a restart. Any thread; does not block. */
void vg_alert_past_keep(vg_journal *journal, vg_alert_command *command,
                        const struct vg_happening *event, bool is_replay);

/* Passes the events that an earlier run of vgpud has not passed to the alert command, or not until
 * its end, to the command. Then reads the raised alerts from the journal, and passes those whose
 * rules still exist to the node. The other alerts end. If the journal cannot be read, the node
 * reports that alerts may be missing. Called once, after the node has received its rules, and
 * before the command receives new events. Blocks. */
void vg_alert_past_restore(vg_journal *journal, vg_alert_command *command, vg_node *node,
                           vg_event_log *events);

#endif
