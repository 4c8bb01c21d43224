/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells, as events, what a reader of the past has to know of its windows: since when and until when
 * it was not known who took CPU time, that some are stored in the future, that old ones are gone
 * from the store, and how the store is doing. Main thread.
 */
#ifndef VG_DAEMON_MEASURING_H
#define VG_DAEMON_MEASURING_H

#include <stdbool.h>

#include "base/event-log.h"
#include "engine/gather.h"
#include "store/store.h"

typedef struct vg_measuring vg_measuring;

/* events and store are borrowed. replay: the windows are those of a recording, and only the store
 * is watched. */
vg_measuring *vg_measuring_new(vg_event_log *events, vg_store *store, bool replay);
void vg_measuring_free(vg_measuring *measuring); /* NULL is fine */

/* Takes the next window. */
void vg_measuring_take(vg_measuring *measuring, const struct vg_gathered *gathered);

/* Looks at what the store has done since the last call. */
void vg_measuring_watch(vg_measuring *measuring);

#endif
