/* SPDX-License-Identifier: Apache-2.0
 *
 * The latest events of a daemon: a ring of the newest VG_EVENT_LOG_MAX events, numbered from 1
 * since the daemon started. Any thread.
 */
#ifndef VG_BASE_EVENT_LOG_H
#define VG_BASE_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <json-c/json.h>

#define VG_EVENT_LOG_MAX 4096

struct vg_logged_event {
    uint64_t seq;
    int64_t time_ns;  /* epoch */
    const char *type; /* static */
    char *data;       /* JSON object on one line */
};

typedef struct vg_event_log vg_event_log;

vg_event_log *vg_event_log_new(void);
void vg_event_log_free(vg_event_log *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_event_log, vg_event_log_free)

/* Appends an event. "seq", "time" (RFC 3339) and "type" are added to the object. The function owns
 * the object. */
void vg_event_log_add(vg_event_log *log, const char *type, json_object *take_data);

/* Returns the number of the newest event, or 0 before the first. */
uint64_t vg_event_log_newest(vg_event_log *log);

/* Copies the oldest event whose number is greater than `after` (the caller owns the data). Returns
 * false if no such event exists. *ret_lost: the number of events in between that have been
 * overwritten. */
bool vg_event_log_next(vg_event_log *log, uint64_t after, struct vg_logged_event *ret,
                       uint64_t *ret_lost);

/* Sets a function that is called for each event, in order and while the log is locked. It must not
 * block or call the log. NULL removes it. */
void vg_event_log_keep(vg_event_log *log,
                       void (*keep)(void *data, const struct vg_logged_event *event), void *data);

/* Sets the only listener, which the thread that adds an event calls after each event. NULL removes
 * it. */
void vg_event_log_listen(vg_event_log *log, void (*on_event)(void *data), void *data);

#endif
