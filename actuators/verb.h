/* SPDX-License-Identifier: Apache-2.0
 *
 * What every verb is told while it runs. A verb changes the world or looks at it, on the thread
 * that calls it, and returns when that is done, has failed, is cancelled, or its deadline is over.
 * What it returns says what it saw; whoever needs the truth looks.
 */
#ifndef VG_ACTUATORS_VERB_H
#define VG_ACTUATORS_VERB_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#include "model/migration.h"

struct vg_verb {
    int64_t deadline_ns;       /* CLOCK_MONOTONIC: VG_E_TIMEOUT after it */
    const atomic_bool *cancel; /* true: give up soon, with VG_E_CONFLICT "cancelled" */
    /* NULL, or told of progress, on any thread. text: what happens, in words; or NULL. */
    void (*tell)(void *data, const struct vg_migration_progress *progress, const char *text);
    void *data;
};

/* Sleeps at most ns, not beyond the deadline. -1 and *err when it is over or cancelled; what: what
 * was waited for, for the message. */
int vg_verb_pause(const struct vg_verb *verb, int64_t ns, const char *what, GError **err);

#endif
