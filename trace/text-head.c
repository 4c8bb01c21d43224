/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers start in column 0. tracefs and trace-cmd print a blank before each name, but perf script
 * with call chains does not, and a name may contain a line feed. Therefore the rest of the line
 * must also match.
 */
#include "config.h"

#include "trace/text-head.h"

#include <string.h>

#include "model/event.h"
#include "trace/text-line.h"

/* In the head of tracefs's file: "# entries-in-buffer/entries-written: 205/4711   #P:2". */
#define ENTRIES "entries-in-buffer/entries-written:"

static const char *
text_head_skip_blanks(const char *p, const char *end)
{
    while (p < end && vg_text_is_blank(*p))
        p++;
    return p;
}

/* Moves *pos past the word and the blanks behind it. Returns false if it is not there. */
static bool
text_head_take(const char **pos, const char *end, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(end - *pos) < len || memcmp(*pos, word, len) != 0)
        return false;
    *pos = text_head_skip_blanks(*pos + len, end);
    return true;
}

/* Reads a number and moves *pos past it. Returns -1 without digits. */
static int64_t
text_head_number(const char **pos, const char *end)
{
    int64_t n = 0;
    const char *begin = *pos;

    for (; *pos < end && vg_text_is_digit(**pos); ++*pos)
        n = MIN(n * 10 + (**pos - '0'), INT64_MAX / 100);
    return *pos > begin ? n : -1;
}

/* Moves *pos past the name of a tracer. */
static bool
text_head_is_name(const char **pos, const char *end)
{
    const char *begin = *pos;

    while (*pos < end && (g_ascii_isalnum(**pos) || **pos == '_' || **pos == '-'))
        ++*pos;
    return *pos > begin;
}

bool
vg_text_head_is(struct vg_text_span text)
{
    const char *end = text.s + text.len;
    const char *p = text.s;

    if (text_head_take(&p, end, "# captured on"))
        return p < end && *p == ':';
    if (text_head_take(&p, end, "# tracer:"))
        return text_head_is_name(&p, end) && text_head_skip_blanks(p, end) == end;
    if (text_head_take(&p, end, "cpus=") ||
        (text_head_take(&p, end, "version") && text_head_take(&p, end, "=")))
        return text_head_number(&p, end) >= 0 && text_head_skip_blanks(p, end) == end;
    return false;
}

bool
vg_text_head_is_overwritten(struct vg_text_span text)
{
    const char *end = text.s + text.len;
    const char *p = memmem(text.s, text.len, ENTRIES, strlen(ENTRIES));

    if (!p || text.s[0] != '#')
        return false;
    p = text_head_skip_blanks(p + strlen(ENTRIES), end);
    const int64_t kept = text_head_number(&p, end);
    return kept >= 0 && p < end && *p++ == '/' && text_head_number(&p, end) > kept;
}

int32_t
vg_text_head_host_cpus(struct vg_text_span text)
{
    static const char *const words[] = {"cpus=", "# nrcpus online", "#P:"};
    const char *end = text.s + text.len;

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        const char *p = text.s;
        if (i == 2 && text.len > 0 && *p == '#')
            p = memmem(text.s, text.len, words[i], strlen(words[i]));
        if (!p || !text_head_take(&p, end, words[i]))
            continue;
        text_head_take(&p, end, ":");
        const int64_t n = text_head_number(&p, end);
        if (n > 0)
            return n <= VG_CPU_LIMIT ? (int32_t)n : 0;
    }
    return 0;
}
