/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of the host as /v1/events reports them: their types, and an event as stored. (For the
 * events in a trace, see model/event.h.) Any thread.
 */
#ifndef VG_MODEL_HAPPENING_H
#define VG_MODEL_HAPPENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* Names of the types; ends with NULL. */
extern const char *const vg_happening_types[];

/* Windows arrive constantly and are in the store anyway, so they are not stored as events, and are
 * sent only to clients that request them. */
#define VG_HAPPENING_WINDOW "window"

/* An event that an operator has to see immediately. */
#define VG_HAPPENING_ALERT "alert"

/* An event that concerns measuring itself. */
#define VG_HAPPENING_MEASURING "measuring"

/* Returns the list entry that has this name, or NULL. */
const char *vg_happening_type(const char *name);

/* Returns the names of all types, separated by commas; the caller frees it. */
char *vg_happening_list_types(void);

struct vg_happening {
    int64_t id; /* id in the journal; increases with time */
    char *boot; /* id of this run of vgpud */
    uint64_t seq;
    int64_t at_ns;    /* epoch */
    const char *type; /* an entry of the list */
    char *text;       /* JSON object on one line */
};
void vg_happening_free(void *happening); /* NULL is fine */

struct vg_happening_query {
    int64_t since_ns;       /* at this time or later ... */
    int64_t until_ns;       /* ... and before this time */
    const char *types;      /* words separated by commas; NULL for all types */
    const char *after_boot; /* only events after this event; NULL to start from the first */
    uint64_t after_seq;
    const char *upto_boot; /* excludes events of this run with a higher number */
    uint64_t upto_seq;
    size_t limit;
};

#endif
