/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the program of [alerts] command for alerts that are raised or cleared: one at a time, in a
 * thread of its own, without privileges, and for a limited time.
 */
#ifndef VG_ACTUATORS_ALERT_COMMAND_H
#define VG_ACTUATORS_ALERT_COMMAND_H

#include <stdint.h>

#include <glib.h>

/* The maximum number of alerts that wait for their program. */
#define VG_ALERT_COMMAND_WAITING_MAX 100

typedef struct vg_alert_command vg_alert_command;

struct vg_alert_command_stats {
    uint64_t runs;     /* that were begun */
    uint64_t failures; /* those that failed, or took too long */
    uint64_t dropped;  /* alerts for which it was not run, since too many waited */
};

/* Makes the runner. host: what VGPUD_ALERT_HOST says. */
vg_alert_command *vg_alert_command_new(const char *host);
/* Ends the program that runs, and forgets what waits. NULL is fine. */
void vg_alert_command_free(vg_alert_command *command);

/* Sets what is run from now on: a line, as [alerts] command has it, empty for none; and for how
 * long at most. Main thread. */
int vg_alert_command_set(vg_alert_command *command, const char *line, int64_t limit_ns,
                         GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Runs the program for an event, a JSON object, soon. Any thread; does not block. */
void vg_alert_command_put(vg_alert_command *command, const char *event);

void vg_alert_command_read_stats(vg_alert_command *command, struct vg_alert_command_stats *ret);

/* Checks such a line. */
int vg_alert_command_check(const char *line, GError **err);

#endif
