/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/metrics-text.h"

void
vg_metrics_family(GString *out, const char *name, const char *type, const char *help)
{
    g_string_append_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
vg_metrics_value(GString *out, const char *name, const char *labels, double number)
{
    char text[G_ASCII_DTOSTR_BUF_SIZE];

    g_ascii_formatd(text, sizeof(text), "%.15g", number);
    if (labels && *labels)
        g_string_append_printf(out, "%s{%s} %s\n", name, labels, text);
    else
        g_string_append_printf(out, "%s %s\n", name, text);
}

void
vg_metrics_single(GString *out, const char *name, const char *type, const char *help, double number)
{
    vg_metrics_family(out, name, type, help);
    vg_metrics_value(out, name, NULL, number);
}

char *
vg_metrics_label(const char *name, const char *text)
{
    GString *out = g_string_new(name);

    g_string_append(out, "=\"");
    g_autofree char *valid = g_utf8_make_valid(text ? text : "", -1);
    for (const char *at = valid; *at; at++) {
        if (*at == '\\' || *at == '"')
            g_string_append_c(out, '\\');
        if (*at == '\n')
            g_string_append(out, "\\n");
        else
            g_string_append_c(out, *at);
    }
    g_string_append_c(out, '"');
    return g_string_free(out, FALSE);
}
