/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/log.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log-text.h"

#define SITE_PAUSE_NS (60 * VG_NS_PER_S)

/* A pipe that is ready for writing has space for PIPE_BUF bytes. Longer lines are truncated. */
#define LINE_MAX_BYTES PIPE_BUF
#define NOTE_BYTES     40

const char *const vg_log_level_names[] = {"err", "warn", "notice", "info", "debug", NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vg_log_sink *current_sink;
static void *current_data;
static atomic_int current_level = VG_LOG_INFO;

/* Writes a line. Called under the lock. If a pipe has no space because it is not read, counts the
 * line instead of waiting. */
static void
write_stderr(enum vg_log_level level, const char *tag, const char *message)
{
    static uint64_t left_out;
    GPollFD poll = {.fd = STDERR_FILENO, .events = G_IO_OUT};
    char now[VG_UTC_LEN], line[LINE_MAX_BYTES];

    if (g_poll(&poll, 1, 0) != 1 || !(poll.revents & G_IO_OUT)) {
        left_out++;
        return;
    }
    vg_utc_format(vg_clock_realtime_ns() / VG_NS_PER_MS * VG_NS_PER_MS, now);
    int length = snprintf(line, sizeof(line), "%s %s %s: %s", now,
                          vg_log_level_names[level - VG_LOG_ERR], tag, message);
    length = MIN(length, (int)sizeof(line) - NOTE_BYTES);
    if (left_out > 0)
        length += snprintf(line + length, NOTE_BYTES - 1, " left_out=%" PRIu64, left_out);
    line[length++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)length) == length)
        left_out = 0;
    else
        left_out++;
}

void
vg_log_set_sink(vg_log_sink *sink, void *data)
{
    pthread_mutex_lock(&lock);
    current_sink = sink;
    current_data = data;
    pthread_mutex_unlock(&lock);
}

void
vg_log_set_level(enum vg_log_level level)
{
    atomic_store(&current_level, (int)level);
}

static bool
log_is_enabled(enum vg_log_level level)
{
    return (int)level <= atomic_load(&current_level);
}

static void
log_emit(enum vg_log_level level, const char *tag, const char *message)
{
    g_autofree char *line = g_utf8_make_valid(message, -1);

    for (char *c = line; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    pthread_mutex_lock(&lock);
    if (current_sink)
        current_sink(current_data, level, tag, line);
    else
        write_stderr(level, tag, line);
    pthread_mutex_unlock(&lock);
}

void
vg_log(enum vg_log_level level, const char *tag, const char *fmt, ...)
{
    va_list args;

    if (!log_is_enabled(level))
        return;
    va_start(args, fmt);
    g_autofree char *message = vg_log_text_format(fmt, args);
    va_end(args);
    log_emit(level, tag, message);
}

/* Counts the message. Returns false if it must be left out. */
static bool
may_log(struct vg_log_site *site, uint64_t *ret_suppressed)
{
    int64_t now = vg_clock_monotonic_ns();

    pthread_mutex_lock(&lock);
    bool may = site->last_ns == 0 || now - site->last_ns >= SITE_PAUSE_NS;
    if (may) {
        *ret_suppressed = site->suppressed;
        site->suppressed = 0;
        site->last_ns = now;
    } else {
        site->suppressed++;
    }
    pthread_mutex_unlock(&lock);
    return may;
}

static void
log_emit_more(enum vg_log_level level, const char *tag, const char *message, uint64_t suppressed)
{
    g_autofree char *more =
        suppressed > 0 ? g_strdup_printf("%s suppressed=%" PRIu64, message, suppressed) : NULL;

    log_emit(level, tag, more ? more : message);
}

void
vg_log_limited(struct vg_log_site *site, enum vg_log_level level, const char *tag, const char *fmt,
               ...)
{
    uint64_t suppressed = 0;
    va_list args;

    if (!log_is_enabled(level) || !may_log(site, &suppressed))
        return;
    va_start(args, fmt);
    g_autofree char *message = vg_log_text_format(fmt, args);
    va_end(args);
    log_emit_more(level, tag, message, suppressed);
}

static void
log_turns_emit(struct vg_log_turns *turns, const char *tag, int64_t now_ns)
{
    g_autofree char *message = g_steal_pointer(&turns->waiting);

    if (now_ns - turns->begin_ns >= SITE_PAUSE_NS) {
        turns->begin_ns = now_ns;
        turns->n = 0;
    }
    turns->n++;
    log_emit_more(turns->level, tag, message, turns->suppressed);
    turns->suppressed = 0;
}

void
vg_log_turn(struct vg_log_turns *turns, enum vg_log_level level, const char *tag, const char *fmt,
            ...)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    va_list args;

    if (!log_is_enabled(level))
        return;
    if (turns->waiting)
        turns->suppressed++;
    g_free(turns->waiting);
    va_start(args, fmt);
    turns->waiting = vg_log_text_format(fmt, args);
    va_end(args);
    turns->level = level;
    if (turns->n < VG_LOG_TURNS_MAX || now_ns - turns->begin_ns >= SITE_PAUSE_NS)
        log_turns_emit(turns, tag, now_ns);
}

void
vg_log_turns_settle(struct vg_log_turns *turns, const char *tag)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (turns->waiting && now_ns - turns->begin_ns >= SITE_PAUSE_NS)
        log_turns_emit(turns, tag, now_ns);
}

void
vg_log_turns_clear(struct vg_log_turns *turns, const char *tag)
{
    if (turns->waiting)
        log_turns_emit(turns, tag, vg_clock_monotonic_ns());
}
