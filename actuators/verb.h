/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits and the listener of a verb. A verb changes or observes the world, on the thread that
 * calls it. It returns when it is done, has failed or is cancelled, or when its deadline has
 * passed. Its result is its own observation; a caller that needs certainty must query again.
 */
#ifndef VG_ACTUATORS_VERB_H
#define VG_ACTUATORS_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#include "model/migration.h"

struct vg_verb {
    int64_t deadline_ns; /* CLOCK_MONOTONIC; the verb then fails with VG_E_TIMEOUT */
    int64_t
        gpu_bytes; /* of the guest's programs: orders to it leave time for undoing their copying */
    const atomic_bool *cancel; /* once true, the verb fails soon with VG_E_CONFLICT */
    /* once true, the call to libvirt is abandoned, and the verb fails with VG_E_BUSY; may be
     * NULL */
    const atomic_bool *leave;
    /* Receives progress, on any thread; may be NULL. text describes the current action, or is
     * NULL. */
    void (*tell)(void *data, const struct vg_migration_progress *progress, const char *text);
    void *data;
    atomic_int_fast64_t *beat_ns; /* set to the current time at each pause; NULL if not needed */
};

/* Sleeps at most ns, and not beyond the deadline. Returns -1 and sets *err when the deadline has
 * passed or the verb is cancelled. `what` names, for the message, the thing that the verb waits
 * for. */
int vg_verb_pause(const struct vg_verb *verb, int64_t ns, const char *what, GError **err);

#endif
