/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/fold.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The minimum width of text, whatever its indent. */
#define FOLD_MIN 6u

/* A word may be broken after these characters. */
#define FOLD_MARKS "-/:.,=_@"

size_t
vg_fold_terminal(void)
{
    struct winsize size;

    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static size_t
fold_columns_of(gunichar c)
{
    return g_unichar_iszerowidth(c) ? 0 : g_unichar_iswide(c) ? 2 : 1;
}

size_t
vg_fold_columns(const char *text)
{
    size_t columns = 0;

    for (; *text; text = g_utf8_next_char(text))
        columns += fold_columns_of(g_utf8_get_char(text));
    return columns;
}

/* Returns how many bytes of a line fit into `room` columns: at least one character, or with `whole`
 * at least one word. */
static size_t
fold_fit(const char *line, size_t room, bool whole)
{
    const char *end = line, *blank = NULL, *mark = NULL;
    size_t used = 0;

    for (; *end; end = g_utf8_next_char(end)) {
        used += fold_columns_of(g_utf8_get_char(end));
        if (*end == ' ' && end > line)
            blank = end;
        if (used > room)
            break;
        if (strchr(FOLD_MARKS, *end))
            mark = end + 1;
    }
    if (!*end)
        return (size_t)(end - line);
    if (blank)
        return (size_t)(blank - line);
    if (whole)
        return strcspn(line, " ");
    if (mark)
        return (size_t)(mark - line);
    return (size_t)(MAX(end, g_utf8_next_char(line)) - line);
}

static void
fold_append_line(GString *to, const char *line, size_t indent, size_t width, bool whole)
{
    size_t room = width;

    do {
        const size_t n = fold_fit(line, room, whole);
        g_string_append_len(to, line, (gssize)n);
        line += n + strspn(line + n, " ");
        if (*line)
            g_string_append_printf(to, "\n%*s", (int)indent, "");
        room = width > indent + FOLD_MIN ? width - indent : MIN(width, FOLD_MIN);
    } while (*line);
}

static void
fold_append(GString *to, const char *text, size_t indent, size_t width, bool whole)
{
    if (width == 0) {
        g_string_append(to, text);
        return;
    }
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        if (line > lines)
            g_string_append_c(to, '\n');
        fold_append_line(to, *line, indent, width, whole);
    }
}

void
vg_fold_append(GString *to, const char *text, size_t indent, size_t width)
{
    fold_append(to, text, indent, width, false);
}

void
vg_fold_append_words(GString *to, const char *text, size_t indent, size_t width)
{
    fold_append(to, text, indent, width, true);
}
