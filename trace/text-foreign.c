/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-foreign.h"

#include <string.h>

#include "base/error.h"
#include "trace/text-line.h"

#define HEAD_SIZE 4096

/* This many bytes show whether every other byte is zero. */
#define UTF16_BYTES 32

struct foreign {
    const char *is, *remedy;
    const char *command; /* command, to which the file name is appended; NULL: none */
};

static const struct {
    const char *magic;
    size_t magic_len;
    struct foreign foreign;
} text_foreign_files[] = {
    {"\x17\x08\x44tracing", 10, {"a trace.dat file", "convert it", "trace-cmd report -i"}},
    {"PERFILE2", 8, {"a perf.data file", "convert it", "perf script -i"}},
    {"/* CTF ", 7, {"the metadata of a CTF trace", "give the directory of the trace", NULL}},
    {"\x57\x13\x1d\x75",
     4,
     {"the metadata of a CTF trace", "give the directory of the trace", NULL}},
    {"\xc1\x1f\xfc\xc1", 4, {"a stream of a CTF trace", "give the directory of the trace", NULL}},
    {"PK\3\4", 4, {"a zip archive", "unpack it", "unzip"}},
    {"7z\xbc\xaf\x27\x1c", 6, {"a 7-Zip archive", "unpack it", "7z x"}},
    {"\x04\x22\x4d\x18", 4, {"an lz4 file", "unpack it", "lz4 -d"}},
    {"LZIP", 4, {"an lzip file", "unpack it", "lzip -d"}},
    {"\x5d\0\0", 3, {"an lzma file", "unpack it", "xz -d"}},
    {"\x1f\x9d", 2, {"a file of compress", "unpack it", "gzip -d"}},
    /* UTF-32 starts like UTF-16. */
    {"\xff\xfe\0\0", 4, {"UTF-32 text", "convert it", "iconv -f UTF-32 -t UTF-8"}},
    {"\0\0\xfe\xff", 4, {"UTF-32 text", "convert it", "iconv -f UTF-32 -t UTF-8"}},
    {"\xff\xfe", 2, {"UTF-16 text", "convert it", "iconv -f UTF-16 -t UTF-8"}},
    {"\xfe\xff", 2, {"UTF-16 text", "convert it", "iconv -f UTF-16 -t UTF-8"}},
    {"<!DOCTYPE html", 14, {"a web page", "save the trace itself", NULL}},
    {"<html", 5, {"a web page", "save the trace itself", NULL}},
};

static const struct foreign utf16_little = {"UTF-16 text", "convert it",
                                            "iconv -f UTF-16LE -t UTF-8"};
static const struct foreign utf16_big = {"UTF-16 text", "convert it", "iconv -f UTF-16BE -t UTF-8"};
static const struct foreign text_foreign_json = {
    "JSON", "use the original recording instead: trace text, `perf script` text or CTF", NULL};
static const struct foreign text_foreign_cr = {"text whose lines end with only a carriage return",
                                               "convert it", "tr '\\r' '\\n' <"};

/* Detects UTF-16 without a mark: every other byte is zero. */
static const struct foreign *
text_foreign_utf16(const char *head, size_t len)
{
    size_t zeros[2] = {0, 0};

    if (len < UTF16_BYTES)
        return NULL;
    for (size_t i = 0; i < UTF16_BYTES; i++)
        zeros[i % 2] += head[i] == '\0';
    if (zeros[0] == 0 && zeros[1] == UTF16_BYTES / 2)
        return &utf16_little;
    return zeros[1] == 0 && zeros[0] == UTF16_BYTES / 2 ? &utf16_big : NULL;
}

/* Detects lines that only end with a carriage return. */
static bool
text_foreign_is_cr(const char *head, size_t len)
{
    const char *first = memchr(head, '\r', len);

    return first && !memchr(head, '\n', len) &&
           memchr(first + 1, '\r', len - (size_t)(first + 1 - head));
}

/* Returns the next byte at *at that is not white space, and advances *at past it. Returns '\0' at
 * the end. */
static char
text_foreign_next(const char *head, size_t len, size_t *at)
{
    while (*at < len && g_ascii_isspace(head[*at]))
        ++*at;
    return *at < len ? head[(*at)++] : '\0';
}

/* Detects JSON: a trace record starts with a task's name, not with a bracket. */
static bool
text_foreign_is_json(const char *head, size_t len)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t at = len >= 3 && memcmp(head, mark, 3) == 0 ? 3 : 0;
    const char first = text_foreign_next(head, len, &at);
    const char second = text_foreign_next(head, len, &at);

    if (first == '{')
        return second == '"' || second == '}';
    return first == '[' && (second == '{' || second == ']');
}

static const struct foreign *
text_foreign_find(const char *head, size_t len)
{
    for (size_t i = 0; i < G_N_ELEMENTS(text_foreign_files); i++) {
        const size_t n = text_foreign_files[i].magic_len;
        if (len >= n && memcmp(head, text_foreign_files[i].magic, n) == 0)
            return &text_foreign_files[i].foreign;
    }
    if (text_foreign_is_json(head, len))
        return &text_foreign_json;
    if (text_foreign_is_cr(head, len))
        return &text_foreign_cr;
    return text_foreign_utf16(head, len);
}

int
vg_text_foreign_refuse(vg_text_source *source, const char *name, GError **err)
{
    char head[HEAD_SIZE];
    const size_t len = vg_text_source_head(source, head, sizeof(head));
    const char *packing = vg_text_source_packing(source);
    const struct foreign *foreign = len > 0 ? text_foreign_find(head, len) : NULL;

    if (!foreign)
        return 0;
    g_autofree char *command = NULL;
    if (foreign->command && packing)
        command = g_strdup_printf(" with `%s`", foreign->command);
    else if (foreign->command)
        command = g_strdup_printf(" with `%s %s`", foreign->command, name);
    return vg_error(err, VG_E_INVALID, "%s: this is %s%s%s; %s%s%s", name, foreign->is,
                    packing ? " in " : "", packing ? packing : "",
                    packing ? "unpack it, then " : "", foreign->remedy, command ? command : "");
}

/* Detects " 0)   0.500 us    |  vmx_vcpu_run();", or a switch, "0)  prev-12  =>  next-34". */
static bool
text_foreign_is_graph(struct vg_text_span text)
{
    const char *end = text.s + text.len;
    const char *p = memchr(text.s, ')', text.len);

    if (!p || p == text.s || !g_ascii_isdigit(p[-1]))
        return false;
    const char *cpu = p - 1;
    while (cpu > text.s && g_ascii_isdigit(cpu[-1]))
        cpu--;
    if (cpu > text.s && cpu[-1] != ' ')
        return false;
    for (const char *c = text.s; c < cpu; c++) {
        if (*c != ' ' && *c != '|' && *c != '.' && !g_ascii_isdigit(*c))
            return false;
    }
    const size_t left = (size_t)(end - p);
    return memmem(p, left, "|  ", 3) != NULL || memmem(p, left, " => ", 4) != NULL;
}

const char *
vg_text_foreign_hint(struct vg_text_span text)
{
    if (text.len > 0 && text_foreign_is_graph(text))
        return "this is the function_graph tracer's format: record events with `echo nop > "
               "current_tracer`";
    return vg_text_line_hint(text);
}
