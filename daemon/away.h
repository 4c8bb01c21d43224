/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells when nothing was measured since vgpud was not there, and when somebody set the clock: a
 * file in vgpud's directory says when it was last alive and how it ended. Main thread.
 */
#ifndef VG_DAEMON_AWAY_H
#define VG_DAEMON_AWAY_H

#include <glib.h>

#include "api/event-log.h"
#include "model/happening.h"

/* The name of the file. */
#define VG_AWAY_FILE "alive"

typedef struct vg_away vg_away;

/* Looks for the run before, and adds an event if there was one. Trouble with the file is logged. */
vg_away *vg_away_new(const char *directory, vg_event_log *events);

/* Notes that vgpud ends as it should. NULL is fine. */
void vg_away_free(vg_away *away);

/* Notes that vgpud is alive, and looks at the clock; called about once a second. NULL is fine. */
void vg_away_tick(vg_away *away);

#endif
