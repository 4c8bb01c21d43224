/* SPDX-License-Identifier: Apache-2.0
 *
 * Whoever waits for the answer to a request. What nobody waits for any more is not begun, since the
 * asker may have asked again, elsewhere or for something else.
 */
#ifndef VG_BASE_ASKER_H
#define VG_BASE_ASKER_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

struct vg_asker {
    bool (*waits)(const void *data); /* false: the asker has gone; any thread */
    const void *data;
    int64_t begin_by_ns; /* CLOCK_MONOTONIC: later, the asker has given up */
};

/* Tells if the asker still waits; true for NULL. */
bool vg_asker_waits(const struct vg_asker *asker);

/* Checks that what was asked for may still be begun; if not: VG_E_TIMEOUT. */
int vg_asker_check(const struct vg_asker *asker, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
