/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/printable.h"

#include <stdbool.h>
#include <string.h>

/* Returns the length of the character if it may be shown, otherwise 0. */
static size_t
shown_length(const char *at)
{
    gunichar c = g_utf8_get_char_validated(at, -1);
    /* Also true for invalid UTF-8: -1 and -2. */
    if (!g_unichar_validate(c))
        return 0;
    GUnicodeType type = g_unichar_type(c);
    if (type == G_UNICODE_CONTROL || type == G_UNICODE_FORMAT || type == G_UNICODE_LINE_SEPARATOR ||
        type == G_UNICODE_PARAGRAPH_SEPARATOR)
        return 0;
    return (size_t)(g_utf8_next_char(at) - at);
}

/* Returns the length of a character or byte that is not shown. */
static size_t
hidden_length(const char *at)
{
    bool valid = g_unichar_validate(g_utf8_get_char_validated(at, -1));
    return valid ? (size_t)(g_utf8_next_char(at) - at) : 1;
}

char *
vg_printable_text(const char *text)
{
    GString *shown = g_string_new(NULL);

    while (*text) {
        size_t length = shown_length(text);
        if (length > 0) {
            g_string_append_len(shown, text, (gssize)length);
        } else {
            g_string_append_c(shown, '?');
            length = hidden_length(text);
        }
        text += length;
    }
    return g_string_free(shown, FALSE);
}

void
vg_printable_append_line(GString *to, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_autofree char *line = g_strdup_vprintf(fmt, args);
    va_end(args);
    g_autofree char *shown = vg_printable_text(line);
    g_string_append(to, shown);
    g_string_append_c(to, '\n');
}

char *
vg_printable_quote(const char *argument)
{
    g_autofree char *shown = vg_printable_text(argument);

    if (strcmp(shown, argument) == 0)
        return g_shell_quote(argument);
    GString *quoted = g_string_new("$'");
    for (; *argument; argument++) {
        unsigned char byte = (unsigned char)*argument;
        if (byte < ' ' || byte > '~' || byte == '\'' || byte == '\\')
            g_string_append_printf(quoted, "\\%03o", byte);
        else
            g_string_append_c(quoted, *argument);
    }
    g_string_append_c(quoted, '\'');
    return g_string_free(quoted, FALSE);
}
