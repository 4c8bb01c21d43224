/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports, as events, what affects the interpretation of past windows: periods during which the
 * users of CPU time were unknown, windows with times in the future, the deletion of old windows,
 * and the state of the store. Main thread.
 */
#ifndef VG_DAEMON_MEASURING_H
#define VG_DAEMON_MEASURING_H

#include <stdbool.h>

#include "base/event-log.h"
#include "engine/gather.h"
#include "store/store.h"

typedef struct vg_measuring vg_measuring;

/* events and store are borrowed. replay: the windows come from a recording, so only the store is
 * monitored. */
vg_measuring *vg_measuring_new(vg_event_log *events, vg_store *store, bool replay);
void vg_measuring_free(vg_measuring *measuring); /* NULL is fine */

/* Processes the next window. */
void vg_measuring_take(vg_measuring *measuring, const struct vg_gathered *gathered);

/* Checks what the store has done since the last call. */
void vg_measuring_watch(vg_measuring *measuring);

#endif
