/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the last 24 hours of this host's VMs from the store, once after vgpud has started. The
 * thread is called "past-days".
 */
#ifndef VG_DAEMON_PAST_DAYS_H
#define VG_DAEMON_PAST_DAYS_H

#include "engine/day-past.h"
#include "store/store.h"

typedef struct vg_past_days vg_past_days;

/* Starts the thread. until_ns: the start of vgpud, since the epoch. Returns NULL, and logs the
 * reason, if the thread cannot be created. */
vg_past_days *vg_past_days_new(vg_store *store, int64_t until_ns);

/* Returns the data once all of it has been read; NULL before. */
const vg_day_past *vg_past_days_get(const vg_past_days *days);

/* Stops the thread, after at most one query. NULL is fine. */
void vg_past_days_free(vg_past_days *days);

#endif
