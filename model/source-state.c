/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/source-state.h"

const char *const vg_source_state_names[] = {
    [VG_SOURCE_USED] = "used",     [VG_SOURCE_SPARE] = "spare",       [VG_SOURCE_LESS] = "less",
    [VG_SOURCE_ABSENT] = "absent", [VG_SOURCE_STATE_KIND_MAX] = NULL,
};

static void
source_state_free(void *data)
{
    struct vg_source_state *state = data;

    g_free(state->reason);
    g_free(state);
}

GPtrArray *
vg_source_states_new(void)
{
    return g_ptr_array_new_with_free_func(source_state_free);
}

void
vg_source_states_add(GPtrArray *states, const char *name, enum vg_source_state_kind kind,
                     enum vg_trouble trouble, char *take_reason)
{
    struct vg_source_state *state = g_new0(struct vg_source_state, 1);

    state->name = name;
    state->kind = kind;
    state->trouble = trouble;
    state->reason = take_reason;
    g_ptr_array_add(states, state);
}

GPtrArray *
vg_source_states_copy(const GPtrArray *states)
{
    GPtrArray *copy = states ? vg_source_states_new() : NULL;

    for (guint i = 0; states && i < states->len; i++) {
        const struct vg_source_state *state = states->pdata[i];
        vg_source_states_add(copy, state->name, state->kind, state->trouble,
                             g_strdup(state->reason));
    }
    return copy;
}
