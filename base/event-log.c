/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/event-log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"

struct vg_event_log {
    pthread_mutex_t lock;
    struct vg_logged_event events[VG_EVENT_LOG_MAX]; /* event n at n % VG_EVENT_LOG_MAX */
    uint64_t newest;
    void (*keep)(void *data, const struct vg_logged_event *event);
    void *keep_data;
    pthread_mutex_t listen_lock;
    void (*on_event)(void *data);
    void *data;
};

vg_event_log *
vg_event_log_new(void)
{
    vg_event_log *log = g_new0(vg_event_log, 1);

    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->listen_lock, NULL);
    return log;
}

void
vg_event_log_free(vg_event_log *log)
{
    if (!log)
        return;
    for (size_t i = 0; i < VG_EVENT_LOG_MAX; i++)
        g_free(log->events[i].data);
    pthread_mutex_destroy(&log->listen_lock);
    pthread_mutex_destroy(&log->lock);
    g_free(log);
}

static void
event_log_append(vg_event_log *log, const char *type, json_object *data)
{
    int64_t now = vg_clock_realtime_ns();
    char time[VG_UTC_LEN];

    VG_LOCK_SCOPE(&log->lock);
    uint64_t seq = ++log->newest;
    vg_json_add_int64(data, "seq", (int64_t)seq);
    vg_json_add_string(data, "time", vg_utc_format(now, time));
    vg_json_add_string(data, "type", type);
    struct vg_logged_event *event = &log->events[seq % VG_EVENT_LOG_MAX];
    g_free(event->data);
    event->seq = seq;
    event->time_ns = now;
    event->type = type;
    event->data = g_strchomp(vg_json_to_text(data, false));
    if (log->keep)
        log->keep(log->keep_data, event);
}

void
vg_event_log_add(vg_event_log *log, const char *type, json_object *take_data)
{
    event_log_append(log, type, take_data);
    json_object_put(take_data);
    VG_LOCK_SCOPE(&log->listen_lock);
    if (log->on_event)
        log->on_event(log->data);
}

void
vg_event_log_keep(vg_event_log *log, void (*keep)(void *data, const struct vg_logged_event *event),
                  void *data)
{
    VG_LOCK_SCOPE(&log->lock);
    log->keep = keep;
    log->keep_data = data;
}

uint64_t
vg_event_log_newest(vg_event_log *log)
{
    VG_LOCK_SCOPE(&log->lock);
    return log->newest;
}

bool
vg_event_log_next(vg_event_log *log, uint64_t after, struct vg_logged_event *ret,
                  uint64_t *ret_lost)
{
    VG_LOCK_SCOPE(&log->lock);
    uint64_t oldest = log->newest < VG_EVENT_LOG_MAX ? 1 : log->newest - VG_EVENT_LOG_MAX + 1;
    uint64_t next = MAX(after + 1, oldest);
    if (next > log->newest)
        return false;
    *ret = log->events[next % VG_EVENT_LOG_MAX];
    ret->data = g_strdup(ret->data);
    *ret_lost = next - after - 1;
    return true;
}

void
vg_event_log_listen(vg_event_log *log, void (*on_event)(void *data), void *data)
{
    VG_LOCK_SCOPE(&log->listen_lock);
    log->on_event = on_event;
    log->data = data;
}
