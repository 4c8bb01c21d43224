/* SPDX-License-Identifier: Apache-2.0
 *
 * How the sources of one collector are doing: which of them measure, and why others do not. Plain
 * data of whoever holds it.
 */
#ifndef VG_MODEL_SOURCE_STATE_H
#define VG_MODEL_SOURCE_STATE_H

#include <glib.h>

#include "model/trouble.h"

enum vg_source_state_kind {
    VG_SOURCE_USED,   /* it measures; `reason` may say what */
    VG_SOURCE_SPARE,  /* it is not needed, for a better one measures */
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

/* Of struct vg_source_state *; the caller unrefs it. */
GPtrArray *vg_source_states_new(void);

void vg_source_states_add(GPtrArray *states, const char *name, enum vg_source_state_kind kind,
                          enum vg_trouble trouble, char *take_reason);

/* A deep copy; NULL of NULL. */
GPtrArray *vg_source_states_copy(const GPtrArray *states);

#endif
