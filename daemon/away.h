/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells when nothing was measured since vgpud was not there, and when somebody set the clock: a
 * file in vgpud's directory says when it was last alive and how it ended. A thread of its own
 * writes that, since nobody else may wait for a disk that does not answer. Main thread.
 */
#ifndef VG_DAEMON_AWAY_H
#define VG_DAEMON_AWAY_H

#include <glib.h>

#include "base/event-log.h"
#include "model/happening.h"

/* The name of the file. */
#define VG_AWAY_FILE "alive"

typedef struct vg_away vg_away;

/* Looks for the run before, and adds an event if there was one; from then on, looks at the clock
 * and notes about once a second that vgpud is alive. Trouble with the file is logged. */
vg_away *vg_away_new(const char *directory, vg_event_log *events);

/* Notes that vgpud ends as it should, unless the disk does not answer for a second. NULL is fine.
 */
void vg_away_free(vg_away *away);

#endif
