/* SPDX-License-Identifier: Apache-2.0
 *
 * What happens on the host, as /v1/events tells it: types, and one of them as it is kept. (What a
 * trace records is model/event.h.) Any thread.
 */
#ifndef VG_MODEL_HAPPENING_H
#define VG_MODEL_HAPPENING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* Names of the types, NULL at the end. */
extern const char *const vg_happening_types[];

/* Windows follow each other all the time and are in the store as what they are: they are no events
 * to keep, and nobody is told of them who has not asked. */
#define VG_HAPPENING_WINDOW "window"

/* What somebody has to know at once. */
#define VG_HAPPENING_ALERT "alert"

/* What happened to the measuring itself. */
#define VG_HAPPENING_MEASURING "measuring"

/* The name in the list, or NULL. */
const char *vg_happening_type(const char *name);

/* Words of it with commas between; the caller frees it. */
char *vg_happening_list_types(void);

struct vg_happening {
    int64_t id; /* where it is kept; later ones have higher ones */
    char *boot; /* the run of vgpud */
    uint64_t seq;
    int64_t at_ns;    /* epoch */
    const char *type; /* one of the list */
    char *text;       /* JSON object on one line */
};
void vg_happening_free(void *happening); /* NULL is fine */

struct vg_happening_query {
    int64_t since_ns;       /* at since or later ... */
    int64_t until_ns;       /* ... and before until */
    const char *types;      /* words with commas between; NULL: all */
    const char *after_boot; /* after this one; NULL: from the first */
    uint64_t after_seq;
    const char *upto_boot; /* of this run none with a higher number */
    uint64_t upto_seq;
    size_t limit;
};

#endif
