/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/log-text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <glib.h>

/* The maximum length of a conversion in a format. */
#define SPEC_MAX 32

/* A conversion of a format, without its arguments for width and precision: "%-5.3s". */
struct log_spec {
    char text[SPEC_MAX];
    char length; /* 'h', 'l', 'L' for ll, 'z', 'j', 't'; 0: none */
    char conversion;
};

/* Returns what follows the digits or the `*` at this position, and adds them to the spec. */
static const char *
log_text_add_number(const char *at, GString *spec, va_list *args)
{
    if (*at == '*') {
        g_string_append_printf(spec, "%d", va_arg(*args, int));
        return at + 1;
    }
    for (; g_ascii_isdigit(*at); at++)
        g_string_append_c(spec, *at);
    return at;
}

/* Reads the conversion that starts at this `%`. Returns what follows it. */
static const char *
log_text_read_spec(const char *at, struct log_spec *ret, va_list *args)
{
    g_autoptr(GString) spec = g_string_new("%");

    for (at++; *at && strchr("-+ #0", *at); at++)
        g_string_append_c(spec, *at);
    at = log_text_add_number(at, spec, args);
    if (*at == '.') {
        g_string_append_c(spec, '.');
        at = log_text_add_number(at + 1, spec, args);
    }
    ret->length = 0;
    for (; *at && strchr("hlzjt", *at); at++) {
        g_string_append_c(spec, *at);
        ret->length = *at == 'l' && ret->length == 'l' ? 'L' : *at;
    }
    g_string_append_c(spec, *at);
    g_strlcpy(ret->text, spec->str, sizeof(ret->text));
    ret->conversion = *at;
    return *at ? at + 1 : at;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

static void
log_text_add_integer(GString *text, const struct log_spec *spec, va_list *args)
{
    switch (spec->length) {
    case 'l':
        g_string_append_printf(text, spec->text, va_arg(*args, long));
        break;
    case 'L':
        g_string_append_printf(text, spec->text, va_arg(*args, long long));
        break;
    case 'z':
    case 't':
        g_string_append_printf(text, spec->text, va_arg(*args, size_t));
        break;
    case 'j':
        g_string_append_printf(text, spec->text, va_arg(*args, intmax_t));
        break;
    default:
        g_string_append_printf(text, spec->text, va_arg(*args, int));
    }
}

static void
log_text_escape(GString *text, const char *value)
{
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            g_string_append_c(text, '\\');
        g_string_append_c(text, *value);
    }
}

static void
log_text_add_string(GString *text, const struct log_spec *spec, const char *value, bool quoted)
{
    g_autofree char *string = g_strdup_printf(spec->text, value);
    bool is_value = !quoted && text->len > 0 && text->str[text->len - 1] == '=';
    bool quote = is_value && (!*string || strpbrk(string, " \"\\"));

    if (quote)
        g_string_append_c(text, '"');
    if (quoted || quote)
        log_text_escape(text, string);
    else
        g_string_append(text, string);
    if (quote)
        g_string_append_c(text, '"');
}

static void
log_text_add(GString *text, const struct log_spec *spec, bool quoted, va_list *args)
{
    switch (spec->conversion) {
    case 's':
        log_text_add_string(text, spec, va_arg(*args, const char *), quoted);
        break;
    case 'e':
    case 'f':
    case 'g':
        g_string_append_printf(text, spec->text, va_arg(*args, double));
        break;
    case 'p':
        g_string_append_printf(text, spec->text, va_arg(*args, void *));
        break;
    case '%':
        g_string_append_c(text, '%');
        break;
    default:
        log_text_add_integer(text, spec, args);
    }
}

#pragma GCC diagnostic pop

char *
vg_log_text_format(const char *fmt, va_list args)
{
    GString *text = g_string_new(NULL);
    bool quoted = false;
    va_list rest;

    va_copy(rest, args);
    while (*fmt) {
        struct log_spec spec;
        if (*fmt == '%') {
            fmt = log_text_read_spec(fmt, &spec, &rest);
            log_text_add(text, &spec, quoted, &rest);
            continue;
        }
        quoted = *fmt == '"' ? !quoted : quoted;
        g_string_append_c(text, *fmt++);
    }
    va_end(rest);
    return g_string_free(text, FALSE);
}

const char *
vg_log_text_end(const char *value)
{
    if (*value != '"')
        return value + strcspn(value, " ");
    for (value++; *value && *value != '"'; value++) {
        if (*value == '\\' && value[1])
            value++;
    }
    return *value ? value + 1 : value;
}

char *
vg_log_text_copy(const char *value, const char *end)
{
    GString *text = g_string_new(NULL);
    bool quoted = *value == '"' && end > value + 1 && end[-1] == '"';

    if (!quoted) {
        g_string_append_len(text, value, end - value);
        return g_string_free(text, FALSE);
    }
    for (const char *at = value + 1; at < end - 1; at++) {
        at += *at == '\\' && at + 1 < end - 1 ? 1 : 0;
        g_string_append_c(text, *at);
    }
    return g_string_free(text, FALSE);
}
