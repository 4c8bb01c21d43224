/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *
util_have(void *memory)
{
    if (!memory) {
        vg_guest_log(LOG_ERR, "out of memory");
        _exit(1);
    }
    return memory;
}

void
vg_guest_free_at(void *pointer)
{
    void *memory;

    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

void *
vg_guest_alloc(size_t size)
{
    return util_have(calloc(1, size ? size : 1));
}

void *
vg_guest_grow(void *memory, size_t size)
{
    return util_have(realloc(memory, size ? size : 1));
}

char *
vg_guest_copy(const char *text)
{
    return util_have(strdup(text));
}

char *
vg_guest_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    return util_have(text);
}

void
vg_guest_put(char *to, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(to, size, format, args);
    va_end(args);
}

/* Returns the length of the character at text, or 0 if it is not UTF-8. */
static size_t
util_utf8_length(const unsigned char *text)
{
    size_t length = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : 3;

    if (text[0] >= 0xf0)
        length = text[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, and numbers beyond Unicode. */
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
        (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

char *
vg_guest_clean(const char *text, size_t max)
{
    size_t size = strlen(text);
    const unsigned char *from = (const unsigned char *)text + (size > max ? size - max : 0);
    char *clean = vg_guest_alloc(size + 1), *to = clean;

    while (*from) {
        size_t length = util_utf8_length(from);
        bool control = length == 1 && (*from < 0x20 || *from == 0x7f) && *from != '\n';
        if (length == 0 || control) {
            *to++ = '?';
            from++;
        } else {
            memcpy(to, from, length);
            to += length;
            from += length;
        }
    }
    return clean;
}

char *
vg_guest_quote(const char *text, size_t max)
{
    bool is_long = strlen(text) > max;
    vg_guest_auto char *head = vg_guest_format("%.*s", (int)max, text);

    /* Do not truncate inside a character. */
    for (size_t at = strlen(head); is_long && at > 0 && (text[at] & 0xc0) == 0x80; at--)
        head[at - 1] = '\0';
    vg_guest_auto char *clean = vg_guest_clean(head, max);
    for (char *at = clean; *at; at++) {
        if (*at == '"' || *at == '\\')
            *at = '\'';
        else if (*at == '\n')
            *at = '?';
    }
    return vg_guest_format("\"%s%s\"", clean, is_long ? "..." : "");
}

int
vg_guest_read_file(const char *path, char *ret_text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t have = 0;
    ssize_t got = 0;

    ret_text[0] = '\0';
    if (fd < 0)
        return errno;
    while (have < size - 1) {
        got = read(fd, ret_text + have, size - 1 - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    int error = got < 0 ? errno : 0;
    close(fd);
    while (have > 0 && strchr(" \t\n", ret_text[have - 1]))
        have--;
    ret_text[have] = '\0';
    return error;
}

int
vg_guest_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    size_t size = strlen(text);

    if (fd < 0)
        return errno;
    ssize_t put = write(fd, text, size);
    int error = put < 0 ? errno : (size_t)put < size ? EIO : 0;
    close(fd);
    return error;
}

int64_t
vg_guest_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t
vg_guest_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

void
vg_guest_log(int priority, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* The journal reads the priority from the start of the line. */
    if (getenv("JOURNAL_STREAM"))
        fprintf(stderr, "<%d>%s\n", priority, text);
    else
        fprintf(stderr, "vgpu-guestd: %s\n", text);
}
