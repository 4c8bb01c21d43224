/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits and the listener of a verb. A verb changes the world or looks at it, on the thread
 * that calls it. It returns when that is done, has failed or is cancelled, or when its deadline
 * is over. Its result says what it saw; a caller that needs the truth looks again.
 */
#ifndef VG_ACTUATORS_VERB_H
#define VG_ACTUATORS_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#include "model/migration.h"

struct vg_verb {
    int64_t deadline_ns;       /* CLOCK_MONOTONIC; after it: VG_E_TIMEOUT */
    const atomic_bool *cancel; /* once true: give up soon, VG_E_CONFLICT */
    /* Takes progress, on any thread; may be NULL. text: the current action in words, or NULL. */
    void (*tell)(void *data, const struct vg_migration_progress *progress, const char *text);
    void *data;
};

/* Sleeps at most ns, and not beyond the deadline. Returns -1 and *err when that is over or the verb
 * is cancelled. what: the thing waited for, for the message. */
int vg_verb_pause(const struct vg_verb *verb, int64_t ns, const char *what, GError **err);

#endif
