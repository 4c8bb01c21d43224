/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a collector's sources: which of them are measuring, and why the others are not.
 * Plain data.
 */
#ifndef VG_MODEL_SOURCE_STATE_H
#define VG_MODEL_SOURCE_STATE_H

#include <glib.h>

#include "model/trouble.h"

enum vg_source_state_kind {
    VG_SOURCE_USED,   /* it is measuring; `reason` may say what */
    VG_SOURCE_SPARE,  /* not needed, because a better source measures */
    VG_SOURCE_LESS,   /* it measures less than it should; `reason` says why */
    VG_SOURCE_ABSENT, /* it cannot measure here; `reason` says why */
    VG_SOURCE_STATE_KIND_MAX
};

extern const char *const vg_source_state_names[]; /* "used", "spare", "less", "absent" */

struct vg_source_state {
    const char *name; /* "bpf", "nvml"; static */
    enum vg_source_state_kind kind;
    enum vg_trouble trouble; /* the code of the reason */
    char *reason;            /* one sentence, or NULL */
};

/* Returns an array of struct vg_source_state *; the caller unrefs it. */
GPtrArray *vg_source_states_new(void);

void vg_source_states_add(GPtrArray *states, const char *name, enum vg_source_state_kind kind,
                          enum vg_trouble trouble, char *take_reason);

/* Returns a deep copy, or NULL for NULL. */
GPtrArray *vg_source_states_copy(const GPtrArray *states);

#endif
