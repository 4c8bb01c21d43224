/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports when nothing was measured because vgpud was not running, and when the clock was set. A
 * file in vgpud's directory records when vgpud was last alive and how it ended. A separate thread
 * writes it, because no other thread may be blocked by a disk that does not respond. The file is
 * locked, so that a second vgpud in the directory does not write it. Main thread.
 */
#ifndef VG_DAEMON_AWAY_H
#define VG_DAEMON_AWAY_H

#include <glib.h>

#include "base/event-log.h"
#include "model/happening.h"

/* The name of the file. */
#define VG_AWAY_FILE "alive"

typedef struct vg_away vg_away;

/* Looks up the previous run, and adds an event if there was one. From then on, checks the clock,
 * and records about once a second that vgpud is alive. Problems with the file are logged. */
vg_away *vg_away_new(const char *directory, vg_event_log *events);

/* Records that vgpud exits normally. Gives up if the disk does not respond within a second. NULL is
 * fine. */
void vg_away_free(vg_away *away);

#endif
