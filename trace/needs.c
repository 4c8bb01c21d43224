/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/needs.h"

#include <glib.h>

static const struct vg_adapter_need *const needs_families[] = {
    vg_adapt_sched_needs,
    vg_adapt_kvm_needs,
    vg_adapt_gpu_needs,
};

const struct vg_adapter_need *
vg_needs_at(size_t i)
{
    for (size_t f = 0; f < G_N_ELEMENTS(needs_families); f++) {
        for (const struct vg_adapter_need *need = needs_families[f]; need->event; need++) {
            if (i-- == 0)
                return need;
        }
    }
    return NULL;
}

unsigned int
vg_needs_lacks(uint32_t types)
{
    const struct vg_adapter_need *need;
    unsigned int lacks = 0;

    for (size_t i = 0; (need = vg_needs_at(i)); i++)
        lacks |= types & need->types || (need->only_with && !(types & need->with)) ? 0 : need->lack;
    return lacks;
}

/* Appends "a, b and c are WHAT". */
static void
needs_append(GString *text, const GPtrArray *names, const char *one, const char *several)
{
    if (names->len == 0)
        return;
    g_string_append(text, text->len > 0 ? "; " : "");
    for (guint i = 0; i < names->len; i++)
        g_string_append_printf(text, "%s%s",
                               i == 0                ? ""
                               : i + 1 == names->len ? " and "
                                                     : ", ",
                               (const char *)names->pdata[i]);
    g_string_append(text, names->len == 1 ? one : several);
}

char *
vg_needs_figures_text(unsigned int lacks)
{
    g_autoptr(GPtrArray) unknown = vg_figure_names(lacks, VG_KNOWN_NOT);
    g_autoptr(GPtrArray) bounds = vg_figure_names(lacks, VG_KNOWN_BOUND);
    GString *text = g_string_new(NULL);

    if (lacks & VG_CPU_NO_GPU_ENDS)
        g_ptr_array_add(unknown, (void *)"all figures of GPU requests");
    needs_append(text, unknown, " is unknown", " are unknown");
    needs_append(text, bounds, " is a lower bound", " are lower bounds");
    return g_string_free(text, FALSE);
}
