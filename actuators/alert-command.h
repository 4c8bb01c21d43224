/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the program of [alerts] command for alerts that are raised or cleared: one at a time, in a
 * separate thread, without privileges, and with a time limit.
 */
#ifndef VG_ACTUATORS_ALERT_COMMAND_H
#define VG_ACTUATORS_ALERT_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/happening.h"

/* The maximum number of alerts that still wait for the program to start. */
#define VG_ALERT_COMMAND_WAITING_MAX 100

typedef struct vg_alert_command vg_alert_command;

struct vg_alert_command_stats {
    uint64_t runs;     /* started */
    uint64_t failures; /* failed or timed out */
    uint64_t dropped;  /* alerts that were dropped because too many were waiting */
};

/* Is called when the program has run for an event, or never will. It is not called for an event
 * whose run the end of this process prevented or interrupted. Any thread; must not block. */
typedef void vg_alert_command_settled(void *data, const char *boot, uint64_t seq);

/* Creates the runner. host: the value of VGPUD_ALERT_HOST. */
vg_alert_command *vg_alert_command_new(const char *host, vg_alert_command_settled *settled,
                                       void *data);
/* Kills the running program and drops waiting alerts, without settling them. NULL is allowed. */
void vg_alert_command_free(vg_alert_command *command);

/* Sets the program and its time limit: a line as in [alerts] command, empty for none. Main
 * thread. */
int vg_alert_command_set(vg_alert_command *command, const char *line, int64_t limit_ns,
                         GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns whether a program is set. Any thread. */
bool vg_alert_command_is_set(vg_alert_command *command);

/* Schedules the program for an event, which is copied. Any thread; does not block. */
void vg_alert_command_put(vg_alert_command *command, const struct vg_happening *event);

void vg_alert_command_read_stats(vg_alert_command *command, struct vg_alert_command_stats *ret);

/* Checks a line of this form. */
int vg_alert_command_check(const char *line, GError **err);

#endif
