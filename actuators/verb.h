/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits of a verb, and the function that receives its progress. A verb changes or queries a
 * host, a VM or a guest, on the thread that calls it. It returns when it is done, has failed or is
 * cancelled, or when its deadline has passed. Its result is what the verb itself observed; a caller
 * that needs to be certain must query the state again.
 */
#ifndef VG_ACTUATORS_VERB_H
#define VG_ACTUATORS_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#include "model/migration.h"

struct vg_verb {
    int64_t deadline_ns; /* CLOCK_MONOTONIC; the verb then fails with VG_E_TIMEOUT */
    int64_t gpu_bytes; /* GPU memory of the guest's programs: orders to the guest leave time to undo
                          the copying of it */
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
