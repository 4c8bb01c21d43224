/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/include.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INCLUDE_FOLDERS_MAX 64
#define INCLUDE_FILES_MAX   1024
#define INCLUDE_BLANK       " \t\v\f"
/* The compiler's name for the program's own source in messages. */
#define INCLUDE_MAIN "program.cl"

struct include_file {
    char *path;
    bool is_once;      /* it contains #pragma once */
    bool is_guarded;   /* as long as it is being read, including it again has no effect */
    unsigned n_within; /* nesting depth of the present read */
};

struct include_job {
    char *folders[INCLUDE_FOLDERS_MAX];
    unsigned n_folders;
    const char *const *names; /* names of header programs */
    unsigned n_names;
    struct include_file files[INCLUDE_FILES_MAX];
    unsigned n_files;
    unsigned depth, n_replaced;
    char *text;
    size_t used, room;
    bool has_failed;
};

/* A line of a file, and the file that it includes. */
struct include_line {
    const char *at;
    size_t size;    /* including its end */
    char *name;     /* owned; NULL: none */
    bool is_quoted; /* "...", otherwise <...> */
};

static bool include_is_forbidden;

void
vg_cl_include_forbid(void)
{
    include_is_forbidden = true;
}

/* ---- the result ---- */

static void
include_put(struct include_job *job, const char *bytes, size_t size)
{
    if (job->has_failed || size > VG_CL_INCLUDE_MAX - job->used) {
        job->has_failed = true;
        return;
    }
    if (job->used + size + 1 > job->room) {
        size_t room = 2 * (job->used + size + 1);
        char *text = realloc(job->text, room);
        if (!text) {
            job->has_failed = true;
            return;
        }
        job->text = text;
        job->room = room;
    }
    memcpy(job->text + job->used, bytes, size);
    job->used += size;
    job->text[job->used] = '\0';
}

static void
include_put_text(struct include_job *job, const char *text)
{
    include_put(job, text, strlen(text));
}

/* Writes which line of which file comes next. */
static void
include_put_place(struct include_job *job, unsigned long line, const char *path)
{
    char text[32];

    snprintf(text, sizeof text, "#line %lu \"", line);
    include_put_text(job, text);
    for (const char *at = path; *at; at++) {
        if (*at == '"' || *at == '\\')
            include_put(job, "\\", 1);
        include_put(job, at, 1);
    }
    include_put_text(job, "\"\n");
}

/* ---- lines ---- */

/* Follows comments and literals through a line. *IN_COMMENT is whether a comment continues. */
static void
include_follow(const char *at, const char *end, bool *in_comment)
{
    char quote = '\0';

    for (; at < end; at++) {
        bool has_next = at + 1 < end;
        if (*in_comment) {
            *in_comment = !(has_next && at[0] == '*' && at[1] == '/');
            at += *in_comment ? 0 : 1;
        } else if (quote) {
            at += *at == '\\' ? 1 : 0;
            quote = at < end && *at == quote ? '\0' : quote;
        } else if (*at == '"' || *at == '\'') {
            quote = *at;
        } else if (has_next && at[0] == '/' && at[1] == '/') {
            return;
        } else if (has_next && at[0] == '/' && at[1] == '*') {
            *in_comment = true;
            at++;
        }
    }
}

/* Skips blanks, and comments that end in the line. */
static const char *
include_skip(const char *at, const char *end)
{
    for (;;) {
        while (at < end && strchr(INCLUDE_BLANK, *at))
            at++;
        if (end - at < 2 || at[0] != '/' || at[1] != '*')
            return at;
        const char *close = memmem(at + 2, (size_t)(end - at - 2), "*/", 2);
        if (!close)
            return at;
        at = close + 2;
    }
}

/* Returns what comes after a directive's name, or NULL if the line is not this directive. */
static const char *
include_after(const char *at, const char *end, const char *directive)
{
    size_t size = strlen(directive);

    at = include_skip(at, end);
    if (at == end || *at != '#')
        return NULL;
    at = include_skip(at + 1, end);
    if ((size_t)(end - at) <= size || memcmp(at, directive, size) != 0 ||
        !strchr(INCLUDE_BLANK "\"</\r\n", at[size]))
        return NULL;
    return include_skip(at + size, end);
}

/* Extracts the name of the file that a line includes, if there is one. */
static void
include_read_name(struct include_line *line)
{
    const char *end = line->at + line->size, *at = include_after(line->at, end, "include");

    if (!at || at == end || (*at != '"' && *at != '<'))
        return;
    line->is_quoted = *at == '"';
    const char *close = memchr(at + 1, line->is_quoted ? '"' : '>', (size_t)(end - at - 1));
    if (close && close > at + 1)
        line->name = strndup(at + 1, (size_t)(close - at - 1));
}

static const char *
include_line_end(const char *at)
{
    const char *end = strchr(at, '\n');

    return end ? end + 1 : at + strlen(at);
}

/* ---- files ---- */

/* Reads a file. Returns NULL if there is none, or it is not text. The caller frees the text. */
static char *
include_read(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat is;
    char *text = NULL;
    size_t used = 0;

    if (fd >= 0 && fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size <= VG_CL_INCLUDE_MAX)
        text = malloc((size_t)is.st_size + 1);
    while (text && used < (size_t)is.st_size) {
        ssize_t n = read(fd, text + used, (size_t)is.st_size - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    if (text)
        text[used] = '\0';
    if (text && strlen(text) != used) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Returns whether a line contains #pragma once, which has no effect in an expanded file. */
static bool
include_is_once(const char *at, const char *end)
{
    const char *word = include_after(at, end, "pragma");

    return word && (size_t)(end - word) >= 4 && memcmp(word, "once", 4) == 0;
}

/* Detects whether a file has #pragma once, or starts with #ifndef and #define. */
static void
include_look(struct include_file *file, const char *text)
{
    bool in_comment = false;
    unsigned n = 0;

    for (const char *at = text, *end; *at; at = end) {
        end = include_line_end(at);
        if (!in_comment && include_is_once(at, end))
            file->is_once = file->is_guarded = true;
        const char *first = include_skip(at, end);
        bool is_code = !in_comment && first < end && !strchr("\r\n", *first) &&
                       !(end - first >= 2 && first[0] == '/' && strchr("/*", first[1]));
        if (is_code && n == 0 && include_after(at, end, "ifndef"))
            n = 1;
        else if (is_code && n == 1 && include_after(at, end, "define"))
            n = 2;
        else if (is_code && n < 2)
            n = 3;
        include_follow(at, end, &in_comment);
    }
    file->is_guarded = file->is_guarded || n == 2;
}

/* Returns the record of a file with this text, or NULL if there are too many. */
static struct include_file *
include_file(struct include_job *job, const char *path, const char *text)
{
    char *real = realpath(path, NULL);

    for (unsigned i = 0; real && i < job->n_files; i++) {
        if (strcmp(job->files[i].path, real) == 0) {
            free(real);
            return &job->files[i];
        }
    }
    if (!real || job->n_files == INCLUDE_FILES_MAX) {
        free(real);
        return NULL;
    }
    struct include_file *file = &job->files[job->n_files++];
    *file = (struct include_file){.path = real};
    include_look(file, text);
    return file;
}

/* Reads NAME in a directory, which is NULL for the working directory. Sets *PATH to its path, which
 * the caller frees. */
static char *
include_try(const char *folder, const char *name, char **path)
{
    bool is_within = folder && name[0] != '/';
    char *text = NULL;

    if (asprintf(path, "%s%s%s", is_within ? folder : "", is_within ? "/" : "", name) < 0)
        *path = NULL;
    if (*path)
        text = include_read(*path);
    if (!text) {
        free(*path);
        *path = NULL;
    }
    return text;
}

/* Finds the file that a line of FROM includes. FROM is NULL for the source. The caller frees both.
 */
static char *
include_find(const struct include_job *job, const struct include_line *line, const char *from,
             char **path)
{
    const char *slash = from ? strrchr(from, '/') : NULL;
    char *text = NULL;

    if (line->is_quoted && slash) {
        char *beside = strndup(from, (size_t)(slash - from));
        text = beside ? include_try(beside, line->name, path) : NULL;
        free(beside);
    }
    for (unsigned i = 0; !text && i < job->n_folders; i++)
        text = include_try(job->folders[i], line->name, path);
    return text || !line->is_quoted ? text : include_try(NULL, line->name, path);
}

static bool
include_is_header(const struct include_job *job, const char *name)
{
    for (unsigned i = 0; i < job->n_names; i++)
        if (strcmp(job->names[i], name) == 0)
            return true;
    return false;
}

static void include_text(struct include_job *job, const char *text, const char *path);

/* Writes a file in place of its include line. */
static void
include_put_file(struct include_job *job, const char *path, const char *text)
{
    struct include_file *file = include_file(job, path, text);
    char guard[64];

    if (!file || job->depth == VG_CL_INCLUDE_DEPTH) {
        job->has_failed = true;
        return;
    }
    if (file->n_within > 0 && file->is_guarded)
        return;
    if (file->is_once) {
        snprintf(guard, sizeof guard, "VGPU_OPENCL_ONCE_%zu", (size_t)(file - job->files));
        include_put_text(job, "#ifndef ");
        include_put_text(job, guard);
        include_put_text(job, "\n#define ");
        include_put_text(job, guard);
        include_put_text(job, "\n");
    }
    include_put_place(job, 1, path);
    job->depth++;
    file->n_within++;
    include_text(job, text, path);
    file->n_within--;
    job->depth--;
    if (job->used > 0 && job->text[job->used - 1] != '\n')
        include_put(job, "\n", 1);
    if (file->is_once)
        include_put_text(job, "#endif\n");
}

/* Writes the file that a line includes. Returns whether it exists. */
static bool
include_put_line(struct include_job *job, const char *at, const char *end, const char *from)
{
    struct include_line line = {.at = at, .size = (size_t)(end - at)};
    char *path = NULL, *text = NULL;

    include_read_name(&line);
    if (line.name && !include_is_header(job, line.name))
        text = include_find(job, &line, from, &path);
    if (text) {
        include_put_file(job, path, text);
        job->n_replaced++;
    }
    bool is_there = text != NULL;
    free(text);
    free(path);
    free(line.name);
    return is_there;
}

/* Writes all lines of a text from the file PATH, or the source itself if it is NULL. */
static void
include_text(struct include_job *job, const char *text, const char *path)
{
    bool in_comment = false, goes_on = false;
    unsigned long number = 1;

    for (const char *at = text, *end; *at && !job->has_failed; at = end, number++) {
        end = include_line_end(at);
        bool is_own = !in_comment && !goes_on;
        if (is_own && path && include_is_once(at, end))
            include_put(job, "\n", 1);
        else if (is_own && include_put_line(job, at, end, path))
            include_put_place(job, number + 1, path ? path : INCLUDE_MAIN);
        else
            include_put(job, at, (size_t)(end - at));
        include_follow(at, end, &in_comment);
        const char *last = end;
        while (last > at && strchr("\r\n", last[-1]))
            last--;
        goes_on = last > at && last[-1] == '\\';
    }
}

/* ---- options ---- */

/* Reads the next option without its quotes, or "" at the end. */
static const char *
include_next_option(const char *at, char *option, size_t room)
{
    size_t size = 0;
    char quote = '\0';

    at += strspn(at, " \t\r\n\v\f");
    for (; *at && (quote || !strchr(" \t\r\n\v\f", *at)); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'')
            quote = quote ? '\0' : *at;
        else if (size < room - 1)
            option[size++] = *at;
    }
    option[size] = '\0';
    return at;
}

static void
include_take_folders(struct include_job *job, const char *options)
{
    char option[PATH_MAX];

    for (const char *at = options; at && *at && job->n_folders < INCLUDE_FOLDERS_MAX;) {
        at = include_next_option(at, option, sizeof option);
        if (strncmp(option, "-I", 2) != 0)
            continue;
        if (!option[2])
            at = include_next_option(at, option + 2, sizeof option - 2);
        char *folder = option[2] ? strdup(option + 2) : NULL;
        if (folder)
            job->folders[job->n_folders++] = folder;
    }
}

char *
vg_cl_include(const char *source, const char *options, const char *const *names, unsigned n)
{
    if (include_is_forbidden || !strstr(source, "include"))
        return NULL;
    struct include_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->names = names;
    job->n_names = n;
    include_take_folders(job, options);
    include_text(job, source, NULL);
    char *result = job->text;
    if (job->has_failed || job->n_replaced == 0) {
        free(result);
        result = NULL;
    }
    for (unsigned i = 0; i < job->n_folders; i++)
        free(job->folders[i]);
    for (unsigned i = 0; i < job->n_files; i++)
        free(job->files[i].path);
    free(job);
    return result;
}
