/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/log.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include <stdatomic.h>

#include "base/clock.h"

#define SITE_PAUSE_NS (60 * VG_NS_PER_S)

const char *const vg_log_level_names[] = {"err", "warn", "notice", "info", "debug", NULL};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static vg_log_sink *current_sink;
static void *current_data;
static atomic_int current_level = VG_LOG_INFO;

static void
write_stderr(enum vg_log_level level, const char *tag, const char *message)
{
    char now[VG_UTC_LEN];

    vg_utc_format(vg_clock_realtime_ns() / VG_NS_PER_MS * VG_NS_PER_MS, now);
    fprintf(stderr, "%s %s %s: %s\n", now, vg_log_level_names[level - VG_LOG_ERR], tag, message);
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

bool
vg_log_enabled(enum vg_log_level level)
{
    return (int)level <= atomic_load(&current_level);
}

static void
emit(enum vg_log_level level, const char *tag, const char *message)
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

    if (!vg_log_enabled(level))
        return;
    va_start(args, fmt);
    g_autofree char *message = g_strdup_vprintf(fmt, args);
    va_end(args);
    emit(level, tag, message);
}

/* Counts the message; false: it is left out. */
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

void
vg_log_limited(struct vg_log_site *site, enum vg_log_level level, const char *tag, const char *fmt,
               ...)
{
    uint64_t suppressed = 0;
    va_list args;

    if (!vg_log_enabled(level) || !may_log(site, &suppressed))
        return;
    va_start(args, fmt);
    g_autofree char *message = g_strdup_vprintf(fmt, args);
    va_end(args);
    if (suppressed == 0) {
        emit(level, tag, message);
        return;
    }
    g_autofree char *more = g_strdup_printf("%s suppressed=%" PRIu64, message, suppressed);
    emit(level, tag, more);
}
