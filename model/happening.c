/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/happening.h"

#include <string.h>

const char *const vg_happening_types[] = {
    VG_HAPPENING_ALERT, "collector", "config", VG_HAPPENING_MEASURING, "migration", "plan",
    "replay-end",       "store",     "vm",     VG_HAPPENING_WINDOW,    NULL,
};

const char *
vg_happening_type(const char *name)
{
    for (size_t i = 0; vg_happening_types[i]; i++) {
        if (strcmp(vg_happening_types[i], name) == 0)
            return vg_happening_types[i];
    }
    return NULL;
}

char *
vg_happening_list_types(void)
{
    return g_strjoinv(", ", (char **)vg_happening_types);
}

void
vg_happening_free(void *data)
{
    struct vg_happening *happening = data;

    if (!happening)
        return;
    g_free(happening->boot);
    g_free(happening->text);
    g_free(happening);
}
